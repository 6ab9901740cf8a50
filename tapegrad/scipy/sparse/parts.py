"""Constructor arguments of sparse arrays: tuples, dense matrices, arrays of other libraries."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from tapegrad.core.values.convert import read_on_host
from tapegrad.errors import ShapeError
from tapegrad.ops.indexing.sorting import argsort_p
from tapegrad.scipy.sparse.structure import (
    all_different,
    as_index,
    check_range,
    flat_places,
    host_indices,
    rows_from_pointers,
)
from tapegrad.scipy.vocabulary import clip, concat, operand, place_next_to, reshape_p, take, where


class Entries(NamedTuple):
    """Entries with their positions and the format that they are sorted for ("" for none).

    `is_canonical` means that no two entries have the same position.
    """

    data: Any
    row: Any
    col: Any
    shape: tuple[int, int]
    order: str
    is_canonical: bool


def read(given: Any, shape: Any, format: str, kind: type[Any]) -> Entries:
    """Convert a constructor argument of a sparse array to entries."""
    size = None if shape is None else _checked_shape(shape)
    if isinstance(given, kind):
        entries: Any = given
        own = given.shape if size is None else size
        parts = (given.data, given.row, given.col)
        return Entries(*parts, own, entries.format, entries.has_canonical_format)
    if isinstance(given, tuple) and len(given) == 2 and _is_shape(given):
        empty, none = operand(np.zeros(0)), as_index([], operand(np.zeros(0)), "Indices")
        return Entries(empty, none, none, _checked_shape(given), "", True)
    if isinstance(given, tuple) and len(given) == 2:
        return _from_coordinates(given[0], given[1], size)
    if isinstance(given, tuple) and len(given) == 3:
        return _from_pointers(*given, size, "csr" if format == "coo" else format)
    if hasattr(given, "format") and hasattr(given, "tocoo"):
        return _from_library(given, size)
    return _from_dense(given, size)


def _is_shape(given: tuple[Any, ...]) -> bool:
    return all(isinstance(n, int | np.integer) for n in given)


def _checked_shape(shape: Any) -> tuple[int, int]:
    sizes = tuple(int(n) for n in shape)
    if len(sizes) != 2 or min(sizes) < 0:
        raise ShapeError(f"The shape of a sparse array must have two sizes. Got {sizes}.")
    return sizes[0], sizes[1]


def _from_coordinates(data: Any, coordinates: Any, shape: tuple[int, int] | None) -> Entries:
    if len(coordinates) != 2:
        raise ShapeError(
            f"A sparse array needs (row, col) coordinates. Got {len(coordinates)} index arrays."
        )
    data = operand(data)
    row, col = (as_index(index, data, "Rows and columns") for index in coordinates)
    _check_lengths(data, row, col)
    if shape is None:
        ends = [
            int(read_on_host(index, "a sparse array without shape=").max(initial=-1)) + 1
            for index in (row, col)
        ]
        shape = ends[0], ends[1]
    check_range(row, coordinates[0], shape[0], "rows")
    check_range(col, coordinates[1], shape[1], "columns")
    return Entries(data, row, col, shape, "coo", False)


def _from_pointers(
    data: Any, indices: Any, pointers: Any, shape: tuple[int, int] | None, format: str
) -> Entries:
    data = operand(data)
    minor = as_index(indices, data, "indices")
    starts = as_index(pointers, data, "indptr")
    _check_lengths(data, minor, minor)
    major = rows_from_pointers(starts, data.shape[0])
    lines = starts.shape[0] - 1
    if shape is None:
        most = int(read_on_host(minor, "a sparse array without shape=").max(initial=-1)) + 1
        shape = (lines, most) if format == "csr" else (most, lines)
    if shape[0 if format == "csr" else 1] != lines:
        raise ShapeError(
            f"indptr of a {format} array of shape {shape} needs one more element than "
            f"{'rows' if format == 'csr' else 'columns'}. Got {lines + 1}."
        )
    check_range(minor, indices, shape[1 if format == "csr" else 0], "indices per line")
    row, col = (major, minor) if format == "csr" else (minor, major)
    is_canonical = all_different(host_indices(starts, pointers), host_indices(minor, indices))
    return Entries(data, row, col, shape, format, is_canonical)


def _check_lengths(data: Any, row: Any, col: Any) -> None:
    if data.ndim != 1 or not data.shape[0] == row.shape[0] == col.shape[0]:
        raise ShapeError(
            "A sparse array needs as many entries as row and column indices. Got shapes "
            f"{data.shape}, {row.shape} and {col.shape}."
        )


def _from_library(given: Any, shape: tuple[int, int] | None) -> Entries:
    """Convert sparse arrays of SciPy and CuPy; CuPy's stay on the device."""
    if given.format in ("csr", "csc"):
        own = _checked_shape(given.shape) if shape is None else shape
        return _from_pointers(given.data, given.indices, given.indptr, own, given.format)
    if given.format != "coo":
        return _from_library(given.tocoo(), shape)
    own = _checked_shape(given.shape) if shape is None else shape
    return _from_coordinates(given.data, (given.row, given.col), own)


def _from_dense(given: Any, shape: tuple[int, int] | None) -> Entries:
    """Convert a dense matrix; its nonzero positions are found on the host."""
    dense = operand(given)
    if dense.ndim != 2:
        raise ShapeError(f"A sparse array must be a matrix. Got a value of shape {dense.shape}.")
    if shape is not None and shape != dense.shape:
        raise ShapeError(f"A matrix of shape {dense.shape} does not match the shape {shape}.")
    rows, columns = np.nonzero(read_on_host(dense, "a sparse array from a dense one"))
    row, col = (place_next_to(dense, index.astype(np.int64)) for index in (rows, columns))
    size = (dense.shape[0], dense.shape[1])
    flat = reshape_p(dense, shape=(size[0] * size[1],))
    data = take(flat, flat_places(row, col, size[1]))
    return Entries(data, row, col, size, "csr", True)


def values_at(one: Any, two: Any, entries: Any) -> Any:
    """Return the elements of `two` at the positions of the entries of `one`.

    After a joint sort, an entry of `two` directly precedes the entry of `one` at its position.
    """
    count, others, columns = one.nnz, two.nnz, one.shape[1]
    if not count or not others:
        return one.data * 0.0
    keys = concat([flat_places(two.row, two.col, columns), flat_places(one.row, one.col, columns)])
    order = argsort_p(keys, axis=0, descending=False, stable=True)
    ranks = argsort_p(order, axis=0, descending=False, stable=True)[others:]
    before = take(order, clip(ranks - 1, 0, count + others - 1))
    hits = (take(keys, before) == keys[others:]) & (before < others)
    return where(hits, take(entries, clip(before, 0, others - 1)), 0.0)
