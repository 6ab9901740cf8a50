"""Indexing of sparse matrices: elements, and rows and columns by slices and lists."""

from __future__ import annotations

from typing import Any

import numpy as np

from tapegrad.core.values.convert import read_on_host
from tapegrad.errors import ArgumentError, ArgumentTypeError, IndexOutOfRangeError
from tapegrad.scipy.sparse.structure import on_host, product_pairs
from tapegrad.scipy.vocabulary import place_next_to, sum_over, take, where

Array = np.ndarray


def element(matrix: Any, row: int, column: int) -> Any:
    """Return one element as a 0-d tensor; nothing is read from a device."""
    places = []
    for place, length in zip((row, column), matrix.shape, strict=True):
        if not -length <= place < length:
            raise IndexOutOfRangeError(f"Index {place} is out of range for length {length}.")
        places.append(int(place) % length)
    hits = (matrix.row == places[0]) & (matrix.col == places[1])
    return sum_over(where(hits, matrix.data, 0.0))


def select(matrix: Any, index: Any) -> Any:
    """Return an element, or a sparse matrix of rows and columns, which are selected on the host."""
    given = index if isinstance(index, tuple) else (index,)
    if any(i is Ellipsis for i in given) or len(given) > 2:
        raise ArgumentError(f"A sparse matrix needs one or two indices. Got {index!r}.")
    rows, columns = (*given, slice(None))[:2]
    if isinstance(rows, int | np.integer) and isinstance(columns, int | np.integer):
        return element(matrix, int(rows), int(columns))
    rows, columns = (_positions(i, n) for i, n in zip((rows, columns), matrix.shape, strict=True))
    what = "a part of a sparse array"
    own_rows, own_columns = on_host(matrix.row, what), on_host(matrix.col, what)
    new_row, entry = product_pairs(np.arange(len(rows)), rows, own_rows)
    picked, new_column = product_pairs(new_row, own_columns[entry], columns)
    entry, new_row = entry[picked], new_row[picked]
    made = matrix.formats["coo"].from_parts(
        take(matrix.data, place_next_to(matrix.row, entry)),
        place_next_to(matrix.row, new_row),
        place_next_to(matrix.row, new_column),
        (len(rows), len(columns)),
        matrix.has_canonical_format,
    )
    return made.asformat(matrix.format)


def _positions(index: Any, length: int) -> Array:
    if isinstance(index, int | np.integer):
        raise ArgumentTypeError(
            f"Select one row or column of a sparse matrix by a slice, {index}:{int(index) + 1}; "
            f"the result is a matrix. Got {index!r}."
        )
    if not isinstance(index, slice):
        index = np.asarray(read_on_host(index, "an index of a sparse array"))
        if index.dtype.kind not in "iub" or index.ndim != 1:
            raise ArgumentTypeError(
                "Rows and columns must be selected by slices or lists of integers."
            )
    try:
        found: Array = np.arange(length)[index]
    except IndexError as error:
        raise IndexOutOfRangeError(f"An index is out of range for length {length}.") from error
    return found
