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
from tapegrad.program.graph.graph import Call, Graph, Value
from tapegrad.program.passes.algebra import simplified
from tapegrad.program.passes.new_calls import NewCalls
from tapegrad.program.passes.thin_products import sizes

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
    makers = {value.number: call for call in graph.calls for value in call.results}
    numbers = unused_numbers(graph)
    made = [_in_loops(call, makers, NewCalls(call, numbers)) for call in graph.calls]
    if not any(made):
        return graph
    calls = [one for call, new in zip(graph.calls, made, strict=True) for one in new or (call,)]
    return simplified(replace(graph, calls=tuple(calls)))


def _in_loops(call: Call, makers: dict[int, Call], new: NewCalls) -> list[Call]:
    """Return the calls that replace a product, none if it stays."""
    if not _is_product(call):
        return []
    if _is_short(call):
        return _short(call, makers, new)
    if _is_narrow(call):
        return _reduction(call, new)
    return _reductions(call, new) if _has_few_vectors(call) else []


def _is_product(call: Call) -> bool:
    if call.primitive.name not in _PRODUCTS or len(call.reads) != 2 or call.region:
        return False
    (a, b), (result,) = call.reads, call.results
    same = a.dtype == b.dtype == result.dtype and result.dtype.name in _DTYPES
    return same and 0 not in (*a.shape, *b.shape)


def _sizes(call: Call) -> tuple[int, int, int]:
    """Return the numbers of rows, terms and columns of a product."""
    a, b = call.reads
    rows, terms = sizes(a.shape, call.params["transpose_a"])
    return rows, terms, sizes(b.shape, call.params["transpose_b"])[1]


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
    source = _stack_of_rows(a, makers)
    if source is None or call.params["transpose_a"]:
        return [replace(call, primitive=short_p)]
    shape = (*source.shape[:-1], result.shape[-1])
    made = new.add(short_p.name, (source, b), dict(call.params), shape)
    new.add("reshape", (made,), {"shape": result.shape}, result.shape, result)
    return new.calls


def _stack_of_rows(matrix: Value, makers: dict[int, Call]) -> Value | None:
    """Return the stack of which a reshape collected the rows in a matrix, None without one."""
    maker = makers.get(matrix.number)
    if maker is None or maker.primitive.name != "reshape" or len(matrix.shape) != 2:
        return None
    stack = maker.reads[0]
    return stack if len(stack.shape) > 2 and stack.shape[-1] == matrix.shape[-1] else None


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
        new.reshape(factor, shape)
        for factor, shape in ((first, (terms, rows, 1)), (second, (terms, 1, columns)))
    ]
    products = new.add("multiply", factors, {}, (terms, rows, columns))
    summed = {"axis": (0,), "keepdims": False}
    total = new.add("sum", (products,), summed, (rows, columns))
    new.add("reshape", (total,), {"shape": result.shape}, result.shape, result)
    return new.calls


def _with_long_axis_first(matrix: Value, is_last: bool, new: NewCalls) -> Value:
    n, m = matrix.shape[-2:]
    matrix = new.reshape(matrix, (n, m))
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
        vector = new.reshape(new.part(vectors, part if by_rows else part[::-1]), shape)
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
    places = new.reshape(places, along)
    *others, total = [new.reshape(part, shape) for part in parts]
    for k in reversed(range(len(others))):
        hits = new.add("equal", (places, k), {}, along, dtype=boolean)
        total = new.add("where", (hits, others[k], total), {}, result.shape)
    return new.ending_in(result)
