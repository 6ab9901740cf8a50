"""What every reduction needs to say about its axes."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from tapegrad.core.primitive import Primitive
from tapegrad.ops.basic import reshape_p

Axes = tuple[int, ...]


def kept_shape(shape: tuple[int, ...], axis: Axes) -> tuple[int, ...]:
    """Return the shape with the axes that are reduced at length 1."""
    return tuple(1 if i in axis else n for i, n in enumerate(shape))


def count_over(shape: tuple[int, ...], axis: Axes) -> int:
    """Return how many elements each result of a reduction over `axis` is made of."""
    return math.prod(shape[a] for a in axis)


def spread(value: Any, shape: tuple[int, ...], axis: Axes, keepdims: bool) -> Any:
    """Give a reduced value its axes back, so that it broadcasts against what was reduced."""
    return value if keepdims else reshape_p(value, shape=kept_shape(shape, axis))


def batch_over_axes(primitive: Primitive) -> Callable[..., Any]:
    """Return the batching rule of a reduction: the same over axes one further on."""

    def rule(size: int, batched: Any, x: Any, *, axis: Axes, keepdims: bool) -> Any:
        return primitive(x, axis=tuple(a + 1 for a in axis), keepdims=keepdims)

    return rule
