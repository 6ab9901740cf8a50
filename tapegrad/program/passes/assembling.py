"""Calls on the components of an array, and the arrays that are made of components again."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from tapegrad.core.primitive.primitive import PRIMITIVES
from tapegrad.program.graph.dependence import unused_numbers
from tapegrad.program.graph.formulas import COMBINING
from tapegrad.program.graph.graph import Call, Graph, Shape, Value


class Assembling:
    """The calls of a graph in which some arrays became components."""

    def __init__(self, graph: Graph) -> None:
        self.calls: list[Call] = []
        self._numbers: Iterator[int] = unused_numbers(graph)
        self._positions: dict[tuple[int, str], Value] = {}
        given = (*graph.inputs, *graph.variables.values())
        self._given = {value.device: value for value in given}

    def add_reduction(self, call: Call, components: Sequence[Value], axis: int) -> None:
        """Reduce an array whose components along an axis are given."""
        (result,) = call.results
        axes = tuple(one - (one > axis) for one in call.params["axis"] if one != axis)
        if axis in call.params["axis"]:
            total = self._reduced(call, self._combined(call, components), axes)
            self.add_call(call, "reshape", (total,), {"shape": result.shape}, result)
            return
        totals = [self._reduced(call, component, axes) for component in components]
        reduced = [one for one in call.params["axis"] if one < axis]
        place = axis if call.params["keepdims"] else axis - len(reduced)
        self._join(call, totals, result, place)

    def _combined(self, call: Call, components: Sequence[Value]) -> Value:
        """Reduce along the short axis."""
        total, *others = components
        for other in others:
            made = self.new_value(total.shape, total)
            self.add_call(call, COMBINING[call.primitive.name], (total, other), {}, made)
            total = made
        if call.primitive.name == "mean":
            made = self.new_value(total.shape, total)
            self.add_call(call, "divide", (total, float(len(components))), {}, made)
            total = made
        return total

    def _reduced(self, call: Call, value: Value, axes: tuple[int, ...]) -> Value:
        """Reduce along the other axes."""
        if not axes:
            return value
        shape = tuple(n for k, n in enumerate(value.shape) if k not in axes)
        made = self.new_value(shape, value)
        params = {"axis": axes, "keepdims": False}
        self.add_call(call, call.primitive.name, (value,), params, made)
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
            hits = replace(self.new_value(along, positions), dtype=np.dtype(bool))
            self.add_call(call, "equal", (positions, index), {}, hits)
            made = result if index == 0 else self.new_value(result.shape, result)
            self.add_call(call, "where", (hits, shaped[index], total), {}, made)
            total = made

    def _positions_of(self, call: Call, parts: Sequence[Value]) -> Value:
        """Return the positions of parts, which are computed once per device."""
        count, device = len(parts), parts[0].device
        found = self._positions.get((count, device))
        if found is None:
            dtype = np.dtype("int32")
            found = replace(self.new_value((count,), parts[0]), dtype=dtype)
            self._positions[count, device] = found
            params = {"length": count, "dtype": dtype}
            self.add_call(
                call, "positions_like", (self._given.get(device, parts[0]),), params, found
            )
        return found

    def _reshaped(self, call: Call, value: Value, shape: Shape) -> Value:
        made = self.new_value(shape, value)
        self.add_call(call, "reshape", (value,), {"shape": shape}, made)
        return made

    def new_value(self, shape: Shape, like: Value) -> Value:
        """Return a value with another shape."""
        return replace(like, number=next(self._numbers), shape=shape)

    def add_call(
        self,
        call: Call,
        name: str,
        operands: tuple[Any, ...],
        params: dict[str, Any],
        result: Value,
    ) -> None:
        """Add a call of a primitive that makes a result, on behalf of a call."""
        made = replace(
            call,
            primitive=PRIMITIVES[name],
            operands=operands,
            params=params,
            results=(result,),
            aliases=name in ("reshape", "slice"),
        )
        self.calls.append(made)


def without(shape: Shape, axis: int) -> Shape:
    """Return a shape that lacks an axis."""
    return (*shape[:axis], *shape[axis + 1 :])
