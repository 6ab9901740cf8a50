"""Piecewise activations: ReLU, its variants, and hard versions of smooth functions."""

from __future__ import annotations

from typing import Any

from tapegrad.core.primitive.operand import as_operand
from tapegrad.ops.elementwise import activations as ops
from tapegrad.ops.elementwise.selection import clip, where


def relu(
    x: Any, negative_slope: float = 0.0, max_value: float | None = None, threshold: float = 0.0
) -> Any:
    """Return x above `threshold`, at most `max_value`; below, `negative_slope * (x - threshold)`.

    >>> relu([-4.0, 2.0, 9.0], negative_slope=0.5, max_value=6.0).tolist()
    [-2.0, 2.0, 6.0]
    """
    if not threshold and not negative_slope and max_value is None:
        return ops.relu(x)
    x = as_operand(x)
    if not threshold and not negative_slope:
        return ops.relu6(x) if max_value == 6 else clip(ops.relu(x), None, max_value)
    if not threshold and max_value is None:
        return ops.leaky_relu(x, negative_slope)
    top = x if max_value is None else clip(x, None, max_value)
    # A literal 0 without a slope, because 0 times infinity is NaN.
    return where(x > threshold, top, negative_slope * (x - threshold) if negative_slope else 0.0)


def relu6(x: Any) -> Any:
    """Return x limited to the interval from 0 to 6.

    >>> relu6([-4.0, 2.0, 9.0]).tolist()
    [0.0, 2.0, 6.0]
    """
    return ops.relu6(x)


def leaky_relu(x: Any, negative_slope: float = 0.2) -> Any:
    """Return x where it is positive and `negative_slope * x` elsewhere.

    >>> leaky_relu([-4.0, 2.0], negative_slope=0.5).tolist()
    [-2.0, 2.0]
    """
    return ops.leaky_relu(x, negative_slope)


def hard_silu(x: Any) -> Any:
    """Return x * hard_sigmoid(x), also called hard swish.

    >>> hard_silu([0.0, 3.0]).tolist()
    [0.0, 3.0]
    """
    return ops.hard_swish(x)


def sparse_plus(x: Any) -> Any:
    """Return 0 for x <= -1, x for x >= 1, and (x + 1)² / 4 between them.

    >>> sparse_plus([-2.0, 0.0, 3.0]).tolist()
    [0.0, 0.25, 3.0]
    """
    return ops.sparse_plus(x)


def sparse_sigmoid(x: Any) -> Any:
    """Return 0 for x <= -1, 1 for x >= 1, and (x + 1) / 2 between them.

    >>> sparse_sigmoid([-2.0, 0.0, 3.0]).tolist()
    [0.0, 0.5, 1.0]
    """
    return (clip(x, -1, 1) + 1) * 0.5
