"""Add rows in the order of their index, where that is faster than adding them in any order.

If the rows of a sum are far more than a cache holds, and are added in the order in which they
come, each addition changes memory. Sorted by their index they are added up before. Only positions
are sorted: a row that is computed from other arrays is computed from the rows of these arrays in
the new order, which a loop reads through the sorted positions. Sums of one index share them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from tapegrad.core.backend.optional_parts import LoopCompiler
from tapegrad.core.primitive.primitive import PRIMITIVES
from tapegrad.program.graph.dependence import unused_numbers
from tapegrad.program.graph.formulas import weight_of
from tapegrad.program.graph.graph import Call, Graph, Shape, Value
from tapegrad.program.graph.iteration_spaces import is_view
from tapegrad.program.graph.row_sums import row_sum_of
from tapegrad.program.graph.windows import GATHERS

MOST_CALLS = 16
"""The most calls that are made again for rows in another order."""

_INT32 = np.dtype(np.int32)


def with_ordered_sums(graph: Graph, loops: LoopCompiler) -> Graph:
    """Return the graph with sums of sorted rows, where the compiler of loops wants them."""
    wanted = {call.results[0].number for call in graph.calls if _is_worth_it(call, loops)}
    if not wanted:
        return graph
    ordering = _Ordering(graph)
    for call in graph.calls:
        if call.results and call.results[0].number in wanted:
            call = ordering.ordered(call)
        ordering.calls.append(call)
    return replace(graph, calls=tuple(ordering.calls))


def _is_worth_it(call: Call, loops: LoopCompiler) -> bool:
    found = row_sum_of(call, loops.adds_rows)
    if found is None or call.params.get("axis", 0) != 0 or len(found.positions.shape) != 1:
        return False
    entries = found.positions.shape[0]
    return loops.sorts_rows(entries, call.reads[0].nbytes // entries, found.size)


class _Ordering:
    """The calls of a graph, and those that bring rows into another order."""

    def __init__(self, graph: Graph) -> None:
        self.calls: list[Call] = []
        self._numbers: Iterator[int] = unused_numbers(graph)
        self._makers = {value.number: call for call in graph.calls for value in call.results}
        self._orders: dict[int, Value] = {}
        self._moved: dict[tuple[int, int], Value] = {}
        self._left = 0

    def ordered(self, call: Call) -> Call:
        """Return a sum whose rows are sorted by their index."""
        values, index = call.reads
        order = self._orders.get(index.number)
        if order is None:
            order = self._orders[index.number] = self._order_of(index, call)
        self._left = MOST_CALLS
        moved = (self._in_order(values, order, call), self._in_order(index, order, call))
        return call.with_values(moved)

    def _order_of(self, index: Value, like: Call) -> Value:
        # The order changes no result, so that indices out of the range of int32 do no harm.
        narrow = self._add(
            "cast_to_integer", (index,), {"dtype": _INT32}, index.shape, _INT32, like
        )
        params = {"axis": 0, "descending": False, "stable": True}
        return self._add("argsort", (narrow,), params, index.shape, np.dtype(np.int64), like)

    def _in_order(self, value: Value, order: Value, like: Call) -> Value:
        """Return the rows of a value in another order."""
        key = (value.number, order.number)
        if key not in self._moved:
            self._moved[key] = self._computed(value, order, like) or self._add(
                "take", (value, order), {"axis": 0}, value.shape, value.dtype, like
            )
        return self._moved[key]

    def _computed(self, value: Value, order: Value, like: Call) -> Value | None:
        """Return the rows of a value computed from other rows, None if that is impossible."""
        maker = self._makers.get(value.number)
        is_narrow = value.size == value.shape[0]  # one number per row is cheap to move
        if maker is None or is_narrow or len(maker.results) != 1 or self._left <= 0:
            return None
        self._left -= 1
        if maker.primitive.name in GATHERS:
            table, index = maker.operands
            if maker.params.get("axis", 0) != 0 or len(index.shape) != 1:
                return None
            return self._again(maker, (table, self._in_order(index, order, like)))
        is_simple = is_view(maker) or (weight_of(maker) is not None and value.shape)
        if not is_simple or not all(_fits(x, value.shape, is_view(maker)) for x in maker.operands):
            return None
        operands = [
            self._in_order(x, order, like) if _has_rows(x, value.shape, is_view(maker)) else x
            for x in maker.operands
        ]
        return self._again(maker, tuple(operands))

    def _again(self, maker: Call, operands: tuple[Any, ...]) -> Value:
        result = replace(maker.results[0], number=next(self._numbers))
        self.calls.append(maker.with_values(operands, (result,)))
        return result

    def _add(
        self,
        name: str,
        operands: tuple[Value, ...],
        params: dict[str, Any],
        shape: Shape,
        dtype: np.dtype[Any],
        like: Call,
    ) -> Value:
        result = Value(next(self._numbers), shape, dtype, like.results[0].device)
        primitive = PRIMITIVES[name]
        made = Call(primitive, operands, params, (result,), like.array_type, region=like.region)
        self.calls.append(made)
        return result


def _has_rows(x: Any, shape: Shape, is_shown: bool) -> bool:
    """Whether an operand has one entry for each row of a result."""
    if not isinstance(x, Value) or not x.shape or x.shape[0] != shape[0]:
        return False
    return len(x.shape) == len(shape) or is_shown


def _fits(x: Any, shape: Shape, is_shown: bool) -> bool:
    """Whether rows of an operand belong to rows of a result, or are the same for all of them."""
    if not isinstance(x, Value) or _has_rows(x, shape, is_shown):
        return True
    if is_shown:
        return x.size == 1
    return len(x.shape) < len(shape) or x.shape[0] == 1
