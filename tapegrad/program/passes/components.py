"""Split a short axis of outer combinations into components.

The differences of all pairs of points in space, for example, are an array (n, n, 3) that is made of
two arrays (n, 3) and reduced again. As three arrays (n, n) they need no further axis: a sum
along it is two additions, and a sum along another axis is three sums in one loop over all pairs.
Loops then compute them from the points and store nothing of the size of all pairs.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from math import prod

from tapegrad.core.backend.optional_parts import LoopCompiler
from tapegrad.program.graph.formulas import COMBINING, is_combining, weight_of
from tapegrad.program.graph.graph import Call, Graph, Shape, Value
from tapegrad.program.passes.assembling import Assembling, without

MOST = 4
"""The longest axis that is split."""

LEAST = 1 << 13
"""The fewest elements of an array that is split."""

BROADCAST = 8
"""A combination has at least so many times the elements of each operand with the short axis."""

_SUMMED = ("float32", "float64")
"""Dtypes of sums along the short axis; half precision is added in single precision elsewhere."""


def with_components(graph: Graph, loops: LoopCompiler) -> Graph:
    """Split the arrays of the graph that have a short axis and are made and read by loops."""
    split = _splittable(graph, loops)
    if not split:
        return graph
    making = _Making(graph, split)
    for call in graph.calls:
        making.add(call)
    return replace(graph, calls=tuple(making.calls))


def short_axis(shape: Shape) -> int | None:
    """Return the last axis that is short enough to be split, None if there is none.

    >>> short_axis((2048, 2048, 3)), short_axis((2048, 2048)), short_axis((5, 3))
    (2, None, None)
    """
    if len(shape) < 2 or prod(shape) < LEAST:
        return None
    return next((k for k in range(len(shape) - 1, -1, -1) if 2 <= shape[k] <= MOST), None)


# Which arrays are split


def _splittable(graph: Graph, loops: LoopCompiler) -> set[int]:
    """Return the numbers of the values to split."""
    calls = [call for call in graph.calls if _is_candidate(call, loops)]
    split = {value.number for call in calls for value in call.results}
    split -= {value.number for value in graph.results}
    readers: dict[int, list[Call]] = defaultdict(list)
    for call in graph.calls if split else ():
        for value in call.reads:
            readers[value.number].append(call)
    before = -1
    while before != len(split):
        before = len(split)
        for call in calls:
            if not all(value.number in split for value in call.results) or not _has_parts(
                call, split
            ):
                split.difference_update(value.number for value in call.results)
        for call in reversed(calls):
            for value in call.results:
                if not all(_reads_parts(reader, split) for reader in readers[value.number]):
                    split.discard(value.number)
    return split


def _is_candidate(call: Call, loops: LoopCompiler) -> bool:
    """Whether a loop could compute the components of a call's results."""
    if not call.results or call.region or short_axis(call.results[0].shape) is None:
        return False
    if call.primitive.name != "broadcast_to" and weight_of(call) is None:
        return False
    values = (*call.reads, *call.results)
    return loops.dtypes is None or all(value.dtype.name in loops.dtypes for value in values)


def _has_parts(call: Call, split: set[int]) -> bool:
    """Whether the components of a call read components, or parts of much smaller arrays."""
    shape = call.results[0].shape
    for value in call.reads:
        place = _place_of_axis(value.shape, shape)
        has_axis = place is not None and value.shape[place] != 1
        if has_axis and value.number not in split and value.size * BROADCAST > prod(shape):
            return False
    return True


def _reads_parts(reader: Call, split: set[int]) -> bool:
    if reader.primitive.name in COMBINING:
        is_known = reader.reads[0].dtype.name in _SUMMED and is_combining(reader)
        return is_known and not reader.region
    return all(value.number in split for value in reader.results)


def _place_of_axis(shape: Shape, whole: Shape) -> int | None:
    """Return the position of the short axis of `whole` in a shape that broadcasts to it."""
    axis = short_axis(whole)
    assert axis is not None
    place = axis - (len(whole) - len(shape))
    return place if place >= 0 else None


# The calls of the components


class _Making(Assembling):
    """The calls of the new graph."""

    def __init__(self, graph: Graph, split: set[int]) -> None:
        super().__init__(graph)
        self._split = split
        self._components: dict[int, list[Value]] = {}
        self._parts: dict[tuple[int, int, int], Value] = {}

    def add(self, call: Call) -> None:
        """Add a call, or the calls of its components."""
        if call.results and call.results[0].number in self._split:
            self._add_components(call)
        elif call.primitive.name in COMBINING and call.reads[0].number in self._split:
            operand = call.reads[0]
            axis = short_axis(operand.shape)
            assert axis is not None
            self.add_reduction(call, self._components[operand.number], axis)
        else:
            self.calls.append(call)

    def _add_components(self, call: Call) -> None:
        whole = call.results[0].shape
        axis = short_axis(whole)
        assert axis is not None
        shape = without(whole, axis)
        params = {**call.params, "shape": shape} if "shape" in call.params else call.params
        found: list[list[Value]] = [[] for _ in call.results]
        for index in range(whole[axis]):
            operands = tuple(
                self._part(x, whole, index, call) if isinstance(x, Value) else x
                for x in call.operands
            )
            results = tuple(self.new_value(shape, value) for value in call.results)
            self.calls.append(replace(call, operands=operands, params=params, results=results))
            for values, value in zip(found, results):
                values.append(value)
        for value, values in zip(call.results, found):
            self._components[value.number] = values

    def _part(self, value: Value, whole: Shape, index: int, call: Call) -> Value:
        """Return what a component reads of an operand."""
        if value.number in self._split:
            return self._components[value.number][index]
        place = _place_of_axis(value.shape, whole)
        if place is None:
            return value
        has_axis = value.shape[place] != 1
        key = (value.number, place, index if has_axis else 0)
        found = self._parts.get(key)
        if found is None:
            shape = without(value.shape, place)
            found = self._parts[key] = self.new_value(shape, value)
            if has_axis:
                picked = (*[slice(None)] * place, index, *[slice(None)] * (len(shape) - place))
                self.add_call(call, "slice", (value,), {"index": picked}, found)
            else:
                self.add_call(call, "reshape", (value,), {"shape": shape}, found)
        return found
