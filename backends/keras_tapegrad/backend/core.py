"""Variables, conversion, shape inference and the scopes of Keras."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import numpy as np
from keras.src import tree
from keras.src.backend.common import KerasVariable, standardize_dtype
from keras.src.backend.common.keras_tensor import KerasTensor
from keras.src.backend.common.stateless_scope import StatelessScope
from keras.src.backend.common.symbolic_scope import SymbolicScope

import tapegrad as tg
from keras_tapegrad.backend.control import (
    associative_scan,
    cond,
    custom_gradient,
    fori_loop,
    map,  # Keras' name
    remat,
    scan,
    scatter,
    scatter_update,
    slice,
    slice_update,
    stop_gradient,
    switch,
    unstack,
    vectorized_map,
    while_loop,
)
from keras_tapegrad.backend.tensors import convert_to_tensor
from tapegrad.errors import IndexOutOfRangeError

__all__ = [
    "IS_THREAD_SAFE",
    "SUPPORTS_COMPLEX_DTYPES",
    "SUPPORTS_RAGGED_TENSORS",
    "SUPPORTS_SPARSE_TENSORS",
    "Variable",
    "associative_scan",
    "cast",
    "compute_output_spec",
    "cond",
    "convert_to_numpy",
    "convert_to_tensor",
    "custom_gradient",
    "device_scope",
    "fori_loop",
    "is_tensor",
    "map",
    "random_seed_dtype",
    "remat",
    "scan",
    "scatter",
    "scatter_update",
    "shape",
    "slice",
    "slice_update",
    "stop_gradient",
    "switch",
    "unstack",
    "vectorized_map",
    "while_loop",
]

SUPPORTS_SPARSE_TENSORS = False
SUPPORTS_RAGGED_TENSORS = False
SUPPORTS_COMPLEX_DTYPES = True
IS_THREAD_SAFE = True


class Variable(KerasVariable):  # type: ignore[misc]  # Keras has no types
    """A variable of Keras that holds a `tapegrad.Variable`, so that tapes and functions see it."""

    def _initialize(self, value: Any) -> None:
        if isinstance(value, tg.Variable):
            self._value = value
        else:
            self._value = tg.Variable(
                convert_to_tensor(value, self._dtype), trainable=self._trainable, name=self.name
            )

    def _direct_assign(self, value: Any) -> None:
        self._value.assign(convert_to_tensor(value, self._dtype))

    def _convert_to_tensor(self, value: Any, dtype: Any = None) -> Any:
        return convert_to_tensor(value, dtype=dtype)

    @property
    def value(self) -> Any:
        """The current value as a tensor, in the dtype of the autocast scope."""
        return convert_to_tensor(super().value)

    def __tapegrad_variable__(self) -> Any:
        """Return the variable with respect to which a tape differentiates."""
        return self._value

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        return np.asarray(convert_to_numpy(self.value), dtype)

    def __deepcopy__(self, memo: dict[int, Any]) -> Variable:
        copied = type(self).__new__(type(self))
        memo[id(self)] = copied
        copied.__dict__.update(self.__dict__)
        if self._value is not None:
            copied._initialize(convert_to_tensor(self._value))
        return copied


tg.register_tensor_conversion_function(Variable, lambda variable: variable.value)


def convert_to_numpy(x: Any) -> Any:
    """Return a copy as a NumPy array."""
    is_here = tg.is_tensor(x) or isinstance(x, KerasVariable | tg.Variable)
    return convert_to_tensor(x).numpy() if is_here else np.array(x)


def is_tensor(x: Any) -> bool:
    """Whether `x` is a tensor of tapegrad."""
    return bool(tg.is_tensor(x)) and not isinstance(x, tg.Variable)


def shape(x: Any) -> tuple[int, ...]:
    """Return the shape as a tuple."""
    return tuple(x.shape) if hasattr(x, "shape") else tuple(convert_to_tensor(x).shape)


def cast(x: Any, dtype: Any) -> Any:
    """Return `x` in another dtype."""
    return convert_to_tensor(x, dtype=dtype)


def random_seed_dtype() -> str:
    """Return the dtype of the state of seed generators."""
    return "uint32"


def device_scope(device_name: str) -> AbstractContextManager[None]:
    """Place new tensors on a device, such as "cpu:0" or "gpu:0"."""
    return tg.device(device_name)


_SIZES = ((2, 83), (3, 89))
"""Values for an unknown first size and for other unknown sizes, in two tries.

Sizes that differ between the two results are unknown.
"""
_SMALL_SIZES = (((2, 11), (3, 13)), ((2, 3), (3, 1)))
"""Values for functions that look up positions in a table shorter than the usual sizes."""


def compute_output_spec(fn: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Return the shapes and dtypes of `fn`'s results as symbolic tensors.

    The function runs on zeros. Unknown sizes are tried with two values.
    """
    # Divisions of zeros by zeros are no errors of the user's.
    given = tree.flatten((args, kwargs))
    # Without tensors of a function that is being recorded, nothing needs to be recorded.
    is_apart = not any([is_tensor(x) for x in given])
    scope = tg.init_scope() if is_apart else nullcontext()
    with scope, StatelessScope(), SymbolicScope(), np.errstate(all="ignore"):
        leaves = [x for x in given if isinstance(x, KerasTensor)]
        tries = _SIZES if any([None in x.shape for x in leaves]) else _SIZES[:1]
        found = _outputs_of_tries(fn, args, kwargs, tries)
        return tree.map_structure(_spec, *found)


def _outputs_of_tries(fn: Callable[..., Any], args: Any, kwargs: Any, tries: Any) -> list[Any]:
    others = _SMALL_SIZES if len(tries) > 1 else ()
    for smaller in others:
        try:
            return [_outputs_with(fn, args, kwargs, sizes) for sizes in tries]
        except IndexOutOfRangeError:
            tries = smaller
    return [_outputs_with(fn, args, kwargs, sizes) for sizes in tries]


def _outputs_with(fn: Callable[..., Any], args: Any, kwargs: Any, sizes: tuple[int, int]) -> Any:
    def zeros(x: Any) -> Any:
        if not isinstance(x, KerasTensor):
            return x
        known = [
            sizes[0 if axis == 0 else 1] if size is None else size
            for axis, size in enumerate(x.shape)
        ]
        return tg.constant(np.full(known, "")) if x.dtype == "string" else tg.zeros(known, x.dtype)

    args, kwargs = tree.map_structure(zeros, (args, kwargs))
    return fn(*args, **kwargs)


def _spec(*found: Any) -> Any:
    first = found[0]
    if not is_tensor(first):
        return first
    sizes = [
        size if len({*all_sizes}) == 1 else None
        for size, *all_sizes in zip(first.shape, *[x.shape for x in found])
    ]
    return KerasTensor(tuple(sizes), standardize_dtype(first.dtype))
