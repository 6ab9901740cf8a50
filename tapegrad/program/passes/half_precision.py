"""Compute calls in half precision in single precision, with casts before and after them.

Processors without arithmetic in half precision compute in single precision anyway. As calls of the
graph the casts become part of loops, equal casts are made once, and the call has the kernels of
single precision.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from tapegrad.core.backend.optional_parts import LoopCompiler
from tapegrad.core.primitive.primitive import PRIMITIVES
from tapegrad.program.graph.dependence import unused_numbers
from tapegrad.program.graph.graph import Call, Graph, Value

_SINGLE = np.dtype("float32")


def with_wide_calls(graph: Graph, loops: LoopCompiler) -> Graph:
    """Replace the calls in half precision of the primitives in `loops.widened`."""
    names, known = loops.widened, loops.dtypes
    numbers = unused_numbers(graph)
    calls: list[Call] = []
    for call in graph.calls:
        is_candidate = call.primitive.name in names and not call.effects
        halves = {v.dtype.name for v in call.reads if _is_half(v)} if is_candidate else set()
        if halves and (known is None or halves <= {*known}) and not _is_mixed(call):
            calls += _widened(call, numbers)
        else:
            calls.append(call)
    return replace(graph, calls=tuple(calls))


def _is_half(value: Value) -> bool:
    return value.dtype.name in ("bfloat16", "float16")


def _is_mixed(call: Call) -> bool:
    """Whether some arrays have another precision, or operands are numbers, which are rounded."""
    values = (*call.reads, *call.results)
    others = {v.dtype.kind for v in values if not _is_half(v)}
    return bool(others & set("fc")) or len(call.reads) != len(call.operands)


def _widened(call: Call, numbers: Iterator[int]) -> list[Call]:
    """Return casts of the operands, the call in single precision, and casts of the results."""
    before: list[Call] = []
    wide: dict[int, Value] = {}
    for value in call.reads:
        if _is_half(value) and value.number not in wide:
            wide[value.number] = replace(value, number=next(numbers), dtype=_SINGLE)
            before.append(_cast(call, value, wide[value.number]))
    operands = tuple([wide.get(value.number, value) for value in call.reads])
    results = tuple(
        [
            replace(value, number=next(numbers), dtype=_SINGLE) if _is_half(value) else value
            for value in call.results
        ]
    )
    after = [
        _cast(call, own, value) for own, value in zip(results, call.results) if _is_half(value)
    ]
    return [*before, replace(call, operands=operands, results=results), *after]


def _cast(call: Call, source: Value, result: Value) -> Call:
    params: dict[str, Any] = {"dtype": result.dtype}
    return replace(
        call,
        primitive=PRIMITIVES["cast"],
        operands=(source,),
        params=params,
        results=(result,),
        aliases=False,
    )
