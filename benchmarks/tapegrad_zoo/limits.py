"""The least that a step has to move and to compute, read off its recorded program."""

from __future__ import annotations

from collections.abc import Iterable

from tapegrad.program.graph.graph import Call, Graph, Value
from tapegrad.program.inspect.costs import call_flops, is_product
from tapegrad_zoo.program import Cost

_PICKING = frozenset({"take", "take_last", "gather_rows", "slice", "split", "unstack"})
"""Primitives that read only the elements they return."""


def least_cost(graph: Graph) -> Cost:
    """Return the least bytes and operations of a step.

    Inputs and variables are read once; outputs and new values of variables are written once. An
    array of which only some rows are used counts those rows. Intermediate values count nothing,
    because a program could keep all of them in registers and caches. Operations are those of
    products, convolutions and attention.
    """
    readers: dict[int, list[Call]] = {}
    for call in graph.calls:
        for number in {value.number for value in call.reads}:
            readers.setdefault(number, []).append(call)
    sources = _distinct([*graph.inputs, *graph.variables.values()])
    results = {value.number for value in graph.results}
    read = sum(
        value.nbytes if value.number in results else _bytes_read(value, readers)
        for value in sources
    )
    written = sum(value.nbytes for value in _distinct(graph.results))
    operations = sum(call_flops(call) for call in graph.calls if is_product(call.primitive.name))
    return Cost(bytes=float(read + written), operations=float(operations))


def _distinct(values: Iterable[Value]) -> list[Value]:
    return [*{value.number: value for value in values}.values()]


def _bytes_read(value: Value, readers: dict[int, list[Call]]) -> int:
    """Return how much of an array is read; all of it unless every reader picks elements."""
    picked = 0
    for call in readers.get(value.number, []):
        is_picked = call.primitive.name in _PICKING and call.reads[0].number == value.number
        picked += sum(r.nbytes for r in call.results) if is_picked else value.nbytes
    return min(value.nbytes, picked)
