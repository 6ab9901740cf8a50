"""Carried arrays that rounds change in place, since a round writes or adds a few of their rows.

A loop fills an array row by row, and its gradient adds rows to the cotangent of that array. Without
this, every round would copy the array, and n rounds of n rows would take time n * n.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from heapq import heapify, heappop, heappush

from tapegrad.program.emit.lowering import Step
from tapegrad.program.emit.native_steps import Native, Natives
from tapegrad.program.emit.views import View
from tapegrad.program.graph.dependence import unused_numbers
from tapegrad.program.graph.graph import Call, Graph, Value, without_dead_calls
from tapegrad.program.passes.new_calls import NewCalls

_WRITES = frozenset({"added_rows", "slice_set", "take_set"})
"""Primitives whose instructions change their first operand if the result lies at its place."""


# Sums of rows as calls that add to an array


def with_added_rows(graph: Graph, carried: int) -> Graph:
    """Replace sums of a carried array and rows at indices by calls that add the rows to it."""
    if not any(call.primitive.name == "take_add" for call in graph.calls):
        return graph
    rewriting = _Rewriting(graph, carried)
    for call in graph.calls:
        rewriting.add(call)
    return without_dead_calls(replace(graph, calls=tuple(rewriting.calls)))


class _Rewriting:
    """The calls of a round, whose sums are replaced one after the other."""

    def __init__(self, graph: Graph, carried: int) -> None:
        self.calls: list[Call] = []
        self._numbers = unused_numbers(graph)
        self._makers = {value.number: call for call in graph.calls for value in call.results}
        read = [value.number for call in graph.calls for value in call.reads]
        self._uses = Counter([*read, *[value.number for value in graph.results]])
        self._arrays = {value.number for value in graph.inputs[:carried]}
        """Carried arrays, and what the round makes of them by writes."""

    def add(self, call: Call) -> None:
        """Add a call, or those that replace it."""
        found = None
        if call.primitive.name == "add" and not call.region and len(call.reads) == 2:
            found = self._sum(call, *call.reads) or self._sum(call, *call.reads[::-1])
        changes = call.primitive.name in (*_WRITES, "reshape")
        if found or (changes and call.reads[0].number in self._arrays):
            self._arrays.update(value.number for value in call.results)
        self.calls += found or [call]

    def _sum(self, call: Call, x: Value, rows: Value) -> list[Call] | None:
        """Return the calls that add rows to an array, None if the operands are others."""
        (result,) = call.results
        if x.number not in self._arrays or any(
            (value.shape, value.dtype) != (result.shape, result.dtype) for value in call.reads
        ):
            return None
        maker = self._only_used_here(rows)
        if maker is not None and maker.primitive.name == "reshape":
            maker = self._only_used_here(maker.reads[0])
        if maker is None or maker.primitive.name != "take_add":
            return None
        making, shape = NewCalls(call, self._numbers), maker.results[0].shape
        if shape != x.shape:
            x = making.add("reshape", (x,), {"shape": shape}, shape)
        axis = maker.params["axis"]
        made = making.add("added_rows", (x, *maker.operands), {"axis": axis}, shape)
        if shape != result.shape:
            making.add("reshape", (made,), {"shape": result.shape}, result.shape)
        return making.ending_in(result)

    def _only_used_here(self, value: Value) -> Call | None:
        maker = self._makers.get(value.number)
        is_free = maker is not None and not maker.region and self._uses[value.number] == 1
        return maker if is_free else None


# Which carried values are changed in place


class Changes:
    """Carried values that rounds change in place, and an order of the steps that allows it.

    Between the value before a round and the value after it are writes, each of which reads the
    result of the one before. Steps that read an older value come before the write that changes it.
    """

    def __init__(
        self, graph: Graph, steps: Sequence[Step], natives: Natives, places: Sequence[int]
    ) -> None:
        self._graph, self._steps, self._natives = graph, steps, natives
        self.order = [*natives.found]
        """The positions of the native steps as they run."""
        self.values: dict[int, list[int]] = {}
        """The numbers of all values at one place, by the position of the carried value."""
        self._makers = {v.number: p for p in natives.found for v in steps[p].results}
        self._outputs = [self._root(value) for value in graph.outputs]
        edges: list[tuple[int, int]] = []
        for place in places:
            writes = self._writes(place)
            if not writes:
                continue
            more = [*edges, *self._constraints(writes)]
            order = self._ordered(more)
            if order is not None:
                edges, self.order = more, order
                results = [number for _, _, number in writes]
                self.values[place] = [graph.inputs[place].number, *results]

    def _root(self, value: Value) -> int:
        view = self._natives.view(value)
        return value.number if view is None else view.root.number

    def _writes(self, place: int) -> list[tuple[int, int, int]]:
        """Return the writes between a carried value and the next one, the first one first.

        Each is the position of its step, the number of the value that it changes, and that of its
        result. There are none if the value may not be changed.
        """
        first, last = self._graph.inputs[place], self._graph.outputs[place]
        view = self._natives.view(last)
        found: list[tuple[int, int, int]] = []
        while view is not None and _is_whole(view) and view.root.number != first.number:
            value = view.root
            position = self._makers.get(value.number)
            if position is None:
                return []
            view = _changed(self._steps[position], self._natives.found[position], value)
            if view is None:
                return []
            found.append((position, view.root.number, value.number))
        if view is None or not _is_whole(view):
            return []
        # The caller gets copies of results when a round has ended.
        kept = any(before in self._outputs for _, before, _ in found)
        return [] if kept else found[::-1]

    def _constraints(self, writes: Sequence[tuple[int, int, int]]) -> Iterator[tuple[int, int]]:
        """Yield pairs of steps, of which the first one has to run first."""
        for position, before, _ in writes:
            for other, native in self._natives.found.items():
                if other != position and before in self._read_by(other, native):
                    yield other, position

    def _read_by(self, position: int, native: Native) -> list[int]:
        count = len(self._steps[position].results)
        return [view.root.number for view in native.views[: len(native.views) - count]]

    def _ordered(self, edges: Sequence[tuple[int, int]]) -> list[int] | None:
        """Return the steps in an order with these constraints, None if there is none."""
        later: dict[int, list[int]] = {position: [] for position in self._natives.found}
        waits = dict.fromkeys(later, 0)
        pairs = [*edges]
        for position, native in self._natives.found.items():
            makers = {self._makers.get(view.root.number) for view in native.views}
            pairs += [(p, position) for p in makers if p is not None and p != position]
        for one, other in pairs:
            later[one].append(other)
            waits[other] += 1
        ready = [position for position, count in waits.items() if not count]
        heapify(ready)
        order: list[int] = []
        while ready:
            position = heappop(ready)
            order.append(position)
            for other in later[position]:
                waits[other] -= 1
                if not waits[other]:
                    heappush(ready, other)
        return order if len(order) == len(later) else None


def _is_whole(view: View) -> bool:
    """Whether a view has all elements of its array, in their order."""
    root = view.root
    return view.layout.is_contiguous and view.layout.size == root.size and not view.offset


def _changed(step: Step, native: Native, result: Value) -> View | None:
    """Return the operand of a step that may lie at the place of a result, None if none may."""
    if not isinstance(step, Call):
        return None
    place = [value.number for value in step.results].index(result.number)
    operand = _changed_operand(step, place)
    if operand is None or any(k == operand for k, _ in native.copies):
        return None
    view = native.views[operand]
    roots = [one.root.number for one in native.views]
    alike = view.layout.size == result.size and view.layout.dtype == result.dtype
    return view if alike and _is_whole(view) and roots.count(view.root.number) == 1 else None


def _changed_operand(call: Call, place: int) -> int | None:
    """Return the position of the operand that the result at a position is made of."""
    name, params = call.primitive.name, call.params
    if name in _WRITES:
        return 0
    if name in ("counted_loop", "conditional_loop"):
        return place if place < params["body"].layout.carried else None
    if name == "conditional_loop_gradient":
        layout = params["body"].layout
        return int(layout.carried + layout.shared + place)
    return None
