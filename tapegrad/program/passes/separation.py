"""Write an elementwise value as a sum of products of factors with fewer axes.

A tangent t[k, p] that runs through a function of x[i, p] is multiplied by values without the axis
k and added to others like it: the result over (k, i, p) is a sum of products t[k, p] * c[i, p].
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from tapegrad.program.graph.graph import Call, Shape, Value

MOST_TERMS = 8
"""The most products of a sum; a longer one is not written as such."""

MOST_CALLS = 64
"""The most calls that make one value."""


class Factor(NamedTuple):
    """A value in a product, or below its fraction bar."""

    value: Value
    shape: Shape
    """The shape of the value with an axis, of length 1 perhaps, for each axis of the space."""
    divides: bool = False

    @property
    def axes(self) -> frozenset[int]:
        """The axes along which the value varies."""
        return frozenset(axis for axis, length in enumerate(self.shape) if length != 1)


class Term(NamedTuple):
    """A number times a product of factors."""

    number: float
    factors: tuple[Factor, ...]

    def times(self, number: float, factors: tuple[Factor, ...] = ()) -> Term:
        """Return the product with more factors."""
        return Term(self.number * number, (*self.factors, *factors))


class InseparableError(Exception):
    """The value is no sum of a few products of smaller values."""


@dataclass
class Separation:
    """Values of the shape `space` as sums of products of values that lack some of its axes."""

    space: Shape
    open_axes: frozenset[int]
    """Axes that are not reduced. A value with all of them has to be a sum of products."""
    makers: Mapping[int, Call]

    def __post_init__(self) -> None:
        self.calls: dict[int, Call] = {}
        """The calls of values with all open axes that were taken apart, by their results."""
        self._known: dict[int, list[Term]] = {}

    def terms_of(self, value: Value) -> list[Term]:
        """Return the products whose sum is a value, which broadcasts to the space."""
        if value.number not in self._known:
            terms = self._new_terms(value)
            if len(terms) > MOST_TERMS:
                raise InseparableError
            self._known[value.number] = terms
        return self._known[value.number]

    def _new_terms(self, value: Value) -> list[Term]:
        factor = Factor(value, (*[1] * (len(self.space) - len(value.shape)), *value.shape))
        if not factor.axes >= self.open_axes:
            return [Term(1.0, (factor,))]
        call = self.makers.get(value.number)
        rule = None if call is None or call.region else _RULES.get(call.primitive.name)
        if call is None or rule is None or len(self.calls) == MOST_CALLS:
            raise InseparableError
        self.calls[value.number] = call
        return rule(self, call)

    def _operand(self, operand: Any) -> list[Term]:
        if isinstance(operand, Value):
            return self.terms_of(operand)
        if isinstance(operand, int | float):
            return [Term(float(operand), ())]
        raise InseparableError

    def add(self, call: Call) -> list[Term]:
        """Add the terms of all operands."""
        return [term for operand in call.operands for term in self._operand(operand)]

    def subtract(self, call: Call) -> list[Term]:
        """Add terms with opposite signs."""
        first, second = (self._operand(operand) for operand in call.operands)
        return [*first, *[term.times(-1.0) for term in second]]

    def negative(self, call: Call) -> list[Term]:
        """Change the signs."""
        return [term.times(-1.0) for term in self._operand(call.operands[0])]

    def multiply(self, call: Call) -> list[Term]:
        """Multiply each term by each."""
        first, second = (self._operand(operand) for operand in call.operands)
        if len(first) * len(second) > MOST_TERMS:
            raise InseparableError
        return [a.times(b.number, b.factors) for a in first for b in second]

    def square(self, call: Call) -> list[Term]:
        """Repeat the factors of one product; several would have mixed products, which cancel."""
        terms = self._operand(call.operands[0])
        if len(terms) != 1:
            raise InseparableError
        return [terms[0].times(terms[0].number, terms[0].factors)]

    def divide(self, call: Call) -> list[Term]:
        """Divide by a number or by a value with fewer axes."""
        above, below = call.operands
        if isinstance(below, int | float) and below:
            return [term.times(1.0 / below) for term in self._operand(above)]
        (divisor,) = self._operand(below)[:1]
        is_one_value = len(divisor.factors) == 1 and divisor == Term(1.0, divisor.factors)
        if not is_one_value or not isinstance(below, Value) or divisor.factors[0].value != below:
            raise InseparableError
        inverse = divisor.factors[0]._replace(divides=True)
        return [term.times(1.0, (inverse,)) for term in self._operand(above)]

    def broadcast(self, call: Call) -> list[Term]:
        """Return the terms of the value that is repeated."""
        return self.terms_of(call.reads[0])


_RULES: dict[str, Callable[[Separation, Call], list[Term]]] = {
    "add": Separation.add,
    "add_n": Separation.add,
    "subtract": Separation.subtract,
    "negative": Separation.negative,
    "square": Separation.square,
    "multiply": Separation.multiply,
    "divide": Separation.divide,
    "broadcast_to": Separation.broadcast,
}
