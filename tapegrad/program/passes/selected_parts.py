"""Let loops select from the parts of a concatenation or a stack instead of reading a joined array.

`concat([first, x[:-1]])` shifts an array by one place, as recursions over sequences and differences
with borders do. A loop reads each part where it lies and selects by the position, so that no array
is joined only to be read once.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping
from dataclasses import replace
from math import prod

import numpy as np

from tapegrad.core.backend.optional_parts import LoopCompiler
from tapegrad.program.graph.dependence import unused_numbers
from tapegrad.program.graph.formulas import is_combining, weight_of
from tapegrad.program.graph.graph import Call, Graph, Value
from tapegrad.program.graph.iteration_spaces import is_view
from tapegrad.program.graph.windows import MOVES, PARTS
from tapegrad.program.passes.new_calls import NewCalls

MOST_PARTS = 16
"""The most parts from which a loop selects."""

MOST_READERS = 8
"""The most calls that select; for more of them the joined array is stored."""

_FILLED = ("broadcast_to", "full_like")


def with_selected_parts(graph: Graph, loops: LoopCompiler) -> Graph:
    """Replace joins that only loops read, and joins of moved arrays, by selections."""
    found = {
        call.results[0].number: call
        for call in graph.calls
        if call.primitive.name in ("concat", "stack")
        and not call.region
        and 1 < len(call.operands) == len(call.reads) <= MOST_PARTS
    }
    if not found or not loops.windows:
        return graph
    makers = {value.number: call for call in graph.calls for value in call.results}
    chosen = _read_by_loops(graph, found.keys(), loops)
    chosen |= {number for number, call in found.items() if _are_moved(call, makers, loops)}
    if not chosen:
        return graph
    numbers = unused_numbers(graph)
    calls: list[Call] = []
    for call in graph.calls:
        if call.results and call.results[0].number in chosen:
            calls.extend(_selection(call, makers, NewCalls(call, numbers)))
        else:
            calls.append(call)
    return replace(graph, calls=tuple(calls))


def _read_by_loops(graph: Graph, joined: Collection[int], loops: LoopCompiler) -> set[int]:
    """Return those of the values that elementwise calls and reductions read, and others do not."""
    readers: dict[int, list[Call]] = defaultdict(list)
    wanted = {*joined}
    for call in graph.calls:
        for value in {value.number for value in call.reads} & wanted:
            readers[value].append(call)
    stored = {value.number for value in graph.results}
    return {
        number
        for number, calls in readers.items()
        if number not in stored
        and len(calls) <= MOST_READERS
        and any(_is_in_loops(call) for call in calls)
        and all(_is_in_loops(call) or _is_window(call, loops) for call in calls)
    }


def _are_moved(call: Call, makers: Mapping[int, Call], loops: LoopCompiler) -> bool:
    """Whether most parts are rolls or the like, which would be stored before they are joined."""
    moved = 0
    for part in call.reads:
        maker = makers.get(part.number)
        while maker is not None and is_view(maker):
            maker = makers.get(maker.reads[0].number)
        name = None if maker is None else maker.primitive.name
        moved += name in MOVES and name in loops.windows
    return 2 * moved > len(call.reads)


def _is_in_loops(call: Call) -> bool:
    return not call.region and (weight_of(call) is not None or is_combining(call))


def _is_window(call: Call, loops: LoopCompiler) -> bool:
    name = call.primitive.name
    return name in PARTS or (name in MOVES and name in loops.windows)


def _selection(call: Call, makers: Mapping[int, Call], new: NewCalls) -> list[Call]:
    """Return the calls that select each element from the part that has it."""
    (result,) = call.results
    axis, rank = call.params["axis"], len(result.shape)
    length = result.shape[axis]
    int32, boolean = np.dtype("int32"), np.dtype(bool)
    along = tuple(length if k == axis else 1 for k in range(rank))
    counted = {"length": length, "dtype": int32}
    places = new.add("positions_like", (call.reads[0],), counted, (length,), dtype=int32)
    places = new.reshape(places, along)
    parts, ends, end = [], [], 0
    if call.primitive.name == "stack":
        reads = [new.reshape(x, (*x.shape[:axis], 1, *x.shape[axis:])) for x in call.reads]
    else:
        reads = list(call.reads)
    for part in reads:
        begin, end = end, end + part.shape[axis]
        if begin != end:
            ends.append(end)
            parts.append(_placed(part, begin, axis, result, makers, new))
    *others, total = parts
    for part, end in reversed(list(zip(others, ends))):
        is_before = new.add("less", (places, end), {}, along, dtype=boolean)
        total = new.add("where", (is_before, part, total), {}, result.shape)
    return new.ending_in(result) if others else [call]


def _placed(
    part: Value, begin: int, axis: int, result: Value, makers: Mapping[int, Call], new: NewCalls
) -> Value:
    """Return a part at its place in the whole, with zeros around it, or its only number."""
    maker = makers.get(part.number)
    if maker is not None and maker.primitive.name in _FILLED and prod(maker.reads[0].shape) == 1:
        ones = (1,) * len(result.shape)
        if maker.primitive.name == "broadcast_to":
            return new.add("reshape", maker.reads, {"shape": ones}, ones)
        return new.add("full_like", maker.operands, {**maker.params, "shape": ones}, ones)
    index = tuple(
        slice(begin, begin + n) if k == axis else slice(None) for k, n in enumerate(part.shape)
    )
    return new.placed(part, index, result.shape)
