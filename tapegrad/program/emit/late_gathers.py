"""Gather whole weights late: a process that holds parts has memory for few whole weights."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

GATHERS = frozenset({"gather_shards", "join_in_group"})
"""Primitives whose results are larger than their operands, and are read soon and seldom."""


def with_late_gathers(steps: Sequence[Any]) -> list[Any]:
    """Return steps with each gather before its first reader, or before the next other effect.

    Fusion orders steps by when their results are ready, which would gather everything at once.
    Effects keep their order.
    """
    found: list[Any] = []
    held: list[Any] = []
    for step in steps:
        if is_gather(step):
            held.append(step)
            continue
        count = len(held) if step.effects else _count_needed(held, step)
        found += [*held[:count], step]
        del held[:count]
    return found + held


def _count_needed(held: Sequence[Any], step: Any) -> int:
    """Return how many of the gathers have to run before a step."""
    read = {value.number for value in step.reads} if held else set()
    places = [k for k, one in enumerate(held) if one.results[0].number in read]
    return places[-1] + 1 if places else 0


def is_gather(step: Any) -> bool:
    """Return whether a step makes whole weights of parts."""
    primitive = getattr(step, "primitive", None)
    return primitive is not None and primitive.name in GATHERS
