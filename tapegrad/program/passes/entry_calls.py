"""Replace values by entries of arrays, and joins of such values by parts of these arrays."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from tapegrad.core.primitive.primitive import PRIMITIVES
from tapegrad.program.graph.dependence import in_order, makers_of, unused_numbers
from tapegrad.program.graph.formulas import weight_of
from tapegrad.program.graph.graph import Call, Graph, Value, without_dead_calls
from tapegrad.program.graph.recurrences import Entry

LEAST_JOINED = 3
"""The fewest entries in a stack that are a part of an array instead."""


_SHAPED = ("broadcast_to", "full_like", "reshape")
"""Primitives with a parameter that is the shape of the result."""


class EntryCalls:
    """The calls of a graph, and new ones, for a pass that makes arrays of their results."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self.calls, self.makers = graph.calls, makers_of(graph.calls)
        self.numbers = unused_numbers(graph)
        self.new: list[Call] = []
        self.gone: set[int] = set()
        """The positions of the calls that new ones replace."""
        self.final: dict[int, Value] = {}
        """The values that replace others, by their numbers."""
        self.home: dict[int, Entry] = {}
        """The entries of new arrays, by what they replace."""

    def new_value(self, like: Value, shape: Sequence[int]) -> Value:
        """Return a value of another shape."""
        return replace(like, number=next(self.numbers), shape=tuple(shape))

    def add(
        self,
        like: Call,
        name: str,
        operands: Sequence[Any],
        params: dict[str, Any],
        results: Sequence[Value],
        aliases: bool = False,
    ) -> None:
        """Add a call that belongs to the same line of the user's code as another one."""
        self.new.append(
            replace(
                like,
                primitive=PRIMITIVES[name],
                operands=tuple(operands),
                params=params,
                results=tuple(results),
                aliases=aliases,
            )
        )

    def view(self, like: Call, name: str, x: Value, params: Any, shape: Sequence[int]) -> Value:
        result = self.new_value(x, shape)
        self.add(like, name, (x,), params, (result,), aliases=True)
        return result

    def part(self, like: Call, x: Value, axis: int, start: int, stop: int) -> Value:
        """Return some entries along an axis."""
        if (start, stop) == (0, x.shape[axis]):
            return x
        index = [slice(None)] * len(x.shape)
        index[axis] = slice(start, stop, None)
        shape = (*x.shape[:axis], stop - start, *x.shape[axis + 1 :])
        return self.view(like, "slice", x, {"index": tuple(index)}, shape)

    def moved(self, like: Call, x: Value, source: int, target: int) -> Value:
        """Return an array with one of its axes at another position."""
        if source == target:
            return x
        axes = [axis for axis in range(len(x.shape)) if axis != source]
        axes.insert(target, source)
        shape = [x.shape[axis] for axis in axes]
        return self.view(like, "permute_dims", x, {"axes": tuple(axes)}, shape)

    def batched(self, like: Call, operands: Sequence[Any], count: int) -> Value:
        """Add a call for operands with one more axis, the first one, and return its result."""
        result = like.results[0]
        array = self.new_value(result, (count, *result.shape))
        params = _batched_params(like, array)
        self.add(like, like.primitive.name, operands, params, (array,), like.aliases)
        return array

    def aligned(self, x: Value, like: Call) -> Value:
        """Return entries with axes of length 1, as many as the result has more than they have."""
        missing = len(like.results[0].shape) - (len(x.shape) - 1)
        if weight_of(like) is None or missing <= 0:
            return x
        shape = (x.shape[0], *[1] * missing, *x.shape[1:])
        return self.view(like, "reshape", x, {"shape": shape}, shape)

    def now(self, operand: Any, like: Call) -> Any:
        """Return what replaces an operand."""
        if not isinstance(operand, Value):
            return operand
        found = self.final.get(operand.number)
        entry = self.home.get(operand.number)
        if found is None and entry is not None:
            index = (entry.position, *[slice(None)] * len(operand.shape))
            found = self.view(like, "slice", entry.array, {"index": index}, operand.shape)
            self.final[operand.number] = found
        return operand if found is None else found

    def joined(self, call: Call) -> bool:
        """Replace a stack or a join of entries of a new array by parts of it, if it has any."""
        axis: int = call.params["axis"]
        parts = [self._rows_of(x, call, axis) for x in call.operands]
        if sum(isinstance(part, Entry) for part in parts) < LEAST_JOINED:
            return False
        pieces: list[Value] = []
        for start, stop in _runs(parts):
            entry = parts[start]
            if isinstance(entry, Entry):
                low = entry.position
                rows = self.part(call, entry.array, 0, low, low + stop - start)
                pieces.append(self.moved(call, rows, 0, axis))
            else:
                pieces.append(self._with_axis(call, parts[start], axis))
        if len(pieces) == 1:
            self.add(call, "identity", pieces, {}, call.results)
        else:
            sizes = tuple([piece.shape[axis] for piece in pieces])
            self.add(call, "concat", pieces, {"axis": axis, "sizes": sizes}, call.results)
        return True

    def graph(self, constants: dict[int, Any] | None = None) -> Graph:
        """Return the graph with the new calls; these are the `constants`, if they have changed."""
        graph = self._graph
        for place, call in enumerate(self.calls):
            if place in self.gone:
                continue
            if call.primitive.name in ("stack", "concat") and self.joined(call):
                continue
            self.new.append(call.with_values(tuple([self.now(x, call) for x in call.operands])))
        like = self.calls[0]
        made = replace(
            graph,
            constants=graph.constants if constants is None else constants,
            outputs=tuple([self.now(value, like) for value in graph.outputs]),
            written={n: self.now(value, like) for n, value in graph.written.items()},
        )
        return without_dead_calls(replace(made, calls=in_order(self.new)))

    def _rows_of(self, operand: Any, call: Call, axis: int) -> Any:
        """Return the entry of a new array that a stack or a join has at a place."""
        if call.primitive.name == "stack":
            return self.home.get(operand.number) or self.now(operand, call)
        row = self.row_of(operand, axis)
        entry = None if row is None else self.home.get(row.number)
        return self.now(operand, call) if entry is None else entry

    def row_of(self, operand: Value, axis: int) -> Value | None:
        """Return the value that has been given an axis of length 1."""
        place = self.makers.get(operand.number)
        maker = None if place is None else self.calls[place]
        if maker is None or maker.primitive.name != "reshape" or operand.shape[axis] != 1:
            return None
        row = maker.reads[0]
        is_row = (*operand.shape[:axis], *operand.shape[axis + 1 :]) == row.shape
        return row if is_row else None

    def _with_axis(self, call: Call, x: Any, axis: int) -> Value:
        if call.primitive.name == "concat":
            piece: Value = x
            return piece
        shape = (*x.shape[:axis], 1, *x.shape[axis:])
        return self.view(call, "reshape", x, {"shape": shape}, shape)


def _runs(parts: Sequence[Any]) -> Iterator[tuple[int, int]]:
    """Yield the ranges of neighbouring entries of one array, in their order."""
    start = 0
    for place in range(1, len(parts) + 1):
        if place < len(parts) and isinstance(parts[place], Entry):
            before, here = parts[place - 1], parts[place]
            if isinstance(before, Entry) and here == before.following:
                continue
        yield start, place
        start = place


def entries(calls: Sequence[Call]) -> dict[int, Entry]:
    """Return the values that are one entry of an array, by their numbers."""
    found: dict[int, Entry] = {}
    rows: dict[int, Entry] = {}
    for call in calls:
        if call.region or not call.reads:
            continue
        if call.primitive.name == "unstack":
            axis = call.params["axis"] % len(call.reads[0].shape)
            for position, value in enumerate(call.results):
                found[value.number] = Entry(call.reads[0], axis, position)
        if call.primitive.name == "reshape":
            entry = rows.get(call.reads[0].number)
            if entry is not None and call.results[0].shape == entry.shape:
                found[call.results[0].number] = entry
        if call.primitive.name == "slice":
            entry, is_row = _sliced(call)
            if entry is not None:
                (rows if is_row else found)[call.results[0].number] = entry
    return found


def _sliced(call: Call) -> tuple[Entry | None, bool]:
    """Return the only entry that a slice reads, and whether the slice has an axis for it."""
    source, index = call.reads[0], call.params["index"]
    if not all(isinstance(part, int | slice) for part in index):  # new axes
        return None, False
    ranges = [
        range(part, part + 1) if isinstance(part, int) else range(*part.indices(length))
        for part, length in zip(index, source.shape)
    ]
    changed = [axis for axis, part in enumerate(ranges) if part != range(source.shape[axis])]
    numbers = [axis for axis, part in enumerate(index) if isinstance(part, int)]
    at = numbers or changed
    if len(at) != 1 or len(ranges[at[0]]) != 1 or not set(changed) <= set(at):
        return None, False
    return Entry(source, at[0], ranges[at[0]].start % source.shape[at[0]]), not numbers


def _batched_params(call: Call, array: Value) -> dict[str, Any]:
    """Return the parameters of a call for operands with one more axis, the first one."""
    params = dict(call.params)
    if call.primitive.name in _SHAPED:
        params["shape"] = array.shape
    if call.primitive.name == "permute_dims":
        params["axes"] = (0, *[axis + 1 for axis in params["axes"]])
    if weight_of(call) is None and "axis" in params:
        params["axis"] = tuple([axis + 1 for axis in params["axis"]])
    return params
