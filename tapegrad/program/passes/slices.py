"""Read a part of an assembled array from what was written or added there.

`path[i + 1] = f(path[i])` in a loop makes a new array at each round, and reads the part that the
round before has written. If it reads the written value instead, no later step needs the older
arrays, and each round can write into the same one. In the gradient each round clears one part of an
array, adds to another and reads it. The sum of what was added to that part takes as many additions
without a pass over the array.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from tapegrad.program.graph.dependence import unused_numbers
from tapegrad.program.graph.graph import Call, Graph, Shape, Value
from tapegrad.program.passes.new_calls import NewCalls

MOST_LINKS = 200_000
"""How many calls of a graph are looked at: rounds are linked, and each one looks at those before.

This takes about a tenth of a second.
"""
_LINKS = frozenset({"slice_set", "unslice", "add"})


def with_written_parts(graph: Graph) -> Graph:
    """Replace slices by the values that were written or added to the same parts."""
    if not any([call.primitive.name == "slice" for call in graph.calls]):
        return graph
    parts, numbers = _Parts(), unused_numbers(graph)
    same: dict[int, Value] = {}
    kept: list[Call] = []
    for call in graph.calls:
        operands = tuple(
            [same.get(x.number, x) if isinstance(x, Value) else x for x in call.operands]
        )
        call = call.with_values(operands)
        if call.primitive.name in _LINKS:
            parts.makers[call.results[0].number] = call
        if call.primitive.name != "slice":
            kept.append(call)
            continue
        source, terms = parts.found(call)
        if source is None and len(terms) == 1:
            same[call.results[0].number] = terms[0]
        elif source is call.reads[0]:
            kept.append(call)
        else:
            kept += _sum(NewCalls(call, numbers), call, source, terms)
    return replace(
        graph,
        calls=tuple(kept),
        outputs=tuple(same.get(value.number, value) for value in graph.outputs),
        written={n: same.get(value.number, value) for n, value in graph.written.items()},
    )


def _sum(making: NewCalls, call: Call, source: Value | None, terms: list[Value]) -> list[Call]:
    """Return the calls that add up the part of a source and terms, the last term first."""
    result = call.results[0]
    if source is not None:
        terms = [*terms, making.add("slice", (source,), call.params, result.shape)]
    total = terms[-1]
    for term in terms[-2::-1]:
        total = making.add("add", (total, term), {}, result.shape)
    return making.ending_in(result)


class _Parts:
    """The calls that assemble arrays, by the number of their result."""

    def __init__(self) -> None:
        self.makers: dict[int, Call] = {}
        self._left = MOST_LINKS

    def found(self, call: Call) -> tuple[Value | None, list[Value]]:
        """Return an array and values: the sum of the array's part and of the values is the slice.

        Without an array the slice is the sum of the values.
        """
        source, result = call.reads[0], call.results[0]
        terms: list[Value] = []
        wanted = None if call.region else places_of(call.params["index"], source.shape)
        while wanted is not None and self._left > 0:
            self._left -= 1
            maker = self.makers.get(source.number)
            if maker is None or maker.region:
                break
            step = {"slice_set": _written, "unslice": _placed, "add": self._added}
            link = step[maker.primitive.name](maker, wanted, result)
            if link is None:
                break
            before, term = link
            if term is not None:
                terms.append(term)
            if before is None and terms:
                return None, terms
            if before is None:  # zeros
                break
            source = before
        return source, terms

    def _added(self, maker: Call, wanted: Sequence[Any], result: Value) -> _Link | None:
        """Look through the addition of an array that is zero except for a part."""
        for before, other in (maker.operands, maker.operands[::-1]):
            placed = self.makers.get(other.number) if isinstance(other, Value) else None
            if placed is None or placed.primitive.name != "unslice" or placed.region:
                continue
            if not isinstance(before, Value) or before.shape != other.shape:
                continue
            link = _placed(placed, wanted, result)
            if link is not None and before.dtype == result.dtype:
                return before, link[1]
        return None


_Link = tuple[Value | None, Value | None]
"""The array of which the same part is read next, and a value that is added to it."""


def _written(maker: Call, wanted: Sequence[Any], result: Value) -> _Link | None:
    before, value = maker.operands
    places = places_of(maker.params["index"], maker.results[0].shape)
    if places == wanted:
        return (None, value) if _is_like(value, result) else None
    is_apart = places is not None and _are_apart(places, wanted)
    return (before, None) if is_apart and isinstance(before, Value) else None


def _placed(maker: Call, wanted: Sequence[Any], result: Value) -> _Link | None:
    """Read an array that is zero except for a part."""
    places = places_of(maker.params["index"], maker.results[0].shape)
    if places == wanted:
        return (None, maker.reads[0]) if _is_like(maker.reads[0], result) else None
    return (None, None) if places is not None and _are_apart(places, wanted) else None


def _is_like(value: Any, result: Value) -> bool:
    return isinstance(value, Value) and value.shape == result.shape and value.dtype == result.dtype


def places_of(index: Sequence[Any], shape: Shape) -> tuple[Any, ...] | None:
    """Return the part along each axis: a position, or the numbers of a range; None for new axes."""
    parts = list(index)
    if None in parts or Ellipsis in parts:
        return None
    parts += [slice(None)] * (len(shape) - len(parts))
    return tuple(
        part.indices(size) if isinstance(part, slice) else part % size
        for part, size in zip(parts, shape, strict=True)
    )


def _are_apart(one: Sequence[Any], other: Sequence[Any]) -> bool:
    """Whether two parts have no element in common, because they are apart along one axis."""
    for first, second in zip(one, other, strict=True):
        low, high = _ends(first), _ends(second)
        if low[1] < high[0] or high[1] < low[0]:
            return True
    return False


def _ends(part: Any) -> tuple[int, int]:
    """Return the first and the last position of a part."""
    if not isinstance(part, tuple):
        return part, part
    found = range(*part)
    return (min(found[0], found[-1]), max(found[0], found[-1])) if found else (0, -1)
