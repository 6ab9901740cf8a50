"""Sparse block matrices, triangles and random matrices."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tapegrad.core.values.dtypes import numpy_dtype
from tapegrad.errors import ArgumentError, ShapeError
from tapegrad.scipy.sparse.arrays import as_sparse, coo_array
from tapegrad.scipy.sparse.base import SparseArray
from tapegrad.scipy.sparse.construct import eye_array, hstack, vstack
from tapegrad.scipy.sparse.structure import on_host
from tapegrad.scipy.vocabulary import as_constant, place_next_to


def identity(n: int, dtype: Any = "d", format: str | None = None) -> Any:
    """Return the identity matrix as a sparse array.

    >>> identity(2).toarray().tolist()
    [[1.0, 0.0], [0.0, 1.0]]
    """
    return eye_array(int(n), dtype=dtype, format=format)


def block_array(blocks: Sequence[Sequence[Any]], *, format: str | None = None) -> Any:
    """Return a sparse matrix from a table of blocks; None stands for a zero block.

    >>> block_array([[[[1.0]], None], [None, [[2.0]]]]).toarray().tolist()
    [[1.0, 0.0], [0.0, 2.0]]
    """
    table = [[None if block is None else as_sparse(block) for block in row] for row in blocks]
    if not table or len({len(row) for row in table}) != 1:
        raise ShapeError(
            "block_array needs rows with as many blocks each. Use None for a zero block."
        )
    heights = [_side(row, 0) for row in table]
    widths = [_side(column, 1) for column in zip(*table, strict=True)]
    some = next(block for row in table for block in row if block is not None)
    data, row_index, column_index = (part[:0] for part in (some.data, some.row, some.col))
    rows = []
    for row, height in zip(table, heights, strict=True):
        full = [
            coo_array.from_parts(data, row_index, column_index, (height, width), True)
            if block is None
            else block
            for block, width in zip(row, widths, strict=True)
        ]
        rows.append(hstack(full))
    return vstack(rows, format=format)


def _side(blocks: Sequence[SparseArray | None], axis: int) -> int:
    """Return the common height of a row of blocks, or the width of a column."""
    sizes = {block.shape[axis] for block in blocks if block is not None}
    if len(sizes) != 1:
        raise ShapeError(
            "block_array needs a block in each row and column, of matching sizes. Got sizes "
            f"{sorted(sizes)} along axis {axis}."
        )
    return sizes.pop()


def bmat(blocks: Sequence[Sequence[Any]], format: str | None = None) -> Any:
    """Return a sparse matrix from a table of blocks; the older name of `block_array`.

    >>> bmat([[[[1.0]], [[2.0]]]]).toarray().tolist()
    [[1.0, 2.0]]
    """
    return block_array(blocks, format=format)


def block_diag(mats: Sequence[Any], format: str | None = None) -> Any:
    """Return a sparse matrix with blocks along its diagonal.

    >>> block_diag([[[1.0, 2.0]], [[3.0]]]).toarray().tolist()
    [[1.0, 2.0, 0.0], [0.0, 0.0, 3.0]]
    """
    blocks = list(mats)
    places = range(len(blocks))
    table = [[blocks[i] if i == j else None for j in places] for i in places]
    return block_array(table, format=format)


def tril(A: Any, k: int = 0, format: str | None = None) -> Any:
    """Return the entries on and below diagonal k; the positions are read on the host.

    >>> tril([[1.0, 2.0], [3.0, 4.0]]).toarray().tolist()
    [[1.0, 0.0], [3.0, 4.0]]
    """
    return _triangle(as_sparse(A), k, -1, format, "tril")


def triu(A: Any, k: int = 0, format: str | None = None) -> Any:
    """Return the entries on and above diagonal k; the positions are read on the host.

    >>> triu([[1.0, 2.0], [3.0, 4.0]]).toarray().tolist()
    [[1.0, 2.0], [0.0, 4.0]]
    """
    return _triangle(as_sparse(A), k, 1, format, "triu")


def _triangle(matrix: SparseArray, k: int, sign: int, format: str | None, name: str) -> Any:
    offsets = on_host(matrix.col, name) - on_host(matrix.row, name)
    kept = np.flatnonzero(sign * (offsets - int(k)) >= 0)
    order = place_next_to(matrix.row, kept)
    parts = (*matrix._picked(order), matrix.shape, matrix.has_canonical_format)
    return coo_array.from_parts(*parts).asformat(format)


def random_array(
    shape: Any, *, density: float = 0.01, format: str = "coo", dtype: Any = None, rng: Any = None
) -> Any:
    """Return a random sparse matrix with entries from [0, 1), drawn on the host.

    >>> random_array((10, 10), density=0.2, rng=0).nnz
    20
    """
    rows, columns = (int(n) for n in shape)
    if not 0 <= density <= 1:
        raise ArgumentError(f"density must be between 0 and 1. Got {density}.")
    draw = np.random.default_rng(rng)
    count = round(density * rows * columns)
    places = draw.choice(rows * columns, size=count, replace=False)
    entries = draw.uniform(size=count).astype(numpy_dtype("float64" if dtype is None else dtype))
    data = as_constant(entries)
    row, column = (place_next_to(data, index) for index in (places // columns, places % columns))
    return coo_array.from_parts(data, row, column, (rows, columns), True).asformat(format)
