"""Activations along an axis: softmax, log_softmax, sparsemax."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from tapegrad.core.primitive.operand import as_operand, normalize_axes, normalize_axis
from tapegrad.ops.control.stop_gradient import stop_gradient
from tapegrad.ops.creation import ones_like
from tapegrad.ops.elementwise.selection import keep
from tapegrad.ops.indexing.sorting import sort
from tapegrad.ops.nn import softmax as ops
from tapegrad.ops.reduction.cumulative import cumsum
from tapegrad.ops.reduction.functions import reduce_max, reduce_sum
from tapegrad.ops.shape.functions import moveaxis, reshape

Axis = int | Sequence[int]


def softmax(x: Any, axis: Axis = -1) -> Any:
    """Return exp(x) divided by its sum along an axis, or along several together.

    >>> softmax([[1.0, 1.0], [1.0, 1.0]], axis=[0, 1]).tolist()
    [[0.25, 0.25], [0.25, 0.25]]
    """
    return _along(ops.softmax, x, axis)


def log_softmax(x: Any, axis: Axis = -1) -> Any:
    """Return the logarithm of softmax, accurate also where softmax underflows.

    >>> log_softmax([0.0, 1000.0]).tolist()
    [-1000.0, 0.0]
    """
    return _along(ops.log_softmax, x, axis)


def _along(function: Callable[..., Any], x: Any, axis: Axis) -> Any:
    """Apply a function along one axis; several axes are merged into one first."""
    x = as_operand(x)
    if not isinstance(axis, list | tuple):
        return function(x, axis)
    axes = normalize_axes(axis, len(x.shape), function.__name__)
    last = tuple(range(-len(axes), 0))
    moved = moveaxis(x, axes, last)
    kept = len(x.shape) - len(axes)
    flat = reshape(moved, (math.prod(moved.shape[:kept]), math.prod(moved.shape[kept:])))
    return moveaxis(reshape(function(flat), moved.shape), last, axes)


def sparsemax(x: Any, axis: int = -1) -> Any:
    """Return the Euclidean projection of x onto probabilities, which is sparse unlike softmax.

    >>> sparsemax([1.0, 0.5, -3.0]).tolist()
    [0.75, 0.25, 0.0]
    """
    x = as_operand(x)
    axis = normalize_axis(axis, len(x.shape), "sparsemax")
    # A common shift does not change the result, but avoids cancellation in the sums.
    x = x - stop_gradient(reduce_max(x, axis, keepdims=True))
    above = x > _sparsemax_level(stop_gradient(x), axis)
    count = reduce_sum(keep(ones_like(x), above), axis, keepdims=True)
    level = (reduce_sum(keep(x, above), axis, keepdims=True) - 1) / count
    return keep(x - level, above)


def _sparsemax_level(x: Any, axis: int) -> Any:
    """Return the level t at which max(x - t, 0) sums to 1, for x with maximum 0.

    For the k largest elements it is (sum - 1) / k; k is the largest number for which all of them
    are above that level.
    """
    ordered = sort(x, axis, "DESCENDING")
    ranks = cumsum(ones_like(ordered), axis)
    is_above = ordered * ranks + 1 > cumsum(ordered, axis)
    count = reduce_sum(keep(ones_like(ordered), is_above), axis, keepdims=True)
    return (reduce_sum(keep(ordered, is_above), axis, keepdims=True) - 1) / count
