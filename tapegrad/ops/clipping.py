"""Clipping gradients by value, by norm and by global norm."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tapegrad.core.indexed_slices import IndexedSlices
from tapegrad.core.operand import as_operand, normalize_axes
from tapegrad.errors import ArgumentTypeError
from tapegrad.ops import arithmetic, reduction
from tapegrad.ops.comparison import isfinite
from tapegrad.ops.linalg.norms import global_norm
from tapegrad.ops.powers import sqrt
from tapegrad.ops.selection import clip_by_value, maximum, where

__all__ = ["clip_by_global_norm", "clip_by_norm", "clip_by_value"]


def clip_by_norm(t: Any, clip_norm: Any, axes: Any = None, name: str | None = None) -> Any:
    """Scale `t` down so that its norm (over `axes`) is at most `clip_norm`.

    A negative limit counts as 0; zero vectors and infinite limits are safe.

    >>> import tapegrad
    >>> clip_by_norm(tapegrad.constant([3.0, 4.0]), 1.0).numpy().round(3).tolist()
    [0.6, 0.8]
    """
    if isinstance(t, IndexedSlices):
        return IndexedSlices(clip_by_norm(t.values, clip_norm, axes), t.indices, t.dense_shape)
    t = as_operand(t)
    over = normalize_axes(axes, len(t.shape), "clip_by_norm")
    square = reduction.sum(t * t, axis=over, keepdims=True)
    positive = square > 0.0
    norm = where(positive, sqrt(where(positive, square, 1.0)), 0.0)
    limit = maximum(as_operand(clip_norm), 0.0)
    # Where nothing is clipped the factor is exactly 1, also for an infinite limit.
    clipped = norm > limit
    return t * (where(clipped, limit, 1.0) / where(clipped, norm, 1.0))


def clip_by_global_norm(
    t_list: Sequence[Any], clip_norm: Any, use_norm: Any = None, name: str | None = None
) -> tuple[list[Any], Any]:
    """Scale all tensors by one factor so that their global norm is at most `clip_norm`.

    Returns the list (None entries stay None) and the global norm before clipping. A norm that is
    not finite makes everything NaN, so that it cannot pass unnoticed.

    >>> import tapegrad
    >>> clipped, norm = clip_by_global_norm([tapegrad.constant([3.0]), tapegrad.constant([4.0])], 1.0)
    >>> float(norm), round(float(clipped[1][0]), 3)
    (5.0, 0.8)
    """
    _check_list(t_list)
    norm = global_norm(t_list) if use_norm is None else as_operand(use_norm)
    if norm is None:
        return list(t_list), None
    limit = as_operand(clip_norm)
    shrinks = norm > limit
    factor = where(shrinks, limit / where(shrinks, norm, 1.0), 1.0)
    factor = where(isfinite(norm), factor, float("nan"))
    return [_scaled(t, factor) for t in t_list], norm


def _scaled(t: Any, factor: Any) -> Any:
    if t is None:
        return None
    if isinstance(t, IndexedSlices):
        return IndexedSlices(_scaled(t.values, factor), t.indices, t.dense_shape)
    return arithmetic.multiply(as_operand(t), factor)


def _check_list(t_list: Any) -> None:
    if not isinstance(t_list, list | tuple):
        raise ArgumentTypeError(
            f"Expected a list of tensors. Got {type(t_list).__name__}; wrap one tensor as [t]."
        )
