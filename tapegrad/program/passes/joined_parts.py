"""Read a part of a stack or a concatenation from the array that was joined there.

A program that stacks components and reads one of them again needs no stack for this.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from tapegrad.program.graph.dependence import unused_numbers
from tapegrad.program.graph.graph import Call, Graph, Value
from tapegrad.program.passes.new_calls import NewCalls


def with_parts_before_joins(graph: Graph) -> Graph:
    """Replace slices of joined arrays, each of which shows one of them, by slices of that one."""
    if not any(map(_is_join, graph.calls)):
        return graph
    joins: dict[int, Call] = {}
    numbers = unused_numbers(graph)
    same: dict[int, Value] = {}
    stored = {value.number for value in graph.results}
    calls: list[Call] = []
    for call in graph.calls:
        operands = [same.get(x.number, x) if isinstance(x, Value) else x for x in call.operands]
        call = call.with_values(tuple(operands))
        if _is_join(call):
            joins[call.results[0].number] = call
        found = _part(call, joins) if call.primitive.name == "slice" and not call.region else None
        if found is None:
            calls.append(call)
            continue
        part, index = found
        new, result = NewCalls(call, numbers), call.results[0]
        shown = new.part(part, index)
        if shown is part and result.number not in stored:
            same[result.number] = part
        elif shown is part:
            calls.append(call)
        else:
            calls.extend(new.ending_in(result))
    return replace(graph, calls=tuple(calls))


def _is_join(call: Call) -> bool:
    return call.primitive.name in ("stack", "concat") and not call.region


def _part(call: Call, joins: Mapping[int, Call]) -> tuple[Value, tuple[Any, ...]] | None:
    """Return the joined array that a slice shows, and the index into it."""
    join = joins.get(call.reads[0].number)
    index = call.params["index"]
    if join is None or len(index) != len(call.reads[0].shape):
        return None
    axis = join.params["axis"]
    if not all(isinstance(one, int | slice) for one in index):
        return None
    at, size = index[axis], call.reads[0].shape[axis]
    if join.primitive.name == "stack":
        if not isinstance(at, int):
            return None
        operand = join.operands[at % size]
        rest = (*index[:axis], *index[axis + 1 :])
        return (operand, rest) if isinstance(operand, Value) else None
    begin = 0
    for operand in join.operands:
        if not isinstance(operand, Value):
            return None
        found = _within(at, size, begin, operand.shape[axis])
        if found is not None:
            return operand, (*index[:axis], found, *index[axis + 1 :])
        begin += operand.shape[axis]
    return None


def _within(at: Any, size: int, begin: int, length: int) -> Any:
    """Return an index of an axis as one of a part of it; None if it shows anything else."""
    if isinstance(at, int):
        place = at % size - begin
        return place if 0 <= place < length else None
    start, stop, step = at.indices(size)
    if step != 1 or not begin <= start < stop <= begin + length:
        return None
    return slice(start - begin, stop - begin, None)
