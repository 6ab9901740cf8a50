"""Gather and scatter along one axis, many times faster than the generic kernels."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tapegrad.core.backend.registry import by_name
from tapegrad.core.primitive.index_check import refuse_out_of_range
from tapegrad_numpy.kernels.half import accumulator

Array = Any
# Elements scattered at a time, which limits the memory of their flat positions to 8 MiB.
_CHUNK = 1 << 20


def linear_index(
    *arrays: Array, lengths: tuple[int, ...], axes: tuple[int, ...], name: str
) -> Array:
    """Combine index arrays into positions along the merged axis; raise for those out of range."""
    total: Any = None
    for array, length, axis in zip(arrays, lengths, axes, strict=True):
        index = _in_range(np.asarray(array), length, axis, name)
        total = index if total is None else total * length + index
    return total


def _in_range(array: Array, length: int, axis: int, name: str) -> Array:
    index = array.astype(np.int64)  # always a copy, because the tape saves it
    if not index.size:
        return index
    low, high = int(array.min()), int(array.max())
    if low < -length or high >= length:
        refuse_out_of_range(name, array, length, axis)
    if low < 0:
        index = np.where(index < 0, index + length, index)
    return index


def take(x: Array, indices: Array, *, axis: int) -> Array:
    """Return the entries at `indices` along an axis."""
    if x.flags.c_contiguous:
        return np.take(x, indices, axis=axis)
    # np.take would first copy all of a strided array.
    return x[(*(slice(None),) * axis, indices)]


def take_add(t: Array, indices: Array, *, axis: int, size: int) -> Array:
    """Sum the entries of `t` at their positions along an axis of length `size`."""
    t, flat = np.asarray(t), np.asarray(indices).reshape(-1)
    outer, inner = t.shape[:axis], t.shape[axis + np.ndim(indices) :]
    width = math.prod(inner)
    total = np.zeros(math.prod(outer) * size * width, accumulator(t.dtype))
    values = t.reshape(math.prod(outer), flat.size, width).astype(total.dtype, copy=False)
    step = max(1, _CHUNK // max(width, 1))
    for row in range(values.shape[0]):
        for start in range(0, flat.size, step):
            where = flat[start : start + step] + row * size
            if width != 1:
                where = (where[:, None] * width + np.arange(width)).reshape(-1)
            # ufunc.at is fast for one-dimensional contiguous arrays.
            np.add.at(total, where, values[row, start : start + step].reshape(-1))
    return total.reshape(*outer, size, *inner).astype(t.dtype, copy=False)


def added_rows(x: Array, v: Array, indices: Array, *, axis: int) -> Array:
    """Return `x` plus entries at their positions along an axis."""
    return np.asarray(x + take_add(v, indices, axis=axis, size=x.shape[axis]))


def take_set(x: Array, v: Array, indices: Array, *, axis: int) -> Array:
    """Return a copy of `x` with entries along an axis replaced; the last duplicate wins."""
    result = np.array(x)
    # NumPy documents that assignment processes repeated indices in order.
    result[(*(slice(None),) * axis, indices)] = v
    return result


def take_last(t: Array, indices: Array, *, axis: int) -> Array:
    """Like `take`, with zeros for all but the last duplicate of an index."""
    taken = take(t, indices, axis=axis)
    keep = _is_last(np.asarray(indices), t.shape[axis])
    if keep.all():
        return taken
    keep = keep.reshape(*keep.shape, *[1] * (t.ndim - axis - 1))
    return np.where(keep, taken, np.zeros((), t.dtype))


def _is_last(indices: Array, size: int) -> Array:
    flat = indices.reshape(-1)
    order = np.arange(flat.size)
    last = np.empty(size, np.int64)
    last[flat] = order
    return (last[flat] == order).reshape(indices.shape)


def take_extreme(x: Array, v: Array, indices: Array, *, largest: bool) -> Array:
    """Return `x` with rows replaced by their maximum (or minimum) with those of `v`."""
    result = np.array(x)
    (np.maximum if largest else np.minimum).at(result, indices, v)
    return result


def extreme_shares(x: Array, v: Array, indices: Array, y: Array) -> tuple[Array, Array]:
    """Return the fractions of each result's gradient for `x` and `v`; ties share it equally."""
    wins = v == y[indices]
    own = (x == y).astype(x.dtype)
    count = own + take_add(wins.astype(x.dtype), indices, axis=0, size=x.shape[0])
    share = 1 / np.maximum(count, 1)
    return (own * share).astype(x.dtype), (wins * share[indices]).astype(x.dtype)


def one_hot(
    indices: Array, *, depth: int, on: Any, off: Any, axis: int, dtype: np.dtype[Any]
) -> Array:
    """Return `off` with `on` at each index along a new axis; ignore indices out of range."""
    indices = np.asarray(indices)
    flat = indices.reshape(-1)
    rows = np.full((flat.size, depth), off, dtype)
    valid = (flat >= 0) & (flat < depth)
    rows[np.flatnonzero(valid), flat[valid]] = on
    return np.moveaxis(rows.reshape(*indices.shape, depth), -1, axis)


KERNELS = {
    **by_name(
        added_rows,
        linear_index,
        take,
        take_add,
        take_set,
        take_last,
        take_extreme,
        extreme_shares,
        one_hot,
    ),
    "gather_rows": lambda x, indices: take(x, indices, axis=0),
}
