"""Compute with small arrays before they are broadcast.

A constant may repeat its entries along an axis, because the arithmetic that made it was not
recorded. It is replaced by one entry of each. Elementwise calls of arrays that all repeat their
entries along an axis are made for one entry, and their results are broadcast.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import replace
from math import prod
from typing import Any

import numpy as np

from tapegrad.core.primitive.primitive import PRIMITIVES
from tapegrad.program.graph.dependence import unused_numbers
from tapegrad.program.graph.formulas import weight_of
from tapegrad.program.graph.graph import Call, Graph, Shape, Value

LEAST = 1 << 15
"""The fewest bytes of a constant that is compared with its own entries."""

SMALLER = 4
"""How many times smaller a call must be before a broadcast."""


def with_late_broadcasts(graph: Graph) -> Graph:
    """Replace constants that repeat themselves, and calls of arrays that are broadcast."""
    numbers = unused_numbers(graph)
    readers: dict[int, list[Call]] = defaultdict(list)
    for call in graph.calls:
        for value in call.reads:
            readers[value.number].append(call)
    kept = {value.number for value in graph.results}

    def is_inner(number: int) -> bool:
        """Whether only elementwise calls read a value."""
        calls = readers.get(number)
        return bool(calls) and number not in kept and all(map(_is_by_element, calls or ()))

    graph, small = _with_compact_constants(graph, is_inner, readers, numbers)
    calls: list[Call] = []
    for call in graph.calls:
        if call.primitive.name == "broadcast_to" and not call.region:
            small[call.results[0].number] = call.reads[0]
        calls.extend(_small_call(call, small, is_inner, numbers) or (call,))
    return replace(graph, calls=tuple(calls))


def _is_by_element(call: Call) -> bool:
    return not call.region and weight_of(call) is not None and "shape" not in call.params


def _small_call(
    call: Call, small: dict[int, Value], is_inner: Callable[[int], bool], numbers: Iterator[int]
) -> list[Call]:
    """Return an elementwise call of small arrays and its broadcast, nothing if it stays."""
    if not any(value.number in small for value in call.reads) or not _is_by_element(call):
        return []
    if len(call.results) != 1 or not is_inner(call.results[0].number):
        return []
    (result,) = call.results
    operands = [small.get(x.number, x) if isinstance(x, Value) else x for x in call.operands]
    shapes = [x.shape for x in operands if isinstance(x, Value)]
    shape = np.broadcast_shapes(*shapes)
    if prod(shape) * SMALLER > result.size:
        return []
    made = replace(result, number=next(numbers), shape=shape)
    small[result.number] = made
    return [call.with_values(tuple(operands), (made,)), _broadcast(call, made, result)]


def _broadcast(call: Call, source: Value, result: Value) -> Call:
    return replace(
        call,
        primitive=PRIMITIVES["broadcast_to"],
        operands=(source,),
        params={"shape": result.shape},
        results=(result,),
        aliases=True,
        region=0,
    )


def _with_compact_constants(
    graph: Graph,
    is_inner: Callable[[int], bool],
    readers: dict[int, list[Call]],
    numbers: Iterator[int],
) -> tuple[Graph, dict[int, Value]]:
    """Replace large constants that repeat themselves; return them by the numbers of the large."""
    constants, small, calls = dict(graph.constants), dict[int, Value](), []
    for number, array in graph.constants.items():
        # Arrays on other devices are not read: programs are built in the background.
        if not isinstance(array, np.ndarray) or array.nbytes < LEAST or not is_inner(number):
            continue
        shape = _shape_of_entries(array)
        if array.size < SMALLER * prod(shape):
            continue
        (reader, *_) = readers[number]
        value = next(value for value in reader.reads if value.number == number)
        made = replace(value, number=next(numbers), shape=shape)
        del constants[number]
        constants[made.number] = array[tuple(slice(0, n) for n in shape)].copy()
        small[number] = made
        calls.append(_broadcast(reader, made, value))
    if not calls:
        return graph, small
    return replace(graph, constants=constants, calls=(*calls, *graph.calls)), small


def _shape_of_entries(array: Any) -> Shape:
    """Return the shape of an array with one entry along the axes that repeat their entries."""
    part = array
    for axis, length in enumerate(array.shape):
        first = part.take([0], axis)
        # Most arrays differ in two entries, which takes little time to see.
        if length > 1 and _same(first, part.take([-1], axis)) and _same(first, part):
            part = first
    return tuple(part.shape)


def _same(first: Any, other: Any) -> bool:
    """Whether arrays have the same bits; zeros differ by their sign, and NaN is like NaN."""
    if first.dtype.kind == "f":
        signs = np.array_equal(np.signbit(np.broadcast_to(first, other.shape)), np.signbit(other))
        return signs and bool(np.all((first == other) | (np.isnan(first) & np.isnan(other))))
    return first.dtype.kind in "biu" and bool(np.all(first == other))
