"""Symmetric positive definite systems of a few unknowns, one per problem.

Up to `MOST_UNROLLED` unknowns the Cholesky decomposition is written out in elementwise operations
on vectors of problems, which a recorded function fuses. Larger systems go to the library.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tapegrad.ops.linalg.solve import solve
from tapegrad.scipy.vocabulary import (
    expand_dims,
    maximum,
    reshape_p,
    sqrt,
    stack,
    sum_over,
    where,
)

MOST_UNROLLED = 8
_MOST_SUMMED = 32
"""Up to this many unknowns, products with matrices are sums that a recorded function fuses."""

Columns = list[Any]
"""One vector of problems per unknown."""


def columns_of(rows: Any) -> Columns:
    """Return the columns of an array with one row per problem."""
    return [rows[:, i] for i in range(rows.shape[1])]


def pairs_of(size: int) -> list[tuple[int, int]]:
    """Return the places of the lower triangle of a matrix.

    >>> pairs_of(2)
    [(0, 0), (1, 0), (1, 1)]
    """
    return [(i, j) for i in range(size) for j in range(i + 1)]


def place_of(i: int, j: int) -> int:
    """Return the number of a pair in `pairs_of`.

    >>> [place_of(i, j) for i, j in pairs_of(3)]
    [0, 1, 2, 3, 4, 5]
    """
    i, j = max(i, j), min(i, j)
    return i * (i + 1) // 2 + j


def solve_symmetric(matrix: Sequence[Any], side: Columns) -> Columns:
    """Solve the system of each problem; `matrix` holds the lower triangle in order of `pairs_of`.

    Where the matrix is not positive definite, the result is not finite or has no meaning.

    >>> import tapegrad
    >>> four, two, three = (tapegrad.constant([value]) for value in (4.0, 2.0, 3.0))
    >>> [round(float(x[0]), 6) for x in solve_symmetric([four, two, three], [four, three])]
    [0.75, 0.5]
    """
    size = len(side)
    if size > MOST_UNROLLED:
        full = [stack([matrix[place_of(i, j)] for j in range(size)], -1) for i in range(size)]
        return columns_of(solve(stack(full, 1), stack(side, -1)))
    root: dict[tuple[int, int], Any] = {}
    inverse: Columns = []
    for i, j in pairs_of(size):
        rest = matrix[place_of(i, j)]
        for k in range(j):
            rest = rest - root[i, k] * root[j, k]
        if i == j:
            inverse.append(1.0 / sqrt(where(rest > 0.0, rest, float("inf"))))
        else:
            root[i, j] = rest * inverse[j]
    found: Columns = []
    for i in range(size):
        rest = side[i]
        for k in range(i):
            rest = rest - root[i, k] * found[k]
        found.append(rest * inverse[i])
    for i in reversed(range(size)):
        rest = found[i]
        for k in range(i + 1, size):
            rest = rest - root[k, i] * found[k]
        found[i] = rest * inverse[i]
    return found


def gram(columns: Columns) -> list[Any]:
    """Return the inner products of columns of shape (problems, entries), in order of `pairs_of`."""
    return [sum_over(columns[i] * columns[j], 1) for i, j in pairs_of(len(columns))]


def quadratic(matrix: Sequence[Any], x: Columns) -> Any:
    """Return x·Ax of each problem."""
    total: Any = 0.0
    for place, (i, j) in enumerate(pairs_of(len(x))):
        total = total + matrix[place] * x[i] * x[j] * (1.0 if i == j else 2.0)
    return total


def inner(a: Columns, b: Columns) -> Any:
    """Return the inner product of the vectors of each problem."""
    total = a[0] * b[0]
    for left, right in zip(a[1:], b[1:], strict=True):
        total = total + left * right
    return total


def largest_of(columns: Columns) -> Any:
    """Return the largest magnitude of each problem's vector."""
    found = abs(columns[0])
    for column in columns[1:]:
        found = maximum(found, abs(column))
    return found


def as_rows(columns: Columns) -> Any:
    """Return the columns as an array with one row per problem."""
    return stack(columns, -1) if len(columns) > 1 else reshape_p(columns[0], shape=(-1, 1))


def dots(a: Any, b: Any) -> Any:
    """Return the inner product of the vectors of each problem."""
    return sum_over(a * b, 1)


def products(matrices: Any, vectors: Any) -> Any:
    """Return the product of each problem's matrix and vector."""
    if vectors.shape[1] <= _MOST_SUMMED:
        return sum_over(matrices * expand_dims(vectors, 1), 2)
    return (matrices @ expand_dims(vectors, 2))[..., 0]
