"""Wrap functions of tapegrad for keras.ops: Keras dtypes and symbolic tensors."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import wraps
from inspect import signature
from typing import Any

import numpy as np

from tapegrad.core.values.dtypes import DType
from tapegrad.core.values.tensor import Tensor
from tapegrad.errors import ArgumentError
from tapegrad.keras.config import floatx
from tapegrad.keras.symbolic import KerasTensor, apply
from tapegrad.ops.casting.cast import cast

# Keras names of the leading parameters, in their order, where NumPy has other names.
_FIRST = (
    *("condition", "x", "x1", "x2", "xs", "x_min", "x_max", "newshape", "repeats"),
    *("sorted_sequence", "values"),
)
_FIRST_OF = {
    "einsum": ("subscripts",),
    "map": (),
    "rearrange": (),  # an axis may be called x
    "rot90": ("array",),
    "scan": (),
    "scatter": ("indices", "values", "shape"),
    "stop_gradient": ("variable",),
    "unravel_index": ("indices", "shape"),
    "vectorized_map": ("function", "elements"),
    **{f"bitwise_{name}": ("x", "y") for name in ("and", "left_shift", "or", "right_shift", "xor")},
    **{f"{name}_shift": ("x", "y") for name in ("left", "right")},
}
_FILLED = {"empty": 1, "eye": 3, "identity": 1, "ones": 1, "tri": 3, "zeros": 1}
"""Functions that create numbers of Keras' floatx unless a dtype is given, and its position."""
_WIDE = {"float64": "float64 complex128", "complex128": "float64 complex128"}
_WIDE["int64"] = "int64 uint32 uint64"


def operation(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function with the dtypes, parameter names and name of Keras.

    >>> import tapegrad.numpy as np
    >>> operation("mean", np.mean)([1, 2]).dtype
    <dtype: 'float32'>
    """

    first, place = _FIRST_OF.get(name, _FIRST), _FILLED.get(name)

    @wraps(function)
    def run(*args: Any, **options: Any) -> Any:
        if options:
            args = (*args, *[options.pop(key) for key in first if key in options])
        for x in args:
            if type(x) is not Tensor and _holds_symbolic(x):
                return _later(args, options)
        if options and _holds_symbolic([*options.values()]):
            return _later(args, options)
        if place and len(args) <= place and options.get("dtype") is None:
            options["dtype"] = floatx()
        result = function(*args, **options)
        if type(result) is Tensor and result.dtype.name not in _WIDE:
            return result
        has_dtype = options.get("dtype") is not None or any(
            isinstance(x, _DTYPES) for x in args[1:]
        )
        return result if has_dtype else _narrowed(result, args)

    def _later(args: Any, options: dict[str, Any]) -> Any:
        if name == "shape":
            return args[0].shape
        args, options = _in_order(function, args, options)
        if _holds_symbolic([*options.values()]):
            raise ArgumentError(
                f"keras.ops.{name} takes symbolic tensors as positional arguments. "
                f"Got {', '.join(options)} by name."
            )
        return apply(run, *args, options=options)

    run.__name__ = run.__qualname__ = name
    return run


_DTYPES = (str, DType, np.dtype, type)


def _in_order(
    function: Callable[..., Any], args: tuple[Any, ...], options: dict[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Return the arguments with symbolic tensors that were given by name in their places."""
    named = [name for name, value in options.items() if _holds_symbolic(value)]
    try:
        bound = signature(function).bind(*args, **options)
    except (TypeError, ValueError):  # the call itself explains the error
        return args, options
    bound.apply_defaults()
    places = [name for name, _ in zip(bound.arguments, bound.args)]
    if not named or not {*named} <= {*places}:
        return args, options
    end = max(len(args), *(places.index(name) + 1 for name in named))
    return bound.args[:end], {k: v for k, v in options.items() if k not in places[:end]}


def _holds_symbolic(value: Any) -> bool:
    try:
        if isinstance(value, list | tuple):
            return any([_holds_symbolic(x) for x in value])
        return isinstance(value, KerasTensor)
    except RecursionError:
        return False  # the operation refuses such a list


def _narrowed(result: Any, given: Any) -> Any:
    """Cast results of 64 bits to 32 bits, unless an argument has 64 bits."""
    if isinstance(result, list | tuple):
        parts = [_narrowed(part, given) for part in result]
        return type(result)(*parts) if hasattr(result, "_fields") else type(result)(parts)
    wide = _WIDE.get(result.dtype.name) if isinstance(result, Tensor) else None
    if wide is None or not {*wide.split()}.isdisjoint(_dtypes_in(given)):
        return result
    narrow = {"int64": "int32", "complex128": "complex64"}.get(result.dtype.name)
    return cast(result, narrow or floatx())


def _dtypes_in(values: Iterable[Any]) -> Iterable[str]:
    """Yield the dtypes of tensors and arrays, which lists of numbers do not have."""
    for x in values:
        if isinstance(x, list | tuple):
            yield from _dtypes_in(x)
        elif hasattr(x, "dtype"):
            yield x.dtype.name
