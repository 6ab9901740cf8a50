"""Take factors that are constant along the axes of a sum out of the sum.

The gradients of a normalisation are sums of one gradient times other statistics, such as the
scale and the standard deviation of each channel. Without these factors some of the sums are equal,
so that a loop makes fewer of them. Other sums stay as they are, since their operands may be needed
elsewhere.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from tapegrad.program.graph.dependence import unused_numbers
from tapegrad.program.graph.graph import Call, Graph, Shape, Value, without_dead_calls
from tapegrad.program.passes.new_calls import NewCalls

LEAST = 1 << 12
"""The fewest elements of an array that is summed."""

MOST_CALLS = 24
"""The most calls that are followed from a sum."""

_SUMS = ("mean", "sum")
_DTYPES = ("float32", "float64")
_MODERATE = 2.0**20
"""Larger numbers, and smaller ones than its inverse, stay in a sum, which might overflow."""


@dataclass
class _Product:
    """The factors of a value: some vary along the summed axes, the others are constant."""

    varying: list[Value] = field(default_factory=list)
    constant: list[tuple[Any, bool]] = field(default_factory=list)
    """Values of fewer elements, or numbers, and whether the product is divided by them."""
    guards: set[int] = field(default_factory=set)
    """Varying factors, by their numbers, whose zeros make the product 0."""
    is_negative: bool = False
    calls: int = 0


def with_constant_factors_outside(graph: Graph) -> Graph:
    """Replace sums of products by products of sums where factors are constant along the axes."""
    if sum(_is_large_sum(call) for call in graph.calls) < 2:
        return graph
    moving = _Moving(graph)
    if not moving.finds_equal_sums:
        return graph
    for call in graph.calls:
        moving.add(call)
    return without_dead_calls(replace(graph, calls=tuple(moving.calls)))


def _is_large_sum(call: Call) -> bool:
    if call.primitive.name not in _SUMS or call.region:
        return False
    operand, result = call.reads[0], call.results[0]
    is_known = operand.dtype.name in _DTYPES and operand.dtype == result.dtype
    return is_known and operand.size >= LEAST


class _Moving:
    """The calls of a graph in which factors leave sums."""

    def __init__(self, graph: Graph) -> None:
        self.calls: list[Call] = []
        self._makers = {value.number: call for call in graph.calls for value in call.results}
        self._numbers: Iterator[int] = unused_numbers(graph)
        self._products = {
            call.results[0].number: product
            for call in graph.calls
            if _is_large_sum(call) and (product := self._product_of(call)) is not None
        }
        numbers = self._products.keys()
        sums = [call for call in graph.calls if call.results and call.results[0].number in numbers]
        self._count = Counter(self._key_of(call) for call in sums)
        self._sums: dict[Any, Value] = {}
        """The sums of products of varying factors that the new calls contain."""

    @property
    def finds_equal_sums(self) -> bool:
        """Whether some sums are equal but for constant factors."""
        return any(count > 1 for count in self._count.values())

    def add(self, call: Call) -> None:
        """Add a call, or the calls that replace it."""
        product = self._products.get(call.results[0].number) if call.results else None
        key = None if product is None else self._key_of(call)
        if product is None or self._count[key] < 2:
            self.calls.append(call)
            return
        known = self._sums.get(key)
        if not product.constant and not product.is_negative:
            self._sums.setdefault(key, call.results[0])
            self.calls.append(call)
            return
        new = NewCalls(call, self._numbers)
        if known is None:
            known = self._sums[key] = _sum(call, product, new)
        self.calls.extend(_times_constants(call, product, known, new))

    def _key_of(self, call: Call) -> Any:
        return _key(call, self._products[call.results[0].number])

    def _product_of(self, call: Call) -> _Product | None:
        """Return the factors of the operand of a sum, None if they do not have its shape."""
        operand = call.reads[0]
        product = _Product()
        axes = frozenset(axis - len(operand.shape) for axis in call.params["axis"])
        self._collect(operand, axes, product)
        shapes = [value.shape for value in product.varying]
        has_shape = operand.shape in shapes and product.calls <= MOST_CALLS
        return product if has_shape else None

    def _collect(self, value: Value, axes: frozenset[int], product: _Product) -> None:
        """Add the factors of a value to a product."""
        made = self._makers.get(value.number)
        name = "" if made is None or made.region else made.primitive.name
        product.calls += 1
        if made is None or product.calls > MOST_CALLS or value.dtype != made.results[0].dtype:
            product.varying.append(value)
        elif name == "negative" and made.reads[0].dtype == value.dtype:
            product.is_negative = not product.is_negative
            self._collect(made.reads[0], axes, product)
        elif name in ("multiply", "divide") and _has_one_dtype(made):
            first, second = made.operands
            if name == "divide" and not _is_constant(second, axes, value.shape):
                product.varying.append(value)
                return
            for operand, divides in ((first, False), (second, name == "divide")):
                if _is_constant(operand, axes, value.shape):
                    product.constant.append((operand, divides))
                else:
                    self._collect(operand, axes, product)
        elif name == "zero_with" and self._guards(made, axes, product):
            self._collect(made.reads[0], axes, product)
        else:
            product.varying.append(value)

    def _guards(self, call: Call, axes: frozenset[int], product: _Product) -> bool:
        """Note the factors whose zeros make a result 0; whether they are factors of it."""
        value, guard = call.reads
        if not value.dtype == guard.dtype == call.results[0].dtype:
            return False
        inner, other = _Product(calls=product.calls), _Product(calls=product.calls)
        self._collect(value, axes, inner)
        self._collect(guard, axes, other)
        found = {one.number for one in other.varying}
        if not found or not found <= {one.number for one in inner.varying}:
            return False
        product.guards |= found
        return True


def _has_one_dtype(call: Call) -> bool:
    return all(value.dtype == call.results[0].dtype for value in call.reads)


def _is_constant(operand: Any, axes: frozenset[int], shape: Shape) -> bool:
    """Whether an operand has one value along the axes, which are counted from the end."""
    if not isinstance(operand, Value):
        is_number = isinstance(operand, int | float) and not isinstance(operand, bool)
        return is_number and 1 / _MODERATE <= abs(operand) <= _MODERATE
    if operand.shape == shape:
        return False
    return all(-axis > len(operand.shape) or operand.shape[axis] == 1 for axis in axes)


def _key(call: Call, product: _Product) -> Any:
    """What the sum of the varying factors depends on."""
    numbers = tuple(sorted(value.number for value in product.varying))
    axes, keepdims = tuple(sorted(call.params["axis"])), call.params["keepdims"]
    guards = frozenset(product.guards if len(numbers) > 1 else ())
    return call.primitive.name, numbers, guards, axes, keepdims


def _sum(call: Call, product: _Product, new: NewCalls) -> Value:
    """Add the calls that sum the varying factors; return the sum."""
    shape = call.reads[0].shape
    # The factor that has the shape of the operand comes first.
    total, *others = sorted(product.varying, key=lambda one: (one.shape != shape, one.number))
    for other in others:
        total = new.add("multiply", (total, other), {}, shape)
    guards = {one.number: one for one in product.varying if one.number in product.guards}
    for _, guard in sorted(guards.items()) if others else ():
        total = new.add("zero_with", (total, guard), {}, shape)
    result = call.results[0]
    return new.add(call.primitive.name, (total,), dict(call.params), result.shape)


def _times_constants(call: Call, product: _Product, total: Value, new: NewCalls) -> list[Call]:
    """Return the calls that apply the constant factors to a sum."""
    value, shape = total, call.results[0].shape
    for factor, divides in product.constant:
        one = _reduced(factor, call, new) if isinstance(factor, Value) else factor
        value = new.add("divide" if divides else "multiply", (value, one), {}, shape)
        if product.guards:
            value = new.add("zero_with", (value, total), {}, shape)
    if product.is_negative:
        value = new.add("negative", (value,), {}, shape)
    return new.ending_in(call.results[0])


def _reduced(factor: Value, call: Call, new: NewCalls) -> Value:
    """Return a factor in the shape that it has beside the result of a sum."""
    if call.params["keepdims"]:
        return factor
    rank = len(call.reads[0].shape)
    first = rank - len(factor.shape)
    kept = [k for k in range(rank) if k not in call.params["axis"] and k >= first]
    shape = tuple(factor.shape[k - first] for k in kept)
    if shape == factor.shape:
        return factor
    return new.add("reshape", (factor,), {"shape": shape}, shape)
