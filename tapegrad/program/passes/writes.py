"""Writes into parts of arrays as elementwise calls, which are fused with those around them.

`f[:-1] += s` reads a part, adds to it, and writes it into a new array: three calls, each with its
own pass over memory. It is `f` plus `s` among zeros. `u[0] = 0.0` is a choice between two values,
by position. In the gradient the part of a cotangent is cleared and comes back through the read: a
cotangent that does not change.

A program that fills an array round by round keeps its writes, which touch one part each.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from math import prod
from typing import Any

import numpy as np

from tapegrad.program.graph.dependence import unused_numbers
from tapegrad.program.graph.formulas import weight_of
from tapegrad.program.graph.graph import Call, Graph, Shape, Value, without_dead_calls
from tapegrad.program.passes.new_calls import NewCalls
from tapegrad.program.passes.slices import places_of

MOST_WRITES = 32
"""How many writes into one array, one after the other, are rewritten. More are rounds of a loop."""

Part = tuple[range, ...]
"""The positions along each axis."""


def with_elementwise_writes(graph: Graph, of_all_sizes: bool = True) -> Graph:
    """Replace writes into parts of arrays that a pass over the whole array has just made.

    Unless they are `of_all_sizes`, values for more than half of an array are written in place: on
    the CPU that costs less than a choice at each position.
    """
    if not any([call.primitive.name == "slice_set" for call in graph.calls]):
        return graph
    rewriting = _Rewriting(graph, of_all_sizes)
    for call in graph.calls:
        rewriting.add(call)
    return without_dead_calls(rewriting.graph())


class _Rewriting:
    """The calls of a graph whose writes are replaced one after the other."""

    def __init__(self, graph: Graph, of_all_sizes: bool) -> None:
        self._graph, self._numbers = graph, unused_numbers(graph)
        self._of_all_sizes = of_all_sizes
        # Calls that read no values need an operand for its device, which exists from the start.
        given = (*graph.inputs, *graph.variables.values())
        self._given = {value.device: value for value in given}
        self._results = {value.number for value in graph.results}
        self._calls: list[Call] = []
        self._makers: dict[int, Call] = {}
        self._same: dict[int, Value] = {}
        self._zeros: set[int] = set()
        self._cleared: dict[int, Call] = {}
        """Writes of zeros, which the addition of another part may undo."""
        self._writes: dict[int, int] = {}
        """How many writes in a row have been replaced to make a value."""

    def graph(self) -> Graph:
        """Return the rewritten graph."""
        outputs = tuple([self._now(value) for value in self._graph.outputs])
        written = {n: self._now(value) for n, value in self._graph.written.items()}
        return replace(self._graph, calls=tuple(self._calls), outputs=outputs, written=written)

    def add(self, call: Call) -> None:
        """Add a call, or those that replace it."""
        call = call.with_values(tuple([self._now(operand) for operand in call.operands]))
        made = None if call.region else self._replaced(call)
        if isinstance(made, Value):
            (result,) = call.results
            if result.number not in self._results:
                self._same[result.number] = made
                return
            made = None
        for one in made or [call]:
            self._calls.append(one)
            self._makers.update((result.number, one) for result in one.results)
            if _is_zero(one, self._zeros):
                self._zeros.add(one.results[0].number)

    def _now(self, operand: Any) -> Any:
        return self._same.get(operand.number, operand) if isinstance(operand, Value) else operand

    def _replaced(self, call: Call) -> Value | list[Call] | None:
        """Return the value that a call returns, or other calls for it; None if it stays."""
        if call.primitive.name == "slice":
            return call.reads[0] if _is_whole(call) else None
        if call.primitive.name == "slice_set":
            if self._is_zero(call.operands[1]):
                self._cleared[call.results[0].number] = call
            return self._write(call)
        if call.primitive.name == "add" and len(call.reads) == 2:
            return self._sum(call)
        return None

    def _sum(self, call: Call) -> Value | list[Call] | None:
        """Look for a zero array, and for a part that is cleared and added to."""
        (result,) = call.results
        for one, other in (call.reads, call.reads[::-1]):
            if other.number in self._zeros and _is_like(one, result):
                return one
            cleared, placed = self._cleared.get(one.number), self._maker(other, "unslice")
            if cleared is None or placed is None or not _is_like(one, result):
                continue
            places = [places_of(each.params["index"], one.shape) for each in (cleared, placed)]
            if places[0] is None or places[0] != places[1] or one.shape != other.shape:
                continue
            operands = (cleared.reads[0], placed.reads[0])
            params = {"index": placed.params["index"]}
            write = replace(cleared, operands=operands, params=params, results=(result,))
            return self._write(write) or [write]
        return None

    def _write(self, call: Call) -> Value | list[Call] | None:
        """Return the value that a write returns, or other calls for it; None if it stays."""
        (result,), (x, v) = call.results, call.operands
        places = places_of(call.params["index"], result.shape)
        if places is None or not isinstance(x, Value) or not _is_like(x, result):
            return None
        part = tuple([range(*p) if isinstance(p, tuple) else range(p, p + 1) for p in places])
        if any(p.step != 1 or not p for p in part):
            return None
        read = self._maker(v, "slice")
        if read is not None and read.reads[0] == x and read.params == call.params:
            return x  # what is there already
        if not isinstance(v, Value) or v.dtype != x.dtype:
            return None
        kept = tuple([len(p) for p, place in zip(part, places) if isinstance(place, tuple)])
        making = NewCalls(call, self._numbers)
        if all(len(p) == n for p, n in zip(part, result.shape)):
            if _is_like(v, result):
                return v
            self._placed(making, v, part, kept, result.shape)
            return making.ending_in(result)
        depth = self._writes.get(x.number, 0) + 1
        if depth > MOST_WRITES or not self._is_swept(x):
            return None
        change = self._change(making, call, kept)
        if change is None and not self._of_all_sizes and 2 * prod(kept) > x.size:
            return None
        self._writes[result.number] = depth
        if change is not None:
            name, other = change
            making.add(name, (x, self._placed(making, other, part, kept, x.shape)), {}, x.shape)
            return making.ending_in(result)
        if v.shape:
            v = self._placed(making, v, part, kept, x.shape)
        inside = _inside(making, self._given.get(x.device, x), part, x.shape)
        making.add("where", (inside, v, x), {}, x.shape)
        return making.ending_in(result)

    def _change(self, making: NewCalls, call: Call, kept: Shape) -> tuple[str, Value] | None:
        """Return what is added to or subtracted from the part that is written, if that is all."""
        x, v = call.operands
        maker = self._makers.get(v.number)
        if maker is None or maker.region or maker.primitive.name not in ("add", "subtract"):
            return None
        operands = maker.operands if v.shape == kept else ()
        for one, other in (operands, operands[::-1]) if operands else ():
            read = self._maker(one, "slice")
            if read is None or read.reads[0] != x or read.params["index"] != call.params["index"]:
                continue
            if maker.primitive.name == "subtract" and one is not operands[0]:
                continue
            if not isinstance(other, Value):
                params = {"shape": (), "value": other, "dtype": x.dtype}
                other = making.add("full_like", (self._given.get(x.device, x),), params, ())
            if other.dtype == x.dtype:
                return maker.primitive.name, other
        return None

    def _placed(self, making: NewCalls, v: Value, part: Part, kept: Shape, shape: Shape) -> Value:
        """Return a value, broadcast to a part, among zeros."""
        if v.shape != kept:
            v = making.add("broadcast_to", (v,), {"shape": kept}, kept)
        lengths = tuple([len(p) for p in part])
        if lengths != kept:
            v = making.add("reshape", (v,), {"shape": lengths}, lengths)
        return making.placed(v, tuple([slice(p.start, p.stop, 1) for p in part]), shape)

    def _maker(self, value: Any, name: str) -> Call | None:
        """Return the call that made a value if it is one of a primitive."""
        maker = self._makers.get(value.number) if isinstance(value, Value) else None
        return maker if maker is not None and maker.primitive.name == name else None

    def _is_zero(self, value: Any) -> bool:
        return isinstance(value, Value) and value.number in self._zeros

    def _is_swept(self, x: Value) -> bool:
        """Whether an elementwise call of other arrays has made the array."""
        maker = self._makers.get(x.number)
        return (
            maker is not None
            and maker.primitive.name != "full_like"
            and (weight_of(maker) is not None)
        )


def _is_zero(call: Call, zeros: set[int]) -> bool:
    """Whether a call makes zeros."""
    name = call.primitive.name
    if name == "full_like":
        return not call.params["value"] and call.results[0].dtype.kind != "b"
    is_moved = name in ("broadcast_to", "reshape", "slice", "unslice")
    return is_moved and call.reads[0].number in zeros


def _is_whole(call: Call) -> bool:
    """Whether a slice is all of an array."""
    shape = call.reads[0].shape
    places = places_of(call.params["index"], shape)
    return call.results[0].shape == shape and places == tuple([(0, n, 1) for n in shape])


def _is_like(value: Value, result: Value) -> bool:
    return value.shape == result.shape and value.dtype == result.dtype


def _inside(making: NewCalls, given: Value, part: Part, shape: Shape) -> Value:
    """Return where the positions of an array belong to a part, broadcast along whole axes."""
    found: Value | None = None
    numbers = np.dtype(np.int32)
    for axis, (places, length) in enumerate(zip(part, shape)):
        if len(places) == length:
            continue
        params: dict[str, Any] = {"length": length, "dtype": numbers}
        lengths = (length, *[1] * (len(shape) - axis - 1))
        position = _typed(making, "positions_like", (given,), params, (length,), numbers)
        position = _typed(making, "reshape", (position,), {"shape": lengths}, lengths, numbers)
        for name, bound in _bounds(places, length):
            one = _typed(making, name, (position, bound), {}, lengths, np.dtype(bool))
            if found is None:
                found = one
                continue
            both = np.broadcast_shapes(found.shape, lengths)
            found = _typed(making, "bitwise_and", (found, one), {}, both, np.dtype(bool))
    assert found is not None
    return found


def _bounds(places: range, length: int) -> Iterator[tuple[str, int]]:
    if len(places) == 1:
        yield "equal", places.start
        return
    if places.start > 0:
        yield "greater_equal", places.start
    if places.stop < length:
        yield "less", places.stop


def _typed(
    making: NewCalls,
    name: str,
    operands: Sequence[Any],
    params: dict[str, Any],
    shape: Shape,
    dtype: np.dtype[Any],
) -> Value:
    like = making.add(name, operands, params, shape)
    result = replace(like, dtype=dtype)
    making.calls[-1] = replace(making.calls[-1], results=(result,))
    return result
