"""Gives matrix products what is done to their results, and sums of what they read.

A backend does this with numbers that it has at hand, where a call of its own would read them, and
write the whole result, once more.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, replace
from math import prod

from tapegrad.ops.basic import sum_p
from tapegrad.ops.matrix_product import plane_p
from tapegrad.ops.matrix_product_sum import (
    ACTIVATIONS,
    matmul_sum_p,
    matmul_with_sums_p,
    summed_axis,
)
from tapegrad.program.graph import Call, Graph, Value, without_dead_calls

_HALVES = ("float16", "bfloat16")
_DTYPES = (*_HALVES, "float32", "float64")


def with_epilogues(graph: Graph) -> Graph:
    """Make one call of each product of two matrices and the sums and activation after it.

    A product takes in an `add` that alone reads its result, if the other operand is a vector along
    the last axis or a matrix like the result, one of each at most; then an activation that alone
    reads that. The call stands where the last one that was taken in did. Of two products that are
    added to each other, the later takes in the sum: then the earlier is there already.
    """
    uses = _Uses(graph)
    made: dict[int, Call] = {}
    taken: set[int] = set()
    for place in reversed(range(len(graph.calls))):
        chain = _chain_from(place, uses, taken)
        if chain is not None:
            taken.update(chain.places)
            made[chain.places[-1]] = chain.as_call(graph.calls)
    calls = [
        made.get(place, call)
        for place, call in enumerate(graph.calls)
        if place not in taken or place in made
    ]
    # A vector may have been a row before, made for the sum alone.
    return without_dead_calls(replace(graph, calls=tuple(calls)))


def with_operand_sums(graph: Graph, least: int = 0) -> Graph:
    """Make one call of each product of two matrices and a sum of one along the axis it sums over.

    That is how the gradients of a layer's weight and bias are found. The call stands where the
    product did, so nothing may read the sums before. For products that with_epilogues has left,
    of at least that many multiplications.
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
            if total is None or total in taken:
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
    """Who makes and who reads the values of a graph."""

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
        """Return the place of the call that reads a value, if nothing else needs it."""
        readers = self._readers[value.number]
        return readers[0] if len(readers) == 1 and value.number not in self._results else None

    def is_read_before(self, value: Value, place: int) -> bool:
        """Return whether a call before this place reads a value."""
        return any(reader < place for reader in self._readers[value.number])

    def sum_of(self, product: Call, of_first: bool) -> int | None:
        """Return the place of the sum of an operand along the axis that a product sums over."""
        axis = summed_axis(**product.params, of_first=of_first)
        for place in self._readers[product.reads[0 if of_first else 1].number]:
            call = self.calls[place]
            if call.primitive is sum_p and call.params == {"axis": (axis,), "keepdims": False}:
                return place if call.kind is product.kind else None
        return None

    def as_vector(self, value: Value, length: int) -> Value | None:
        """Return the vector of this length that a value is, or is a row made of."""
        if value.shape == (1, length):
            maker = self._makers.get(value.number)
            if maker is not None and maker.primitive.name == "reshape":
                value = maker.reads[0]
        return value if value.shape == (length,) else None


@dataclass
class _Chain:
    """Places of a product and of the calls that it takes in, and what these add."""

    places: list[int]
    bias: Value | None = None
    residual: Value | None = None
    activation: str | None = None

    def takes(self, call: Call, value: Value, uses: _Uses) -> bool:
        """Take in a call that reads the value so far, if it is of the right kind."""
        if self.activation is not None:
            return False
        name = call.primitive.name
        if name in ACTIVATIONS:
            # Only in few bits is the library's own GELU as good as ours.
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

    def as_call(self, calls: tuple[Call, ...]) -> Call:
        """Return the one call for all of them."""
        product, last = calls[self.places[0]], calls[self.places[-1]]
        addends = [value for value in (self.bias, self.residual) if value is not None]
        params = {
            **product.params,
            "bias": self.bias is not None,
            "residual": self.residual is not None,
            "activation": self.activation,
        }
        operands = (*product.operands, *addends)
        return Call(matmul_sum_p, operands, params, last.results, product.kind)


def _chain_from(place: int, uses: _Uses, taken: set[int]) -> _Chain | None:
    """Return what the product at a place takes in; None if it is no product or there is nothing."""
    product = uses.calls[place]
    if product.primitive is not plane_p or not _is_of_one_dtype(product):
        return None
    chain = _Chain([place])
    value = product.results[0]
    reader = uses.only_reader(value)
    while reader is not None and reader not in taken:
        call = uses.calls[reader]
        if call.kind is not product.kind or not chain.takes(call, value, uses):
            break
        chain.places.append(reader)
        value = call.results[0]
        reader = uses.only_reader(value)
    return chain if len(chain.places) > 1 else None


def _multiplications(product: Call) -> int:
    depth: int = product.reads[0].shape[-1 - product.params["transpose_a"]]
    return prod(product.results[0].shape) * depth


def _is_of_one_dtype(product: Call) -> bool:
    dtypes = {value.dtype for value in (*product.reads, *product.results)}
    return len(dtypes) == 1 and dtypes.pop().name in _DTYPES
