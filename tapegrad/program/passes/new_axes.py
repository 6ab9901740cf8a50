"""Take new axes out of indices: `x[:, 2, None]` is a reshaped `x[:, 2]`.

Other passes look for slices, and for parts among zeros, by their positions along the axes of an
array. Without new axes in between, an index has one entry per axis.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from math import prod
from typing import Any

from tapegrad.program.graph.dependence import unused_numbers
from tapegrad.program.graph.graph import Call, Graph, Shape
from tapegrad.program.passes.new_calls import NewCalls


def without_new_axes(graph: Graph) -> Graph:
    """Replace slices and parts among zeros that have new axes in their indices."""
    if not any([_has_new_axes(call) for call in graph.calls]):
        return graph
    numbers = unused_numbers(graph)
    calls: list[Call] = []
    for call in graph.calls:
        calls.extend(_rewritten(call, numbers) if _has_new_axes(call) else (call,))
    return replace(graph, calls=tuple(calls))


def _has_new_axes(call: Call) -> bool:
    if call.primitive.name not in ("slice", "unslice") or call.region:
        return False
    index = call.params["index"]
    if None not in index or any(
        part is not None and not isinstance(part, int | slice) for part in index
    ):
        return False
    if call.primitive.name == "slice":
        return True
    # A part among zeros may repeat its elements.
    (x,), (result,) = call.reads, call.results
    return x.size == prod(shape_of_part(result.shape, _without_none(index)))


def _rewritten(call: Call, numbers: Iterator[int]) -> list[Call]:
    making = NewCalls(call, numbers)
    index = _without_none(call.params["index"])
    (x,), (result,) = call.reads, call.results
    params = {**call.params, "index": index}
    if call.primitive.name == "slice":
        part = making.add("slice", (x,), params, shape_of_part(x.shape, index))
        making.add("reshape", (part,), {"shape": result.shape}, result.shape)
    else:
        shape = shape_of_part(result.shape, index)
        part = making.add("reshape", (x,), {"shape": shape}, shape)
        making.add("unslice", (part,), params, result.shape)
    return making.ending_in(result)


def _without_none(index: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple([part for part in index if part is not None])


def shape_of_part(shape: Shape, index: tuple[Any, ...]) -> Shape:
    """Return the shape of the part at positions and slices along the first axes."""
    kept = [
        len(range(*part.indices(length)))
        for part, length in zip(index, shape)
        if isinstance(part, slice)
    ]
    return (*kept, *shape[len(index) :])
