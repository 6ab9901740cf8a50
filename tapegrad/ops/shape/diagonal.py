"""Diagonals and triangular parts of matrices."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tapegrad.core.argument_checks import check_whole, check_wholes
from tapegrad.core.primitive.families import linear
from tapegrad.core.primitive.operand import as_operand, normalize_axis
from tapegrad.core.primitive.primitive import Primitive
from tapegrad.errors import ArgumentError, ShapeError
from tapegrad.ops.creation import full_like_p, numpy_dtype_of
from tapegrad.ops.indexing.gather import place_next_to, take_p
from tapegrad.ops.indexing.primitives import slice_p
from tapegrad.ops.indexing.scatter import fitted, take_set_p
from tapegrad.ops.shape.functions import moveaxis, ravel
from tapegrad.ops.shape.joining import concat_p
from tapegrad.ops.shape.primitives import broadcast_p, reshape_p

ALIGNMENTS = ("LEFT_RIGHT", "RIGHT_LEFT", "LEFT_LEFT", "RIGHT_RIGHT")


def _band(xp: Any, x: Any, *, low: int | None, high: int | None) -> Any:
    if low is not None:
        x = xp.triu(x, k=low)
    return x if high is None else xp.tril(x, k=high)


band_p: Primitive = linear(
    "band_part",
    _band,
    transpose=lambda t, *, low, high: band_p(t, low=low, high=high),
    batch=lambda size, batched, x, *, low, high: band_p(x, low=low, high=high),
    selects=True,
)


def _matrix(x: Any, name: str) -> Any:
    x = as_operand(x)
    if len(x.shape) < 2:
        raise ShapeError(f"{name} needs at least 2 axes. Got shape {x.shape}.")
    return x


def tril(m: Any, k: int = 0) -> Any:
    """Return the lower triangle of matrices: entries above diagonal `k` become 0.

    >>> tril([[1.0, 2.0], [3.0, 4.0]]).tolist()
    [[1.0, 0.0], [3.0, 4.0]]
    """
    return band_p(_matrix(m, "tril"), low=None, high=check_whole("k", k, "tril"))


def triu(m: Any, k: int = 0) -> Any:
    """Return the upper triangle of matrices: entries below diagonal `k` become 0.

    >>> triu([[1.0, 2.0], [3.0, 4.0]]).tolist()
    [[1.0, 2.0], [0.0, 4.0]]
    """
    return band_p(_matrix(m, "triu"), low=check_whole("k", k, "triu"), high=None)


def band_part(input: Any, num_lower: Any, num_upper: Any, name: str | None = None) -> Any:
    """Keep `num_lower` diagonals below and `num_upper` above the main one; negative keeps all.

    >>> band_part([[1.0, 2.0], [3.0, 4.0]], 0, 0).tolist()
    [[1.0, 0.0], [0.0, 4.0]]
    """
    lower = check_whole("num_lower", num_lower, "band_part")
    upper = check_whole("num_upper", num_upper, "band_part")
    return band_p(
        _matrix(input, "band_part"),
        low=None if lower < 0 else -lower,
        high=None if upper < 0 else upper,
    )


# Positions of diagonals in a flattened matrix


def _diagonal_range(k: Any) -> tuple[int, int]:
    ends = check_wholes("k", k)
    if len(ends) not in (1, 2) or ends[0] > ends[-1]:
        raise ArgumentError(f"k must be one diagonal or a pair (lowest, highest). Got {k}.")
    return ends[0], ends[-1]


def _flat_positions(rows: int, columns: int, k: Any, align: str) -> tuple[np.ndarray, bool]:
    """Return the flat position of each entry of the diagonals, highest diagonal first.

    The position `rows * columns` stands for padding. The second result says whether `k` is a
    range, whose diagonals form a separate axis.
    """
    low, high = _diagonal_range(k)
    if not -rows < low <= high < columns and rows * columns:
        raise ShapeError(
            f"k must lie between {1 - rows} and {columns - 1} for {rows} x {columns} matrices. "
            f"Got {k}."
        )
    if align not in ALIGNMENTS:
        raise ArgumentError(f"align must be one of {', '.join(ALIGNMENTS)}. Got {align!r}.")
    lengths = [min(rows + min(d, 0), columns - max(d, 0)) for d in range(low, high + 1)]
    width = max(lengths)
    table = np.full((len(lengths), width), rows * columns)
    above, below = align.split("_")
    for line, d in enumerate(range(high, low - 1, -1)):
        length = lengths[d - low]
        start = width - length if (above if d > 0 else below) == "RIGHT" and d else 0
        steps = np.arange(length)
        table[line, start : start + length] = (steps - min(d, 0)) * columns + steps + max(d, 0)
    is_range = np.ndim(k) > 0 and low != high
    return (table if is_range else table[0]), is_range


def _flat(x: Any) -> Any:
    return reshape_p(x, shape=(*x.shape[:-2], x.shape[-2] * x.shape[-1]))


def _with_padding(flat: Any, value: Any) -> Any:
    """Append one entry to each flattened matrix: the padding of shorter diagonals."""
    dtype = numpy_dtype_of(flat)
    extra = full_like_p(flat, shape=(*flat.shape[:-1], 1), value=value, dtype=dtype)
    return concat_p(flat, extra, axis=len(flat.shape) - 1, sizes=(flat.shape[-1], 1))


def matrix_diag_part(
    input: Any,  # TensorFlow's name
    name: str | None = "diag_part",
    k: Any = 0,
    padding_value: float = 0,
    align: str = "RIGHT_LEFT",
) -> Any:
    """Return diagonal `k` of matrices, or diagonals `k = (lowest, highest)` as rows.

    >>> matrix_diag_part([[1.0, 2.0], [3.0, 4.0]]).tolist()
    [1.0, 4.0]
    """
    x = _matrix(input, "matrix_diag_part")
    rows, columns = x.shape[-2:]
    positions, _ = _flat_positions(rows, columns, k, align)
    flat = _flat(x)
    if (positions == rows * columns).any():
        flat = _with_padding(flat, padding_value)
    return take_p(flat, place_next_to(x, positions), axis=len(flat.shape) - 1)


def matrix_set_diag(
    input: Any,  # TensorFlow's name
    diagonal: Any,
    name: str | None = "set_diag",
    k: Any = 0,
    align: str = "RIGHT_LEFT",
) -> Any:
    """Return matrices with diagonal `k`, or a range of diagonals, replaced.

    >>> matrix_set_diag([[1.0, 2.0], [3.0, 4.0]], [0.0, 0.0]).tolist()
    [[0.0, 2.0], [3.0, 0.0]]
    """
    x = _matrix(input, "matrix_set_diag")
    new = fitted(diagonal, x, "matrix_set_diag")
    rows, columns = x.shape[-2:]
    positions, _ = _flat_positions(rows, columns, k, align)
    wanted = (*x.shape[:-2], *positions.shape)
    if new.shape != wanted:
        raise ShapeError(
            f"matrix_set_diag needs a diagonal of shape {wanted} for k={k} of {x.shape}. "
            f"Got {new.shape}."
        )
    flat, axis = _flat(x), len(x.shape) - 2
    has_padding = (positions == rows * columns).any()
    if has_padding:
        flat = _with_padding(flat, 0)
    flat = take_set_p(flat, new, place_next_to(x, positions), axis=axis)
    if has_padding:
        flat = slice_p(flat, index=(*(slice(None),) * axis, slice(0, rows * columns)))
    return reshape_p(flat, shape=tuple(x.shape))


set_diag = matrix_set_diag


def matrix_diag(
    diagonal: Any,
    name: str | None = "diag",
    k: Any = 0,
    num_rows: int = -1,
    num_cols: int = -1,
    padding_value: float = 0,
    align: str = "RIGHT_LEFT",
) -> Any:
    """Return matrices with the given diagonal `k`, or range of diagonals, and padding elsewhere.

    >>> matrix_diag([1.0, 2.0]).tolist()
    [[1.0, 0.0], [0.0, 2.0]]
    """
    x = as_operand(diagonal)
    low, high = _diagonal_range(k)
    is_range = np.ndim(k) > 0 and low != high
    inner = 2 if is_range else 1
    if len(x.shape) < inner:
        raise ShapeError(f"matrix_diag needs at least {inner} axes. Got {x.shape}.")
    lead, length = tuple(x.shape[:-inner]), x.shape[-1]
    rows, columns = _size_for(
        length, low, high, check_whole("num_rows", num_rows), check_whole("num_cols", num_cols)
    )
    dtype = numpy_dtype_of(x)
    blank = full_like_p(x, shape=(*lead, rows, columns), value=padding_value, dtype=dtype)
    return matrix_set_diag(blank, x, k=k, align=align)


def _size_for(length: int, low: int, high: int, rows: int, columns: int) -> tuple[int, int]:
    """Replace -1 by the smallest number of rows or columns that holds the diagonals."""
    least_rows, least_columns = length - min(high, 0), length + max(low, 0)
    if rows == -1 and columns == -1:
        rows = columns = max(least_rows, least_columns)
    rows = least_rows if rows == -1 else rows
    columns = least_columns if columns == -1 else columns
    if rows < least_rows or columns < least_columns:
        raise ShapeError(
            f"A diagonal of length {length} does not fit into {rows} x {columns} matrices: "
            f"it needs {least_rows} x {least_columns}."
        )
    return rows, columns


# Further NumPy and TensorFlow functions


def diagonal(a: Any, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Any:
    """Return a diagonal of the matrices along two axes; it becomes the last axis.

    >>> diagonal([[1.0, 2.0], [3.0, 4.0]], 1).tolist()
    [2.0]
    """
    x = _matrix(a, "diagonal")
    first = normalize_axis(axis1, len(x.shape), "diagonal")
    second = normalize_axis(axis2, len(x.shape), "diagonal")
    return matrix_diag_part(moveaxis(x, (first, second), (-2, -1)), k=offset)


def diag(v: Any, k: int = 0) -> Any:
    """Return a matrix with diagonal `v`, or the diagonal of a matrix, as NumPy's diag does.

    >>> diag([1.0, 2.0]).shape, diag([[1.0, 2.0], [3.0, 4.0]]).shape
    ((2, 2), (2,))
    """
    x = as_operand(v)
    if len(x.shape) not in (1, 2):
        raise ShapeError(f"diag needs 1 or 2 axes. Got shape {x.shape}; use matrix_diag.")
    return matrix_diag(x, k=k) if len(x.shape) == 1 else matrix_diag_part(x, k=k)


def diag_part(input: Any, k: int = 0) -> Any:  # TensorFlow's name
    """Return the diagonal of matrices.

    >>> diag_part([[1.0, 2.0], [3.0, 4.0]]).tolist()
    [1.0, 4.0]
    """
    return matrix_diag_part(input, k=k)


def diagflat(v: Any, k: int = 0) -> Any:
    """Return a matrix with all elements of `v` on diagonal `k`.

    >>> diagflat([[1.0], [2.0]]).shape
    (2, 2)
    """
    return matrix_diag(ravel(v), k=k)


def tensor_diag(diagonal: Any, name: str | None = None) -> Any:
    """Return a tensor of twice the rank with `diagonal` where both halves of the index agree.

    >>> tensor_diag([[1.0, 2.0]]).shape
    (1, 2, 1, 2)
    """
    x = as_operand(diagonal)
    shape = tuple(x.shape)
    return reshape_p(matrix_diag(ravel(x)), shape=shape + shape)


def tensor_diag_part(input: Any, name: str | None = None) -> Any:  # TensorFlow's name
    """Return the elements of a tensor for which both halves of the index agree.

    >>> tensor_diag_part([[1.0, 2.0], [3.0, 4.0]]).tolist()
    [1.0, 4.0]
    """
    x = as_operand(input)
    shape = tuple(x.shape)
    half = shape[: len(shape) // 2]
    if not half or shape != half + half:
        raise ShapeError(f"tensor_diag_part needs a shape of two equal halves. Got {shape}.")
    size = math.prod(half)
    return reshape_p(matrix_diag_part(reshape_p(x, shape=(size, size))), shape=half)


def fill_diagonal(a: Any, val: Any) -> Any:
    """Return matrices with `val`, one value or one per entry, on the main diagonal.

    >>> fill_diagonal([[1.0, 2.0], [3.0, 4.0]], 0.0).tolist()
    [[0.0, 2.0], [3.0, 0.0]]
    """
    x = _matrix(a, "fill_diagonal")
    shape = (*x.shape[:-2], min(x.shape[-2:]))
    return matrix_set_diag(x, broadcast_p(fitted(val, x, "fill_diagonal"), shape=shape))
