"""Reduce in two steps where a part of the axes is reduced nearby, too.

The gradient of an instance norm, for example, sums over the positions of each image, and for its
gain over positions and images. If the latter is a sum over images of sums over positions, one loop
over all elements makes both.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import replace
from math import prod

from tapegrad.program.graph.dependence import unused_numbers
from tapegrad.program.graph.formulas import is_combining
from tapegrad.program.graph.graph import Call, Graph, Value

LEAST = 1 << 14
"""The fewest elements of an array that is reduced in two steps."""

FEWER = 64
"""The first step leaves at most one of so many elements."""

_DTYPES = ("float32", "float64")
"""Partial results in half precision would be rounded."""

Axes = tuple[int, ...]


def with_nested_sums(graph: Graph) -> Graph:
    """Reduce along some axes first if neighbours are reduced along these alone."""
    reductions = [call for call in graph.calls if _is_large(call)]
    if len({call.params["axis"] for call in reductions}) < 2:
        return graph
    neighbours = _Neighbours(graph)
    known: dict[int, set[Axes]] = defaultdict(set)
    for call in reductions:
        known[neighbours.part_of(call.reads[0])].add(call.params["axis"])
    numbers = unused_numbers(graph)
    calls: list[Call] = []
    for call in graph.calls:
        inner = None
        if _is_large(call):
            inner = _inner_axes(call, known[neighbours.part_of(call.reads[0])])
        calls.extend([call] if inner is None else _in_two_steps(call, inner, numbers))
    return replace(graph, calls=tuple(calls))


def _is_large(call: Call) -> bool:
    if call.region or not is_combining(call):
        return False
    return call.reads[0].size >= LEAST and call.reads[0].dtype.name in _DTYPES


def _inner_axes(call: Call, known: set[Axes]) -> Axes | None:
    """Return the most axes, but not all, along which a neighbour is reduced."""
    own, shape = set(call.params["axis"]), call.reads[0].shape
    fits = [
        axes
        for axes in known
        if own.issuperset(axes)
        and prod(shape[axis] for axis in axes) >= FEWER
        and any(shape[axis] != 1 for axis in own.difference(axes))
    ]
    return max(fits, key=lambda axes: (prod(shape[axis] for axis in axes), axes), default=None)


def _in_two_steps(call: Call, inner: Axes, numbers: Iterator[int]) -> list[Call]:
    (operand,), (result,) = call.reads, call.results
    shape = tuple(1 if axis in inner else n for axis, n in enumerate(operand.shape))
    partial = replace(result, number=next(numbers), shape=shape)
    first = replace(call, params={"axis": inner, "keepdims": True}, results=(partial,))
    return [first, replace(call, operands=(partial,))]


class _Neighbours:
    """Sets of values of one shape that are connected by elementwise calls."""

    def __init__(self, graph: Graph) -> None:
        self._parents: dict[int, int] = {}
        for call in graph.calls:
            if not call.primitive.by_element or call.results[0].size < LEAST:
                continue
            for value in call.reads:
                if value.shape == call.results[0].shape:
                    self._parents[self.part_of(value)] = self.part_of(call.results[0])

    def part_of(self, value: Value) -> int:
        """Return a number that stands for the set of a value."""
        number, parents = value.number, self._parents
        while (parent := parents.setdefault(number, number)) != number:
            parents[number] = parents.setdefault(parent, parent)
            number = parent
        return number
