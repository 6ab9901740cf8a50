"""Helpers for the axes of reductions: kept shapes, element counts, batching rules."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from tapegrad.core.primitive.primitive import Primitive
from tapegrad.ops.elementwise.arithmetic import divide
from tapegrad.ops.elementwise.no_nan import multiply_no_nan
from tapegrad.ops.shape.primitives import reshape_p

_LARGEST_HALF = 65504
Axes = tuple[int, ...]


def kept_shape(shape: tuple[int, ...], axis: Axes) -> tuple[int, ...]:
    """Return the shape in which the reduced axes have length 1."""
    return tuple(1 if i in axis else n for i, n in enumerate(shape))


def count_over(shape: tuple[int, ...], axis: Axes) -> int:
    """Return the number of elements that a reduction over `axis` combines."""
    return math.prod(shape[a] for a in axis)


def divide_by_count(x: Any, count: int) -> Any:
    """Return x / count, also if the count is too large for the dtype of `x`.

    The largest float16 is 65504. Larger counts are divided by in two steps, of which the second is
    a power of two.
    """
    if count <= _LARGEST_HALF or x.dtype != "float16":
        return divide(x, count)
    power = 2.0 ** (count.bit_length() // 2)
    return divide(divide(x, count / power), power)


def spread(value: Any, shape: tuple[int, ...], axis: Axes, keepdims: bool) -> Any:
    """Restore the reduced axes with length 1, so that `value` broadcasts against the operand."""
    return value if keepdims else reshape_p(value, shape=kept_shape(shape, axis))


def spread_times(t: Any, slope: Any, axis: Axes, keepdims: bool) -> Any:
    """Return a cotangent times the slopes of all elements; 0 where t is 0, even if a slope is NaN.

    Slopes have the shape of the operand.
    """
    wide = spread(t, slope.shape, axis, keepdims)
    if isinstance(t, np.ndarray | np.generic) and np.count_nonzero(t) == t.size:
        return wide * slope
    return multiply_no_nan(slope, wide)


def batch_over_axes(primitive: Primitive) -> Callable[..., Any]:
    """Return the batching rule of a reduction: the same reduction with all axes shifted by one."""

    def rule(size: int, batched: Any, x: Any, *, axis: Axes, keepdims: bool) -> Any:
        return primitive(x, axis=tuple(a + 1 for a in axis), keepdims=keepdims)

    return rule
