"""Fuse additions, activations and operand sums into matrix products.

The product has the numbers in registers. A separate call would read and write the whole result
again.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, replace
from math import prod

from tapegrad.ops.products.fused import (
    ACTIVATIONS,
    matmul_sum_p,
    matmul_with_sums_p,
    summed_axis,
    sums_are_cheap,
)
from tapegrad.ops.products.primitives import plane_p
from tapegrad.ops.shape.primitives import sum_p
from tapegrad.program.graph.dependence import unused_numbers
from tapegrad.program.graph.graph import Call, Graph, Value, without_dead_calls
from tapegrad.program.passes.new_calls import NewCalls

_HALVES = ("float16", "bfloat16")
_DTYPES = (*_HALVES, "float32", "float64")


def with_epilogues(graph: Graph) -> Graph:
    """Fuse each product of two matrices with the additions and the activation after it.

    A product absorbs an `add` that is the only reader of its result. The other operand must be a
    vector along the last axis or a matrix of the result's shape; at most one of each is absorbed.
    Then it absorbs an activation that is the only reader of the sum. The new call is at the
    position of the last absorbed call. If two products are added, the later one absorbs the sum,
    because the earlier one is then already computed. A product of a stack of rows is one of a
    matrix, whose result is then reshaped; calls after that are absorbed, too.
    """
    uses, numbers = _Uses(graph), unused_numbers(graph)
    made: dict[int, list[Call]] = {}
    taken: set[int] = set()
    for place in reversed(range(len(graph.calls))):
        chain = _chain_from(place, uses, taken)
        if chain is not None:
            taken.update(chain.places)
            made[chain.places[-1]] = chain.as_calls(graph.calls, numbers)
    calls: list[Call] = []
    for place, call in enumerate(graph.calls):
        if place in made:
            calls.extend(made[place])
        elif place not in taken:
            calls.append(call)
    # The row made of a bias vector may be unused now.
    return without_dead_calls(replace(graph, calls=tuple(calls)))


def with_operand_sums(graph: Graph, least: int = 0) -> Graph:
    """Fuse each product of two matrices with the sum of an operand along the contracted axis.

    The gradients of a layer's weight and bias have this form. The new call is at the position of
    the product, so no call before it may read the sums. Products that `with_epilogues` has changed,
    that have fewer than `least` multiplications, or that are too deep for their width, stay.
    """
    uses = _Uses(graph)
    made: dict[int, Call] = {}
    taken: set[int] = set()
    for place, product in enumerate(graph.calls):
        if product.primitive is not plane_p or not _is_of_one_dtype(product):
            continue
        if _multiplications(product) < least:
            continue
        for of_first in (False, True):
            total = uses.sum_of(product, of_first)
            if total is None or total in taken or not _are_cheap(product, of_first):
                continue
            results = (*product.results, *graph.calls[total].results)
            if uses.is_read_before(results[1], place):
                continue
            params = {**product.params, "of_first": of_first}
            made[place] = replace(
                product, primitive=matmul_with_sums_p, params=params, results=results
            )
            taken.add(total)
            break
    calls = [made.get(place, call) for place, call in enumerate(graph.calls) if place not in taken]
    return replace(graph, calls=tuple(calls))


class _Uses:
    """The makers and readers of the values of a graph."""

    def __init__(self, graph: Graph) -> None:
        self.calls = graph.calls
        self._results = {value.number for value in graph.results}
        self._makers: dict[int, Call] = {}
        self._readers: dict[int, list[int]] = defaultdict(list)
        for place, call in enumerate(graph.calls):
            for value in call.reads:
                self._readers[value.number].append(place)
            for value in call.results:
                self._makers[value.number] = call

    def only_reader(self, value: Value) -> int | None:
        """Return the position of the only call that reads a value, or None."""
        readers = self._readers[value.number]
        return readers[0] if len(readers) == 1 and value.number not in self._results else None

    def is_read_before(self, value: Value, place: int) -> bool:
        """Return whether a call before this position reads a value."""
        return any(reader < place for reader in self._readers[value.number])

    def sum_of(self, product: Call, of_first: bool) -> int | None:
        """Return the position of the sum of an operand along the product's contracted axis."""
        axis = summed_axis(**product.params, of_first=of_first)
        for place in self._readers[product.reads[0 if of_first else 1].number]:
            call = self.calls[place]
            if call.primitive is sum_p and call.params == {"axis": (axis,), "keepdims": False}:
                return place if call.array_type is product.array_type else None
        return None

    def as_vector(self, value: Value, length: int) -> Value | None:
        """Return a value, or the vector of which it is a row, if it has this length."""
        if value.shape == (1, length):
            maker = self._makers.get(value.number)
            if maker is not None and maker.primitive.name == "reshape":
                value = maker.reads[0]
        return value if value.shape == (length,) else None


@dataclass
class _Chain:
    """The positions of a product and of the calls that it absorbs, and their operands."""

    places: list[int]
    bias: Value | None = None
    residual: Value | None = None
    activation: str | None = None

    def takes(self, call: Call, value: Value, uses: _Uses) -> bool:
        """Absorb a call that reads the current value, if possible; return whether it was."""
        if self.activation is not None:
            return False
        name = call.primitive.name
        if name in ACTIVATIONS:
            # The library's GELU is accurate enough only in half precision.
            if name == "relu" or value.dtype.name in _HALVES:
                self.activation = name
            return self.activation is not None
        others = [operand for operand in call.operands if operand != value]
        if name != "add" or len(others) != 1 or not isinstance(others[0], Value):
            return False
        return others[0].dtype == value.dtype and self._adds(others[0], value, uses)

    def _adds(self, other: Value, value: Value, uses: _Uses) -> bool:
        vector = uses.as_vector(other, value.shape[-1])
        if vector is not None and self.bias is None:
            self.bias = vector
            return True
        if other.shape == value.shape and self.residual is None:
            self.residual = other
            return True
        return False

    def as_calls(self, calls: tuple[Call, ...], numbers: Iterator[int]) -> list[Call]:
        """Return the fused call, and those that reshape its operand and its result."""
        product, last = calls[self.places[0]], calls[self.places[-1]]
        (matrix,), (result,) = product.results, last.results
        making = NewCalls(product, numbers)
        residual = self.residual
        if residual is not None and residual.shape != matrix.shape:
            residual = making.add("reshape", (residual,), {"shape": matrix.shape}, matrix.shape)
        addends = [value for value in (self.bias, residual) if value is not None]
        params = {
            **product.params,
            "bias": self.bias is not None,
            "residual": self.residual is not None,
            "activation": self.activation,
        }
        operands = (*product.operands, *addends)
        making.add(matmul_sum_p.name, operands, params, matrix.shape)
        if result.shape != matrix.shape:
            made = making.calls[-1].results[0]
            making.add("reshape", (made,), {"shape": result.shape}, result.shape)
        return making.ending_in(result)


def _chain_from(place: int, uses: _Uses, taken: set[int]) -> _Chain | None:
    """Return what the call at a position absorbs; None if it is no product or absorbs nothing."""
    product = uses.calls[place]
    if product.primitive is not plane_p or not _is_of_one_dtype(product):
        return None
    chain = _Chain([place])
    value, between = product.results[0], list[int]()
    reader = uses.only_reader(value)
    while reader is not None and reader not in taken:
        call = uses.calls[reader]
        if call.array_type is not product.array_type:
            break
        if _keeps_rows(call):
            between.append(reader)
        elif chain.takes(call, value, uses):
            chain.places += [*between, reader]
            between.clear()
        else:
            break
        value = call.results[0]
        reader = uses.only_reader(value)
    return chain if len(chain.places) > 1 else None


def _keeps_rows(call: Call) -> bool:
    """Whether a call arranges rows in another shape."""
    if call.primitive.name != "reshape":
        return False
    before, after = call.reads[0].shape, call.results[0].shape
    return bool(before and after) and before[-1] == after[-1] and 0 not in after


def _multiplications(product: Call) -> int:
    depth: int = product.reads[0].shape[-1 - product.params["transpose_a"]]
    return prod(product.results[0].shape) * depth


def _are_cheap(product: Call, of_first: bool) -> bool:
    operand = product.reads[0 if of_first else 1]
    axis = summed_axis(**product.params, of_first=of_first)
    return sums_are_cheap(operand.shape[axis], operand.shape[1 - axis], operand.dtype.itemsize)


def _is_of_one_dtype(product: Call) -> bool:
    dtypes = {value.dtype for value in (*product.reads, *product.results)}
    return len(dtypes) == 1 and dtypes.pop().name in _DTYPES
