"""The methods of NumPy's arrays, for tensors: `x.sum()`, `x.reshape(2, 3)`, `x.T`.

`tapegrad.ops.interface.array_methods` binds them to tensors, variables and batched values on first
use.
"""

from __future__ import annotations

import builtins
from collections.abc import Mapping
from typing import Any

import numpy as np

from tapegrad.core.checked_calls import check_function
from tapegrad.core.values.array_interface import Function
from tapegrad.core.values.dtypes import as_dtype, numpy_dtype
from tapegrad.errors import ArgumentError, ArgumentTypeError, DTypeError
from tapegrad.numpy import (
    creation,
    dtypes,
    indexing,
    manipulation,
    parts,
    products,
    reductions,
    searching,
)
from tapegrad.numpy.at import Places
from tapegrad.numpy.flat import FlatIterator, set_flat
from tapegrad.numpy.values import as_array, beside, check_cast, dtype_of, refuse_order, with_dtype
from tapegrad.ops.elementwise.arithmetic import conj as conjugated
from tapegrad.ops.indexing.functions import check_range, getitem
from tapegrad.ops.kinds import is_complex
from tapegrad.ops.shape import functions as shape


def _one_or_many(first: tuple[Any, ...]) -> Any:
    """Treat `x.reshape(2, 3)` as `x.reshape((2, 3))`."""
    return first[0] if len(first) == 1 and not isinstance(first[0], int) else first


def reshape(self: Any, *lengths: Any, order: str = "C", copy: Any = None) -> Any:
    """Return the values in another shape, given as a tuple or as several integers."""
    return manipulation.reshape(self, _one_or_many(lengths), order, copy=copy)


def transpose(self: Any, *axes: Any) -> Any:
    """Permute the axes (by default, reverse them)."""
    order = _one_or_many(axes) if axes else None
    return manipulation.permute_dims(as_array(self), order)


def astype(
    self: Any,
    dtype: Any,
    order: str = "K",
    casting: str = "unsafe",
    subok: bool = True,
    copy: Any = True,
) -> Any:
    """Return the array with another dtype."""
    refuse_order(order)
    result = dtypes.astype(self, dtype, copy=copy)
    check_cast("astype", dtype_of(self), dtype_of(result), casting)
    return result


def flatten(self: Any, order: str = "C") -> Any:
    """Return a flattened copy."""
    return creation.copy(manipulation.ravel(self, order))


def conj(self: Any) -> Any:
    """Return the complex conjugate of each element."""
    x = as_array(self)
    return conjugated(x) if is_complex(x) else x


def sort(
    self: Any, axis: int = -1, kind: Any = None, order: Any = None, *, stable: Any = None
) -> None:
    """Sort in place."""
    self[...] = searching.sort(self, axis, kind, order, stable=stable)


def partition(
    self: Any, kth: Any, axis: int = -1, kind: str = "introselect", order: Any = None
) -> None:
    """Partition in place: the k-th element moves to its sorted position."""
    self[...] = searching.partition(self, kth, axis, kind, order)


def fill(self: Any, value: Any) -> None:
    """Fill the array with one value, in place."""
    check_range(value, self)
    self[...] = with_dtype(as_array(value, self), self.dtype)


def put(self: Any, indices: Any, values: Any, mode: str = "raise") -> None:
    """Write values into the flattened array at the given indices, in place."""
    indexing.put(self, indices, values, mode)


def compress(self: Any, condition: Any, axis: int | None = None, out: Any = None) -> Any:
    """Return the entries along an axis where a condition vector is true."""
    return indexing.compress(condition, self, axis, out)


def dot(self: Any, b: Any, out: Any = None) -> Any:
    """Return the dot product with an array, which takes the dtype it has next to an operator."""
    return products.dot(self, beside(b, self), out)


def clip(self: Any, min: Any = None, max: Any = None, out: Any = None, **options: Any) -> Any:
    """Clip to an interval, whose ends take the dtype that they have next to an operator."""
    return parts.clip(self, beside(min, self), beside(max, self), out, **options)


def to_device(self: Any, device: Any, /, *, stream: Any = None) -> Any:
    """Return the array on another device; gradients flow back to this device."""
    if stream is not None:
        raise ArgumentError("to_device does not support streams. Leave stream= out.")
    return shape.to_device(as_array(self), device)


def tobytes(self: Any, order: str = "C") -> bytes:
    """Return the elements as bytes, in C or Fortran order."""
    return as_array(self).numpy().tobytes(order)  # type: ignore[no-any-return]


def view(self: Any, dtype: Any = None, type: Any = None) -> Any:
    """Return a view of all elements: a write to it reaches the array.

    A view with another dtype would show the same bits as other numbers, which no write reaches.
    """
    if isinstance(dtype, int | tuple | list):
        raise ArgumentTypeError(
            f"view takes a data type, not a shape. Got {dtype!r}; use x.reshape(...) instead."
        )
    if type is not None or (isinstance(dtype, builtins.type) and issubclass(dtype, np.ndarray)):
        raise ArgumentTypeError(
            "view cannot return an array of another class. Take x.numpy().view(...) instead."
        )
    if dtype is not None and numpy_dtype(dtype) != numpy_dtype(self.dtype):
        raise DTypeError(
            f"view cannot show a tensor of {self.dtype} as {as_dtype(dtype)}, because tensors do "
            f"not share bits. Use x.astype({as_dtype(dtype).name!r}) for the same numbers, or "
            "x.numpy().view(...) for the same bits."
        )
    return getitem(self, ...)


def strides(self: Any) -> tuple[int, ...]:
    """Raise AttributeError: code that reads strides would use them on a copy with other strides."""
    raise AttributeError(
        "A tensor has no strides, because its memory belongs to its backend. Take x.numpy() first."
    )


_UNDER_THEIR_NAMES = (
    *(reductions.all, reductions.any, reductions.argmax, reductions.argmin, reductions.cumprod),
    *(reductions.cumsum, reductions.max, reductions.mean, reductions.min, reductions.prod),
    *(reductions.ptp, reductions.std, reductions.sum, reductions.var),
    *(searching.argpartition, searching.argsort, searching.nonzero, searching.searchsorted),
    *(manipulation.ravel, manipulation.repeat, manipulation.squeeze, manipulation.swapaxes),
    *(creation.copy, indexing.take, parts.round),
    *(products.diagonal, products.trace),
    *(
        astype,
        clip,
        compress,
        conj,
        dot,
        fill,
        flatten,
        partition,
        put,
        reshape,
        sort,
        to_device,
        tobytes,
        view,
    ),
    transpose,
)
METHODS: Mapping[str, Function] = {
    **{function.__name__: function for function in _UNDER_THEIR_NAMES},
    "choose": indexing.choose_from,
    "conjugate": conj,
}
PROPERTIES: Mapping[str, Function] = {
    "at": lambda self: Places(as_array(self)),
    "flat": lambda self: FlatIterator(self),
    "T": lambda self: manipulation.permute_dims(self),
    "imag": lambda self: parts.imag(self),
    "itemsize": lambda self: self.dtype.itemsize,
    "mT": lambda self: manipulation.matrix_transpose(self),
    "real": lambda self: parts.real(self),
    "strides": strides,
}
SETTERS: Mapping[str, Function] = {
    "flat": set_flat,
    "imag": parts.set_imag,
    "real": parts.set_real,
}
"""The functions that assign to a property."""

for _method in METHODS.values():
    check_function(_method)
