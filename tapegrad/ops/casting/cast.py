"""cast: conversion to another dtype."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tapegrad.core.backend.registry import backend_of
from tapegrad.core.primitive.families import Function, nondifferentiable
from tapegrad.core.primitive.fastpath import one_operand
from tapegrad.core.primitive.operand import as_operand
from tapegrad.core.primitive.primitive import PRIMITIVES, Primitive, record
from tapegrad.core.recorder import Stack, active_stack
from tapegrad.core.values.dtypes import as_dtype, is_text_type, numpy_dtype
from tapegrad.core.values.strings import is_text, to_any_tensor
from tapegrad.core.values.tensor import Tensor, wrap
from tapegrad.core.values.variable import Variable
from tapegrad.errors import DTypeError
from tapegrad.ops.control.stop_gradient import identity
from tapegrad.ops.kinds import kind_of


def _astype(xp: Any, x: Any, *, dtype: np.dtype[Any]) -> Any:
    if _kind(x) == "c" and as_dtype(dtype).kind != "c":
        x = xp.real(x)
    return xp.astype(x, dtype)


def _kind(array: Any) -> str:
    return as_dtype(backend_of(array).dtype_of(array)).kind


def _batch(primitive: Primitive) -> Any:
    return lambda size, batched, x, *, dtype: primitive(x, dtype=dtype)


cast_p = Primitive("cast", _astype, selects=False)
cast_p.by_element = True
# The sweep casts every gradient to the dtype of its input, so the rule returns it unchanged.
cast_p.vjps(lambda t: t)
cast_p.jvps(lambda t, *, dtype: cast_p(t, dtype=dtype))
cast_p.batch(_batch(cast_p))

cast_to_integer_p = nondifferentiable("cast_to_integer", _astype, by_element=True)
cast_to_integer_p.batch(_batch(cast_to_integer_p))


_by_name: dict[str, tuple[Function, np.dtype[Any]]] = {}

CastAhead = Callable[[Variable, np.dtype[Any], Stack], Any]
_cast_ahead: CastAhead | None = None


def set_cast_ahead(cast_ahead: CastAhead) -> None:
    """Set the function that returns a cast made ahead in one launch with others, or None."""
    global _cast_ahead
    _cast_ahead = cast_ahead


def cast(x: Any, dtype: Any, name: str | None = None) -> Any:
    """Return `x` with another dtype; casts to integers and booleans have no derivative.

    The values are not copied if `x` already has the dtype. Text can be cast to text only.

    >>> cast([1.5, 2.5], "int32").tolist()
    [1, 2]
    """
    known = _by_name.get(dtype) if type(dtype) is str else None
    if known is not None and type(x) in (Tensor, Variable):
        fast_cast, target = known
        given = x.array.dtype
        if isinstance(given, np.dtype) and given == target:
            return _same(x)
        return fast_cast(x) if type(x) is Tensor else _cast_variable(x, fast_cast, target)
    if is_text_type(dtype) and is_text(x):
        return to_any_tensor(x)
    wanted = as_dtype(dtype)
    if type(x) in (Tensor, Variable) and x.dtype == wanted:
        return _same(x)
    primitive = cast_p if wanted.is_differentiable else cast_to_integer_p
    target = numpy_dtype(wanted)
    if type(dtype) is str:
        _by_name[dtype] = one_operand(primitive, {"dtype": target}), target
    return primitive(as_operand(x), dtype=target)


def as_float(x: Any) -> Any:
    """Return an operand; integers and booleans are cast to the floats that NumPy computes with.

    >>> as_float([1, 2]).dtype
    <dtype: 'float64'>
    """
    x = as_operand(x)
    if kind_of(x) not in ("b", "i", "u"):
        return x
    return cast(x, np.result_type(as_dtype(x.dtype).dtype, np.float16))


def in_dtype(x: Any, dtype: Any) -> Any:
    """Return an operand with a dtype; unlike `cast`, return the same object if it has the dtype.

    It is for implicit casts, and raises if the cast would drop the imaginary part.
    """
    own = x.dtype
    # The order of the tests matters for speed: most dtypes are the same object or given by name.
    if own is dtype or own.name == dtype or own == dtype:
        return x
    if kind_of(x) == "c" and as_dtype(dtype).kind != "c":
        raise DTypeError(
            f"A value of {own} was passed where {as_dtype(dtype)} is needed, and the cast would "
            "drop its imaginary part. Pass tapegrad.math.real(x), or cast it."
        )
    return cast(x, dtype)


def gradient_in_dtype(gradient: Any, dtype: Any) -> Any:
    """Return a gradient in the dtype of its source: the real part for a real source."""
    return gradient if gradient.dtype == dtype else cast(gradient, dtype)


def _cast_variable(x: Variable, fast_cast: Function, dtype: np.dtype[Any]) -> Any:
    """Cast a variable, in one launch with the other variables that the last tape cast.

    The result of a batched cast is a leaf of the tape itself. If the variable was read before, the
    cast is recorded instead, so that all cotangents of the variable are summed in one leaf.
    """
    stack = active_stack()
    if not stack.tokens or stack.listeners or stack.framed or dtype.itemsize != 2:
        return fast_cast(x)
    result = None if _cast_ahead is None else _cast_ahead(x, dtype, stack)
    if result is None:
        return fast_cast(x)
    if not x.was_read(stack):
        node = x.new_leaf(stack)
        if node is not None:
            node.specs = x.array.dtype
        return wrap(result, node)
    source = x.leaf(stack)
    if source is None:
        return wrap(result)
    return wrap(result, record(stack, cast_p, {"dtype": dtype}, (x.array,), (source,), result))


def _same(x: Any) -> Any:
    """Return a new tensor with the same array; gradients and item assignment stay separate."""
    x = x if type(x) is Tensor else x.shared_value()
    if type(x) is not Tensor:  # a variable inside vmap
        return x
    if x.node is None:
        return wrap(x.array)
    primitive = PRIMITIVES[identity.__name__]
    return wrap(x.array, record(active_stack(), primitive, {}, (x.array,), (x.node,), x.array))


def cast_like(x: Any, dtype: Any) -> Any:
    """Cast a gradient to the dtype of its input, which may be a dtype object of a backend."""
    if type(x) in cast_p.kernels and isinstance(dtype, np.dtype):
        return cast_p.kernels[type(x)](x, dtype=dtype)
    try:
        wanted = numpy_dtype(dtype)
    except TypeError:
        wanted = np.dtype(str(dtype).rpartition(".")[2])
    return cast_p(x, dtype=wanted)
