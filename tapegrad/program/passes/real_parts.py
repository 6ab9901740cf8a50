"""Take the real part of complex numbers before they are added up.

The gradient of a real factor of complex numbers is the real part of a sum. The sum of the real
parts is the same number. Loops compute it, and it needs half of the additions.
"""

from __future__ import annotations

from dataclasses import replace

from tapegrad.core.primitive.primitive import PRIMITIVES
from tapegrad.program.graph.dependence import unused_numbers
from tapegrad.program.graph.graph import Call, Graph, Value


def with_early_real_parts(graph: Graph) -> Graph:
    """Replace casts of complex numbers to real ones, and casts of their sums, by real parts."""
    if not any(_takes_real_part(call) for call in graph.calls):
        return graph
    numbers = unused_numbers(graph)
    makers = {value.number: call for call in graph.calls for value in call.results}
    calls: list[Call] = []
    for call in graph.calls:
        if not _takes_real_part(call):
            calls.append(call)
            continue
        maker = makers.get(call.reads[0].number)
        if maker is None or maker.primitive.name != "sum" or maker.region != call.region:
            calls.append(_real_part(call, call.reads[0], call.results[0]))
            continue
        source, dtype = maker.reads[0], call.results[0].dtype
        part = Value(next(numbers), source.shape, dtype, call.results[0].device)
        calls.append(_real_part(call, source, part))
        calls.append(replace(maker, operands=(part,), results=call.results))
    return replace(graph, calls=tuple(calls))


def _takes_real_part(call: Call) -> bool:
    """Whether a call casts complex numbers to real ones of the same precision."""
    if call.primitive.name not in ("cast", "real") or len(call.reads) != 1:
        return False
    read, made = call.reads[0].dtype, call.results[0].dtype
    return read.kind == "c" and made.kind == "f" and read.itemsize == 2 * made.itemsize


def _real_part(call: Call, source: Value, result: Value) -> Call:
    return replace(
        call,
        primitive=PRIMITIVES["real"],
        operands=(source,),
        params={},
        results=(result,),
        aliases=False,
    )
