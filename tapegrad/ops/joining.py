"""Joining tensors along an axis, and taking them apart again."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tapegrad.core.operand import as_operand, normalize_axis
from tapegrad.core.primitive import Primitive
from tapegrad.errors import ArgumentError
from tapegrad.ops.basic import broadcast_p, reshape_p
from tapegrad.ops.creation import zeros_for
from tapegrad.ops.slicing import expand_ellipsis, slice_p

concat_p = Primitive("concat", lambda xp, *arrays, axis, sizes: xp.concat(arrays, axis=axis))


@concat_p.vjp
def _concat_vjp(
    t: Any, *, axis: int, sizes: tuple[int, ...], needs: tuple[bool, ...]
) -> list[Any]:
    parts, start = [], 0
    for size, needed in zip(sizes, needs, strict=True):
        index = (slice(None),) * axis + (slice(start, start + size),)
        parts.append(slice_p(t, index=expand_ellipsis(index, len(t.shape))) if needed else None)
        start += size
    return parts


@concat_p.jvp
def _concat_jvp(ts: Any, y_shape: tuple[int, ...], *, axis: int, sizes: tuple[int, ...]) -> Any:
    example = next(t for t in ts if t is not None)
    parts = [
        zeros_for(example, (*y_shape[:axis], size, *y_shape[axis + 1 :]), example.dtype)
        if t is None
        else t
        for t, size in zip(ts, sizes, strict=True)
    ]
    return concat_p(*parts, axis=axis, sizes=sizes)


@concat_p.batch
def _concat_batch(
    size: int, batched: tuple[bool, ...], *args: Any, axis: int, sizes: tuple[int, ...]
) -> Any:
    parts = [
        arg if flag else broadcast_p(arg, shape=(size, *arg.shape))
        for arg, flag in zip(args, batched, strict=True)
    ]
    return concat_p(*parts, axis=axis + 1, sizes=sizes)


def concat(values: Sequence[Any], axis: int = 0, name: str | None = None) -> Any:
    """Join tensors along an existing axis.

    >>> import tapegrad
    >>> concat([tapegrad.constant([1.0]), tapegrad.constant([2.0, 3.0])], 0).shape
    (3,)
    """
    parts = [as_operand(value) for value in values]
    if not parts:
        raise ArgumentError("concat needs at least one tensor. Got none.")
    axis = normalize_axis(axis, len(parts[0].shape), "concat")
    return concat_p(*parts, axis=axis, sizes=tuple(part.shape[axis] for part in parts))


def stack(values: Sequence[Any], axis: int = 0, name: str = "stack") -> Any:
    """Join tensors of one shape along a new axis.

    >>> import tapegrad
    >>> stack([tapegrad.constant(1.0), tapegrad.constant(2.0)]).shape
    (2,)
    """
    parts = [as_operand(value) for value in values]
    if not parts:
        raise ArgumentError("stack needs at least one tensor. Got none.")
    axis = normalize_axis(axis, len(parts[0].shape) + 1, "stack")
    widened = [
        reshape_p(part, shape=(*part.shape[:axis], 1, *part.shape[axis:])) for part in parts
    ]
    return concat(widened, axis)
