"""Add real and imaginary parts apart, for loops that do not add up complex numbers.

A loop computes both sums together with what makes their operand, and reads it once.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from tapegrad.core.backend.capabilities import LoopCompiler
from tapegrad.core.primitive.primitive import PRIMITIVES
from tapegrad.program.graph.dependence import unused_numbers
from tapegrad.program.graph.graph import Call, Graph, Value

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
        dtype = _REAL[result.dtype.name]
        sums = []
        for name in ("real", "imag"):
            part = Value(next(numbers), source.shape, dtype, source.device)
            total = Value(next(numbers), result.shape, dtype, result.device)
            calls.append(_by_element(call, name, (source,), part))
            calls.append(replace(call, operands=(part,), results=(total,), aliases=False))
            sums.append(total)
        calls.append(_by_element(call, "complex", tuple(sums), result))
    return replace(graph, calls=tuple(calls))


def _is_complex_sum(call: Call) -> bool:
    if call.primitive.name != "sum" or not call.reads:
        return False
    return call.results[0].dtype == call.reads[0].dtype and call.reads[0].dtype.name in _REAL


def _by_element(call: Call, name: str, operands: tuple[Value, ...], result: Value) -> Call:
    return replace(
        call,
        primitive=PRIMITIVES[name],
        operands=operands,
        params={},
        results=(result,),
        aliases=False,
    )
