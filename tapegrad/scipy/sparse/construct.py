"""Sparse matrices from diagonals and from other sparse matrices."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tapegrad.core.values.dtypes import numpy_dtype
from tapegrad.errors import ArgumentError, ShapeError
from tapegrad.scipy.sparse.arrays import as_sparse, coo_array
from tapegrad.scipy.vocabulary import (
    as_constant,
    broadcast_p,
    cast,
    concat,
    operand,
    operands,
    place_next_to,
    reshape_p,
)


def eye_array(
    m: int, n: int | None = None, *, k: int = 0, dtype: Any = float, format: str | None = None
) -> Any:
    """Return a sparse matrix with ones on one diagonal.

    >>> eye_array(2, 3, k=1).toarray().tolist()
    [[0.0, 1.0, 0.0], [0.0, 0.0, 1.0]]
    """
    shape = (int(m), int(m if n is None else n))
    rows = np.arange(max(-k, 0), max(0, min(shape[0], shape[1] - k)))
    data = as_constant(np.ones(len(rows), numpy_dtype(dtype)))
    row, column = place_next_to(data, rows), place_next_to(data, rows + k)
    return coo_array.from_parts(data, row, column, shape, True).asformat(format)


def diags_array(
    diagonals: Any,
    /,
    *,
    offsets: Any = 0,
    shape: Any = None,
    format: str | None = None,
    dtype: Any = None,
) -> Any:
    """Return a sparse matrix with the given diagonals, differentiable in their values.

    If a shape is given, a diagonal with one element is repeated.

    >>> diags_array([[1.0, 2.0], [3.0]], offsets=[0, 1]).toarray().tolist()
    [[1.0, 3.0], [0.0, 2.0]]
    """
    places = [int(offsets)] if np.ndim(offsets) == 0 else [int(k) for k in offsets]
    lines = _diagonals(diagonals, np.ndim(offsets) == 0)
    if len(lines) != len(places) or len(set(places)) < len(places):
        raise ArgumentError(
            f"diags_array needs one diagonal for each distinct offset. Got {len(lines)} "
            f"diagonals and offsets {places}."
        )
    if shape is None:
        side = lines[0].shape[0] + abs(places[0])
        shape = (side, side)
    size = (int(shape[0]), int(shape[1]))
    rows = [np.arange(max(-k, 0), max(-k, 0) + _length(size, k)) for k in places]
    data = concat(
        [_fitted(x, len(r), k, size) for x, r, k in zip(lines, rows, places, strict=True)]
    )
    columns = np.concatenate([r + k for r, k in zip(rows, places, strict=True)])
    row, column = (place_next_to(data, index) for index in (np.concatenate(rows), columns))
    data = data if dtype is None else cast(data, dtype)
    return coo_array.from_parts(data, row, column, size, True).asformat(format)


def diags(
    diagonals: Any,
    offsets: Any = 0,
    shape: Any = None,
    format: str | None = None,
    dtype: Any = None,
) -> Any:
    """Return a sparse matrix with the given diagonals; the older form of `diags_array`.

    >>> diags([1.0, 2.0], 0).toarray().tolist()
    [[1.0, 0.0], [0.0, 2.0]]
    """
    return diags_array(diagonals, offsets=offsets, shape=shape, format=format, dtype=dtype)


def _diagonals(given: Any, is_single: bool) -> list[Any]:
    if hasattr(given, "shape"):
        x = operand(given)
        lines = [x] if x.ndim == 1 else [x[k] for k in range(x.shape[0])]
        return lines
    values = list(given)
    is_nested = any(
        np.ndim(value) > 0 if not hasattr(value, "shape") else len(value.shape) for value in values
    )
    lines = operands(*values) if is_nested or not is_single else operands(values)
    return [reshape_p(x, shape=(1,)) if not x.ndim else x for x in lines]


def _length(shape: tuple[int, int], k: int) -> int:
    return max(0, min(shape[0] + min(k, 0), shape[1] - max(k, 0)))


def _fitted(x: Any, length: int, k: int, shape: tuple[int, int]) -> Any:
    if x.shape[0] == length:
        return x
    if x.shape[0] != 1:
        raise ShapeError(
            f"Diagonal {k} of a matrix of shape {shape} has {length} elements. Got {x.shape[0]}."
        )
    return broadcast_p(x, shape=(length,))


def vstack(blocks: Sequence[Any], format: str | None = None, dtype: Any = None) -> Any:
    """Stack sparse matrices vertically.

    >>> vstack([eye_array(1, 2), eye_array(1, 2, k=1)]).toarray().tolist()
    [[1.0, 0.0], [0.0, 1.0]]
    """
    return _stacked(blocks, 0, format, dtype, "vstack")


def hstack(blocks: Sequence[Any], format: str | None = None, dtype: Any = None) -> Any:
    """Stack sparse matrices horizontally.

    >>> hstack([eye_array(2), eye_array(2)]).toarray().tolist()
    [[1.0, 0.0, 1.0, 0.0], [0.0, 1.0, 0.0, 1.0]]
    """
    return _stacked(blocks, 1, format, dtype, "hstack")


def _stacked(blocks: Sequence[Any], axis: int, format: str | None, dtype: Any, name: str) -> Any:
    arrays = [as_sparse(block) for block in blocks]
    if len({block.shape[1 - axis] for block in arrays}) != 1:
        raise ShapeError(f"{name} needs blocks of matching shape. Got {[b.shape for b in arrays]}.")
    data = concat(operands(*[block.data for block in arrays]))
    starts = np.cumsum([0, *[block.shape[axis] for block in arrays]])
    moved, kept = [], []
    for block, start in zip(arrays, starts[:-1], strict=True):
        places = (block.row, block.col)
        moved.append(places[axis] + int(start))
        kept.append(places[1 - axis])
    row, column = (concat(index) for index in ((moved, kept) if axis == 0 else (kept, moved)))
    other = arrays[0].shape[1 - axis]
    shape = (int(starts[-1]), other) if axis == 0 else (other, int(starts[-1]))
    data = data if dtype is None else cast(data, dtype)
    canonical = all(block.has_canonical_format for block in arrays)
    return coo_array.from_parts(data, row, column, shape, canonical).asformat(format)


def kron(A: Any, B: Any, format: str | None = None) -> Any:
    """Return the Kronecker product of two sparse matrices.

    >>> kron(eye_array(2), [[1.0, 2.0]]).toarray().tolist()
    [[1.0, 2.0, 0.0, 0.0], [0.0, 0.0, 1.0, 2.0]]
    """
    a, b = as_sparse(A), as_sparse(B)
    first, second = operands(a.data, b.data)
    count = a.nnz * b.nnz
    data = reshape_p(_outer(first, second, lambda x, y: x * y), shape=(count,))
    row = reshape_p(_outer(a.row * b.shape[0], b.row, lambda x, y: x + y), shape=(count,))
    column = reshape_p(_outer(a.col * b.shape[1], b.col, lambda x, y: x + y), shape=(count,))
    shape = (a.shape[0] * b.shape[0], a.shape[1] * b.shape[1])
    canonical = a.has_canonical_format and b.has_canonical_format
    return coo_array.from_parts(data, row, column, shape, canonical).asformat(format)


def _outer(x: Any, y: Any, function: Any) -> Any:
    return function(reshape_p(x, shape=(x.shape[0], 1)), reshape_p(y, shape=(1, y.shape[0])))
