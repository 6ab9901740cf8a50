"""Add real and imaginary parts apart, for loops that do not add up complex numbers.

A loop computes both sums together with what makes their operand, and reads it once.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from tapegrad.core.backend.optional_parts import LoopCompiler
from tapegrad.program.graph.dependence import unused_numbers
from tapegrad.program.graph.graph import Call, Graph
from tapegrad.program.passes.new_calls import NewCalls

_REAL: dict[str, np.dtype[Any]] = {
    "complex64": np.dtype(np.float32),
    "complex128": np.dtype(np.float64),
}


def with_sums_of_parts(graph: Graph, loops: LoopCompiler) -> Graph:
    """Replace sums of complex numbers by the complex number of two sums."""
    if loops.complex_primitives is None or "sum" in loops.complex_primitives:
        return graph
    if not any(_is_complex_sum(call) for call in graph.calls):
        return graph
    numbers = unused_numbers(graph)
    calls: list[Call] = []
    for call in graph.calls:
        if not _is_complex_sum(call):
            calls.append(call)
            continue
        (source,), (result,) = call.reads, call.results
        making, dtype = NewCalls(call, numbers), _REAL[result.dtype.name]
        sums = []
        for name in ("real", "imag"):
            of_part = replace(source, number=next(numbers), dtype=dtype)
            part = making.add(name, (source,), {}, source.shape, of_part)
            of_total = replace(result, number=next(numbers), dtype=dtype)
            sums.append(making.add("sum", (part,), call.params, result.shape, of_total))
        making.add("complex", sums, {}, result.shape, result)
        calls += making.calls
    return replace(graph, calls=tuple(calls))


def _is_complex_sum(call: Call) -> bool:
    if call.primitive.name != "sum" or not call.reads:
        return False
    return call.results[0].dtype == call.reads[0].dtype and call.reads[0].dtype.name in _REAL
