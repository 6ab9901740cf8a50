"""Combinations of the entries of the rows of several matrices, as texts and as hashes."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import Any

import numpy as np

from tapegrad.core.argument_checks import check_count
from tapegrad.core.values.strings import is_text, text_array
from tapegrad.errors import ArgumentError, ArgumentTypeError, ShapeError
from tapegrad.fingerprints import CROSS_KEY, crossed_hash, farm_hash
from tapegrad.ops.creation import constant
from tapegrad.sparse.tensor import SparseTensor, as_tensor

Rows = list[list[Any]]


def cross(inputs: Sequence[Any], name: str | None = None, separator: Any = None) -> SparseTensor:
    """Join each combination of the entries of a row of several matrices to one text.

    >>> cross([[["a"], ["b"]], [["x", "y"], ["z", "w"]]]).values.tolist()
    [b'a_X_x', b'a_X_y', b'b_X_z', b'b_X_w']
    """
    between = b"_X_" if separator is None else text_array(separator).item()
    return _as_sparse(crossed_texts("cross", inputs, between), object)


def cross_hashed(
    inputs: Sequence[Any], num_buckets: int = 0, hash_key: Any = None, name: str | None = None
) -> SparseTensor:
    """Return a hash of each combination of the entries of a row of several matrices.

    With `num_buckets` above 0, the hashes are below it. They are those of TensorFlow.

    >>> cross_hashed([[["a"], ["b"]], [["x", "y"], ["z", "w"]]], 100).values.tolist()
    [92, 47, 60, 90]
    """
    return _as_sparse(crossed_hashes("cross_hashed", inputs, num_buckets, hash_key), np.int64)


def crossed_texts(name: str, inputs: Sequence[Any], between: bytes = b"_X_") -> Rows:
    """Return all combinations of each row, joined to texts."""
    rows = _combined(name, inputs)
    return [[between.join(map(_as_text, one)) for one in row] for row in rows]


def crossed_hashes(name: str, inputs: Sequence[Any], num_buckets: int, hash_key: Any) -> Rows:
    """Return a hash of each combination of each row."""
    buckets = check_count("num_buckets", num_buckets, name)
    key = int(CROSS_KEY) if hash_key is None else check_count("hash_key", hash_key, name)
    rows = _combined(name, inputs)
    flat = [one for row in rows for one in row]
    columns = [_as_words([one[k] for one in flat]) for k in range(len(inputs))]
    hashes = crossed_hash(columns, key) if flat else np.zeros(0, np.uint64)
    # Without buckets, the hashes are the positive half of the whole numbers.
    hashes = hashes % np.uint64(buckets or 2**63 - 1)
    numbers = iter(hashes.astype(np.int64).tolist())
    return [[next(numbers) for _ in row] for row in rows]


def _combined(name: str, inputs: Sequence[Any]) -> list[list[tuple[Any, ...]]]:
    """Return the combinations of each row; the entry of the last input changes first."""
    if not isinstance(inputs, list | tuple) or not inputs:
        raise ArgumentError(f"{name} takes a list of matrices. Got {type(inputs).__name__}.")
    rows = [_row_lists(name, one) for one in inputs]
    if len({len(one) for one in rows}) > 1:
        raise ShapeError(f"{name} takes matrices with equal numbers of rows.")
    return [list(product(*row)) for row in zip(*rows, strict=True)]


def _as_sparse(rows: Rows, dtype: Any) -> SparseTensor:
    places = [(k, place) for k, row in enumerate(rows) for place in range(len(row))]
    flat = np.empty(len(places), dtype)
    flat[:] = [one for row in rows for one in row]
    shape = (len(rows), max(map(len, rows), default=0))
    return SparseTensor(np.array(places, np.int64).reshape(-1, 2), as_tensor(flat), shape)


def _as_text(value: Any) -> bytes:
    return text_array(value).item() if is_text(value) else str(int(value)).encode()


def _as_words(values: list[Any]) -> Any:
    """Return texts as their hashes, and whole numbers as they are."""
    if values and is_text(values[0]):
        return farm_hash([_as_text(one) for one in values])
    return np.array(values, np.int64).astype(np.uint64)


def _row_lists(name: str, value: Any) -> Rows:
    """Return the entries of each row of a matrix that is dense, sparse or ragged."""
    if isinstance(value, SparseTensor):
        if len(value.shape) != 2:
            raise ShapeError(f"{name} takes matrices. Got shape {tuple(value.shape)}.")
        rows: Rows = [[] for _ in range(value.shape[0])]
        for place, entry in zip(value.places().tolist(), value.values.tolist(), strict=True):
            rows[place[0]].append(entry)
    elif hasattr(value, "to_list"):
        rows = list(value.to_list())
    else:
        array = text_array(value) if is_text(value) else np.asarray(constant(value))
        if array.ndim != 2:
            raise ShapeError(f"{name} takes matrices. Got shape {array.shape}.")
        rows = array.tolist()
    wrong = [one for row in rows for one in row if not is_text(one) and type(one) is not int]
    if wrong:
        raise ArgumentTypeError(f"{name} takes texts and whole numbers. Got {wrong[0]!r}.")
    return rows
