"""Let the parts of an array that were taken apart in two ways be the same values.

Python code that iterates over an array makes slices, and under a tape it makes all parts by one
call. A function that runs with and without a tape does both, and repeats what follows.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from tapegrad.program.graph.graph import Call, Graph, Value, without_repeated_calls

_Key = tuple[int, int, int]
"""The number of an array, an axis and a position along it."""


def with_shared_parts(graph: Graph) -> Graph:
    """Replace parts of arrays by equal parts that were made before, and merge equal calls."""
    sources = {call.reads[0].number for call in graph.calls if call.primitive.name == "unstack"}
    if not sources:
        return graph
    known: dict[_Key, Value] = {}
    same: dict[int, Value] = {}
    kept = {value.number for value in graph.results}
    calls: list[Call] = []
    for call in graph.calls:
        operands = [same.get(x.number, x) if isinstance(x, Value) else x for x in call.operands]
        call = call.with_values(tuple(operands))
        if call.reads and call.reads[0].number in sources and not call.region:
            for key, part in _parts(call):
                first = known.setdefault(key, part)
                if first is not part and part.number not in kept:
                    same[part.number] = first
        calls.append(call)
    if not same:
        return graph
    return without_repeated_calls(replace(graph, calls=tuple(calls)))


def _parts(call: Call) -> Iterator[tuple[_Key, Value]]:
    """Yield the parts along one axis that a call takes from an array."""
    source = call.reads[0]
    if call.primitive.name == "unstack":
        for position, part in enumerate(call.results):
            yield (source.number, call.params["axis"], position), part
    elif call.primitive.name == "slice":
        index = call.params["index"]
        axes = [axis for axis, part in enumerate(index) if isinstance(part, int)]
        others = [part for part in index if not isinstance(part, int)]
        if len(axes) == 1 and all(part == slice(None) for part in others):
            axis = axes[0]
            yield (source.number, axis, index[axis] % source.shape[axis]), call.results[0]
