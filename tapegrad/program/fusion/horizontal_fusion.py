"""Horizontal fusion: run independent loops of equal expressions in one launch.

The update of an optimizer, for example, is the same expression for every variable. The arrays of
such loops have to be contiguous, so a loop that reads a slice or a transposed array stays alone: a
copy of its inputs would take longer than another launch.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
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
    scattered = {
        value.number
        for step in steps
        if isinstance(step, Call) and _has_gaps(step)
        for value in step.results
    }
    for place, step in enumerate(steps):
        key = _key(step, scattered) if isinstance(step, Fused) else None
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


def _has_gaps(call: Call) -> bool:
    """Whether the result of a call is a view whose elements are not next to each other."""
    if call.primitive.name == "permute_dims":
        return True
    if call.primitive.name != "slice":
        return False
    index, shape = call.params["index"], call.reads[0].shape
    taken = [len(range(*p.indices(n))) if isinstance(p, slice) else 1 for p, n in zip(index, shape)]
    steps = [isinstance(part, slice) and part.step not in (None, 1) for part in index]
    cut = next((axis for axis, n in enumerate(taken) if n > 1), len(taken))
    return any(steps) or taken[cut + 1 :] != [*shape[cut + 1 : len(taken)]]


def _key(step: Fused, scattered: Collection[int]) -> Any:
    """A key that is equal for loops that can be fused; None if a loop cannot be.

    `scattered` are the numbers of values whose elements are not next to each other.
    """
    loop = step.loop
    if loop.stages or any(output.combine or output.rows for output in loop.outputs):
        return None
    kinds: list[Any] = []
    for value, read in zip(step.reads, loop.inputs):
        single = all(size == 1 for size in read.seen)
        if read.window is not None or (not single and read.seen != loop.shape):
            return None
        if value.number in scattered and not single:
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
