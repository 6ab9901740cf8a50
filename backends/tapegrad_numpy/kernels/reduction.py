"""Reductions and scans by NumPy's ufuncs."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from tapegrad.core.backend.registry import by_name
from tapegrad_numpy.kernels.extremes import extreme
from tapegrad_numpy.kernels.half import accumulator, in_single, is_half

Array = Any
Axes = tuple[int, ...]

# Called with positional arguments (x, axis, dtype, out, keepdims), which is fastest.
_add: Callable[..., Any] = np.add.reduce
_multiply: Callable[..., Any] = np.multiply.reduce
_maximum: Callable[..., Any] = np.maximum.reduce
_minimum: Callable[..., Any] = np.minimum.reduce
_or: Callable[..., Any] = np.logical_or.reduce
_and: Callable[..., Any] = np.logical_and.reduce


_MANY = 1 << 15
"""The number of elements from which a sum of short rows is a product with ones."""
_SHORT = 256
"""The most terms of a row that BLAS adds; NumPy rounds less for more of them."""
_NARROW = 32
"""The most adjacent columns whose sums BLAS computes; NumPy is fast for more of them."""


def _total(x: Array, axis: Axes, dtype: np.dtype[Any], keepdims: bool) -> Array:
    """Sum many elements along axes.

    NumPy needs some 30 nanoseconds per row, so it takes 3 to 20 times as long as a product with
    ones if rows are short, or if there are few columns beside the axes. Axes that are no neighbours
    are summed one group after the other, the last group first.
    """
    if dtype is not x.dtype or dtype.char not in "fd" or not axis:
        return _add(x, axis, dtype, None, keepdims)
    first, last = min(axis), max(axis)
    shape = x.shape
    if len(axis) != last - first + 1 and x.flags.c_contiguous:
        start = max(one for one in axis if one - 1 not in axis)
        before = tuple([one for one in axis if one < start])
        after = tuple([one for one in axis if one >= start])
        total = _total(_total(x, after, dtype, True), before, dtype, True)
        return total if keepdims else total.reshape(_kept_shape(shape, axis, False))
    inner = math.prod(shape[last + 1 :])
    length = math.prod(shape[first : last + 1])
    fits = length <= _SHORT if inner == 1 else inner <= _NARROW
    if not fits or not x.flags.c_contiguous:
        return _add(x, axis, dtype, None, keepdims)
    rows = x.reshape(-1, length, inner)
    ones = np.ones(length, dtype)
    total = rows[:, :, 0] @ ones if inner == 1 else ones @ rows
    kept = (1,) * len(axis) if keepdims else ()
    return total.reshape(*shape[:first], *kept, *shape[last + 1 :])


def sum_(x: Array, *, axis: Axes, keepdims: bool) -> Array:
    dtype = x.dtype
    if is_half(dtype):
        # Accumulate half precision in float32 and round once.
        return _add(x, axis, np.float32, None, keepdims).astype(dtype)
    if dtype.kind == "b":
        dtype = np.dtype(np.int64)
    if x.size >= _MANY:
        return _total(x, axis, dtype, keepdims)
    return _add(x, axis, dtype, None, keepdims)


def mean(x: Array, *, axis: Axes, keepdims: bool) -> Array:
    dtype = x.dtype
    if dtype.kind in "biu":
        dtype = np.dtype(np.float64)
    count = math.prod(x.shape[a] for a in axis)
    wide = accumulator(dtype)
    many = x.size >= _MANY
    total = _total(x, axis, wide, keepdims) if many else _add(x, axis, wide, None, keepdims)
    if count == 0:
        return np.full_like(total, math.nan, dtype=dtype)
    return (total / wide.type(count)).astype(dtype, copy=False)


def prod(x: Array, *, axis: Axes, keepdims: bool) -> Array:
    dtype = np.dtype(np.int64) if x.dtype.kind == "b" else x.dtype
    return _multiply(x, axis, dtype, None, keepdims)


def max_(x: Array, *, axis: Axes, keepdims: bool) -> Array:
    return extreme(np.maximum, x, axis, keepdims)


def min_(x: Array, *, axis: Axes, keepdims: bool) -> Array:
    return extreme(np.minimum, x, axis, keepdims)


def any_(x: Array, *, axis: Axes, keepdims: bool) -> Array:
    return _or(x, axis, np.bool_, None, keepdims)


def all_(x: Array, *, axis: Axes, keepdims: bool) -> Array:
    return _and(x, axis, np.bool_, None, keepdims)


def count_nonzero(x: Array, *, axis: Axes, keepdims: bool) -> Array:
    if len(axis) == x.ndim and not keepdims:
        return np.asarray(np.count_nonzero(x))
    return _add(np.asarray(x) != 0, axis, np.int64, None, keepdims)


def ties(x: Array, y: Array, *, axis: Axes, keepdims: bool) -> Array:
    """Return 1 / (number of elements that tie) at each element that equals the extreme `y`."""
    x, y = np.asarray(x), _kept(np.asarray(y), np.shape(x), axis)
    hits = x == y
    if np.isnan(y).any():
        hits |= np.isnan(x) & np.isnan(y)
    shares = hits.astype(x.dtype)
    # Each extreme is attained at least once, so without ties there are as many hits as extremes.
    if np.count_nonzero(hits) != y.size:
        shares /= _add(shares, axis, x.dtype, None, True)
    return shares


def _kept(y: Array, shape: tuple[int, ...], axis: Axes) -> Array:
    return y.reshape(tuple(1 if i in axis else n for i, n in enumerate(shape)))


def exp_difference(x: Array, y: Array) -> Array:
    """Return exp(x - y), with 0 wherever x is -inf, and inf - inf = 0."""
    if np.isfinite(y).all():
        return np.exp(x - y)
    with np.errstate(invalid="ignore"):
        difference = np.where(x == y, np.zeros((), np.result_type(x, y)), np.subtract(x, y))
    return np.where(x == -math.inf, np.zeros((), difference.dtype), np.exp(difference))


def logsumexp(x: Array, *, axis: Axes, keepdims: bool) -> Array:
    if not np.size(x):
        kept = _kept_shape(x.shape, axis, keepdims)
        return np.full(kept, -math.inf, x.dtype)
    top = extreme(np.maximum, x, axis, True)
    is_plain = _minimum(top, None) > -math.inf and _maximum(top, None) < math.inf
    if not is_plain:
        top = np.where(np.isfinite(top), top, top.dtype.type(0))
    if is_plain:
        result = np.log(_sum_of_exponentials(x - top, axis, keepdims))
    else:
        # Beside an infinite number, others may be too large for the exponential.
        with np.errstate(divide="ignore", over="ignore"):
            result = np.log(_sum_of_exponentials(x - top, axis, keepdims))
    return result + (top if keepdims else top.reshape(result.shape))


def _sum_of_exponentials(x: Array, axis: Axes, keepdims: bool) -> Array:
    terms = np.exp(x, out=x) if isinstance(x, np.ndarray) else np.exp(x)
    return _add(terms, axis, terms.dtype, None, keepdims)


def _kept_shape(shape: tuple[int, ...], axis: Axes, keepdims: bool) -> tuple[int, ...]:
    if keepdims:
        return tuple(1 if i in axis else n for i, n in enumerate(shape))
    return tuple(n for i, n in enumerate(shape) if i not in axis)


def sum_of_squares(x: Array, *, axis: Axes, keepdims: bool) -> Array:
    if len(axis) == x.ndim and x.dtype.kind == "f" and x.ndim:
        flat = x.reshape(-1)
        total = np.dot(flat, flat)
        return np.full((1,) * x.ndim, total) if keepdims else total
    squares = np.square(x.real) + np.square(x.imag) if x.dtype.kind == "c" else np.square(x)
    return sum_(squares, axis=axis, keepdims=keepdims)


def euclidean_norm(x: Array, *, axis: Axes, keepdims: bool) -> Array:
    return np.sqrt(sum_of_squares(x, axis=axis, keepdims=keepdims))


# Scans


def _running(
    ufunc: np.ufunc, x: Array, axis: int, exclusive: bool, reverse: bool, start: Any
) -> Array:
    dtype = np.dtype(np.int64) if x.dtype.kind == "b" else x.dtype
    x = np.flip(x, axis) if reverse else x
    if exclusive:
        y = np.empty(x.shape, dtype)
        if x.shape[axis]:
            y[_cut(axis, slice(0, 1))] = start
            ufunc.accumulate(
                x[_cut(axis, slice(0, -1))], axis, dtype, y[_cut(axis, slice(1, None))]
            )
    else:
        y = ufunc.accumulate(x, axis, dtype)
    return np.flip(y, axis) if reverse else y


def _cut(axis: int, part: slice) -> tuple[slice, ...]:
    return (*(slice(None),) * axis, part)


def cumulative_sum(x: Array, *, axis: int, exclusive: bool, reverse: bool) -> Array:
    return _running(np.add, x, axis, exclusive, reverse, 0)


def cumulative_prod(x: Array, *, axis: int, exclusive: bool, reverse: bool) -> Array:
    return _running(np.multiply, x, axis, exclusive, reverse, 1)


def cumulative_logsumexp(x: Array, *, axis: int, reverse: bool) -> Array:
    return _running(np.logaddexp, x, axis, False, reverse, None)


def running_index(x: Array, *, axis: int, largest: bool) -> Array:
    """Return the first position of the running extreme; NaN is beyond all numbers."""
    y = (np.maximum if largest else np.minimum).accumulate(x, axis)
    new = np.ones(x.shape, bool)
    before, after = y[_cut(axis, slice(0, -1))], y[_cut(axis, slice(1, None))]
    changed = (before != after) & ~np.isnan(before)
    new[_cut(axis, slice(1, None))] = changed
    shape = [1] * x.ndim
    shape[axis] = x.shape[axis]
    places = np.arange(x.shape[axis]).reshape(shape)
    return np.maximum.accumulate(np.where(new, places, 0), axis)


def linear_recurrence(a: Array, b: Array, *, axis: int, reverse: bool) -> Array:
    """Return y with y[i] = a[i] y[i-1] + b[i]: row by row if rows are long, else by recursion."""
    dtype = np.result_type(a, b)
    a = np.moveaxis(np.broadcast_to(a, b.shape), axis, 0)
    b = np.moveaxis(b, axis, 0).astype(dtype, copy=False)
    y = np.empty(b.shape, dtype)
    order = slice(None, None, -1) if reverse else slice(None)
    _fill(a[order], b[order], y[order])
    return np.moveaxis(y, 0, axis)


# Below this many elements a row, a Python loop over the rows costs more than two passes.
_LONG_ROW = 256


def _fill(a: Array, b: Array, y: Array) -> None:
    n = len(b)
    if n < 32 or b[0].size >= _LONG_ROW:
        y[:1] = b[:1]
        for i in range(1, n):
            y[i] = a[i] * y[i - 1] + b[i]
        return
    pairs = n - n % 2
    first, second, later = slice(0, pairs, 2), slice(1, pairs, 2), slice(2, n, 2)
    a_odd = a[second]
    odd = y[second]
    _fill(a_odd * a[first], a_odd * b[first] + b[second], odd)
    y[0] = b[0]
    y[later] = a[later] * odd[: (n - 1) // 2] + b[later]


KERNELS = {
    **by_name(mean, count_nonzero, ties, exp_difference, running_index),
    "sum": sum_,
    "prod": in_single(prod),
    "max": max_,
    "min": min_,
    "any": any_,
    "all": all_,
    "logsumexp": in_single(logsumexp),
    "sum_of_squares": in_single(sum_of_squares),
    "euclidean_norm": in_single(euclidean_norm),
    "cumulative_sum": in_single(cumulative_sum),
    "cumulative_prod": in_single(cumulative_prod),
    "cumulative_logsumexp": in_single(cumulative_logsumexp),
    "linear_recurrence": in_single(linear_recurrence),
}
