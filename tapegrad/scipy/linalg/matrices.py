"""Structured matrices built from vectors or smaller matrices."""

from __future__ import annotations

from typing import Any

import numpy as np

from tapegrad.errors import ShapeError
from tapegrad.ops.shape.padding import pad
from tapegrad.scipy.vocabulary import (
    concat,
    conjugate,
    gather,
    numbers_like,
    operand,
    operands,
    place_next_to,
    reshape_p,
)


def block_diag(*arrs: Any) -> Any:
    """Return a block diagonal matrix of the given matrices.

    >>> block_diag([[1.0, 2.0]], [[3.0]]).tolist()
    [[1.0, 2.0, 0.0], [0.0, 0.0, 3.0]]
    """
    blocks = [_as_matrix(x) for x in operands(*arrs)]
    columns = sum(block.shape[1] for block in blocks)
    rows, before = [], 0
    for block in blocks:
        width = block.shape[1]
        rows.append(pad(block, [(0, 0), (before, columns - before - width)]))
        before += width
    return concat(rows, 0)


def _as_matrix(x: Any) -> Any:
    if x.ndim > 2:
        raise ShapeError(f"block_diag needs matrices or vectors. Got shape {x.shape}.")
    return x if x.ndim == 2 else reshape_p(x, shape=(1, x.size))


def toeplitz(c: Any, r: Any = None) -> Any:
    """Return the Toeplitz matrix with this first column and first row.

    The default row is the conjugate of the column. The first entry of `r` is ignored.

    >>> toeplitz([1.0, 2.0], [9.0, 3.0]).tolist()
    [[1.0, 3.0], [2.0, 1.0]]
    """
    c = operand(c)
    c, r = operands(c, conjugate(c) if r is None else r)
    rows, columns = length_of(c, "toeplitz"), length_of(r, "toeplitz")
    upwards = c[::-1]
    values = concat([upwards, r[1:]], 0)
    places = rows - 1 - np.arange(rows)[:, None] + np.arange(columns)
    return gather(values, place_next_to(values, places))


def circulant(c: Any) -> Any:
    """Return the circulant matrix with this first column.

    >>> circulant([1.0, 2.0, 3.0]).tolist()
    [[1.0, 3.0, 2.0], [2.0, 1.0, 3.0], [3.0, 2.0, 1.0]]
    """
    c = operand(c)
    size = length_of(c, "circulant")
    places = (np.arange(size)[:, None] - np.arange(size)) % size
    return gather(c, place_next_to(c, places))


def hankel(c: Any, r: Any = None) -> Any:
    """Return the Hankel matrix with this first column and last row.

    The default row is 0. The first entry of `r` is ignored.

    >>> hankel([1.0, 2.0], [9.0, 3.0]).tolist()
    [[1.0, 2.0], [2.0, 3.0]]
    """
    c = operand(c)
    c, r = operands(c, 0.0 * c if r is None else r)
    rows, columns = length_of(c, "hankel"), length_of(r, "hankel")
    values = concat([c, r[1:]], 0)
    places = np.arange(rows)[:, None] + np.arange(columns)
    return gather(values, place_next_to(values, places))


def companion(a: Any) -> Any:
    """Return the companion matrix of a polynomial with the highest power first.

    >>> companion([1.0, -3.0, 2.0]).tolist()
    [[3.0, -2.0], [1.0, 0.0]]
    """
    a = operand(a)
    size = length_of(a, "companion") - 1
    first = -a[1:] / a[:1]
    rest = numbers_like(a, np.eye(size - 1, size))
    return concat([reshape_p(first, shape=(1, size)), rest], 0)


def length_of(x: Any, name: str) -> int:
    """Return the length of a vector; raise for any other shape."""
    if x.ndim != 1:
        raise ShapeError(f"{name} needs vectors. Got shape {x.shape}.")
    return int(x.shape[0])
