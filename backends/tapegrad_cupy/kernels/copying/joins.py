"""Concatenate, stack and unstack arrays, in one launch if the parts are contiguous."""

from __future__ import annotations

from typing import Any

import cupy

from tapegrad.core.backend.registry import by_name
from tapegrad.core.primitive.shape_words import unfit_join
from tapegrad_cupy.kernels.copying.multi_copies import copy_many
from tapegrad_cupy.runtime.array_limits import check_dimensions

Array = Any
_ndarray = cupy.ndarray


def concat(*arrays: Array, axis: int, sizes: tuple[int, ...]) -> Array:
    """Return the arrays joined along an axis."""
    first = arrays[0]
    dtype, before, after = first.dtype, first.shape[:axis], first.shape[axis + 1 :]
    for array in arrays:
        shape = array.shape
        if shape[:axis] != before or shape[axis + 1 :] != after:
            raise unfit_join([array.shape for array in arrays], axis)
    if any(array.dtype != dtype for array in arrays):
        return cupy.concatenate(arrays, axis=axis)
    result = cupy.ndarray((*before, sum(sizes), *after), dtype)
    place, step = result.data, result.strides[axis]
    targets = []
    for array in arrays:
        targets.append(cupy.ndarray(array.shape, dtype, place, result.strides))
        place = place + array.shape[axis] * step
    copy_many(targets, arrays)
    return result


def stack(*arrays: Array, axis: int) -> Array:
    """Return the arrays joined along a new axis."""
    first = arrays[0]
    dtype, shape = first.dtype, first.shape
    check_dimensions((*shape, len(arrays)))
    if any(array.dtype != dtype or array.shape != shape for array in arrays):
        return cupy.stack(arrays, axis=axis)
    result = cupy.ndarray((*shape[:axis], len(arrays), *shape[axis:]), dtype)
    place, step = result.data, result.strides[axis]
    strides = (*result.strides[:axis], *result.strides[axis + 1 :])
    targets = []
    for _ in arrays:
        targets.append(cupy.ndarray(shape, dtype, place, strides))
        place = place + step
    copy_many(targets, arrays)
    return result


def unstack(x: Array, *, axis: int) -> tuple[Array, ...]:
    """Return views of the parts along an axis, without this axis."""
    shape, strides, dtype, place = x.shape, x.strides, x.dtype, x.data
    # An empty array may have a null pointer, to which CuPy adds no offset.
    part, step = shape[:axis] + shape[axis + 1 :], strides[axis] if x.size else 0
    rest = strides[:axis] + strides[axis + 1 :]
    return tuple([_ndarray(part, dtype, place + k * step, rest) for k in range(shape[axis])])


KERNELS = by_name(concat, stack, unstack)
