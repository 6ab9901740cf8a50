"""Dependence analysis and topological order of calls.

Sets of calls are integers with one bit per position. A call with effects, such as printing, depends
on the previous one, so that effects keep their order.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import count
from typing import Any

from tapegrad.errors import RecordingError
from tapegrad.program.graph.graph import Call, Graph


def makers_of(calls: Sequence[Any]) -> dict[int, int]:
    """Return the position of the call that makes a value, by the value's number.

    Here and below a call is anything with `reads`, `results` and `effects`.
    """
    return {value.number: place for place, call in enumerate(calls) for value in call.results}


def direct_needs(calls: Sequence[Any]) -> list[list[int]]:
    """Return, for each call, the positions of the calls on which it depends directly."""
    makers = makers_of(calls)
    needs: list[list[int]] = []
    last = -1
    for place, call in enumerate(calls):
        needed = [p for value in call.reads if (p := makers.get(value.number)) is not None]
        if call.effects:
            if last >= 0:
                needed.append(last)
            last = place
        needs.append(needed)
    return needs


class Dependence:
    """The transitive dependences of calls, each itself included, on each other.

    A set of calls has a bit for each call that is asked about, so that few of them cost little.
    """

    def __init__(self, calls: Sequence[Call], places: Collection[int] | None = None) -> None:
        """Take calls in topological order, and the places of those to ask about, by default all."""
        asked = range(len(calls)) if places is None else places
        self._bits = {place: 1 << k for k, place in enumerate(asked)}
        masks: list[int] = []
        for place, direct in enumerate(direct_needs(calls)):
            mask = self._bits.get(place, 0)
            for other in direct:
                mask |= masks[other]
            masks.append(mask)
        self.needs = {place: masks[place] for place in self._bits}

    def set_of(self, places: Iterable[int]) -> int:
        """Return the set of the calls at some places."""
        return sum([self._bits[place] for place in places])

    def between(self, place: int, others: int) -> bool:
        """Return whether the call at `place` depends on any of the set `others`."""
        return bool(self.needs[place] & others)

    def join(self, places: Sequence[int]) -> None:
        """Merge independent calls, which from now on have common dependences."""
        members, together = self.set_of(places), 0
        for place in places:
            together |= self.needs[place]
        for place, mask in self.needs.items():
            if mask & members:
                self.needs[place] = mask | together


def independent(places: Sequence[int], dependence: Dependence) -> list[list[int]]:
    """Sort calls into levels; each depends on a call of the level before, and none of its level."""
    levels: list[list[int]] = []
    masks: list[int] = []
    for place in places:
        level = len(levels)
        while level and not dependence.between(place, masks[level - 1]):
            level -= 1
        if level == len(levels):
            levels.append([])
            masks.append(0)
        levels[level].append(place)
        masks[level] |= dependence.set_of([place])
    return levels


def wait_for_each_other(group: Sequence[int], dependence: Dependence) -> bool:
    """Whether, after earlier merges, one of these calls depends on another."""
    members = dependence.set_of(group)
    return any(dependence.between(p, members & ~dependence.set_of([p])) for p in group)


def in_order(calls: Sequence[Any], first: Sequence[int] = ()) -> tuple[Any, ...]:
    """Return the calls in topological order.

    The calls at the positions `first`, and those on which they depend, come before all others.
    """
    needs = direct_needs(calls)
    placed, begun = bytearray(len(calls)), bytearray(len(calls))
    ordered: list[Any] = []
    for start in (*first, *range(len(calls))):
        waiting = [start]
        while waiting:
            place = waiting[-1]
            missing = [] if placed[place] else [p for p in needs[place] if not placed[p]]
            if not missing:
                waiting.pop()
                if not placed[place]:
                    placed[place] = True
                    ordered.append(calls[place])
            elif begun[place]:
                raise RecordingError(
                    "The calls of a program depend on each other in a cycle, one of them is "
                    f"{calls[place]}. A pass has merged calls that depend on each other: please "
                    "report this, and run the function with jit=False until it is fixed."
                )
            else:
                begun[place] = True
                waiting.extend(reversed(missing))
    return tuple(ordered)


def use_counts(graph: Graph) -> Counter[int]:
    """Return how often each value is read, by its number; being a result counts as a read."""
    uses = Counter(value.number for call in graph.calls for value in call.reads)
    uses.update(value.number for value in graph.results)
    return uses


def unused_numbers(graph: Graph) -> Iterator[int]:
    """Yield numbers for new values."""
    # What calls read is an input, a variable, a constant or a result.
    given = [*graph.inputs, *graph.variables.values(), *graph.results]
    numbers = [value.number for value in given]
    numbers += graph.constants
    numbers += [value.number for call in graph.calls for value in call.results]
    return count(max(numbers, default=0) + 1)
