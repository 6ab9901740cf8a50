"""Sorting: descending order by reversal, top-k by partition."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tapegrad.core.backend.registry import by_name

Array = Any


def sort(x: Array, *, axis: int, descending: bool) -> Array:
    # As np.sort, which takes as long again before it sorts 100 numbers.
    y = x.copy(order="K")
    y.sort(axis=axis)
    return np.flip(y, axis) if descending else y


def argsort(x: Array, *, axis: int, descending: bool, stable: bool) -> Array:
    kind: Any = "stable" if stable else None
    if not descending:
        return np.argsort(x, axis=axis, kind=kind)
    # Reversing before and after keeps the order of ties.
    order = np.argsort(np.flip(x, axis), axis=axis, kind=kind)
    return x.shape[axis] - 1 - np.flip(order, axis)


def top_k(x: Array, *, k: int) -> tuple[Array, Array]:
    count = x.shape[-1]
    if k == 1 and x.dtype.kind in "biu":
        index = np.argmax(x, axis=-1, keepdims=True)
    elif 0 < 8 * k < count:
        index = _largest(x.reshape(-1, count), k).reshape(*x.shape[:-1], k)
    else:
        index = argsort(x, axis=-1, descending=True, stable=True)[..., :k]
    return np.take_along_axis(x, index, axis=-1), index


def _largest(rows: Array, k: int) -> Array:
    """Return the indices of the k largest entries of each row, ties by index."""
    count = rows.shape[1]
    chosen = np.argpartition(rows, count - k, axis=1)[:, count - k :]
    border = np.take_along_axis(rows, chosen[:, :1], axis=1)
    picked = np.take_along_axis(rows, chosen, axis=1)
    at_border = np.count_nonzero(rows == border, axis=1)
    # A partition takes any of the ties at the border, but the first must win.
    unclear = at_border != np.count_nonzero(picked == border, axis=1)
    if unclear.any():
        order = argsort(rows[unclear], axis=1, descending=True, stable=True)
        chosen[unclear] = order[:, :k]
    chosen.sort(axis=1)
    picked = np.take_along_axis(rows, chosen, axis=1)
    order = argsort(picked, axis=1, descending=True, stable=True)
    return np.take_along_axis(chosen, order, axis=1)


def searchsorted(sequence: Array, values: Array, *, right: bool) -> Array:
    side: Any = "right" if right else "left"
    if sequence.ndim == 1:
        return np.searchsorted(sequence, values, side=side)
    rows = sequence.reshape(math.prod(sequence.shape[:-1]), sequence.shape[-1])
    found = np.empty(values.shape, np.intp)
    sought, places = values.reshape(len(rows), -1), found.reshape(len(rows), -1)
    for row, value, place in zip(rows, sought, places):
        place[...] = np.searchsorted(row, value, side=side)
    return found


def unique(x: Array) -> tuple[Array, Array, Array]:
    """Return, in order of appearance, the first positions, the inverse indices and the counts."""
    _, first, inverse, counts = np.unique(
        x, return_index=True, return_inverse=True, return_counts=True
    )
    order = np.argsort(first, kind="stable")
    rank = np.empty_like(order)
    rank[order] = np.arange(order.size)
    return first[order], rank[inverse.reshape(-1)], counts[order]


KERNELS = by_name(sort, argsort, top_k, searchsorted, unique)
