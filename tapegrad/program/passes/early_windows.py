"""Take slices, rolls and paddings before the arithmetic instead of after it.

Loops read an array at other positions, but a value that is read at other positions has to be an
array. If only slices of `a + b` are read, sums of slices of `a` and `b` need no such array. The
gradient of a stencil pads and shifts several products of one array: as products of shifted reads
they need that array alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from tapegrad.core.backend.optional_parts import LoopCompiler
from tapegrad.program.graph.dependence import unused_numbers
from tapegrad.program.graph.graph import (
    Call,
    Graph,
    Value,
    without_dead_calls,
    without_repeated_calls,
)
from tapegrad.program.passes.cones import WINDOWS, Cone, Uses
from tapegrad.program.passes.moved_windows import has_unit_steps, moved_window, placed_part
from tapegrad.program.passes.new_calls import NewCalls

MOST_ROUNDS = 6
"""How often windows are moved. The gradient of a padding along each axis is a slice of the next."""


def with_early_windows(graph: Graph, loops: LoopCompiler) -> Graph:
    """Move windows before cheap elementwise calls where that moves fewer bytes."""
    names = WINDOWS & {*loops.windows, "slice"}
    for _ in range(MOST_ROUNDS):
        if not any(call.primitive.name in names for call in graph.calls):
            return graph
        cones = Uses(graph, names, loops).worthwhile_cones()
        if not cones:
            return graph
        graph = without_dead_calls(without_repeated_calls(_Rewriting(graph, cones).graph()))
    return graph


_STAYS_ZERO = WINDOWS | {"reshape", "broadcast_to", "negative", "keep"}
"""Primitives that return zeros if the first operand is zero."""


class _Rewriting:
    """Replaces windows of cones by cones of windows. Terms that are zero are left out."""

    def __init__(self, graph: Graph, cones: dict[int, Cone]) -> None:
        self._graph, self._cones = graph, cones
        self._numbers = unused_numbers(graph)
        self._places = {v.number: k for k, call in enumerate(graph.calls) for v in call.results}
        self._results = {value.number for value in graph.results}
        self._makers: dict[int, Call] = {}
        self._zeros: set[int] = set()
        self._same: dict[int, Value] = {}
        """Values that are equal to others because the other terms are zero."""

    def graph(self) -> Graph:
        calls: list[Call] = []
        for call in self._graph.calls:
            cone = self._cones.get(call.reads[0].number) if call.reads else None
            is_moved = cone is not None and any(call is window for window in cone.windows)
            for new in self._behind(call, cone) if cone and is_moved else (call,):
                kept = self._without_zeros(new)
                if kept is not None:
                    calls.append(kept)
        return replace(self._graph, calls=tuple(calls))

    def _without_zeros(self, call: Call) -> Call | None:
        """Return a call with the operands that are left; None if it returns one of them."""
        operands = [
            self._same.get(x.number, x) if isinstance(x, Value) else x for x in call.operands
        ]
        if operands != [*call.operands]:
            call = call.with_values(tuple(operands))
        if self._is_zero(call):
            self._zeros.add(call.results[0].number)
        other = self._other_term(call)
        if other is not None:
            self._same[call.results[0].number] = other
            return None
        self._makers.update({value.number: call for value in call.results})
        return call

    def _is_zero(self, call: Call) -> bool:
        """Whether a call returns zeros whatever its other operands are, infinite ones included."""
        if _is_zeros(call):
            return True
        zeros = [isinstance(x, Value) and x.number in self._zeros for x in call.operands]
        if call.primitive.name == "multiply":
            return any(zeros) and any(isinstance(x, float | int) for x in call.operands)
        if call.primitive.name == "zero_with":
            return any(zeros)
        return call.primitive.name in _STAYS_ZERO and zeros[0]

    def _other_term(self, call: Call) -> Value | None:
        """Return the term to which a sum adds zeros only."""
        if call.primitive.name != "add" or call.results[0].number in self._results:
            return None
        one, other = call.operands
        if not (isinstance(one, Value) and isinstance(other, Value)):
            return None
        if (one.shape, one.dtype) != (other.shape, other.dtype):
            return None
        return other if one.number in self._zeros else one if other.number in self._zeros else None

    def _behind(self, window: Call, cone: Cone) -> Iterator[Call]:
        """Yield the calls that make what a window shows of a cone."""
        shown = window.results[0]
        new: dict[int, Value] = {}
        calls: list[Call] = []
        for number, leaf in cone.leaves.items():
            new[number], moved = self._shown(window, self._same.get(number, leaf), cone.value)
            calls += moved
        if all(map(_is_zeros, calls)) and len(calls) == len(new) and cone.keeps_zeros:
            yield replace(calls[0], results=(shown,))
            return
        yield from calls
        for number in sorted(cone.calls, key=self._places.__getitem__):
            call, result = cone.calls[number], shown
            if number != cone.value.number:
                made = call.results[0]
                result = replace(made, number=next(self._numbers), shape=shown.shape)
            new[number] = result
            operands = [new[x.number] if isinstance(x, Value) else x for x in call.operands]
            yield replace(call, operands=tuple(operands), results=(result,))

    def _shown(self, window: Call, leaf: Value, value: Value) -> tuple[Value, list[Call]]:
        """Return what a window of a value shows of a leaf, and the calls that make it."""
        maker = self._makers.get(leaf.number)
        if maker is not None and _is_same_in(window, maker) and leaf.shape == value.shape:
            return self._filled(window, leaf, maker.params["value"])
        if maker is None or not _shows_part_among_zeros(window, maker) or leaf.shape != value.shape:
            moved = moved_window(window, leaf, value.shape, next(self._numbers))
            return (leaf, []) if moved is None else (moved.results[0], [moved])
        making = self._making(window, leaf)
        shape, found = window.results[0].shape, placed_part(window, maker)
        if found is None:
            return self._filled(window, leaf, 0)
        part = making.part(maker.reads[0], found[0])
        return making.placed(part, found[1], shape), making.calls

    def _making(self, window: Call, leaf: Value) -> NewCalls:
        return NewCalls(replace(window, results=(leaf,)), self._numbers)

    def _filled(self, window: Call, leaf: Value, number: Any) -> tuple[Value, list[Call]]:
        """Return a number in the shape of what a window shows, and the call that makes it."""
        making, shape = self._making(window, leaf), window.results[0].shape
        params = {"shape": shape, "value": number, "dtype": leaf.dtype}
        return making.add("full_like", (self._origin(leaf),), params, shape), making.calls

    def _origin(self, value: Value) -> Value:
        """Return an input that a value depends on: loops do not store what is only named."""
        while (maker := self._makers.get(value.number)) is not None and maker.reads:
            value = maker.reads[0]
        return value


def _is_same_in(window: Call, maker: Call) -> bool:
    """Whether a window shows nothing but the number that an array is filled with."""
    is_filled = maker.primitive.name == "full_like"
    return is_filled and (window.primitive.name != "unslice" or _is_zeros(maker))


def _is_zeros(call: Call) -> bool:
    """Whether a call makes an array of zeros."""
    is_full = call.primitive.name == "full_like"
    return is_full and call.params["value"] == 0 and call.results[0].dtype.kind == "f"


def _shows_part_among_zeros(window: Call, maker: Call) -> bool:
    names = window.primitive.name, maker.primitive.name
    return names == ("slice", "unslice") and has_unit_steps(window) and has_unit_steps(maker)
