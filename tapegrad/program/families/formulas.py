"""Formulas for numbers that differ between recordings of calls with other sizes.

A number is explained by the sizes of the calls if exactly one formula gives its value in all of the
recordings: a rational multiple of one size plus a constant, or a multiple of the product of two
sizes. Floats are whole numbers, their reciprocals, or square roots of either.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from itertools import combinations_with_replacement
from typing import Any, NamedTuple

Sizes = tuple[int, ...]
"""The sizes of one call, one for each symbol."""

LARGEST = 2**53
"""The largest whole number that is looked for in a float."""


class Unlike(Exception):  # noqa: N818  # it never leaves the package
    """Recordings differ in a way that their sizes do not explain."""


class Unfit(Exception):  # noqa: N818  # likewise
    """A template does not hold for some sizes."""


class Linear(NamedTuple):
    """`slope * size + offset`, which must be a whole number."""

    symbol: int
    slope: Fraction
    offset: Fraction

    def at(self, sizes: Sizes) -> int:
        value = self.slope * sizes[self.symbol] + self.offset
        if value.denominator != 1:
            raise Unfit
        return value.numerator


class Product(NamedTuple):
    """A multiple of the product of two sizes."""

    first: int
    second: int
    factor: int

    def at(self, sizes: Sizes) -> int:
        return self.factor * sizes[self.first] * sizes[self.second]


Whole = Linear | Product


class Real(NamedTuple):
    """A float that is computed from a whole number."""

    function: Callable[[int], float]
    whole: Whole

    def at(self, sizes: Sizes) -> float:
        return self.function(self.whole.at(sizes))


Formula = Whole | Real


def _reciprocal(n: int) -> float:
    return 1.0 / n


def _negative_reciprocal(n: int) -> float:
    return -1.0 / n


def _root(n: int) -> float:
    return math.sqrt(n)


def _reciprocal_root(n: int) -> float:
    return 1.0 / math.sqrt(n)


_REALS: Sequence[tuple[Callable[[int], float], Callable[[float], float]]] = (
    (float, lambda x: x),
    (_reciprocal, lambda x: 1.0 / x),
    (_negative_reciprocal, lambda x: -1.0 / x),
    (_root, lambda x: x * x),
    (_reciprocal_root, lambda x: 1.0 / (x * x)),
)
"""Functions of a whole number, and their inverses up to rounding."""


class Solver:
    """Finds formulas for the sizes of several recorded calls."""

    def __init__(self, sizes: Sequence[Sizes]) -> None:
        self.sizes = sizes
        self._known: dict[Any, Formula] = {}

    def whole(self, values: tuple[int, ...]) -> Whole:
        """Return the only formula for whole numbers, one per recorded call, or raise `Unlike`."""
        found: Any = self._known.get(values)
        if found is None:
            found = self._known[values] = self._only_one(values)
        return found  # type: ignore[no-any-return]

    def _only_one(self, values: tuple[int, ...]) -> Whole:
        count = len(self.sizes[0])
        pairs = combinations_with_replacement(range(count), 2)
        fits: list[Whole | None] = [self._linear(symbol, values) for symbol in range(count)]
        fits += [self._product(first, second, values) for first, second in pairs]
        found = [fit for fit in fits if fit is not None]
        if len(found) != 1:
            raise Unlike
        return found[0]

    def _linear(self, symbol: int, values: tuple[int, ...]) -> Linear | None:
        known = [sizes[symbol] for sizes in self.sizes]
        other = next(k for k, size in enumerate(known) if size != known[0])
        slope = Fraction(values[other] - values[0], known[other] - known[0])
        offset = values[0] - slope * known[0]
        fits = all(slope * size + offset == value for size, value in zip(known, values))
        return Linear(symbol, slope, offset) if fits else None

    def _product(self, first: int, second: int, values: tuple[int, ...]) -> Product | None:
        products = [sizes[first] * sizes[second] for sizes in self.sizes]
        factor = values[0] // products[0]
        fits = factor and all(factor * p == value for p, value in zip(products, values))
        return Product(first, second, factor) if fits else None

    def real(self, values: tuple[float, ...]) -> Real:
        """Return a formula that gives floats to the last bit, or raise `Unlike`."""
        for function, inverse in _REALS:
            near = [inverse(x) if x and math.isfinite(x) else math.inf for x in values]
            if any(not 0.5 < abs(x) < LARGEST for x in near):
                continue
            wholes = tuple([round(x) for x in near])
            try:
                if all(function(n) == x for n, x in zip(wholes, values)):
                    return Real(function, self.whole(wholes))
            except (ValueError, Unlike):  # a root of a negative number
                continue
        raise Unlike
