"""Maxima and minima along axes, in few calls with long inner loops.

NumPy calls the inner loop once per row, or per step where columns lie next to the axis, which takes
some 60 nanoseconds each. The results of comparisons do not depend on their order, so arrays are
halved along the axis, or short rows compared column by column.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

Array = Any
Axes = tuple[int, ...]

_MANY = 1 << 12
"""The number of elements from which the calls are fewer or longer."""
_SHORT = 24
"""The longest rows that are compared column by column."""
_BLOCK = 1 << 15
"""About so many elements are compared column by column before the next ones: a cache holds them."""
_WIDE = 32
"""So many columns that lie next to the axis are fast in NumPy."""


def extreme(ufunc: np.ufunc, x: Array, axis: Axes, keepdims: bool) -> Array:
    """Reduce by `np.maximum` or `np.minimum`."""
    if x.size < _MANY or not axis or not _is_plain(x):
        reduce: Callable[..., Any] = ufunc.reduce
        return reduce(x, axis, None, None, keepdims)
    shape = x.shape
    kept = tuple([1 if place in axis else n for place, n in enumerate(shape)])
    # The first axes come first, as the elements that are left behind them are neighbours.
    for first, last in _groups(axis):
        length = math.prod(shape[first : last + 1])
        x = _along(ufunc, x.reshape(math.prod(kept[:first]), length, -1))
    result = x.reshape(kept)
    if keepdims:
        return result
    result = result.reshape([n for place, n in enumerate(shape) if place not in axis])
    return result if result.ndim else result[()]


def _is_plain(x: Array) -> bool:
    return type(x) is np.ndarray and x.flags.c_contiguous and x.dtype.kind in "fiu"


def _groups(axis: Axes) -> list[tuple[int, int]]:
    """The first and the last of each group of neighbouring axes."""
    ordered = sorted(axis)
    firsts = [one for one in ordered if one - 1 not in ordered]
    lasts = [one for one in ordered if one + 1 not in ordered]
    return list(zip(firsts, lasts))


def _along(ufunc: np.ufunc, x: Array) -> Array:
    """Reduce the middle one of three axes."""
    rows, length, inner = x.shape
    if not x.size or length == 1:
        return ufunc.reduce(x, 1)
    if inner == 1:
        if length > _SHORT or rows < length:
            return ufunc.reduce(x, 1)
        return _by_columns(ufunc, x[:, :, 0])
    while length > 1 and inner < _WIDE:
        half = length // 2
        y = ufunc(x[:, :half], x[:, half : 2 * half])
        if length % 2:
            ufunc(y[:, :1], x[:, 2 * half :], out=y[:, :1])
        x, length = y, half
    return x if length == 1 else ufunc.reduce(x, 1)


def _by_columns(ufunc: np.ufunc, x: Array) -> Array:
    """Compare the columns of a matrix, some rows at a time."""
    rows, length = x.shape
    result = np.empty(rows, x.dtype)
    step = max(1, _BLOCK // length)
    for begin in range(0, rows, step):
        block, out = x[begin : begin + step], result[begin : begin + step]
        ufunc(block[:, 0], block[:, 1], out=out)
        for column in range(2, length):
            ufunc(out, block[:, column], out=out)
    return result
