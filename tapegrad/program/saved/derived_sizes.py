"""Sizes that follow from lengths by division: the rows of a strided convolution, and its padding.

Every number in which recordings differ becomes a product of sizes, a multiple of one size plus a
constant, or a sum of such numbers. The sizes are the lengths themselves, and further ones that
follow from an earlier one: the quotient `(factor * size + offset) // divisor`, or a number for each
remainder of the size. Where several rules explain the recordings, another recording decides.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from fractions import Fraction
from itertools import combinations_with_replacement
from math import lcm, prod
from typing import Any, NamedTuple

import numpy as np

from tapegrad.errors import FileFormatError, ShapeError

_BATCHES = (2, 4, 3, 5, 6)
_FIRST_LENGTHS = ((64, 59, 71, 65, 60, 97), (61, 70, 64, 95, 69, 60), (63, 96, 58, 67, 72, 61))
"""The first lengths of the other symbols; those near one another differ in their remainders."""
_FIRST_MULTIPLES = ((2, 3, 4, 5, 6, 7), (3, 5, 2, 7, 4, 6), (4, 2, 6, 3, 7, 5))
"""Likewise, for functions that take multiples of a number alone."""
_MULTIPLES = 11
_STEPS = (37, 53, 29)
_SPREAD = 89
_PROBES = 60
_LARGEST_DIVISOR = 64
_DIVISIONS = np.array([(d, k) for d in range(2, _LARGEST_DIVISOR + 1) for k in range(d)]).T
"""All divisors, each with all offsets."""
_LONGEST_CYCLE = 4
_MOST_SIZES = 128

Values = tuple[int, ...]
Rule = list[Any]
Terms = list[Any]


class UndeterminedError(Exception):
    """No rule explains the numbers, or several do: then these lengths tell them apart."""

    def __init__(self, lengths: Values | None = None) -> None:
        self.lengths = lengths


def first_lengths(symbols: int, factor: int = 1, unit: int = 1) -> list[Values]:
    """Return the lengths to start with. A factor above 1 is for functions of larger images.

    >>> first_lengths(1)[:3], first_lengths(2)[:2], first_lengths(2, factor=2)[1]
    ([(64,), (59,), (71,)], [(2, 64), (4, 59)], (4, 123))
    >>> first_lengths(2, unit=32)
    [(2, 64), (4, 96), (3, 128), (5, 160), (6, 192), (3, 224)]
    """
    rows = _FIRST_LENGTHS if unit == 1 else _FIRST_MULTIPLES
    inner = [[unit * n if unit > 1 else factor * 64 + n - 64 for n in row] for row in rows]
    return [*zip(*inner[:1])] if symbols == 1 else [*zip((*_BATCHES, 3), *inner[: symbols - 1])]


def other_lengths(symbols: int, factor: int = 1, unit: int = 1) -> list[Values]:
    """Return lengths of which some are recorded in addition.

    >>> other_lengths(2)[:4], other_lengths(2, unit=32)[:4]
    ([(2, 48), (4, 85), (3, 122), (5, 70)], [(2, 32), (4, 160), (3, 288), (5, 64)])
    """
    return [
        tuple(
            [
                _BATCHES[k % len(_BATCHES)]
                if symbols > 1 and symbol == 0
                else _other_length(k * _STEPS[(symbol or 1) - 1], factor, unit)
                for symbol in range(symbols)
            ]
        )
        for k in range(_PROBES)
    ]


def far_lengths(symbols: int, factor: int = 1, unit: int = 1) -> Values:
    """Return short and long lengths, for which code that compares lengths would differ.

    >>> far_lengths(1), far_lengths(3)
    ((7,), (67, 64, 64))
    """
    return (7,) if symbols == 1 else (67, *[max(64 * factor, 2 * unit)] * (symbols - 1))


def _other_length(number: int, factor: int, unit: int) -> int:
    if unit > 1:
        return unit * (1 + number % _MULTIPLES)
    return factor * 48 + number % (factor * _SPREAD)


class _Size(NamedTuple):
    recorded: Values
    probed: Values
    """The same for other lengths, which show whether two rules are equal."""


class Sizes:
    """The sizes that explain recordings for these lengths."""

    def __init__(self, lengths: Sequence[Values], probes: Sequence[Values]) -> None:
        self.rules: list[Rule] = []
        self._probes = probes
        self._sizes = [*map(_Size, zip(*lengths), zip(*probes))]
        self._known: dict[Values, Terms] = {}
        self._totals: dict[Values, Sequence[Values]] = {}

    def terms(self, values: Values) -> Terms:
        """Return the sum of products that is these numbers in the recordings.

        >>> sizes = Sizes([(4,), (7,), (9,), (10,)], other_lengths(1))
        >>> sizes.terms((8, 14, 18, 20)), sizes.rules
        ([[2, 1, [0]]], [])
        >>> sizes.terms((2, 4, 5, 5)), sizes.rules
        ([[1, 1, [1]]], [['quotient', 0, 1, 1, 2]])
        """
        if values not in self._known:
            found = self._product(values) or self._linear(values) or self._total(values)
            self._known[values] = found or self._new(values)
        return self._known[values]

    def explain(self, trees: Sequence[Any]) -> None:
        """Explain all numbers in which the trees differ.

        Small numbers come first: the length of an axis helps to explain the number of elements.
        """
        found: set[Values] = set()
        self._collect(trees, found)
        waiting = sorted(found, key=lambda one: (sum(one), one))
        while waiting:
            late = [values for values in waiting if not self._is_explained(values)]
            if len(late) == len(waiting):
                raise UndeterminedError
            waiting = late

    def _is_explained(self, values: Values) -> bool:
        try:
            self.terms(values)
        except UndeterminedError as error:
            if error.lengths is not None:
                raise
            return False
        return True

    def _collect(self, trees: Sequence[Any], found: set[Values]) -> None:
        first = trees[0]
        if any(type(tree) is not type(first) for tree in trees):
            raise UndeterminedError
        if isinstance(first, dict | list) and any(len(tree) != len(first) for tree in trees):
            raise UndeterminedError
        if isinstance(first, dict):
            if any(tree.keys() != first.keys() for tree in trees):
                raise UndeterminedError
            for key in first:
                self._collect([tree[key] for tree in trees], found)
        elif isinstance(first, list):
            parts = [*zip(*trees)]
            for part in parts:
                self._collect(part, found)
            if all(type(one) is int for part in parts for one in part):
                self._totals.setdefault(tuple([sum(tree) for tree in trees]), parts)
        elif type(first) is int and any(tree != first for tree in trees):
            found.add(tuple(trees))

    def _product(self, values: Values) -> Terms | None:
        """Return the multiple of a product of as few sizes as possible."""
        if 0 in values:
            return None
        for candidates in self._factors(values):
            found: dict[Any, Any] = {}
            for chosen in candidates:
                factors = [self._sizes[k] for k in chosen]
                if factor := _ratio(values, [one.recorded for one in factors]):
                    probed = [factor * prod(row) for row in zip(*[one.probed for one in factors])]
                    found.setdefault(tuple(probed), [_term(factor, chosen)])
            if found:
                terms: Terms = self._only(found)
                return terms
        return None

    def _factors(self, values: Values) -> Iterator[Iterable[tuple[int, ...]]]:
        """Yield candidates for a product of one size, of two, three and four.

        Products of three and more are looked up: their logarithms have the right sum.
        """
        singles = [(k,) for k, size in enumerate(self._sizes) if 0 not in size.recorded]
        yield singles
        pairs = [(j, k) for (j,), (k,) in combinations_with_replacement(singles, 2)]
        yield pairs
        logs = np.log([size.recorded for size in self._sizes if 0 not in size.recorded])
        at = {chosen[0]: row for chosen, row in zip(singles, logs - logs[:, :1])}
        wanted = np.log(values) - np.log(values[0])
        sums = {pair: at[pair[0]] + at[pair[1]] for pair in pairs}
        known: dict[Any, list[tuple[int, ...]]] = {}
        for pair, row in sums.items():
            known.setdefault(_rounded(row), []).append(pair)
        for others in (at.items(), sums.items()):
            rests = [
                (other if isinstance(other, tuple) else (other,), known[key])
                for other, row in others
                if (key := _rounded(wanted - row)) in known
            ]
            yield {tuple(sorted((*other, *pair))) for other, chosen in rests for pair in chosen}

    def _linear(self, values: Values) -> Terms | None:
        """Return a multiple of one size plus a constant, which is a size, too."""
        found: dict[Any, Any] = {}
        for k, size in enumerate(self._sizes):
            if line := _line(size.recorded, values):
                found.setdefault(_on_line(line, size.probed), _line_rule(k, line))
        return self._of(self._only(found)) if found else None

    def _total(self, values: Values) -> Terms | None:
        """Return the total of a list of numbers, which is the size of a concatenation."""
        if values not in self._totals:
            return None
        parts = self._totals[values]
        constant = [len({*one}) == 1 for one in parts]
        return [
            term
            for one, is_constant in zip(parts, constant)
            for term in ([_term(Fraction(one[0]), [])] if is_constant else self.terms(one))
        ]

    def _new(self, values: Values) -> Terms:
        """Add the size that explains the numbers, and return them in terms of it."""
        if len(self._sizes) >= _MOST_SIZES:
            raise UndeterminedError
        for rules in (self._quotients(values), self._cycles(values)):
            found: dict[Any, Any] = {}
            for rule, line in rules:
                probed = [applied(rule, n) for n in self._sizes[rule[1]].probed]
                found.setdefault(_on_line(line, probed), (rule, line))
            if found:
                rule, line = self._only(found)
                terms = self._of(rule)
                # Products have the number itself as a factor.
                is_other = line != (1, 0)
                return self._of(_line_rule(len(self._sizes) - 1, line)) if is_other else terms
        raise UndeterminedError

    def _of(self, rule: Rule) -> Terms:
        """Add a size, and return it."""
        base = self._sizes[rule[1]]
        rows = [tuple([applied(rule, n) for n in row]) for row in base]
        self.rules.append(rule)
        self._sizes.append(_Size(*rows))
        return [_term(Fraction(1), [len(self._sizes) - 1])]

    def _only(self, found: dict[Any, Any]) -> Any:
        """Return the only explanation; the keys are what they mean for the other lengths."""
        if len(found) > 1:
            counts = [len({*column}) for column in zip(*found)]
            raise UndeterminedError(self._probes[counts.index(max(counts))])
        (one,) = found.values()
        return one

    def _quotients(self, values: Values) -> Iterator[tuple[Rule, tuple[Fraction, Fraction]]]:
        divisors, offsets = _DIVISIONS
        rises = np.array(values) - values[0]
        other = int(np.argmax(rises != 0))
        for base, size in enumerate(self._sizes):
            quotients = (np.array(size.recorded) + offsets[:, None]) // divisors[:, None]
            steps = quotients - quotients[:, :1]
            fits = (rises * steps[:, other : other + 1] == rises[other] * steps).all(axis=1)
            for k in np.flatnonzero(fits & (steps[:, other] != 0)).tolist():
                line = _line(tuple(quotients[k].tolist()), values)
                if line:
                    yield ["quotient", base, 1, int(offsets[k]), int(divisors[k])], line

    def _cycles(self, values: Values) -> Iterator[tuple[Rule, tuple[Fraction, Fraction]]]:
        for base, size in enumerate(self._sizes):
            for length in range(2, _LONGEST_CYCLE + 1):
                known = {n % length: value for n, value in zip(size.recorded, values)}
                fits = all(known[n % length] == value for n, value in zip(size.recorded, values))
                if fits and len(known) == length:
                    rule = ["cycle", base, [known[k] for k in range(length)]]
                    yield rule, (Fraction(1), Fraction(0))


def _rounded(row: np.ndarray) -> tuple[float, ...]:
    return tuple((np.round(row, 6) + 0.0).tolist())


def _ratio(values: Values, factors: Sequence[Values]) -> Fraction | None:
    """Return what multiplies the products of factors."""
    first = prod(one[0] for one in factors)
    fits = first and all(
        value * first == values[0] * prod(row) for value, *row in zip(values, *factors)
    )
    return Fraction(values[0], first) if fits else None


def _line(size: Values, values: Values) -> tuple[Fraction, Fraction] | None:
    """Return the slope and the constant of numbers that lie on a line over a size."""
    other = next((k for k, n in enumerate(size) if n != size[0]), None)
    if other is None:
        return None
    rise, step = values[other] - values[0], size[other] - size[0]
    if any((value - values[0]) * step != rise * (n - size[0]) for n, value in zip(size, values)):
        return None
    slope = Fraction(rise, step)
    return slope, values[0] - slope * size[0]


def _on_line(line: tuple[Fraction, Fraction], sizes: Iterable[int]) -> tuple[Fraction, ...]:
    slope, constant = line
    return tuple([slope * n + constant for n in sizes])


def _line_rule(base: int, line: tuple[Fraction, Fraction]) -> Rule:
    divisor = lcm(*[one.denominator for one in line])
    return ["quotient", base, *[int(divisor * one) for one in line], divisor]


def _term(factor: Fraction, sizes: Sequence[int]) -> list[Any]:
    return [factor.numerator, factor.denominator, [*sizes]]


def applied(rule: Rule, size: int) -> int:
    """Return the size that a rule makes of another one.

    >>> applied(["quotient", 0, 1, 1, 2], 7), applied(["cycle", 0, [5, 6]], 7)
    (4, 6)
    """
    if rule[0] == "quotient":
        return int((rule[2] * size + rule[3]) // rule[4])
    return int(rule[2][size % len(rule[2])])


def all_sizes(rules: Sequence[Rule], lengths: Values) -> Values:
    """Return the lengths and the sizes that follow from them.

    >>> all_sizes([["quotient", 0, 1, 1, 2], ["quotient", 1, 1, 1, 2]], (7,))
    (7, 4, 2)
    """
    sizes = [*lengths]
    try:
        for rule in rules:
            sizes.append(applied(rule, sizes[rule[1]]))
    except (ArithmeticError, LookupError, TypeError, ValueError) as error:
        raise FileFormatError("A rule for the sizes of the program is damaged.") from error
    return tuple(sizes)


def total(terms: Terms, sizes: Values) -> int:
    """Return a sum of products of sizes.

    >>> total([[1, 2, [0, 1]], [1, 1, []]], (4, 3))
    7
    """
    try:
        products = [Fraction(over, under) * prod(sizes[k] for k in ks) for over, under, ks in terms]
    except (ArithmeticError, LookupError, TypeError, ValueError) as error:
        raise FileFormatError("A size in the program is damaged.") from error
    found = sum(products, Fraction())
    if found.denominator != 1:
        raise ShapeError(f"The saved program is not possible for lengths that make sizes {sizes}.")
    return int(found)
