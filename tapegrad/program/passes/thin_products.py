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
from typing import Any

from tapegrad.core.primitive.primitive import PRIMITIVES
from tapegrad.program.graph.dependence import unused_numbers
from tapegrad.program.graph.graph import Call, Graph, Shape, Value

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
    making = _Making(call, numbers)
    depth = vector.size
    along = making.reshape(vector, (depth, 1) if turned else (depth,))
    terms = making.value(matrix.shape, result)
    making.call("multiply", (matrix, along), {}, terms)
    total = making.value((result.size,), result)
    making.call("sum", (terms,), {"axis": (0 if turned else 1,), "keepdims": False}, total)
    return making.ending_in(total, result)


def _replaced(call: Call, numbers: Iterator[int]) -> list[Call]:
    """Return the elementwise calls of a product, none if it stays."""
    if call.primitive.name not in _PRODUCTS or len(call.reads) != 2 or call.region:
        return []
    (a, b), (result,) = call.reads, call.results
    if not a.dtype == b.dtype == result.dtype or 0 in result.shape:
        return []
    rows, depth = _sizes(a.shape, call.params["transpose_a"])
    depth_b, columns = _sizes(b.shape, call.params["transpose_b"])
    assert depth == depth_b
    making = _Making(call, numbers)
    if depth == 1:
        first = making.reshape(a, (*a.shape[:-2], rows, 1))
        second = making.reshape(b, (*b.shape[:-2], 1, columns))
        making.call("multiply", (first, second), {}, result)
        return making.calls
    few = prod(result.shape) < FEWEST or result.dtype.name not in _SUMMED
    if rows != 1 or columns != 1 or few:
        return []
    first = making.reshape(a, (*a.shape[:-2], depth))
    second = making.reshape(b, (*b.shape[:-2], depth))
    batch = result.shape[:-2]
    terms = making.value((*batch, depth), result)
    making.call("multiply", (first, second), {}, terms)
    total = making.value(batch, result)
    making.call("sum", (terms,), {"axis": (len(batch),), "keepdims": False}, total)
    making.call("reshape", (total,), {"shape": result.shape}, result)
    return making.calls


def _sizes(shape: Shape, is_transposed: bool) -> tuple[int, int]:
    return (shape[-1], shape[-2]) if is_transposed else (shape[-2], shape[-1])


class _Making:
    """The calls that replace a product."""

    def __init__(self, product: Call, numbers: Iterator[int]) -> None:
        self.calls: list[Call] = []
        self._product = product
        self._numbers = numbers

    def value(self, shape: Shape, like: Value) -> Value:
        return replace(like, number=next(self._numbers), shape=shape)

    def reshape(self, value: Value, shape: Shape) -> Value:
        if value.shape == shape:
            return value
        made = self.value(shape, value)
        self.call("reshape", (value,), {"shape": shape}, made)
        return made

    def ending_in(self, value: Value, result: Value) -> list[Call]:
        """Return the calls, of which the last one makes a result with the elements of a value."""
        if value.shape == result.shape:
            return [*self.calls[:-1], replace(self.calls[-1], results=(result,))]
        self.call("reshape", (value,), {"shape": result.shape}, result)
        return self.calls

    def call(
        self, name: str, operands: tuple[Value, ...], params: dict[str, Any], result: Value
    ) -> None:
        made = replace(
            self._product,
            primitive=PRIMITIVES[name],
            operands=operands,
            params=params,
            results=(result,),
            aliases=name == "reshape",
        )
        self.calls.append(made)
