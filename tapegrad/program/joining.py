"""Loops of the same formula that do not wait for each other, joined for targets that can.

An optimizer's step is the same formula for every variable.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tapegrad.core.c_source import statements
from tapegrad.core.expression import UntraceableError
from tapegrad.core.loop import JoinedLoops
from tapegrad.program.fusion import Fused
from tapegrad.program.graph import Call, Value
from tapegrad.program.grouping import Grouping


@dataclass(frozen=True)
class Joined:
    """Loops that run in one launch, with all that they read and make."""

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


def joined(steps: Sequence[Call | Fused]) -> list[Call | Fused | Joined]:
    """Join what can be joined, and return the steps in an order in which all can run."""
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
    found: list[Call | Fused | Joined] = []
    for group in groups.in_order():
        members = [steps[place] for place in groups.members[group]]
        loops = tuple(step for step in members if isinstance(step, Fused))
        found.append(Joined(loops) if len(loops) > 1 else members[0])
    return found


def _key(step: Fused) -> Any:
    """What loops that can be joined have in common; None for those that cannot be."""
    loop = step.loop
    if any(output.combine for output in loop.outputs):
        return None
    kinds: list[Any] = []
    for value, read in zip(step.reads, loop.inputs):
        single = all(size == 1 for size in read.seen)
        if not single and read.seen != loop.shape:
            return None
        # Single numbers are passed once for all loops.
        kinds.append((value.number if single and loop.shape else single, read.dtype))
    names = [f"a{k}" for k in range(len(loop.inputs))]
    try:
        lines, results = statements([output.expression for output in loop.outputs], names)
    except UntraceableError:
        return None
    dtypes = tuple(output.dtype for output in loop.outputs)
    region = step.calls[0].region if step.calls else 0
    return (bool(loop.shape), tuple(kinds), tuple(lines), tuple(results), dtypes, region)
