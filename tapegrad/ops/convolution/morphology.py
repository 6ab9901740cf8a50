"""Grayscale dilation and erosion: convolutions with maxima in the place of sums."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tapegrad.core.argument_checks import check_wholes
from tapegrad.core.primitive.operand import common_operands
from tapegrad.errors import ArgumentError, DTypeError, ShapeError
from tapegrad.ops.indexing.primitives import slice_p
from tapegrad.ops.kinds import kind_of
from tapegrad.ops.reduction.primitives import max as largest
from tapegrad.ops.shape.joining import stack
from tapegrad.ops.shape.padding import pad
from tapegrad.ops.shape.rearranging import flip


def dilation2d(
    input: Any,  # TensorFlow's name
    filters: Any,
    strides: Sequence[int],
    padding: str,
    data_format: str,
    dilations: Sequence[int],
    name: str | None = None,
) -> Any:
    """Return the largest sums of a window of an image and the filter, for each channel.

    The image has the shape [batch, height, width, channels], and `filters` has the last three.

    >>> image = [[[[1.0], [5.0], [2.0]]]]
    >>> dilation2d(image, [[[0.0], [0.0]]], [1] * 4, "VALID", "NHWC", [1] * 4).tolist()
    [[[[5.0], [5.0]]]]
    """
    return _dilate("dilation2d", input, filters, strides, padding, data_format, dilations)


def erosion2d(
    value: Any,
    filters: Any,
    strides: Sequence[int],
    padding: str,
    data_format: str,
    dilations: Sequence[int],
    name: str | None = None,
) -> Any:
    """Return the smallest differences of a window of an image and the filter, for each channel.

    >>> image = [[[[1.0], [5.0], [2.0]]]]
    >>> erosion2d(image, [[[0.0], [0.0]]], [1] * 4, "VALID", "NHWC", [1] * 4).tolist()
    [[[[1.0], [2.0]]]]
    """
    x, kernel = common_operands(value, filters)
    if len(kernel.shape) == 3:
        kernel = flip(kernel, axis=(0, 1))
    return -_dilate("erosion2d", -x, kernel, strides, padding, data_format, dilations)


def _dilate(
    name: str, value: Any, filters: Any, strides: Any, padding: Any, data_format: Any, rates: Any
) -> Any:
    x, kernel = common_operands(value, filters)
    if len(x.shape) != 4 or len(kernel.shape) != 3 or x.shape[-1] != kernel.shape[-1]:
        raise ShapeError(
            f"{name} needs an image [batch, height, width, channels] and filters "
            f"[height, width, channels]. Got shapes {tuple(x.shape)} and {tuple(kernel.shape)}."
        )
    if kind_of(x) not in "fiu":
        raise DTypeError(f"{name} needs real numbers. Got dtype {x.dtype}.")
    if data_format != "NHWC" or padding not in ("SAME", "VALID"):
        raise ArgumentError(
            f"{name} takes data_format='NHWC', and padding='SAME' or 'VALID'. "
            f"Got {data_format!r} and {padding!r}."
        )
    steps, rates = _inner(name, "strides", strides), _inner(name, "dilations", rates)
    counts, pairs = [], [(0, 0)]
    for axis in (0, 1):
        extent = (kernel.shape[axis] - 1) * rates[axis] + 1
        count, pair = _windows(x.shape[1 + axis], extent, steps[axis], padding == "SAME")
        counts.append(count)
        pairs.append(pair)
    if min(*counts, *kernel.shape[:2]) < 1:
        raise ShapeError(
            f"{name} needs an image at least as large as the filters. Got shapes "
            f"{tuple(x.shape)} and {tuple(kernel.shape)}."
        )
    x = pad(x, [*pairs, (0, 0)], "CONSTANT", _least(x))
    parts = [
        _window(x, (i * rates[0], j * rates[1]), steps, counts) + kernel[i, j]
        for i in range(kernel.shape[0])
        for j in range(kernel.shape[1])
    ]
    return largest(stack(parts, 0), axis=0)


def _inner(name: str, argument: str, sizes: Any) -> tuple[int, int]:
    """Return the numbers of the two inner axes of [1, height, width, 1]."""
    found = check_wholes(argument, sizes, name)
    if len(found) != 4 or found[0] != 1 or found[3] != 1 or min(found) < 1:
        raise ArgumentError(f"{name} needs {argument} of the form [1, m, n, 1]. Got {sizes!r}.")
    return found[1], found[2]


def _windows(length: int, extent: int, step: int, same: bool) -> tuple[int, tuple[int, int]]:
    """Return the number of windows along an axis, and its padding."""
    if not same:
        return (length - extent) // step + 1, (0, 0)
    count = -(-length // step)
    missing = max((count - 1) * step + extent - length, 0)
    return count, (missing // 2, missing - missing // 2)


def _window(x: Any, start: tuple[int, int], steps: Any, counts: Any) -> Any:
    parts = [
        slice(first, first + (count - 1) * step + 1, step)
        for first, step, count in zip(start, steps, counts, strict=True)
    ]
    return slice_p(x, index=(slice(None), *parts, slice(None)))


def _least(x: Any) -> Any:
    return -np.inf if kind_of(x) == "f" else int(np.iinfo(str(x.dtype.name)).min)
