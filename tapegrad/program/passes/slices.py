"""Read what was written to a part of an array directly, instead of that part of the new array.

`path[i + 1] = f(path[i])` in a loop makes a new array at each round, and reads the part that the
round before has written. If it reads the written value instead, no later step needs the older
arrays, and each round can write into the same one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from tapegrad.program.graph.graph import Call, Graph, Shape, Value

MOST_WRITES = 4
"""How many writes before a read are searched for the one of the same part."""


def with_written_parts(graph: Graph) -> Graph:
    """Replace slices by the values that were written to the same parts."""
    makers: dict[int, Call] = {}
    same: dict[int, Value] = {}
    kept: list[Call] = []
    for call in graph.calls:
        operands = tuple(
            [same.get(x.number, x) if isinstance(x, Value) else x for x in call.operands]
        )
        call = call.with_values(operands)
        if call.primitive.name == "slice":
            written = _written(call, makers)
            if written is not None:
                same[call.results[0].number] = written
                continue
        kept.append(call)
        if call.primitive.name == "slice_set":
            makers[call.results[0].number] = call
    if not same:
        return graph
    return replace(
        graph,
        calls=tuple(kept),
        outputs=tuple(same.get(value.number, value) for value in graph.outputs),
        written={n: same.get(value.number, value) for n, value in graph.written.items()},
    )


def _written(call: Call, makers: dict[int, Call]) -> Value | None:
    """Return the value that was written to the part that a slice shows, None if it is unknown."""
    source, result = call.reads[0], call.results[0]
    wanted = _places(call.params["index"], source.shape)
    for _ in range(MOST_WRITES):
        write = makers.get(source.number)
        if write is None or wanted is None:
            return None
        places = _places(write.params["index"], source.shape)
        if places is None:
            return None
        before, value = write.operands
        if places == wanted:
            is_whole = isinstance(value, Value) and value.shape == result.shape
            return value if is_whole and value.dtype == result.dtype else None
        if not isinstance(before, Value) or not _are_apart(places, wanted):
            return None
        source = before
    return None


def _places(index: Sequence[Any], shape: Shape) -> tuple[Any, ...] | None:
    """Return the part along each axis: a position, or the numbers of a range; None for new axes."""
    parts = list(index)
    if None in parts or Ellipsis in parts:
        return None
    parts += [slice(None)] * (len(shape) - len(parts))
    return tuple(
        part.indices(size) if isinstance(part, slice) else part % size
        for part, size in zip(parts, shape, strict=True)
    )


def _are_apart(one: Sequence[Any], other: Sequence[Any]) -> bool:
    """Whether two parts have no element in common, because they are apart along one axis."""
    for first, second in zip(one, other, strict=True):
        low, high = _ends(first), _ends(second)
        if low[1] < high[0] or high[1] < low[0]:
            return True
    return False


def _ends(part: Any) -> tuple[int, int]:
    """Return the first and the last position of a part."""
    if not isinstance(part, tuple):
        return part, part
    found = range(*part)
    return (min(found[0], found[-1]), max(found[0], found[-1])) if found else (0, -1)
