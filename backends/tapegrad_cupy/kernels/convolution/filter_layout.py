"""Filters in cuDNN's memory order, in which all weights of one output channel are contiguous.

Such filters are arrays of the usual shape whose last axis comes first in memory. Casts of many
weights produce this order, and gradients in half precision keep it until they are cast. Other
filters are transposed for each convolution.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import cupy

from tapegrad_cupy.kernels.convolution.patches import transposer

Array = Any
Shape = tuple[int, ...]

_current_device = cupy.cuda.runtime.getDevice


@functools.cache
def cudnn_strides(shape: Shape, itemsize: int) -> Shape:
    """Return the strides of filters of this shape in cuDNN's order."""
    strides = [math.prod(shape[axis + 1 : -1]) * itemsize for axis in range(len(shape) - 1)]
    return (*strides, math.prod(shape[:-1]) * itemsize)


def is_cudnn_order(w: Array) -> bool:
    """Return whether an array has the strides of filters in cuDNN's order, aligned to 16 bytes."""
    shape = w.shape
    is_like_filters = len(shape) > 2 and 0 not in shape and not w.data.ptr & 15
    return is_like_filters and w.strides == cudnn_strides(shape, w.dtype.itemsize)


def as_filters(matrix: Array, shape: Shape) -> Array:
    """Return a matrix that cuDNN wrote, one row per output channel, as filters of this shape."""
    dtype = matrix.dtype
    return cupy.ndarray(shape, dtype, matrix.data, cudnn_strides(shape, dtype.itemsize))


def to_row_major(w: Array) -> Array:
    """Return filters in row-major order, transposed if they are in cuDNN's order."""
    if w._c_contiguous:
        return w
    return _restore(_current_device(), w.shape, w.dtype.itemsize)(w)


@functools.cache
def _restore(device: int, shape: Shape, itemsize: int) -> Callable[[Array], Array]:
    return transposer(itemsize, shape[-1], math.prod(shape[:-1]), shape)
