"""Trees of additions in a graph."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from tapegrad.program.graph.graph import Call, Value

_SUMS = ("add", "add_n")


class Sum(NamedTuple):
    """A tree of additions: the position of its root, its calls and its leaves."""

    root: int
    calls: list[int]
    leaves: list[Value]


def sums_of(calls: Sequence[Call], makers: Mapping[int, int], uses: Counter[int]) -> Iterator[Sum]:
    """Yield the maximal trees of additions of arrays of one shape and dtype."""
    adding = {place for place, call in enumerate(calls) if _adds_alike(call)}
    inner = {
        makers[value.number]
        for place in adding
        for value in calls[place].reads
        if uses[value.number] == 1 and makers.get(value.number) in adding
    }
    for root in sorted(adding - inner):
        tree = Sum(root, [root], [])
        waiting = list(reversed(calls[root].reads))
        while waiting:
            value = waiting.pop()
            place = makers.get(value.number)
            if place in inner:
                assert place is not None
                tree.calls.append(place)
                waiting.extend(reversed(calls[place].reads))
            else:
                tree.leaves.append(value)
        yield tree


def _adds_alike(call: Call) -> bool:
    if call.primitive.name not in _SUMS or len(call.reads) != len(call.operands):
        return False
    result = call.results[0]
    return all(v.shape == result.shape and v.dtype == result.dtype for v in call.reads)
