"""Sum parts before they are placed among zeros, instead of after it.

Where `d = a - b` is read by component, `d[..., 0]` and `d[..., 1]`, its gradient is a sum of parts
among zeros, and that of `b` sums it over the axes along which `b` was broadcast. If each part is
summed first, the loop that makes it makes the sum as well, and no array of the size of `d` is
stored.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from tapegrad.program.graph.dependence import unused_numbers
from tapegrad.program.graph.graph import Call, Graph, Shape, Value
from tapegrad.program.passes.new_calls import NewCalls

MOST_TERMS = 32
"""The most parts of a sum."""


class _Term(NamedTuple):
    """A part among zeros, and whether it is subtracted."""

    is_negative: bool
    part: Value
    place: tuple[slice, ...]


def with_summed_parts(graph: Graph) -> Graph:
    """Replace sums of parts among zeros by parts of sums among zeros."""
    if not any(call.primitive.name == "unslice" for call in graph.calls):
        return graph
    terms = _Terms(graph)
    numbers = unused_numbers(graph)
    calls: list[Call] = []
    for call in graph.calls:
        calls.extend(_replaced(call, terms, numbers) or (call,))
    return replace(graph, calls=tuple(calls))


class _Terms:
    """Finds the parts that a value is the sum of."""

    def __init__(self, graph: Graph) -> None:
        self._makers = {v.number: call for call in graph.calls for v in call.results}
        self._readers: dict[int, list[Call]] = defaultdict(list)
        for call in graph.calls:
            for value in call.reads:
                self._readers[value.number].append(call)
        self._results = {value.number for value in graph.results}

    def of(self, value: Value) -> list[_Term]:
        """Return the parts in order; none if the value is anything else."""
        found: list[_Term] = []
        waiting = [(value, False)]
        while waiting:
            one, is_negative = waiting.pop()
            maker = self._makers.get(one.number)
            if maker is None or len(found) + len(waiting) > MOST_TERMS:
                return []
            name, operands = maker.primitive.name, maker.operands
            is_sum = name in ("add", "subtract", "negative") and self._ends_in_sums(one)
            if is_sum and all(isinstance(x, Value) and x.shape == one.shape for x in operands):
                signs = [is_negative != (name == "negative"), is_negative != (name == "subtract")]
                waiting += reversed([*zip(operands, signs)])
            elif name == "unslice" and _has_ranges(maker):
                found.append(_Term(is_negative, maker.reads[0], _ranges(maker)))
            else:
                return []
        return found

    def _ends_in_sums(self, value: Value) -> bool:
        """Whether sums along axes alone read a value, and the terms that it is a part of."""
        waiting, seen = [value], 0
        while waiting and seen <= MOST_TERMS:
            one, seen = waiting.pop(), seen + 1
            if one.number in self._results:
                return False
            for reader in self._readers[one.number]:
                if reader.primitive.name in ("add", "subtract", "negative"):
                    waiting.append(reader.results[0])
                elif reader.primitive.name != "sum":
                    return False
        return not waiting


def _has_ranges(call: Call) -> bool:
    return all(isinstance(p, slice) and p.step in (None, 1) for p in call.params["index"])


def _ranges(call: Call) -> tuple[slice, ...]:
    """Return the place of a part, with a range for each axis."""
    shape = call.params["shape"]
    index = [*call.params["index"], *[slice(None)] * (len(shape) - len(call.params["index"]))]
    return tuple(slice(*part.indices(n)[:2]) for part, n in zip(index, shape))


def _replaced(call: Call, terms: _Terms, numbers: Iterator[int]) -> list[Call]:
    """Return the calls that make a sum of parts, none if it stays."""
    if call.primitive.name != "sum" or call.region or call.reads[0].dtype.kind != "f":
        return []
    axes, shape = call.params["axis"], call.reads[0].shape
    found = terms.of(call.reads[0])
    if not found or not all(_is_whole(term, axes, shape) for term in found):
        return []
    places: dict[tuple[tuple[int, int], ...], list[_Term]] = {}
    for term in found:
        places.setdefault(tuple((p.start, p.stop) for p in term.place), []).append(term)
    if sum(same[0].part.size for same in places.values()) > call.reads[0].size:
        return []
    making = NewCalls(call, numbers)
    keeps = call.params["keepdims"]
    total: Value | None = None
    for same in places.values():
        part = _total(making, same)
        lengths = _reduced(part.shape, axes, 1 if keeps else None)
        small = making.add("sum", (part,), call.params, lengths)
        index = _reduced(same[0].place, axes, slice(0, 1) if keeps else None)
        placed = making.placed(small, index, call.results[0].shape)
        total = placed if total is None else making.add("add", (total, placed), {}, placed.shape)
    return making.ending_in(call.results[0])


def _is_whole(term: _Term, axes: Sequence[int], shape: Shape) -> bool:
    """Whether a part has all positions along the axes of the sum, and not all along others."""
    is_whole = all(term.place[axis] == slice(0, shape[axis]) for axis in axes)
    return is_whole and term.part.shape != shape


def _total(making: NewCalls, terms: Sequence[_Term]) -> Value:
    """Return the sum of parts that have the same place."""
    total: Value | None = None
    for term in terms:
        if total is None:
            total = term.part
            if term.is_negative:
                total = making.add("negative", (total,), {}, total.shape)
        else:
            name = "subtract" if term.is_negative else "add"
            total = making.add(name, (total, term.part), {}, total.shape)
    assert total is not None
    return total


def _reduced(items: Sequence[Any], axes: Sequence[int], instead: Any) -> tuple[Any, ...]:
    """Replace what belongs to the axes of a sum; None leaves it out."""
    kept = [instead if axis in axes else item for axis, item in enumerate(items)]
    return tuple(item for item in kept if item is not None)
