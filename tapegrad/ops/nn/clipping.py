"""Clipping gradients by value, by norm and by global norm."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tapegrad.core.primitive.operand import as_operand
from tapegrad.core.values.convert import NUMBERS
from tapegrad.core.values.indexed_slices import IndexedSlices
from tapegrad.errors import ArgumentTypeError
from tapegrad.ops.casting.cast import cast_like
from tapegrad.ops.creation import constant
from tapegrad.ops.elementwise.comparison import isfinite
from tapegrad.ops.elementwise.selection import clip_by_value, maximum, where
from tapegrad.ops.indexing.sparse_rows import merged
from tapegrad.ops.kinds import kind_of
from tapegrad.ops.linalg.norms import global_norm
from tapegrad.ops.nn.clipping_hook import clip_grouped
from tapegrad.ops.reduction.squares import euclidean_norm

__all__ = ["clip_by_global_norm", "clip_by_norm", "clip_by_value"]


def clip_by_norm(t: Any, clip_norm: Any, axes: Any = None, name: str | None = None) -> Any:
    """Scale `t` down so that its norm (over `axes`) is at most `clip_norm`.

    A negative limit counts as 0; zero vectors and infinite limits are safe. Repeated rows of an
    IndexedSlices are added up first, so that the norm is that of the tensor it stands for.

    >>> clip_by_norm([3.0, 4.0], 2.5).tolist()
    [1.5, 2.0]
    """
    if isinstance(t, IndexedSlices):
        t = merged(t)
        values = clip_by_norm(t.values, clip_norm, axes)
        return IndexedSlices(values, t.indices, t.dense_shape)
    t = as_operand(t)
    norm = euclidean_norm(t, axes, keepdims=True)
    if type(clip_norm) in NUMBERS:
        limit: Any = max(float(clip_norm), 0.0)
    else:
        limit = maximum(as_operand(clip_norm), 0.0)
    return t * _factor(norm, limit)


def clip_by_global_norm(
    t_list: Sequence[Any], clip_norm: Any, use_norm: Any = None, name: str | None = None
) -> tuple[list[Any], Any]:
    """Scale all tensors by one factor so that their global norm is at most `clip_norm`.

    Returns the list (None entries stay None) and the global norm before clipping. A norm that is
    not finite makes everything NaN, so that it cannot pass unnoticed.

    >>> gradients = [[3.0], None, [4.0]]
    >>> clipped, norm = clip_by_global_norm(gradients, 2.5)
    >>> clipped[0].numpy(), clipped[1], float(norm)
    (array([1.5], dtype=float32), None, 5.0)
    """
    if not isinstance(t_list, list | tuple):
        raise ArgumentTypeError(
            f"clip_by_global_norm expects a list of tensors. Got {type(t_list).__name__}; "
            "wrap one tensor as [t]."
        )
    if all(t is None for t in t_list):
        return list(t_list), constant(0.0)
    together = clip_grouped(t_list, clip_norm) if use_norm is None else None
    if together is not None:
        return together
    norm = global_norm(t_list) if use_norm is None else as_operand(use_norm)
    limit = clip_norm if type(clip_norm) in NUMBERS else as_operand(clip_norm)
    factor = where(isfinite(norm), _factor(norm, limit), float("nan"))
    return [_scaled(t, factor) for t in t_list], norm


def _factor(norm: Any, limit: Any) -> Any:
    """limit / norm where the norm is larger or NaN; else exactly 1, also for infinite limits."""
    fits = norm <= limit
    divisor = where(fits, 1.0, norm)
    return where(fits, divisor, limit) / divisor


def _scaled(t: Any, factor: Any) -> Any:
    if t is None:
        return None
    if isinstance(t, IndexedSlices):
        return IndexedSlices(_scaled(t.values, factor), t.indices, t.dense_shape)
    t = as_operand(t)
    return t * (factor if kind_of(t) == "c" else cast_like(factor, t.dtype))
