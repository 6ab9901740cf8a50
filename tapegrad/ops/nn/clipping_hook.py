"""The hook by which all tensors of a list are clipped in one launch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

Clipped = tuple[list[Any], Any]
GroupedClip = Callable[[Sequence[Any], Any], Clipped | None]

_clip: list[GroupedClip] = []


def register_grouped_clip(clip: GroupedClip) -> None:
    """Register the function that clips tensors by their global norm, or returns None."""
    _clip[:] = [clip]


def clip_grouped(tensors: Sequence[Any], limit: Any) -> Clipped | None:
    """Return the clipped tensors and their norm, None if they have to be clipped one by one."""
    return _clip[0](tensors, limit) if _clip else None
