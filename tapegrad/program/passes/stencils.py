"""Turn small convolutions of one channel into sums of shifted reads, which loops make.

A convolution of one channel with 3 x 3 weights is nine products of slices. As a separate call it
stores its operand, padded, and its result. As slices it is a part of the loop that reads it, and so
is its gradient.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import product
from math import prod

from tapegrad.core.backend.optional_parts import LoopCompiler
from tapegrad.program.graph.dependence import unused_numbers
from tapegrad.program.graph.graph import Call, Graph, Shape, Value
from tapegrad.program.passes.new_calls import NewCalls

MOST_TERMS = 9
"""The most weights; a loop reads the array once for each of them."""


def with_stencils(graph: Graph, loops: LoopCompiler) -> Graph:
    """Replace convolutions of one channel with few weights."""
    numbers = unused_numbers(graph)
    calls: list[Call] = []
    for call in graph.calls:
        calls.extend(_replaced(call, numbers, loops) or (call,))
    return replace(graph, calls=tuple(calls))


def _replaced(call: Call, numbers: Iterator[int], loops: LoopCompiler) -> list[Call]:
    """Return the calls of a convolution, none if it stays."""
    name = call.primitive.name
    if name not in ("conv", "conv_input_gradient") or call.region or len(call.reads) != 2:
        return []
    (x, weights), (result,) = call.reads, call.results
    window, params = weights.shape[:-2], call.params
    if x.shape[-1] != 1 or weights.shape[-2:] != (1, 1) or prod(window) > MOST_TERMS:
        return []
    is_known = loops.dtypes is None or x.dtype.name in loops.dtypes
    if not is_known or x.dtype.kind != "f" or not x.dtype == weights.dtype == result.dtype:
        return []
    if any(stride != 1 for stride in params["strides"]) or 0 in (*x.shape, *result.shape):
        return []
    low = [pair[0] for pair in params["padding"]]
    making = NewCalls(call, numbers)
    total: Value | None = None
    for place in product(*map(range, window)):
        weight = making.part(weights, (*place, 0, 0))
        shift = [d * k - p for d, k, p in zip(params["dilation"], place, low)]
        if name == "conv_input_gradient":
            shift = [-s for s in shift]
        term = _shifted(making, x, shift, result.shape)
        term = making.add("multiply", (term, weight), {}, result.shape)
        total = term if total is None else making.add("add", (total, term), {}, result.shape)
    return making.ending_in(result)


def _shifted(making: NewCalls, x: Value, shift: list[int], shape: Shape) -> Value:
    """Return an array of a shape that has, at each place, the element of `x` `shift` further on.

    Elements that `x` does not have are zeros.
    """
    parts, places = [slice(None)], [slice(None)]
    for s, n, count in zip(shift, x.shape[1:], shape[1:]):
        first, last = max(0, s), max(min(n, s + count), max(0, s))
        parts.append(slice(first, last))
        places.append(slice(first - s, last - s))
    part = making.part(x, (*parts, slice(None)))
    if 0 in part.shape:
        return making.add("full_like", (x,), {"shape": shape, "value": 0, "dtype": x.dtype}, shape)
    return making.placed(part, (*places, slice(None)), shape)
