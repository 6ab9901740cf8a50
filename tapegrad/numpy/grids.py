"""Index tricks: `r_`, `c_`, `s_`, `mgrid`, `ogrid`, `ix_`, `indices`."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tapegrad.core.primitive.operand import normalize_axis
from tapegrad.core.values.dtypes import numpy_dtype
from tapegrad.core.values.tensor import Tensor
from tapegrad.errors import ArgumentError
from tapegrad.numpy.joining import concat
from tapegrad.numpy.manipulation import ravel, reshape
from tapegrad.numpy.values import (
    as_array,
    checked_array,
    dtype_of,
    is_array,
    with_dtype,
    with_numbers,
)
from tapegrad.ops.creation import as_constant
from tapegrad.ops.indexing.slices_and_masks import nonzero
from tapegrad.ops.shape.functions import moveaxis


class _Joiner:
    """`r_[...]` and `c_[...]`: join arrays, numbers, and slices as ranges."""

    def __init__(self, axis: int, ndmin: int, trans1d: int) -> None:
        self._axis, self._ndmin, self._trans1d = axis, ndmin, trans1d

    def __getitem__(self, key: Any) -> Any:
        items = list(key) if isinstance(key, tuple) else [key]
        axis, ndmin, trans1d = self._axis, self._ndmin, self._trans1d
        if isinstance(items[0], str):
            if items[0] in ("r", "c"):
                raise ArgumentError("r_ does not make matrices. Leave out the 'r' or 'c'.")
            numbers = [int(part) for part in items.pop(0).split(",")]
            axis, ndmin, trans1d = (*numbers, *(ndmin, trans1d)[len(numbers) - 1 :])[:3]
        spans = [_span(item) if isinstance(item, slice) else item for item in items]
        arrays = with_numbers(spans)
        for span, x in zip(spans, arrays, strict=True):
            if type(span) is int and dtype_of(x).kind in "iu":
                checked_array(span, dtype_of(x))  # raises if the dtype cannot hold the number
        return concat([_with_axes(x, ndmin, trans1d) for x in arrays], axis=axis)


def _with_axes(x: Any, ndmin: int, trans1d: int) -> Any:
    """Return an array with at least `ndmin` axes; its original axes begin at `trans1d`."""
    rank = max(len(x.shape), 1)
    x = reshape(x, (1,)) if not x.shape else x
    missing = ndmin - rank
    if missing <= 0:
        return x
    wide = reshape(x, (*[1] * missing, *x.shape))
    if trans1d == -1:
        return wide
    start = trans1d if trans1d >= 0 else trans1d + missing + 1
    return moveaxis(wide, tuple(range(missing, ndmin)), tuple(range(start, start + rank)))


def _span(part: slice) -> Any:
    """Return the numbers of a slice; an imaginary step is a count."""
    start = 0 if part.start is None else part.start
    step = 1 if part.step is None else part.step
    if isinstance(step, complex):
        return np.linspace(_plain(start), _plain(part.stop), int(abs(step)))
    return np.arange(_plain(start), _plain(part.stop), _plain(step))


def _plain(value: Any) -> Any:
    return value.numpy() if isinstance(value, Tensor) else value


class _Slices:
    """`s_[1:3]` is the slice itself; `index_exp[1:3]` is a tuple with the slice."""

    def __init__(self, makes_tuple: bool) -> None:
        self._makes_tuple = makes_tuple

    def __getitem__(self, key: Any) -> Any:
        return (key,) if self._makes_tuple and not isinstance(key, tuple) else key


class _Grid:
    """`mgrid[0:2, 0:3]` is a dense grid of coordinates, `ogrid` an open one."""

    def __init__(self, is_open: bool) -> None:
        self._is_open = is_open

    def __getitem__(self, key: Any) -> Any:
        found = (np.ogrid if self._is_open else np.mgrid)[key]
        if isinstance(found, tuple | list):
            return tuple(as_constant(np.asarray(part)) for part in found)
        return as_constant(np.asarray(found))


r_ = _Joiner(0, 1, -1)
c_ = _Joiner(-1, 2, 0)
s_, index_exp = _Slices(False), _Slices(True)
mgrid, ogrid = _Grid(False), _Grid(True)


def ix_(*args: Any) -> tuple[Any, ...]:
    """Return vectors reshaped so that they index a grid.

    >>> [part.shape for part in ix_([0, 1], [2, 3, 4])]
    [(2, 1), (1, 3)]
    """
    found = []
    for place, arg in enumerate(args):
        x = as_array(arg)
        if len(x.shape) != 1:
            raise ArgumentError(f"ix_ needs vectors. Got an array of shape {x.shape}.")
        if not x.shape[0] and not is_array(arg):
            x = with_dtype(x, np.intp)  # an empty list indexes nothing
        if dtype_of(x).kind == "b":
            x = nonzero(x)[0]
        lengths = tuple(x.shape[0] if k == place else 1 for k in range(len(args)))
        found.append(reshape(x, lengths))
    return tuple(found)


def indices(dimensions: Any, dtype: Any = int, sparse: bool = False) -> Any:
    """Return the coordinates of a grid, one array per axis.

    >>> indices((2, 2)).tolist()
    [[[0, 0], [1, 1]], [[0, 1], [0, 1]]]
    """
    lengths, kind = tuple(dimensions), numpy_dtype(dtype)
    if sparse:
        return tuple(as_constant(part) for part in np.indices(lengths, kind, sparse=True))
    return as_constant(np.indices(lengths, kind))


def ndindex(*shape: Any) -> Any:
    """Iterate over the coordinates of an array of a shape.

    >>> list(ndindex(2, 1))
    [(0, 0), (1, 0)]
    """
    return np.ndindex(*shape)


def ndenumerate(arr: Any) -> Any:
    """Iterate over coordinates and elements.

    >>> [(place, float(value)) for place, value in ndenumerate([1.0, 2.0])]
    [((0,), 1.0), ((1,), 2.0)]
    """
    x = as_array(arr)
    return zip(np.ndindex(*x.shape), ravel(x), strict=True)


def shape(a: Any) -> tuple[int, ...]:
    """Return the lengths of an array's axes.

    >>> shape([[1, 2]])
    (1, 2)
    """
    return tuple(as_array(a).shape)


def ndim(a: Any) -> int:
    """Return the number of axes.

    >>> ndim([[1, 2]])
    2
    """
    return len(as_array(a).shape)


def size(a: Any, axis: Any = None) -> int:
    """Return the number of elements in total, or along one or several axes.

    >>> size([[1, 2]]), size([[1, 2]], 0)
    (2, 1)
    """
    lengths = as_array(a).shape
    if axis is None:
        return math.prod(lengths)
    named = axis if isinstance(axis, list | tuple) else (axis,)
    axes = [normalize_axis(k, len(lengths), "size") for k in named]
    if len(set(axes)) < len(axes):
        raise ArgumentError(f"size needs distinct axes. Got {axis}.")
    return math.prod(lengths[k] for k in axes)


def iterable(y: Any) -> bool:
    """Return whether a value can be iterated over.

    >>> iterable([1]), iterable(1)
    (True, False)
    """
    return hasattr(y, "__iter__") and getattr(y, "shape", None) != ()
