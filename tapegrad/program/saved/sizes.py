"""One description of a program for all lengths of some axes, from recordings for a few lengths.

The numbers in which the recordings differ are sums of products of these lengths: batch * 4 + 1. A
further recording checks them. Where lengths are divided, `derived_sizes` has the rules.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from fractions import Fraction
from itertools import combinations, product
from math import prod
from typing import Any

import numpy as np

from tapegrad.core.values.sizes import Noted, bounds
from tapegrad.errors import FileFormatError, ShapeError
from tapegrad.program.saved.derived_sizes import Sizes, all_sizes, total

MOST_SYMBOLS = 4
_LARGEST_PART = 1024
_LENGTHS = ((5, 7, 67), (200, 211, 223), (199, 210, 227), (2, 4, 3))
"""Two lengths for each symbol, and one for the check; loops over long axes are not unrolled."""
_ROUND_LENGTHS = ((64, 128, 320), (256, 384, 512), (192, 448, 576), (2, 4, 6))
"""Those for functions that divide an axis, e.g. into pairs."""
_FACTORS = ((1, 2, 5), (3, 5, 7), (7, 11, 2), (2, 4, 3))
"""Those for functions that make rows of a fixed length, as multiples of it and plain lengths."""


_ROUND_UNIT = 64
"""What divides the lengths for functions that divide an axis."""
MOST_BEYOND = 2**16
"""The largest bound of a slice for which longer axes are recorded; others count as the end."""


def largest_bound(operations: Iterable[Noted]) -> int:
    """Return the largest number that the user's code has given as a bound of a slice.

    Slices of shorter axes end at the end of the axis instead: `x[:100]` of 67 elements has 67.

    >>> largest_bound([Noted(bounds, (None, -8, None, 5), (0, 0, 1))])
    8
    """
    given = [noted.operands[:2] for noted in operations if noted.function is bounds]
    numbers = [abs(n) for pair in given for n in pair if isinstance(n, int)]
    return max([n for n in numbers if n <= MOST_BEYOND], default=0)


class NotGeneralError(Exception):
    """Recordings for other lengths differ in more than numbers."""


def trial_lengths(
    symbols: int, are_round: bool = False, row: int | None = None, beyond: int = 0
) -> list[tuple[int, ...]]:
    """Return the lengths to record with; the last are for the check.

    With `row`, the elements can be arranged in rows of this length. All are larger than `beyond`.

    >>> trial_lengths(1), trial_lengths(1, row=784)
    ([(5,), (7,), (67,)], [(784,), (1568,), (3920,)])
    """
    if not symbols:
        return [()]
    unit = _ROUND_UNIT if are_round else 1
    more = -(-beyond // unit) * unit
    found = _LENGTHS if row is None else _FACTORS
    chosen = [[n + more for n in one] for one in (_ROUND_LENGTHS if are_round else found)[:symbols]]
    if row is not None:
        chosen[0] = [row * (beyond // row + 1) * n for n in _FACTORS[0]]
    pairs = [lengths[:2] for lengths in chosen]
    return [*product(*pairs), tuple(lengths[2] for lengths in chosen)]


def general(
    trees: Sequence[Any], lengths: Sequence[tuple[int, ...]], sizes: Sizes | None = None
) -> Any:
    """Return JSON values that hold for all lengths; with `sizes`, those that follow from them.

    >>> general([[5, 10], [7, 14], [67, 134]], trial_lengths(1))
    [{'size': [[0, 1], [1, 1]]}, {'size': [[0, 1], [2, 1]]}]
    """
    first = trees[0]
    if all(type(tree) is type(first) and tree == first for tree in trees):
        return first
    if all(type(tree) is int for tree in trees):
        return {"size": _formula(trees, lengths, sizes)}
    if all(type(tree) is float and tree for tree in trees):
        return {"ratio": _formula([_inverse(tree) for tree in trees], lengths, sizes)}
    if all(isinstance(tree, list) and len(tree) == len(first) for tree in trees):
        return [general(parts, lengths, sizes) for parts in zip(*trees)]
    if all(isinstance(tree, dict) and tree.keys() == first.keys() for tree in trees):
        return {key: general([tree[key] for tree in trees], lengths, sizes) for key in first}
    raise NotGeneralError


def _formula(
    numbers: Sequence[int], lengths: Sequence[tuple[int, ...]], sizes: Sizes | None
) -> Any:
    if sizes is None:
        return _coefficients(numbers, lengths)
    return {"terms": sizes.terms(tuple(numbers))}


def _inverse(number: float) -> int:
    found = round(1 / number)
    if not found or 1 / found != number:
        raise NotGeneralError
    return found


def _coefficients(numbers: Sequence[int], lengths: Sequence[tuple[int, ...]]) -> list[list[int]]:
    """Return a fraction for each product of lengths."""
    rows = [_products(one) for one in lengths]
    count = len(rows[0])
    solved = np.linalg.solve(np.array(rows[:count], float), np.array(numbers[:count], float))
    found = [Fraction(number).limit_denominator(_LARGEST_PART) for number in solved.tolist()]
    for row, number in zip(rows, numbers):
        if sum(one * size for one, size in zip(found, row)) != number:
            raise NotGeneralError
    return [[one.numerator, one.denominator] for one in found]


def _products(lengths: tuple[int, ...]) -> list[int]:
    """Return the products of all selections of lengths: 1, a, b, a * b."""
    chosen = range(len(lengths) + 1)
    return [prod(some) for count in chosen for some in combinations(lengths, count)]


def particular(tree: Any, lengths: tuple[int, ...], rules: Sequence[Any] = ()) -> Any:
    """Return the JSON values for these lengths; `rules` make further sizes.

    >>> particular({"size": [[1, 1], [2, 1]]}, (10,))
    21
    """
    return _particular(tree, lengths, all_sizes(rules, lengths))


def _particular(tree: Any, lengths: tuple[int, ...], sizes: tuple[int, ...]) -> Any:
    if isinstance(tree, list):
        return [_particular(one, lengths, sizes) for one in tree]
    if not isinstance(tree, dict):
        return tree
    for kind in ("size", "ratio"):
        if len(tree) == 1 and kind in tree:
            content = tree[kind]
            is_derived = isinstance(content, dict)
            number = total(content["terms"], sizes) if is_derived else _sum(content, lengths)
            return number if kind == "size" else 1 / number
    return {key: _particular(one, lengths, sizes) for key, one in tree.items()}


def _sum(coefficients: Any, lengths: tuple[int, ...]) -> int:
    row = _products(lengths)
    if not isinstance(coefficients, list) or len(coefficients) != len(row):
        raise FileFormatError("A size in the program is damaged.")
    total = sum((Fraction(*one) * n for one, n in zip(coefficients, row)), Fraction())
    if total.denominator != 1:
        raise ShapeError(
            f"The saved program divides an axis, which is not possible for lengths of {lengths}."
        )
    return int(total)
