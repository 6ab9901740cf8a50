"""Turn matrix products without a proper matrix into elementwise calls, which can be fused.

A product over an axis of length 1 is a product of elements. A stack of products of rows with
columns is the sum of products of elements. Libraries compute such products one matrix at a time,
and their results are stored before anything else reads them. On a GPU the same holds for products
of matrices and vectors.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from math import prod

from tapegrad.program.graph.dependence import unused_numbers
from tapegrad.program.graph.graph import Call, Graph, Shape
from tapegrad.program.passes.new_calls import NewCalls

FEWEST = 16
"""The fewest products of a stack of rows with columns; BLAS is fast for a few long ones."""

LEAST_READ = 1 << 12
"""The fewest elements of a matrix whose product with a vector is a loop."""

_PRODUCTS = ("matmul", "matmul_stack")
_SUMMED = ("float32", "float64")
"""Dtypes of sums; half precision is added in single precision by the library."""


def with_elementwise_products(graph: Graph, with_vectors: bool = False) -> Graph:
    """Replace thin products by elementwise calls.

    `with_vectors` includes products of a matrix and a vector. They take as long as it takes to
    read the matrix, and a loop can do so while it computes what is around the product.
    """
    numbers = unused_numbers(graph)
    calls: list[Call] = []
    for call in graph.calls:
        made = _replaced(call, numbers)
        if not made and with_vectors:
            made = _with_vector(call, numbers)
        calls.extend(made or (call,))
    return replace(graph, calls=tuple(calls))


def _with_vector(call: Call, numbers: Iterator[int]) -> list[Call]:
    """Return the elementwise calls of a product of a matrix and a vector, none if it stays."""
    if call.primitive.name not in ("matmul", "matvec") or len(call.reads) != 2 or call.region:
        return []
    (a, b), (result,) = call.reads, call.results
    if result.dtype.name not in _SUMMED or not a.dtype == b.dtype == result.dtype:
        return []
    if call.primitive.name == "matvec":
        matrix, vector, turned = a, b, call.params["transpose"]
    elif result.shape[1] == 1:
        matrix, vector, turned = a, b, call.params["transpose_a"]
    elif result.shape[0] == 1:
        matrix, vector, turned = b, a, not call.params["transpose_b"]
    else:
        return []
    if matrix.size < LEAST_READ:
        return []
    new = NewCalls(call, numbers)
    depth = vector.size
    along = new.reshape(vector, (depth, 1) if turned else (depth,))
    terms = new.add("multiply", (matrix, along), {}, matrix.shape)
    summed = {"axis": (0 if turned else 1,), "keepdims": False}
    new.reshape(new.add("sum", (terms,), summed, (result.size,)), result.shape)
    return new.ending_in(result)


def _replaced(call: Call, numbers: Iterator[int]) -> list[Call]:
    """Return the elementwise calls of a product, none if it stays."""
    if call.primitive.name not in _PRODUCTS or len(call.reads) != 2 or call.region:
        return []
    (a, b), (result,) = call.reads, call.results
    if not a.dtype == b.dtype == result.dtype or 0 in result.shape:
        return []
    rows, depth = sizes(a.shape, call.params["transpose_a"])
    depth_b, columns = sizes(b.shape, call.params["transpose_b"])
    assert depth == depth_b
    new = NewCalls(call, numbers)
    if depth == 1:
        first = new.reshape(a, (*a.shape[:-2], rows, 1))
        second = new.reshape(b, (*b.shape[:-2], 1, columns))
        new.add("multiply", (first, second), {}, result.shape, result)
        return new.calls
    few = prod(result.shape) < FEWEST or result.dtype.name not in _SUMMED
    if rows != 1 or columns != 1 or few:
        return []
    first = new.reshape(a, (*a.shape[:-2], depth))
    second = new.reshape(b, (*b.shape[:-2], depth))
    batch = result.shape[:-2]
    terms = new.add("multiply", (first, second), {}, (*batch, depth))
    total = new.add("sum", (terms,), {"axis": (len(batch),), "keepdims": False}, batch)
    new.add("reshape", (total,), {"shape": result.shape}, result.shape, result)
    return new.calls


def sizes(shape: Shape, is_transposed: bool) -> tuple[int, int]:
    """Return the numbers of rows and columns of a matrix that a product may transpose."""
    return (shape[-1], shape[-2]) if is_transposed else (shape[-2], shape[-1])
