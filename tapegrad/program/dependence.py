"""Which calls of a program need which, and an order in which each comes after what it needs.

Sets of calls are integers with one bit per position. Calls with effects, such as printing, need the
one before them, so that they stay in their order.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import count
from typing import Any

from tapegrad.errors import RecordingError
from tapegrad.program.graph import Call, Graph


def makers_of(calls: Sequence[Any]) -> dict[int, int]:
    """The position of the call that makes a value, by the value's number.

    Here and below a call is anything with `reads`, `results` and `effects`.
    """
    return {value.number: place for place, call in enumerate(calls) for value in call.results}


def direct_needs(calls: Sequence[Any]) -> list[list[int]]:
    """For each call, the positions of the calls that must come right before it."""
    makers = makers_of(calls)
    needs: list[list[int]] = []
    last = -1
    for place, call in enumerate(calls):
        needed = [makers[value.number] for value in call.reads if value.number in makers]
        if call.effects:
            if last >= 0:
                needed.append(last)
            last = place
        needs.append(needed)
    return needs


class Dependence:
    """For each call the calls that it cannot do without, however far away, itself included."""

    def __init__(self, calls: Sequence[Call]) -> None:
        """Take calls in an order in which each comes after what it needs."""
        self.needs: list[int] = []
        for place, direct in enumerate(direct_needs(calls)):
            mask = 1 << place
            for other in direct:
                mask |= self.needs[other]
            self.needs.append(mask)

    def between(self, place: int, others: int) -> bool:
        """Tell whether the call at `place` needs any of `others`, a set."""
        return bool(self.needs[place] & others)

    def join(self, places: Sequence[int]) -> None:
        """Note that some calls, none of which needs another, are from now on made together."""
        members, together = 0, 0
        for place in places:
            members |= 1 << place
            together |= self.needs[place]
        for place, mask in enumerate(self.needs):
            if mask & members:
                self.needs[place] = mask | together


def independent(places: Sequence[int], dependence: Dependence) -> list[list[int]]:
    """Sort calls into levels; each needs some call of the level above, none of its own."""
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
        masks[level] |= 1 << place
    return levels


def wait_for_each_other(group: Sequence[int], dependence: Dependence) -> bool:
    """Whether groups that were joined before have made one of these calls need another."""
    members = sum(1 << place for place in group)
    return any(dependence.between(place, members & ~(1 << place)) for place in group)


def in_order(calls: Sequence[Any], first: Sequence[int] = ()) -> tuple[Any, ...]:
    """Return the calls with each after what it needs; what is needed early moves forward.

    Those at the positions `first`, and what they need, come before all others.
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
                    "The calls of a program wait for each other in a circle, one of them is "
                    f"{calls[place]}. A pass has joined calls that depend on each other: please "
                    "report this, and run the function with jit_compile=False until it is mended."
                )
            else:
                begun[place] = True
                waiting.extend(reversed(missing))
    return tuple(ordered)


def use_counts(graph: Graph) -> Counter[int]:
    """How often each value is read, by its number; to be a result counts as well."""
    uses = Counter(value.number for call in graph.calls for value in call.reads)
    uses.update(value.number for value in graph.results)
    return uses


def unused_numbers(graph: Graph) -> Iterator[int]:
    """Numbers for new values."""
    given = [*graph.inputs, *graph.variables.values(), *graph.results]
    numbers = [value.number for value in given]
    numbers += graph.constants
    numbers += [value.number for call in graph.calls for value in (*call.reads, *call.results)]
    return count(max(numbers, default=0) + 1)
