"""Factor a matrix once if several systems with it are solved.

The gradient of `solve(a, b)` solves a second system with the adjoint of `a`. With the factors of
`a` at hand, that takes two triangular systems only.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from tapegrad.core.primitive.primitive import PRIMITIVES
from tapegrad.program.graph.dependence import unused_numbers
from tapegrad.program.graph.graph import Call, Graph, Value
from tapegrad.program.passes.new_calls import NewCalls

LEAST = 33
"""The least order of matrices; smaller ones are eliminated in registers."""


def with_shared_factors(graph: Graph) -> Graph:
    """Replace calls of `solve` with one matrix by one factorisation and solutions."""
    solves: dict[int, list[Call]] = defaultdict(list)
    for call in graph.calls:
        if call.primitive.name == "solve" and _is_taken(call):
            solves[call.reads[0].number].append(call)
    shared = {number for number, found in solves.items() if len(found) > 1}
    if not shared:
        return graph
    numbers = unused_numbers(graph)
    factors: dict[int, tuple[Value, Value]] = {}
    calls: list[Call] = []
    for call in graph.calls:
        if call.primitive.name != "solve" or not (
            _is_taken(call) and call.reads[0].number in shared
        ):
            calls.append(call)
            continue
        matrix, right = call.operands
        if matrix.number not in factors:
            factors[matrix.number] = made = _new(matrix, numbers)
            factoring = PRIMITIVES["lu_factors"]
            operands = (matrix,)
            calls.append(
                replace(call, primitive=factoring, operands=operands, params={}, results=made)
            )
        new = NewCalls(call, numbers)
        known = (*factors[matrix.number], right)
        new.add("solve_factored", known, call.params, call.results[0].shape)
        calls.extend(new.ending_in(call.results[0]))
    return replace(graph, calls=tuple(calls))


def _new(matrix: Value, numbers: Iterator[int]) -> tuple[Value, Value]:
    """Return the values of the factors of a matrix and of its pivots."""
    pivots = replace(matrix, shape=matrix.shape[:-1], dtype=np.dtype("int32"))
    return replace(matrix, number=next(numbers)), replace(pivots, number=next(numbers))


def _is_taken(call: Call) -> bool:
    """Whether a call solves systems with large real matrices, none of which is broadcast."""
    if call.region or len(call.reads) != 2:
        return False
    matrix, right = call.reads
    is_whole = matrix.shape[:-2] == right.shape[:-2]
    return is_whole and matrix.dtype.kind == "f" and matrix.shape[-1] >= LEAST
