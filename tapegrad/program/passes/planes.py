"""Keep arrays that are stacked of a few others as these others.

A program that stacks two fields, computes with the stack and unstacks it again moves all elements
each time, and its loops run over an innermost axis of length 2. If most of what makes and reads
such arrays works on the planes of the stack one by one, the planes take their place. What needs a
whole array gets a stack, and what others make is sliced.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from tapegrad.core.backend.optional_parts import LoopCompiler
from tapegrad.program.graph.formulas import COMBINING, is_combining, weight_of
from tapegrad.program.graph.graph import Call, Graph, Shape, Value
from tapegrad.program.passes.assembling import Assembling, without
from tapegrad.program.passes.planar_calls import is_planar, on_plane, picked_plane

MOST = 4
"""The longest axis that is divided into planes."""

LEAST = 1 << 12
"""The fewest elements of a whole array; smaller ones take longer to launch than to move."""

_SUMMED = ("float32", "float64")


def with_planes(graph: Graph, loops: LoopCompiler) -> Graph:
    """Replace stacked arrays by their planes where that saves stacks."""
    if not any(call.primitive.name == "stack" for call in graph.calls):
        return graph
    axes = _worthwhile(graph, _axes_of_stacks(graph, loops))
    if not axes:
        return graph
    making = _Making(graph, axes)
    for call in graph.calls:
        making.add(call)
    return making.graph()


# Which arrays become planes


def _axes_of_stacks(graph: Graph, loops: LoopCompiler) -> dict[int, int]:
    """Return the axes of the planes of stacks and similar calls, by the numbers of values."""
    axes: dict[int, int] = {}
    for call in graph.calls:
        axis: Any = call.params.get("axis")
        if call.primitive.name == "stack" and _is_large(call.results[0], axis, loops):
            axes[call.results[0].number] = axis
        elif call.primitive.name == "unstack" and _is_large(call.reads[0], axis, loops):
            axes[call.reads[0].number] = axis
    before = -1
    while before != len(axes):
        before = len(axes)
        for call in (*graph.calls, *reversed(graph.calls)):
            _spread(call, axes, loops)
    return axes


def _is_large(value: Value, axis: int, loops: LoopCompiler) -> bool:
    is_known = loops.dtypes is None or value.dtype.name in loops.dtypes
    return is_known and 2 <= value.shape[axis] <= MOST and value.size >= LEAST


def _spread(call: Call, axes: dict[int, int], loops: LoopCompiler) -> None:
    """Let the operands and results of a call that works plane by plane have planes together."""
    if call.region or not call.results or call.primitive.name in ("stack", "unstack"):
        return
    members = [value for value in (*call.reads, *call.results) if value.number in axes]
    if not members:
        return
    axis = axes[members[0].number]
    if not _works_on_planes(call, axis, members[0].shape):
        return
    for value in (*call.reads[: _main_operands(call)], *call.results):
        if len(value.shape) == len(members[0].shape) and _is_large(value, axis, loops):
            axes.setdefault(value.number, axis)


def _main_operands(call: Call) -> int:
    """How many of the operands have planes; filters of convolutions are sliced."""
    return len(call.reads) if weight_of(call) is not None else 1


def _works_on_planes(call: Call, axis: int, shape: Shape) -> bool:
    if any(len(value.shape) != len(shape) for value in call.results):
        return False
    if any(value.shape[axis] != shape[axis] for value in call.results):
        return False
    return weight_of(call) is not None or is_planar(call, axis)


def _worthwhile(graph: Graph, axes: dict[int, int]) -> dict[int, int]:
    """Return the axes without those of groups that would be stacked and sliced as often."""
    groups = _Groups(axes)
    for call in graph.calls:
        if _is_inside(call, axes):
            groups.join([v.number for v in (*call.reads, *call.results) if v.number in axes])
    gains: dict[int, int] = defaultdict(int)
    makers = {value.number for call in graph.calls for value in call.results}
    outside = {v.number for v in graph.results}
    for call in graph.calls:
        value = call.results[0] if call.primitive.name == "stack" else (call.reads or (None,))[0]
        if value is not None and value.number in axes and _moves_planes(call, axes):
            gains[groups.root(value.number)] += 1
        elif not _is_inside(call, axes):
            outside |= {v.number for v in call.results}
            outside |= {v.number for v in call.reads if not _is_reduction(call)}
    outside |= {number for number in axes if number not in makers}
    for number in outside & axes.keys():
        gains[groups.root(number)] -= 2
    return {number: axis for number, axis in axes.items() if gains[groups.root(number)] > 0}


def _is_inside(call: Call, axes: dict[int, int]) -> bool:
    """Whether a call makes planes of planes."""
    if not call.results or call.results[0].number not in axes or call.region:
        return False
    axis = axes[call.results[0].number]
    if call.primitive.name == "stack":
        return False
    same = all(axes.get(v.number, axis) == axis for v in (*call.reads, *call.results))
    return same and _works_on_planes(call, axis, call.results[0].shape)


def _moves_planes(call: Call, axes: dict[int, int]) -> bool:
    """Whether a call makes a stack of planes, or planes of a stack."""
    if call.primitive.name == "stack":
        return call.results[0].number in axes
    axis = axes.get(call.reads[0].number)
    if axis is None:
        return False
    return (call.primitive.name, call.params.get("axis")) == ("unstack", axis) or (
        picked_plane(call, axis) is not None
    )


def _is_reduction(call: Call) -> bool:
    is_sum = call.primitive.name in COMBINING and is_combining(call)
    return is_sum and call.reads[0].dtype.name in _SUMMED and not call.region


class _Groups:
    """Disjoint sets of values."""

    def __init__(self, members: Any) -> None:
        self._above = {number: number for number in members}

    def root(self, number: int) -> int:
        while self._above[number] != number:
            self._above[number] = number = self._above[self._above[number]]
        return number

    def join(self, numbers: Sequence[int]) -> None:
        for number in numbers[1:]:
            self._above[self.root(number)] = self.root(numbers[0])


# The calls of the planes


class _Making(Assembling):
    """The calls of the new graph."""

    def __init__(self, graph: Graph, axes: dict[int, int]) -> None:
        super().__init__(graph)
        self._graph, self._axes = graph, axes
        self._planes: dict[int, list[Value]] = {}
        self._whole: set[int] = {v.number for v in (*graph.inputs, *graph.variables.values())}
        self._whole |= graph.constants.keys()
        self._same: dict[int, Value] = {}

    def graph(self) -> Graph:
        """Return the new graph; results that became planes are stacked at the end."""
        last = self._graph.calls[-1]
        for value in self._graph.results:
            self._as_whole(value, last)
        same = self._same
        return replace(
            self._graph,
            calls=tuple(self.calls),
            outputs=tuple(same.get(v.number, v) for v in self._graph.outputs),
            written={n: same.get(v.number, v) for n, v in self._graph.written.items()},
        )

    def add(self, call: Call) -> None:
        """Add a call, or the calls of planes."""
        operands = [
            self._same.get(x.number, x) if isinstance(x, Value) else x for x in call.operands
        ]
        call = call.with_values(tuple(operands))
        name = call.primitive.name
        if name == "stack" and call.results[0].number in self._axes:
            self._planes[call.results[0].number] = [*call.reads]
        elif name in ("unstack", "slice") and _moves_planes(call, self._axes):
            planes = self._planes_of(call.reads[0], call)
            if name == "slice":
                index = picked_plane(call, self._axes[call.reads[0].number])
                assert index is not None
                planes = [planes[index]]
            self._same.update({v.number: p for v, p in zip(call.results, planes)})
        elif _is_inside(call, self._axes):
            self._add_planes(call)
        elif _is_reduction(call) and call.reads[0].number in self._planes:
            operand = call.reads[0]
            self.add_reduction(call, self._planes[operand.number], self._axes[operand.number])
            self._whole.add(call.results[0].number)
        else:
            for value in call.reads:
                self._as_whole(value, call)
            self.calls.append(call)
            self._whole.update(value.number for value in call.results)

    def _add_planes(self, call: Call) -> None:
        axis = self._axes[call.results[0].number]
        found: list[list[Value]] = [[] for _ in call.results]
        for index in range(call.results[0].shape[axis]):
            operands = [
                self._plane(x, axis, index, call) if isinstance(x, Value) else x
                for x in call.operands
            ]
            results = [self.new_value(without(v.shape, axis), v) for v in call.results]
            self.calls += on_plane(call, operands, results, axis, self._numbers)
            for values, value in zip(found, results):
                values.append(value)
        self._planes.update({v.number: values for v, values in zip(call.results, found)})

    def _plane(self, value: Value, axis: int, index: int, call: Call) -> Value:
        """Return what a plane of a call's results reads of an operand."""
        if value.number in self._axes:
            return self._planes_of(value, call)[index]
        if not is_elementwise(call):
            return self._slice(value, len(value.shape) - 1, index, call)
        place = axis - (len(call.results[0].shape) - len(value.shape))
        if place < 0:
            return value
        if value.shape[place] == 1:
            made = self.new_value(without(value.shape, place), value)
            self.add_call(call, "reshape", (value,), {"shape": made.shape}, made)
            return made
        return self._slice(value, place, index, call)

    def _planes_of(self, value: Value, call: Call) -> list[Value]:
        found = self._planes.get(value.number)
        if found is None:
            axis = self._axes[value.number]
            found = [self._slice(value, axis, k, call) for k in range(value.shape[axis])]
            self._planes[value.number] = found
        return found

    def _slice(self, value: Value, axis: int, index: int, call: Call) -> Value:
        made = self.new_value(without(value.shape, axis), value)
        parts = (*[slice(None)] * axis, index, *[slice(None)] * (len(made.shape) - axis))
        self.add_call(call, "slice", (value,), {"index": parts}, made)
        return made

    def _as_whole(self, value: Value, call: Call) -> None:
        """Stack the planes of a value that is needed as one array."""
        planes = self._planes.get(value.number)
        if planes is not None and value.number not in self._whole:
            self._whole.add(value.number)
            axis = self._axes[value.number]
            self.add_call(call, "stack", tuple(planes), {"axis": axis}, value)


def is_elementwise(call: Call) -> bool:
    """Whether a call computes each element of its results from one of each operand."""
    return weight_of(call) is not None
