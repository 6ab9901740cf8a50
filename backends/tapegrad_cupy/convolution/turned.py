"""Filters in cuDNN's order: all that belongs to one output channel lies together.

Such filters are arrays of the usual shape whose last axis is the first one in memory. Casts of many
weights make them so, and gradients in half precision stay so until they are cast. Other filters are
turned for each convolution.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import cupy

from tapegrad_cupy.convolution.patches import transposer

Array = Any
Shape = tuple[int, ...]

_current_device = cupy.cuda.runtime.getDevice


@functools.cache
def strides_of(shape: Shape, itemsize: int) -> Shape:
    """Return the strides of filters of this shape in cuDNN's order."""
    strides = [math.prod(shape[axis + 1 : -1]) * itemsize for axis in range(len(shape) - 1)]
    return (*strides, math.prod(shape[:-1]) * itemsize)


def is_turned(w: Array) -> bool:
    """Whether an array lies as filters do for cuDNN, from a 16-byte boundary."""
    shape = w.shape
    is_like_filters = len(shape) > 2 and 0 not in shape and not w.data.ptr & 15
    return is_like_filters and w.strides == strides_of(shape, w.dtype.itemsize)


def as_filters(matrix: Array, shape: Shape) -> Array:
    """Return what cuDNN wrote, a row for each output channel, as filters of the usual shape."""
    dtype = matrix.dtype
    return cupy.ndarray(shape, dtype, matrix.data, strides_of(shape, dtype.itemsize))


def in_order(w: Array) -> Array:
    """Return filters in the usual order, as they are or transposed."""
    if w._c_contiguous:
        return w
    return _restore(_current_device(), w.shape, w.dtype.itemsize)(w)


@functools.cache
def _restore(device: int, shape: Shape, itemsize: int) -> Callable[[Array], Array]:
    return transposer(itemsize, shape[-1], math.prod(shape[:-1]), shape)
