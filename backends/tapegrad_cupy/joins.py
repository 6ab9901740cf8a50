"""Arrays joined along an axis, all copies in one launch where their parts lie in one piece."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import cupy

from tapegrad_cupy.multi_copies import copy_many

Array = Any


def concat(*arrays: Array, axis: int, sizes: tuple[int, ...]) -> Array:
    """Return the arrays joined along an axis."""
    first = arrays[0]
    dtype = first.dtype
    if any(array.dtype != dtype for array in arrays):
        return cupy.concatenate(arrays, axis=axis)
    shape = list(first.shape)
    shape[axis] = sum(sizes)
    result = cupy.ndarray(tuple(shape), dtype)
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


KERNELS: dict[str, Callable[..., Any]] = {"concat": concat, "stack": stack}
