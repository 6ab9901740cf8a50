"""Clipping gradients by value, by norm and by global norm."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from tapegrad.core.backend import backend_of
from tapegrad.core.convert import NUMBERS
from tapegrad.core.indexed_slices import IndexedSlices
from tapegrad.core.operand import as_operand
from tapegrad.core.recovery import run_again
from tapegrad.core.tensor import Tensor, wrap
from tapegrad.errors import ArgumentTypeError
from tapegrad.ops.cast import cast_like
from tapegrad.ops.comparison import isfinite
from tapegrad.ops.creation import constant
from tapegrad.ops.kinds import kind_of
from tapegrad.ops.linalg.norms import global_norm
from tapegrad.ops.rows import merged
from tapegrad.ops.selection import clip_by_value, maximum, where
from tapegrad.ops.squares import euclidean_norm

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
    together = _clipped_together(t_list, clip_norm) if use_norm is None else None
    if together is not None:
        return together
    norm = global_norm(t_list) if use_norm is None else as_operand(use_norm)
    limit = clip_norm if type(clip_norm) in NUMBERS else as_operand(clip_norm)
    factor = where(isfinite(norm), _factor(norm, limit), float("nan"))
    return [_scaled(t, factor) for t in t_list], norm


def _clipped_together(t_list: Sequence[Any], limit: Any) -> tuple[list[Any], Any] | None:
    """Clip by the backend's kernel for all tensors at once.

    None says that there is none for these tensors, or that somebody follows one of them.
    """
    values = [t.values if type(t) is IndexedSlices else t for t in t_list if t is not None]
    if not isinstance(limit, int | float) or any(
        [type(t) is not Tensor or t.node is not None for t in values]
    ):
        return None
    kind = type(values[0].array)
    kernel = backend_of(values[0].array).kernels.get("clip.group")
    if kernel is None or any([type(t.array) is not kind for t in values]):
        return None
    given = [t for t in t_list if t is not None]
    parts: list[Any] = [merged(t) if type(t) is IndexedSlices else t for t in given]
    arrays = [t.values.array if type(t) is IndexedSlices else t.array for t in parts]
    clip = partial(kernel, arrays, float(limit))
    try:
        found = clip()
    except MemoryError as error:
        found = run_again("clip_by_global_norm", arrays, clip, error)
    if found is None:
        return None
    scaled = map(_with_values, parts, found[0])
    return [None if t is None else next(scaled) for t in t_list], wrap(found[1])


def _with_values(t: Any, array: Any) -> Any:
    if type(t) is not IndexedSlices:
        return wrap(array)
    return IndexedSlices(wrap(array), t.indices, t.dense_shape)


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
