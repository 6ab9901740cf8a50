"""Horizontal fusion: run independent loops of equal expressions in one launch.

The update of an optimizer, for example, is the same expression for every variable.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tapegrad.core.trace.c_source import statements
from tapegrad.core.trace.expression import UntraceableError
from tapegrad.core.trace.loop import JoinedLoops
from tapegrad.program.fusion.fusion_groups import Grouping
from tapegrad.program.fusion.loop_bodies import Fused
from tapegrad.program.graph.graph import Call, Value


@dataclass(frozen=True)
class HorizontallyFused:
    """Independent loops that run in one launch."""

    steps: tuple[Fused, ...]
    effects = False

    @property
    def loop(self) -> JoinedLoops:
        return JoinedLoops(tuple(step.loop for step in self.steps))

    @property
    def reads(self) -> tuple[Value, ...]:
        return tuple(value for step in self.steps for value in step.reads)

    @property
    def results(self) -> tuple[Value, ...]:
        return tuple(value for step in self.steps for value in step.results)

    @property
    def calls(self) -> tuple[Call, ...]:
        return tuple(call for step in self.steps for call in step.calls)


def fuse_horizontally(steps: Sequence[Call | Fused]) -> list[Call | Fused | HorizontallyFused]:
    """Fuse independent loops of equal expressions; return the steps in topological order."""
    groups = Grouping(steps)
    first: dict[Any, int] = {}
    for place, step in enumerate(steps):
        key = _key(step) if isinstance(step, Fused) else None
        if key is None:
            continue
        other = first.setdefault(key, place)
        one, two = groups.group_of(other), groups.group_of(place)
        if one != two:
            if groups.are_independent(one, two) and groups.can_merge(one, two):
                groups.merge(one, two)
            else:
                first[key] = place
    found: list[Call | Fused | HorizontallyFused] = []
    for group in groups.in_order():
        members = [steps[place] for place in groups.members[group]]
        loops = tuple(step for step in members if isinstance(step, Fused))
        found.append(HorizontallyFused(loops) if len(loops) > 1 else members[0])
    return found


def _key(step: Fused) -> Any:
    """A key that is equal for loops that can be fused; None if a loop cannot be."""
    loop = step.loop
    if loop.stages or any(output.combine or output.rows for output in loop.outputs):
        return None
    kinds: list[Any] = []
    for value, read in zip(step.reads, loop.inputs):
        single = all(size == 1 for size in read.seen)
        if read.window is not None or (not single and read.seen != loop.shape):
            return None
        # Scalars are passed once for all loops.
        kinds.append((value.number if single and loop.shape else single, read.dtype))
    names = [f"a{k}" for k in range(len(loop.inputs))]
    try:
        lines, results = statements([output.expression for output in loop.outputs], names)
    except UntraceableError:
        return None
    dtypes = tuple(output.dtype for output in loop.outputs)
    region = step.calls[0].region if step.calls else 0
    return (bool(loop.shape), tuple(kinds), tuple(lines), tuple(results), dtypes, region)
