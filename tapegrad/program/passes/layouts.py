"""Permute axes before stacking: a permutation is a view, and the stack copies anyway."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from tapegrad.core.primitive.primitive import PRIMITIVES
from tapegrad.program.graph.dependence import makers_of, unused_numbers, use_counts
from tapegrad.program.graph.graph import Call, Graph, Value


def with_joins_last(graph: Graph) -> Graph:
    """Replace a permutation of a stack by a stack of permuted arrays.

    The result is then contiguous, so that reshaping it copies nothing.
    """
    makers, uses, numbers = makers_of(graph.calls), use_counts(graph), unused_numbers(graph)
    calls: list[Call] = []
    for call in graph.calls:
        source = makers.get(call.reads[0].number) if call.reads else None
        stack = None if source is None else graph.calls[source]
        if (
            call.primitive.name == "permute_dims"
            and stack is not None
            and stack.primitive.name == "stack"
            and uses[stack.results[0].number] == 1
        ):
            calls.extend(_stack_of_permuted(stack, call, numbers))
        else:
            calls.append(call)
    return replace(graph, calls=tuple(calls))


def _stack_of_permuted(stack: Call, permute: Call, numbers: Iterator[int]) -> Iterator[Call]:
    axis, axes = stack.params["axis"], permute.params["axes"]
    place = axes.index(axis)
    # The permutation without the stacking axis.
    own = tuple(a - (a > axis) for a in axes if a != axis)
    moved = []
    for operand in stack.reads:
        shape = tuple(operand.shape[a] for a in own)
        value = Value(next(numbers), shape, operand.dtype)
        moved.append(value)
        yield Call(
            PRIMITIVES["permute_dims"], (operand,), {"axes": own}, (value,), stack.array_type, True
        )
    yield replace(stack, operands=tuple(moved), params={"axis": place}, results=permute.results)
