"""Index tensors of sparse arrays: conversion, sorting and matching.

All shapes depend only on the number of entries, so the functions run on a device without reading
it. The exception is the search for duplicate positions, which runs on the host.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tapegrad.core.primitive.operand import as_operand
from tapegrad.core.values.convert import read_on_host
from tapegrad.core.values.tensor import Tensor
from tapegrad.errors import ArgumentError, ArgumentTypeError, ShapeError
from tapegrad.ops.indexing.sorting import argsort_p
from tapegrad.ops.kinds import is_integer
from tapegrad.scipy.vocabulary import (
    concat,
    cumsum,
    in_dtype,
    ones_like,
    place_next_to,
    take_add_p,
    zeros_like,
)


def as_index(value: Any, like: Any, what: str) -> Any:
    """Return integers along one axis as an int64 tensor next to `like`."""
    if isinstance(value, list | tuple | range | np.ndarray):
        value = np.asarray(value, dtype=np.int64 if not len(value) else None)
        index = place_next_to(like, value.astype(np.int64)) if value.dtype.kind in "iu" else value
    else:
        index = as_operand(value)
    if not is_integer(index):
        raise ArgumentTypeError(f"{what} of a sparse array must be integers. Got {index.dtype}.")
    if index.ndim != 1:
        raise ShapeError(f"{what} of a sparse array must be a vector. Got shape {index.shape}.")
    return in_dtype(index, "int64")


def host_indices(index: Any, given: Any) -> np.ndarray | None:
    """Return the indices if they are on the host or were given as host data, else None.

    >>> host_indices(None, [0, 2])
    array([0, 2])
    """
    array = index.array if isinstance(index, Tensor) else index
    if isinstance(array, np.ndarray):
        return array
    is_host = isinstance(given, list | tuple | range | np.ndarray)
    return np.asarray(given, dtype=np.int64) if is_host else None


def check_range(index: Any, given: Any, length: int, what: str) -> None:
    """Raise for indices out of range if the host has them without a transfer."""
    array = host_indices(index, given)
    if array is None or not array.size:
        return
    if array.min() < 0 or array.max() >= length:
        raise ArgumentError(
            f"A sparse array with {length} {what} got indices from {array.min()} to {array.max()}."
        )


def all_different(pointers: np.ndarray | None, minor: np.ndarray | None) -> bool:
    """Whether no two entries have the same position; True if the host does not have the indices.

    >>> all_different(np.array([0, 1, 3]), np.array([0, 0, 1]))
    True
    """
    if pointers is None or minor is None:
        return True
    line = np.searchsorted(pointers[1:-1], np.arange(len(minor)), side="right")
    keys = line * (minor.max(initial=0) + 1) + minor
    return bool((np.diff(keys) > 0).all()) or len(np.unique(keys)) == len(keys)


def rows_from_pointers(pointers: Any, count: int) -> Any:
    """Return the row of each of `count` entries, given the row pointers.

    >>> import tapegrad
    >>> rows_from_pointers(tapegrad.constant(np.array([0, 2, 2, 3])), 3).tolist()
    [0, 0, 2]
    """
    begins = pointers[1:-1]
    marks = take_add_p(ones_like(begins), begins, axis=0, size=count + 1)
    return cumsum(marks)[:count]


def pointers_from_rows(rows: Any, count: int) -> Any:
    """Return the row pointers of `count` rows for sorted entries.

    >>> import tapegrad
    >>> pointers_from_rows(tapegrad.constant(np.array([0, 0, 2])), 3).tolist()
    [0, 2, 2, 3]
    """
    sizes = take_add_p(ones_like(rows), rows, axis=0, size=count)
    return concat([zeros_like(sizes[:1]), cumsum(sizes)]) if count else rows[:0]


def lexsort(major: Any, minor: Any, length: int) -> Any:
    """Return the order that sorts entries by `major`, then by `minor`, which is below `length`."""
    return argsort_p(major * max(length, 1) + minor, axis=0, descending=False, stable=True)


def on_host(index: Any, what: str) -> np.ndarray:
    """Return indices as a NumPy array; on a GPU this synchronizes."""
    return read_on_host(index, what)


def unique_places(
    row: Any, column: Any, columns: int, what: str
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the sorted unique positions, and the index of each entry's position among them."""
    rows, places = on_host(row, what), on_host(column, what)
    keys, inverse = np.unique(rows * max(columns, 1) + places, return_inverse=True)
    return keys // max(columns, 1), keys % max(columns, 1), inverse.reshape(-1)


def product_pairs(
    rows: np.ndarray, columns: np.ndarray, other: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return the pairs of entries that a matrix product multiplies.

    Entry i of the first matrix is paired with entry j of the second if its column is the row of j.

    >>> first, second = product_pairs(np.array([0, 1]), np.array([1, 0]), np.array([0, 0, 1]))
    >>> first.tolist(), second.tolist()
    ([0, 1, 1], [2, 0, 1])
    """
    order = np.argsort(other, kind="stable")
    starts = np.searchsorted(other[order], columns, side="left")
    counts = np.searchsorted(other[order], columns, side="right") - starts
    first = np.repeat(np.arange(len(rows)), counts)
    within = np.arange(len(first)) - np.repeat(np.cumsum(counts) - counts, counts)
    return first, order[np.repeat(starts, counts) + within]


def flat_places(row: Any, column: Any, columns: int) -> Any:
    """Return the positions in the flattened dense array."""
    return row * columns + column
