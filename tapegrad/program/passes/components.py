"""Split a short axis of outer combinations into components.

The differences of all pairs of points in space, for example, are an array (n, n, 3) that is made of
two arrays (n, 3) and reduced again. As three arrays (n, n) they need no axis of their own: a sum
along it is two additions, and a sum along another axis is three sums in one loop over all pairs.
Loops then compute them from the points and store nothing of the size of all pairs.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import replace
from math import prod
from typing import Any

import numpy as np

from tapegrad.core.backend.capabilities import LoopCompiler
from tapegrad.core.primitive.primitive import PRIMITIVES
from tapegrad.program.graph.dependence import unused_numbers
from tapegrad.program.graph.formulas import COMBINING, is_combining, weight_of
from tapegrad.program.graph.graph import Call, Graph, Shape, Value

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


class _Making:
    """The calls of the new graph."""

    def __init__(self, graph: Graph, split: set[int]) -> None:
        self.calls: list[Call] = []
        self._split = split
        self._numbers: Iterator[int] = unused_numbers(graph)
        self._components: dict[int, list[Value]] = {}
        self._parts: dict[tuple[int, int, int], Value] = {}
        self._positions: dict[tuple[int, str], Value] = {}
        given = (*graph.inputs, *graph.variables.values())
        self._given = {value.device: value for value in given}

    def add(self, call: Call) -> None:
        """Add a call, or the calls of its components."""
        if call.results and call.results[0].number in self._split:
            self._add_components(call)
        elif call.primitive.name in COMBINING and call.reads[0].number in self._split:
            self._add_reduction(call)
        else:
            self.calls.append(call)

    def _add_components(self, call: Call) -> None:
        whole = call.results[0].shape
        axis = short_axis(whole)
        assert axis is not None
        shape = _without(whole, axis)
        params = {**call.params, "shape": shape} if "shape" in call.params else call.params
        found: list[list[Value]] = [[] for _ in call.results]
        for index in range(whole[axis]):
            operands = tuple(
                self._part(x, whole, index, call) if isinstance(x, Value) else x
                for x in call.operands
            )
            results = tuple(self._value(shape, value) for value in call.results)
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
            shape = _without(value.shape, place)
            found = self._parts[key] = self._value(shape, value)
            if has_axis:
                picked = (*[slice(None)] * place, index, *[slice(None)] * (len(shape) - place))
                self._call(call, "slice", (value,), {"index": picked}, found)
            else:
                self._call(call, "reshape", (value,), {"shape": shape}, found)
        return found

    def _add_reduction(self, call: Call) -> None:
        (operand,), (result,) = call.reads, call.results
        axis = short_axis(operand.shape)
        assert axis is not None
        axes = tuple(one - (one > axis) for one in call.params["axis"] if one != axis)
        components = self._components[operand.number]
        if axis in call.params["axis"]:
            total = self._reduced(call, self._combined(call, components), axes)
            self._call(call, "reshape", (total,), {"shape": result.shape}, result)
            return
        totals = [self._reduced(call, component, axes) for component in components]
        reduced = [one for one in call.params["axis"] if one < axis]
        place = axis if call.params["keepdims"] else axis - len(reduced)
        self._join(call, totals, result, place)

    def _combined(self, call: Call, components: Sequence[Value]) -> Value:
        """Reduce along the short axis."""
        total, *others = components
        for other in others:
            made = self._value(total.shape, total)
            self._call(call, COMBINING[call.primitive.name], (total, other), {}, made)
            total = made
        if call.primitive.name == "mean":
            made = self._value(total.shape, total)
            self._call(call, "divide", (total, float(len(components))), {}, made)
            total = made
        return total

    def _reduced(self, call: Call, value: Value, axes: tuple[int, ...]) -> Value:
        """Reduce along the other axes."""
        if not axes:
            return value
        shape = tuple(n for k, n in enumerate(value.shape) if k not in axes)
        made = self._value(shape, value)
        params = {"axis": axes, "keepdims": False}
        self._call(call, call.primitive.name, (value,), params, made)
        return made

    def _join(self, call: Call, parts: Sequence[Value], result: Value, place: int) -> None:
        """Make one array of reduced components by selecting, which a loop does where it is read."""
        rank, count = len(result.shape), len(parts)
        shape = (*result.shape[:place], 1, *result.shape[place + 1 :])
        along = (1,) * place + (count,) + (1,) * (rank - place - 1)
        positions = self._reshaped(call, self._positions_of(call, parts), along)
        shaped = [self._reshaped(call, part, shape) for part in parts]
        total = shaped[-1]
        for index in range(count - 2, -1, -1):
            hits = replace(self._value(along, positions), dtype=np.dtype(bool))
            self._call(call, "equal", (positions, index), {}, hits)
            made = result if index == 0 else self._value(result.shape, result)
            self._call(call, "where", (hits, shaped[index], total), {}, made)
            total = made

    def _positions_of(self, call: Call, parts: Sequence[Value]) -> Value:
        """Return the positions of parts, which are computed once per device."""
        count, device = len(parts), parts[0].device
        found = self._positions.get((count, device))
        if found is None:
            dtype = np.dtype("int32")
            found = replace(self._value((count,), parts[0]), dtype=dtype)
            self._positions[count, device] = found
            params = {"length": count, "dtype": dtype}
            self._call(call, "positions_like", (self._given.get(device, parts[0]),), params, found)
        return found

    def _reshaped(self, call: Call, value: Value, shape: Shape) -> Value:
        made = self._value(shape, value)
        self._call(call, "reshape", (value,), {"shape": shape}, made)
        return made

    def _value(self, shape: Shape, like: Value) -> Value:
        return replace(like, number=next(self._numbers), shape=shape)

    def _call(
        self,
        call: Call,
        name: str,
        operands: tuple[Any, ...],
        params: dict[str, Any],
        result: Value,
    ) -> None:
        made = replace(
            call,
            primitive=PRIMITIVES[name],
            operands=operands,
            params=params,
            results=(result,),
            aliases=name in ("reshape", "slice"),
        )
        self.calls.append(made)


def _without(shape: Shape, axis: int) -> Shape:
    return (*shape[:axis], *shape[axis + 1 :])
