"""Gather whole weights one layer ahead: a process that holds parts has memory for few of them.

Fusion orders steps by when their results are ready, which would gather everything at once. Here a
gather comes right before the first reader of the gather before it, so that the weights of the next
layer travel while this one computes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tapegrad.program.graph.dependence import makers_of
from tapegrad.program.graph.graph import Call

GATHERS = frozenset({"gather_shards", "join_in_group", "start_gather_shards"})
"""Primitives whose results are larger than their operands, and are read soon and seldom."""


def with_late_gathers(steps: Sequence[Any]) -> list[Any]:
    """Return steps with each gather right before the first reader of the previous gather.

    Effects keep their order, except that a gather may come before collective calls that follow the
    previous gather. The new order of effects depends on their old order alone, not on when other
    steps run, so that all processes find the same one.
    """
    gathers = [place for place, step in enumerate(steps) if is_gather(step)]
    if not gathers:
        return [*steps]
    schedule = _Schedule(steps, gathers)
    for place, step in enumerate(steps):
        if is_gather(step):
            continue
        count = sum(gather < place for gather in gathers) if step.effects else 0
        schedule.gather(max(count, schedule.count_needed(step)))
        schedule.add(place)
        schedule.gather(0)
    schedule.gather(len(gathers))
    return schedule.found


class _Schedule:
    """Steps in their new order."""

    def __init__(self, steps: Sequence[Any], gathers: Sequence[int]) -> None:
        self.found: list[Any] = []
        self._steps, self._gathers = steps, gathers
        self._makers = makers_of(steps)
        self._added: set[int] = set()
        self._effects = [place for place, step in enumerate(steps) if step.effects]
        self._numbers = {steps[place].results[0].number: k for k, place in enumerate(gathers)}
        self._done = 0
        """How many gathers are added."""
        self._needed = 0
        """How many gathers the steps that are added need, or come after."""

    def count_needed(self, step: Any) -> int:
        """Return how many of the gathers have to come before a step that reads their results."""
        read = [self._numbers[v.number] for v in step.reads if v.number in self._numbers]
        return max(read, default=-1) + 1

    def gather(self, count: int) -> None:
        """Add so many gathers, and one more if that is possible now."""
        self._needed = max(self._needed, count)
        while self._done < len(self._gathers):
            is_ahead = self._done == self._needed and self._done > 0
            if self._done >= self._needed and not (is_ahead and self._may_be_ahead(self._done)):
                return
            self._done += 1
            self.add(self._gathers[self._done - 1])

    def add(self, place: int) -> None:
        """Add a step, after the steps that make what it reads."""
        if place in self._added:
            return
        for value in self._steps[place].reads:
            maker = self._makers.get(value.number)
            if maker is not None and maker not in self._added:
                self.add(maker)
        self._added.add(place)
        self.found.append(self._steps[place])

    def _may_be_ahead(self, number: int) -> bool:
        """Return whether a gather can come before effects that follow the previous gather.

        Those are collective calls that programs start, and the gather reads variables, perhaps
        cast. All earlier effects are added, because the others come after the gather.
        """
        before, place = self._gathers[number - 1], self._gathers[number]
        between = [self._steps[k] for k in self._effects if before < k < place]
        return (
            all(isinstance(step, Call) and step.primitive.parts for step in between)
            and all(k in self._added for k in self._effects if k < before)
            and all(
                maker in self._added or self._reads_no_results(maker)
                for value in self._steps[place].reads
                if (maker := self._makers.get(value.number)) is not None
            )
        )

    def _reads_no_results(self, place: int) -> bool:
        step = self._steps[place]
        return not step.effects and all(v.number not in self._makers for v in step.reads)


def is_gather(step: Any) -> bool:
    """Return whether a step makes whole weights of parts, or starts to do so."""
    primitive = getattr(step, "primitive", None)
    return primitive is not None and primitive.name in GATHERS
