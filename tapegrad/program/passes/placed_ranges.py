"""Place parts of arrays at ranges instead of single positions.

The gradient of `x[:, 2]` is an array of zeros with a part at position 2. Loops read such an array
in place if the part has all of its axes, so it is placed at the range from 2 to 3.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from tapegrad.program.graph.dependence import unused_numbers
from tapegrad.program.graph.graph import Call, Graph
from tapegrad.program.passes.new_calls import NewCalls


def with_placed_ranges(graph: Graph) -> Graph:
    """Replace positions in the indices of parts among zeros by ranges of length 1."""
    numbers = unused_numbers(graph)
    calls: list[Call] = []
    for call in graph.calls:
        calls.extend(_at_range(call, numbers) if _has_position(call) else (call,))
    return replace(graph, calls=tuple(calls))


def _has_position(call: Call) -> bool:
    if call.primitive.name != "unslice" or call.region:
        return False
    index = call.params["index"]
    return all(isinstance(part, int | slice) for part in index) and any(
        isinstance(part, int) for part in index
    )


def _at_range(call: Call, numbers: Iterator[int]) -> list[Call]:
    shape = call.params["shape"]
    index = call.params["index"] + (slice(None),) * (len(shape) - len(call.params["index"]))
    ranges = tuple(
        slice(part % n, part % n + 1) if isinstance(part, int) else part
        for part, n in zip(index, shape)
    )
    lengths = tuple(len(range(*part.indices(n))) for part, n in zip(ranges, shape))
    making = NewCalls(call, numbers)
    part = making.add("reshape", (call.reads[0],), {"shape": lengths}, lengths)
    making.add("unslice", (part,), {**call.params, "index": ranges}, shape)
    return making.ending_in(call.results[0])
