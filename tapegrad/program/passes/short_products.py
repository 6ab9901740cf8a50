"""Let loops compute matrix products with short sums.

A product of 4 x 4 matrices, or of many points with a few weights, takes a library longer than it
takes to read and write its arrays. A loop computes each element as a sum of a few products, and
whatever elementwise calls follow in the same launch. A product of two narrow matrices over a long
axis, such as the gradient of a small matrix that many rows share, becomes a reduction. A product of
a matrix with a few vectors becomes a reduction for each of them: one loop reads the matrix, or
computes it, and makes all of them.
"""

from __future__ import annotations

from dataclasses import replace
from math import prod

import numpy as np

from tapegrad.ops.products.short import short_p
from tapegrad.program.graph.dependence import unused_numbers
from tapegrad.program.graph.graph import Call, Graph, Shape, Value
from tapegrad.program.passes.algebra import simplified
from tapegrad.program.passes.new_calls import NewCalls

MOST_TERMS = 4
"""The most terms of a sum where the matrices are large."""

SMALL = 8
"""The most rows, columns and terms of a small matrix."""

MOST_SUMS = 32
"""The most elements of a product over a long axis."""

MOST_VECTORS = 4
"""The most vectors whose products with a matrix are reductions."""

LEAST_READ = 1 << 12
"""The fewest elements of such a matrix."""

LONG = 1 << 10
"""The fewest terms of a sum that is a reduction."""

_PRODUCTS = ("matmul", "matmul_stack")
_DTYPES = ("float32", "float64")
"""Dtypes of products; half precision is added in single precision by the library."""


def with_short_products(graph: Graph) -> Graph:
    """Replace products with short sums, and those of narrow matrices, by calls of loops."""
    if not any(_is_product(call) for call in graph.calls):
        return graph
    makers = {value.number: call for call in graph.calls for value in call.results}
    numbers = unused_numbers(graph)
    calls: list[Call] = []
    for call in graph.calls:
        if not _is_product(call):
            calls.append(call)
        elif _is_short(call):
            calls.extend(_short(call, makers, NewCalls(call, numbers)))
        elif _is_narrow(call):
            calls.extend(_reduction(call, NewCalls(call, numbers)))
        elif _has_few_vectors(call):
            calls.extend(_reductions(call, NewCalls(call, numbers)))
        else:
            calls.append(call)
    if len(calls) == len(graph.calls) and all(a is b for a, b in zip(calls, graph.calls)):
        return graph
    return simplified(replace(graph, calls=tuple(calls)))


def _is_product(call: Call) -> bool:
    if call.primitive.name not in _PRODUCTS or len(call.reads) != 2 or call.region:
        return False
    (a, b), (result,) = call.reads, call.results
    same = a.dtype == b.dtype == result.dtype and result.dtype.name in _DTYPES
    return same and 0 not in (*a.shape, *b.shape)


def _sizes(call: Call) -> tuple[int, int, int]:
    """Return the numbers of rows, terms and columns of a product."""
    a, b = call.reads
    rows, terms = _turned(a.shape, call.params["transpose_a"])
    return rows, terms, _turned(b.shape, call.params["transpose_b"])[1]


def _turned(shape: Shape, is_transposed: bool) -> tuple[int, int]:
    return (shape[-1], shape[-2]) if is_transposed else (shape[-2], shape[-1])


def _is_short(call: Call) -> bool:
    rows, terms, columns = _sizes(call)
    return 1 < terms <= MOST_TERMS or (1 < terms <= SMALL and max(rows, columns) <= SMALL)


def _short(call: Call, makers: dict[int, Call], new: NewCalls) -> list[Call]:
    """Return the product as calls of loops.

    Rows that a reshape collected from a stack are multiplied in the stack, so that elementwise
    calls before and after the product have its shape.
    """
    a, b = call.reads
    (result,) = call.results
    maker = makers.get(a.number)
    collected = maker is not None and maker.primitive.name == "reshape"
    source = maker.reads[0] if collected and maker is not None else a
    if not collected or call.params["transpose_a"] or source.shape[-1] != a.shape[-1]:
        return [replace(call, primitive=short_p)]
    if len(source.shape) < 3 or len(a.shape) != 2:
        return [replace(call, primitive=short_p)]
    shape = (*source.shape[:-1], result.shape[-1])
    made = new.add(short_p.name, (source, b), dict(call.params), shape)
    new.add("reshape", (made,), {"shape": result.shape}, result.shape, result)
    return new.calls


def _is_narrow(call: Call) -> bool:
    rows, terms, columns = _sizes(call)
    is_single = prod(call.results[0].shape) == rows * columns
    is_narrow = rows * columns <= MOST_SUMS and max(rows, columns) < SMALL
    return is_single and is_narrow and terms >= LONG


def _reduction(call: Call, new: NewCalls) -> list[Call]:
    """Return the product of two narrow matrices as a sum over their long axis."""
    rows, terms, columns = _sizes(call)
    (a, b), (result,) = call.reads, call.results
    first = _with_long_axis_first(a, not call.params["transpose_a"], new)
    second = _with_long_axis_first(b, call.params["transpose_b"], new)
    factors = [
        new.add("reshape", (factor,), {"shape": shape}, shape)
        for factor, shape in ((first, (terms, rows, 1)), (second, (terms, 1, columns)))
    ]
    products = new.add("multiply", factors, {}, (terms, rows, columns))
    summed = {"axis": (0,), "keepdims": False}
    total = new.add("sum", (products,), summed, (rows, columns))
    new.add("reshape", (total,), {"shape": result.shape}, result.shape, result)
    return new.calls


def _with_long_axis_first(matrix: Value, is_last: bool, new: NewCalls) -> Value:
    n, m = matrix.shape[-2:]
    if len(matrix.shape) > 2:
        matrix = new.add("reshape", (matrix,), {"shape": (n, m)}, (n, m))
    if not is_last:
        return matrix
    return new.add("permute_dims", (matrix,), {"axes": (1, 0)}, (m, n))


def _has_few_vectors(call: Call) -> bool:
    """Whether one matrix has a few columns or rows only, and the other one is large."""
    if call.primitive.name != "matmul":
        return False
    rows, _, columns = _sizes(call)
    few, many = sorted((rows, columns))
    matrix = call.reads[0 if rows > columns else 1]
    return 1 < few <= MOST_VECTORS < many and matrix.size >= LEAST_READ


def _reductions(call: Call, new: NewCalls) -> list[Call]:
    """Return the products of a matrix with a few vectors as sums, one for each vector."""
    rows, terms, columns = _sizes(call)
    a, b = call.reads
    turned_a, turned_b = call.params["transpose_a"], call.params["transpose_b"]
    if rows > columns:
        matrix, summed, vectors, by_rows = a, int(not turned_a), b, turned_b
    else:
        matrix, summed, vectors, by_rows = b, int(turned_b), a, not turned_a
    shape = (terms, 1) if summed == 0 else (terms,)
    totals = []
    for k in range(min(rows, columns)):
        part = slice(k, k + 1), slice(None)
        vector = new.part(vectors, part if by_rows else part[::-1])
        vector = new.add("reshape", (vector,), {"shape": shape}, shape)
        products = new.add("multiply", (matrix, vector), {}, matrix.shape)
        summing = {"axis": (summed,), "keepdims": False}
        totals.append(new.add("sum", (products,), summing, (max(rows, columns),)))
    return _selected(totals, call, int(rows > columns), new)


def _selected(parts: list[Value], call: Call, axis: int, new: NewCalls) -> list[Call]:
    """Return the calls that stack vectors by selecting, which a loop does where it reads them."""
    (result,) = call.results
    along = (1, len(parts)) if axis else (len(parts), 1)
    shape = (parts[0].size, 1) if axis else (1, parts[0].size)
    int32, boolean = np.dtype("int32"), np.dtype(bool)
    counted = {"length": len(parts), "dtype": int32}
    places = new.add("positions_like", (call.reads[0],), counted, (len(parts),), dtype=int32)
    places = new.add("reshape", (places,), {"shape": along}, along, dtype=int32)
    *others, total = [new.add("reshape", (part,), {"shape": shape}, shape) for part in parts]
    for k in reversed(range(len(others))):
        hits = new.add("equal", (places, k), {}, along, dtype=boolean)
        total = new.add("where", (hits, others[k], total), {}, result.shape)
    return new.ending_in(result)
