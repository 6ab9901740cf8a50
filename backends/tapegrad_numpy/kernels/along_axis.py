"""Gather along an axis, and its transpose: scatter-add at repeated positions."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tapegrad.core.backend.registry import by_name
from tapegrad.core.primitive.index_check import refuse_out_of_range
from tapegrad_numpy.kernels.half import accumulator

Array = Any


def add_at(places: Array, values: Array, size: int) -> Array:
    """Return a flat array of `size` zeros with `values` added at `places` (both flat).

    NumPy's `add.at` is fast only for one flat index of type intp.
    """
    wide = accumulator(values.dtype)
    total = np.zeros(size, wide)
    np.add.at(total, places.astype(np.intp, copy=False), values.astype(wide, copy=False))
    return total.astype(values.dtype, copy=False)


def take_along_axis(x: Array, indices: Array, *, axis: int, unique: bool) -> Array:
    x, indices = np.asarray(x), np.asarray(indices)
    try:
        return np.take_along_axis(x, indices, axis=axis)
    except IndexError:
        refuse_out_of_range("take_along_axis", indices, x.shape[axis], axis)
        raise


def scatter_along_axis(t: Array, indices: Array, *, axis: int, length: int, unique: bool) -> Array:
    shape = (*t.shape[:axis], length, *t.shape[axis + 1 :])
    size = math.prod(shape)
    if unique:
        result = np.zeros(size, t.dtype)
        result[_places(indices, axis, shape)] = t.reshape(-1)
        return result.reshape(shape)
    indices = np.where(indices < 0, indices + length, indices)
    if indices.size and not (indices.min() >= 0 and indices.max() < length):
        raise ValueError(f"an index lies outside the axis of length {length}")
    return add_at(_places(indices, axis, shape), t.reshape(-1), size).reshape(shape)


def _places(indices: Array, axis: int, shape: tuple[int, ...]) -> Array:
    """Return the flat position in an array of `shape` to which each index points."""
    before, after = math.prod(shape[:axis]), math.prod(shape[axis + 1 :])
    places = indices.reshape(before, indices.shape[axis], after)
    if after > 1:
        places = places * after + np.arange(after)
    return (places + np.arange(before).reshape(-1, 1, 1) * (shape[axis] * after)).reshape(-1)


KERNELS = by_name(take_along_axis, scatter_along_axis)
