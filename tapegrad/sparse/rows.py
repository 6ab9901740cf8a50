"""Functions of rows of sparse tensors: counts, softmax, segments, empty rows, parts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tapegrad.core.argument_checks import check_count
from tapegrad.core.primitive.operand import normalize_axis
from tapegrad.core.values.convert import read_on_host
from tapegrad.core.values.indexed_slices import IndexedSlices
from tapegrad.core.values.strings import StringTensor, string_tensor, text_array
from tapegrad.errors import ArgumentError, ArgumentTypeError, ShapeError
from tapegrad.ops.casting.cast import cast
from tapegrad.ops.creation import constant, ones
from tapegrad.ops.elementwise.exponential import exp
from tapegrad.ops.indexing import segment_functions as segments
from tapegrad.ops.indexing.gather import gather
from tapegrad.ops.shape.functions import reshape
from tapegrad.ops.shape.joining import concat
from tapegrad.sparse.functions import reorder, slice as part_of
from tapegrad.sparse.tensor import SparseTensor, as_tensor


def _check_sparse(name: str, x: Any) -> SparseTensor:
    if not isinstance(x, SparseTensor):
        raise ArgumentTypeError(f"{name} takes a SparseTensor. Got {type(x).__name__}.")
    return x


def softmax(sp_input: Any, name: str | None = None) -> SparseTensor:
    """Return the softmax of the values of each row along the last axis.

    >>> softmax(SparseTensor([[0, 0], [0, 1], [1, 0]], [2.0, 2.0, 5.0], [2, 2])).values.tolist()
    [0.5, 0.5, 1.0]
    """
    x = _check_sparse("softmax", sp_input)
    _, rows = np.unique(x.places()[:, :-1], axis=0, return_inverse=True)
    ids, count = as_tensor(rows.reshape(-1)), int(rows.max(initial=-1)) + 1
    largest = segments.unsorted_segment_max(x.values, ids, count)
    shares = exp(x.values - gather(largest, ids))
    return x.with_values(shares / gather(segments.unsorted_segment_sum(shares, ids, count), ids))


def fill_empty_rows(
    sp_input: Any, default_value: Any, name: str | None = None
) -> tuple[SparseTensor, Any]:
    """Give rows of a matrix without a value one in their first column; also say which they are.

    >>> filled, empty = fill_empty_rows(SparseTensor([[0, 1]], [5], [2, 3]), 7)
    >>> filled.indices.tolist(), filled.values.tolist(), empty.tolist()
    ([[0, 1], [1, 0]], [5, 7], [False, True])
    """
    x = _check_sparse("fill_empty_rows", sp_input)
    if len(x.shape) != 2:
        raise ShapeError(f"fill_empty_rows takes a matrix. Got shape {tuple(x.shape)}.")
    is_empty = np.ones(x.shape[0], np.bool_)
    is_empty[x.places()[:, 0]] = False
    rows = np.flatnonzero(is_empty)
    places = np.concatenate([x.places(), np.stack([rows, np.zeros_like(rows)], 1)])
    if isinstance(x.values, StringTensor):
        added: Any = np.full(len(rows), text_array(default_value).item(), object)
        values: Any = string_tensor(np.concatenate([x.values.array, added]))
    else:
        fill = cast(constant(default_value, x.dtype), x.dtype)
        if fill.shape:
            raise ShapeError(f"default_value must be one number. Got shape {tuple(fill.shape)}.")
        values = concat([x.values, ones([len(rows)], x.dtype) * fill], 0)
    return reorder(SparseTensor(places, values, tuple(x.shape))), as_tensor(is_empty)


def reset_shape(sp_input: Any, new_shape: Any = None) -> SparseTensor:
    """Return the values with a larger shape, or with the smallest that holds all of them.

    >>> reset_shape(SparseTensor([[0, 1]], [5], [4, 4])).shape
    (1, 2)
    """
    x = _check_sparse("reset_shape", sp_input)
    if new_shape is None:
        return SparseTensor(x.places(), x.values, (x.places() + 1).max(axis=0, initial=0))
    shape = tuple(np.asarray(constant(new_shape)).reshape(-1).tolist())
    if len(shape) != len(x.shape) or any(n < m for n, m in zip(shape, x.shape, strict=True)):
        raise ShapeError(
            f"reset_shape takes a shape in which no axis is shorter than in {tuple(x.shape)}. "
            f"Got {shape}."
        )
    return SparseTensor(x.places(), x.values, shape)


def split(sp_input: Any, num_split: int, axis: int, name: str | None = None) -> list[SparseTensor]:
    """Split a sparse tensor along an axis; the first parts are longer by one if need be.

    >>> [part.shape for part in split(SparseTensor([[0, 1]], [5], [2, 3]), 2, 1)]
    [(2, 2), (2, 1)]
    """
    x = _check_sparse("split", sp_input)
    place = normalize_axis(axis, len(x.shape), "split")
    size = int(x.shape[place])
    count = check_count("num_split", num_split, "split", least=1)
    if count > size:
        raise ShapeError(f"split cannot make {count} parts of an axis of {size} entries.")
    lengths = [size // count + (k < size % count) for k in range(count)]
    parts, begin = [], 0
    for length in lengths:
        start, sizes = [0] * len(x.shape), list(x.shape)
        start[place], sizes[place] = begin, length
        parts.append(part_of(x, start, sizes))
        begin += length
    return parts


def to_indicator(sp_input: Any, vocab_size: int, name: str | None = None) -> Any:
    """Return which of the numbers below `vocab_size` are values of each row.

    >>> to_indicator(SparseTensor([[0, 0], [0, 1]], [2, 0], [2, 2]), 3).tolist()
    [[True, False, True], [False, False, False]]
    """
    x = _check_sparse("to_indicator", sp_input)
    ids = np.asarray(read_on_host(x.values, "to_indicator"))
    size = check_count("vocab_size", vocab_size, "to_indicator")
    if ids.dtype.kind not in "iu":
        raise ArgumentTypeError(f"to_indicator takes integers. Got {x.dtype.name}.")
    if ((ids < 0) | (ids >= size)).any():
        raise ArgumentError(f"to_indicator takes numbers from 0 to {size - 1}. Got {ids.tolist()}.")
    found = np.zeros((*tuple(x.shape)[:-1], size), np.bool_)
    found[(*x.places()[:, :-1].T, ids)] = True
    return as_tensor(found)


def mask(a: Any, mask_indices: Any, name: str | None = None) -> IndexedSlices:
    """Return rows without those of some indices.

    >>> rows = constant([[1.0], [2.0]])
    >>> mask(IndexedSlices(rows, [4, 7]), [4]).values.tolist()
    [[2.0]]
    """
    if not isinstance(a, IndexedSlices):
        raise ArgumentTypeError(f"mask takes IndexedSlices. Got {type(a).__name__}.")
    indices = np.asarray(read_on_host(a.indices, "mask"))
    kept = np.flatnonzero(~np.isin(indices, np.asarray(constant(mask_indices))))
    return IndexedSlices(gather(a.values, kept), indices[kept], a.dense_shape)


def _segment(name: str, what: str, function: Callable[..., Any]) -> Callable[..., Any]:
    def run(
        data: Any,
        indices: Any,
        segment_ids: Any,
        num_segments: Any = None,
        name: str | None = None,
        sparse_gradient: bool = False,
    ) -> Any:
        ids = np.asarray(read_on_host(constant(segment_ids), run.__name__)).reshape(-1)
        if ids.dtype.kind not in "iu" or (np.diff(ids) < 0).any() or (ids < 0).any():
            raise ArgumentError(
                f"The segment_ids of {run.__name__} must be integers from 0 that do not fall. "
                f"Got {ids.tolist()}."
            )
        count = int(ids[-1]) + 1 if len(ids) else 0
        if num_segments is not None:
            count = check_count("num_segments", num_segments, run.__name__, least=count)
        return function(gather(data, indices), as_tensor(ids.astype(np.int64)), count)

    run.__name__ = run.__qualname__ = name
    run.__doc__ = f"""Return {what} of the rows `indices` of each segment.

    >>> {name}([[1.0], [2.0], [3.0]], [0, 2], [0, 2]).tolist()
    [[1.0], [0.0], [3.0]]
    """
    return run


segment_sum = _segment("segment_sum", "the sum", segments.unsorted_segment_sum)
segment_mean = _segment("segment_mean", "the mean", segments.unsorted_segment_mean)
segment_sqrt_n = _segment(
    "segment_sqrt_n",
    "the sum, divided by the root of the number,",
    segments.unsorted_segment_sqrt_n,
)


def bincount(
    values: Any,
    weights: Any = None,
    axis: int | None = 0,
    minlength: Any = None,
    maxlength: Any = None,
    binary_output: bool = False,
    name: str | None = None,
) -> SparseTensor:
    """Count how often each whole number occurs: in all with axis 0, in each row with axis -1.

    Only numbers that occur have entries. `weights` are added instead of ones, `binary_output`
    says 1 for each number that occurs, and numbers from `maxlength` on are left out.

    >>> found = bincount([[1, 1], [0, 3]], axis=-1)
    >>> found.indices.tolist(), found.values.tolist()
    ([[0, 1], [1, 0], [1, 3]], [2, 1, 1])
    """
    numbers, rows, count = _rows_of(values)
    if axis not in (0, -1, None):
        raise ArgumentError(f"bincount takes axis=0 or axis=-1. Got {axis!r}.")
    if binary_output and weights is not None:
        raise ArgumentError("bincount cannot use weights and binary_output together.")
    if numbers.dtype.kind not in "iu" or (numbers < 0).any():
        raise ArgumentError("bincount takes whole numbers of 0 or more.")
    kept = np.arange(len(numbers))
    least = 0 if minlength is None else check_count("minlength", minlength, "bincount")
    size = max(int(numbers.max(initial=-1)) + 1, least)
    if maxlength is not None:
        size = check_count("maxlength", maxlength, "bincount")
        kept = np.flatnonzero(numbers < size)
    has_rows = axis == -1 and count is not None
    keys = numbers[kept, None].astype(np.int64)
    keys = np.concatenate([rows[kept, None], keys], 1) if has_rows else keys
    found, ids = np.unique(keys, axis=0, return_inverse=True)
    shape = (count, size) if has_rows else (size,)
    if weights is None:
        each = constant(np.ones(len(kept), np.int32))
        total = segments.unsorted_segment_max if binary_output else segments.unsorted_segment_sum
    else:
        flat = getattr(weights, "flat_values", getattr(weights, "values", weights))
        each = gather(reshape(constant(flat), (-1,)), kept)
        total = segments.unsorted_segment_sum
    return SparseTensor(found, total(each, as_tensor(ids.reshape(-1)), len(found)), shape)


def _rows_of(values: Any) -> tuple[np.ndarray, np.ndarray, int | None]:
    """Return numbers, the row of each, and how many rows there are, or None of a vector."""
    if isinstance(values, SparseTensor):
        numbers = np.asarray(read_on_host(values.values, "bincount"))
        is_matrix = len(values.shape) > 1
        return numbers, values.places()[:, 0], int(values.shape[0]) if is_matrix else None
    if hasattr(values, "row_splits"):
        flat = np.asarray(read_on_host(values.flat_values, "bincount"))
        return flat, np.asarray(values.value_rowids()), len(values)
    array = np.asarray(read_on_host(constant(values), "bincount"))
    if array.ndim > 2:
        raise ShapeError(f"bincount takes a vector or a matrix. Got shape {array.shape}.")
    rows = np.repeat(np.arange(len(array)), array.shape[1]) if array.ndim == 2 else array.ravel()
    return array.reshape(-1), rows, len(array) if array.ndim == 2 else None
