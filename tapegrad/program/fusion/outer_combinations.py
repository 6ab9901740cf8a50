"""Values that are made of much smaller arrays, and are computed again wherever they are read.

The distances of all pairs of points, for example, are n * n numbers made of n. A loop that sums
them over one of the two, and another one that sums over the other, are faster if each computes them
from the points than if one stores them for the other.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol

from tapegrad.program.fusion.row_groups import Seen
from tapegrad.program.graph.graph import Call, Shape, Value
from tapegrad.program.graph.iteration_spaces import space_of

BROADCAST = 8
"""A value has at least so many times the elements of each array that it is computed from."""

MOST_READ = 16
"""The most arrays that are read to compute a value again."""

SAVED = 8
"""How often a value would be written or read, with others that a loop computes at the same time."""

Recomputes = Callable[[int, int], bool]
"""Whether operations of a weight take less time than to read or write a number of bytes."""


def stores_all(weight: int, nbytes: int) -> bool:
    """Return that no operation is worth it."""
    return False


class Again(NamedTuple):
    """The calls that compute a value from smaller arrays, and these arrays."""

    places: frozenset[int]
    read: frozenset[int]


class Calls(Protocol):
    """What is known of the calls of a graph, by their positions."""

    calls: tuple[Call, ...]
    weights: list[int | None]
    spaces: list[Shape]

    def reads_of(self, place: int) -> list[tuple[Value, Seen]]: ...


def outer_combinations(calls: Calls, recomputes: Recomputes) -> dict[int, Again]:
    """Return the values that are computed again where they are read, by their numbers."""
    found: dict[int, Again] = {}
    if recomputes is stores_all:
        return found
    for place, call in enumerate(calls.calls):
        weight = calls.weights[place]
        if weight is None or call.region:
            continue
        again = _again(calls, place, found)
        if again is None or not again.read or len(again.read) > MOST_READ:
            continue
        total = sum(calls.weights[one] or 0 for one in again.places)
        if recomputes(total, SAVED * call.results[0].dtype.itemsize):
            found.update({value.number: again for value in call.results})
    return found


def _again(calls: Calls, place: int, known: dict[int, Again]) -> Again | None:
    """Return how to compute a call's results from smaller arrays, None if that is impossible."""
    size = calls.calls[place].results[0].size
    places, read = {place}, set()
    for value, seen in calls.reads_of(place):
        inner = known.get(value.number)
        if value.size * BROADCAST <= size:
            read.add(value.number)
        elif inner is not None and seen == calls.spaces[place]:
            places |= inner.places
            read |= inner.read
        else:
            return None
    return Again(frozenset(places), frozenset(read))


def shared_work(
    calls: Calls, place: int, again: dict[int, Again], axes: Sequence[tuple[int, ...]]
) -> list[tuple[int, tuple[int, ...]]]:
    """Return what a reduction has in common with others along its axes that compute it again."""
    return [
        (one, axes[place])
        for value, seen in calls.reads_of(place)
        if value.number in again and seen == space_of(calls.calls[place].reads[0].shape)
        for one in again[value.number].places
    ]
