"""Functions of tapegrad on ragged tensors: joining, reductions, and choosing of rows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tapegrad.core.primitive.operand import normalize_axes, normalize_axis
from tapegrad.core.values.convert import read_on_host
from tapegrad.errors import ArgumentError
from tapegrad.ops.casting.cast import cast
from tapegrad.ops.creation import constant
from tapegrad.ops.indexing.gather import gather as gather_rows
from tapegrad.ops.indexing.segment_functions import (
    unsorted_segment_max,
    unsorted_segment_mean,
    unsorted_segment_min,
    unsorted_segment_prod,
    unsorted_segment_sum,
)
from tapegrad.ops.reduction import functions as reductions
from tapegrad.ops.shape.functions import expand_dims as expand_tensor
from tapegrad.ops.shape.joining import concat as join, stack as stack_tensors
from tapegrad.ragged.tensor import HANDLERS, RaggedTensor
from tapegrad.sparse.tensor import as_tensor


def concat(values: Any, axis: int = 0, name: str | None = None) -> Any:
    """Join ragged tensors along an axis.

    >>> rows = RaggedTensor.from_row_lengths([1, 2, 3], [2, 1])
    >>> concat([rows, rows], 0).to_list(), concat([rows, rows], 1).to_list()
    ([[1, 2], [3], [1, 2], [3]], [[1, 2, 1, 2], [3, 3]])
    """
    parts = [_as_ragged(value) for value in values]
    place = normalize_axis(axis, len(parts[0].shape), "concat")
    if place == 0:
        return _after_each_other(parts)
    counts = [len(part) for part in parts]
    if len(set(counts)) > 1:
        raise ArgumentError(f"concat along axis {axis} needs equal numbers of rows. Got {counts}.")
    if place > 1:
        inner = concat([part.values for part in parts], place - 1)
        return parts[0].with_values(inner)
    # Row k of the result is row k of each part: choose these rows from all rows in turn.
    order = np.arange(sum(counts)).reshape(len(parts), counts[0]).T.ravel()
    rows = _after_each_other(parts).rows_at(order)
    lengths = rows.lengths().reshape(counts[0], len(parts)).sum(axis=1)
    return RaggedTensor.from_row_lengths(rows.values, lengths)


def _after_each_other(parts: list[RaggedTensor]) -> RaggedTensor:
    lengths = np.concatenate([part.lengths() for part in parts])
    return RaggedTensor.from_row_lengths(_joined([part.values for part in parts]), lengths)


def _joined(values: list[Any]) -> Any:
    if any(isinstance(value, RaggedTensor) for value in values):
        return _after_each_other([_as_ragged(value) for value in values])
    return join(values, 0)


def _as_ragged(value: Any) -> RaggedTensor:
    return value if isinstance(value, RaggedTensor) else RaggedTensor.from_tensor(constant(value))


def stack(values: Any, axis: int = 0, name: str | None = None) -> Any:
    """Stack ragged tensors, or tensors of different lengths, along a new axis.

    >>> stack([RaggedTensor.from_row_lengths([1, 2], [1, 1])] * 2).to_list()
    [[[1], [2]], [[1], [2]]]
    """
    parts = list(values)
    if axis != 0:
        return concat([expand_dims(_as_ragged(part), axis) for part in parts], axis)
    lengths = [len(part) if isinstance(part, RaggedTensor) else part.shape[0] for part in parts]
    return RaggedTensor.from_row_lengths(_joined(parts), lengths)


def expand_dims(input: Any, axis: int, name: str | None = None) -> Any:
    """Insert an axis of length 1."""
    place = axis % (len(input.shape) + 1)
    if place == 0:
        return RaggedTensor.from_row_lengths(input, [len(input)])
    if place == 1:
        return RaggedTensor.from_row_lengths(input, np.ones(len(input), np.int64))
    inner = input.values
    wrapped = isinstance(inner, RaggedTensor)
    made = expand_dims(inner, place - 1) if wrapped else expand_tensor(inner, place - 1)
    return input.with_values(made)


def gather(
    params: Any,
    indices: Any,
    validate_indices: Any = None,
    axis: Any = None,
    batch_dims: int = 0,
    name: str | None = None,
) -> Any:
    """Return rows of a ragged tensor, or the entries of a tensor at ragged indices."""
    if isinstance(indices, RaggedTensor):
        chosen = gather(params, indices.flat_values)
        return indices.with_flat_values(chosen)
    if axis not in (None, 0) or batch_dims:
        raise ArgumentError("gather of a ragged tensor takes rows: axis=0 and batch_dims=0.")
    if not isinstance(params, RaggedTensor):
        return gather_rows(params, indices)
    return params.rows_at(np.asarray(read_on_host(constant(indices), "gather")))


def embedding_lookup(params: Any, ids: Any, max_norm: Any = None, name: str | None = None) -> Any:
    """Return the rows of a table at ragged ids."""
    return gather(params, ids)


def boolean_mask(tensor: Any, mask: Any, axis: Any = None, name: str | None = None) -> Any:
    """Return the entries of rows where a ragged mask is true, or the rows where a vector is.

    >>> rows = RaggedTensor.from_row_lengths([1, 2, 3], [2, 1])
    >>> boolean_mask(rows, rows > 1).to_list()
    [[2], [3]]
    """
    chosen = mask.flat_values if isinstance(mask, RaggedTensor) else constant(mask)
    places = np.flatnonzero(np.asarray(read_on_host(chosen, "boolean_mask")))
    rows = _as_ragged(tensor)
    if not isinstance(mask, RaggedTensor):
        return rows.rows_at(places)
    kept = np.bincount(rows.rowids()[places], minlength=len(rows))
    return RaggedTensor.from_row_lengths(gather(rows.values, places), kept)


def map_fn(fn: Callable[..., Any], elems: Any, *args: Any, **kwargs: Any) -> Any:
    """Apply a function to each row, and stack the results."""
    results = [fn(row) for row in elems]
    same = len({tuple(one.shape) for one in results}) == 1
    return stack_tensors(results) if same else stack(results)


def tile(input: Any, multiples: Any, name: str | None = None) -> Any:
    """Repeat the rows, and the entries of each row."""
    times = [int(n) for n in read_on_host(constant(multiples), "tile")]
    found = input
    for axis, count in enumerate(times[:2]):
        found = concat([found] * count, axis) if count != 1 else found
    if any(count != 1 for count in times[2:]):
        raise ArgumentError(f"tile repeats the first two axes of ragged tensors. Got {times}.")
    return found


def reverse(tensor: Any, axis: Any, name: str | None = None) -> Any:
    """Reverse the order of the rows, or of the entries of each row."""
    found = tensor
    for place in normalize_axes(np.atleast_1d(axis).tolist(), len(tensor.shape), "reverse"):
        if place > 1:
            raise ArgumentError(f"reverse takes the axes 0 and 1 of ragged tensors. Got {axis}.")
        step = np.s_[::-1]
        found = found[step] if place == 0 else found[:, step]
    return found


def size(input: Any, out_type: Any = None, name: str | None = None) -> Any:
    """Return the number of elements."""
    return cast(constant(int(np.prod(input.flat_values.shape))), out_type or "int32")


def rank(input: Any, name: str | None = None) -> Any:
    """Return the number of axes."""
    return constant(len(input.shape))


def _reduction(whole: Callable[..., Any], segments: Callable[..., Any]) -> Callable[..., Any]:
    def reduce(
        input_tensor: Any, axis: Any = None, keepdims: bool = False, name: str | None = None
    ) -> Any:
        if axis is None:
            return whole(input_tensor.flat_values)
        places = normalize_axes(axis, len(input_tensor.shape), "A reduction")
        found = input_tensor
        for place in reversed(places):
            found = _along(found, place, whole, segments)
            if keepdims:
                expand = expand_dims if isinstance(found, RaggedTensor) else expand_tensor
                found = expand(found, place)
        return found

    return reduce


def _along(x: Any, axis: int, whole: Any, segments: Any) -> Any:
    if not isinstance(x, RaggedTensor):
        return whole(x, axis)
    if axis > 1:
        return x.with_values(_along(x.values, axis - 1, whole, segments))
    inner = x.values
    if isinstance(inner, RaggedTensor):
        # The entries of inner rows, counted from their beginnings, come together.
        firsts = np.repeat(np.cumsum([0, *inner.lengths()[:-1].tolist()]), inner.lengths())
        columns = np.arange(len(inner.values)) - firsts
        rows = x.rowids()[inner.rowids()] if axis == 1 else columns_of(x)[inner.rowids()]
        return _grouped(inner.values, rows, columns, segments)
    ids = x.rowids() if axis == 1 else columns_of(x)
    count = len(x) if axis == 1 else int(x.lengths().max(initial=0))
    return segments(inner, as_tensor(ids), count)


def columns_of(x: RaggedTensor) -> np.ndarray:
    """Return the place of each value in its row."""
    starts = np.cumsum([0, *x.lengths().tolist()])[:-1]
    places: np.ndarray = np.arange(int(x.lengths().sum())) - np.repeat(starts, x.lengths())
    return places


def _grouped(values: Any, rows: np.ndarray, columns: np.ndarray, segments: Any) -> RaggedTensor:
    keys, ids = np.unique(np.stack([rows, columns]), axis=1, return_inverse=True)
    found = segments(values, as_tensor(ids.reshape(-1)), keys.shape[1])
    count = int(rows.max(initial=-1)) + 1
    return RaggedTensor.from_row_lengths(found, np.bincount(keys[0], minlength=count))


def _any(x: Any, ids: Any, count: int) -> Any:
    return unsorted_segment_sum(cast(x, "int32"), ids, count) > 0


def _all(x: Any, ids: Any, count: int) -> Any:
    return unsorted_segment_sum(1 - cast(x, "int32"), ids, count) < 1


HANDLERS |= {
    "boolean_mask": boolean_mask,
    "concat": concat,
    "embedding_lookup": embedding_lookup,
    "expand_dims": expand_dims,
    "gather": gather,
    "map_fn": map_fn,
    "rank": rank,
    "reduce_all": _reduction(reductions.reduce_all, _all),
    "reduce_any": _reduction(reductions.reduce_any, _any),
    "reduce_max": _reduction(reductions.reduce_max, unsorted_segment_max),
    "reduce_mean": _reduction(reductions.reduce_mean, unsorted_segment_mean),
    "reduce_min": _reduction(reductions.reduce_min, unsorted_segment_min),
    "reduce_prod": _reduction(reductions.reduce_prod, unsorted_segment_prod),
    "reduce_sum": _reduction(reductions.reduce_sum, unsorted_segment_sum),
    "reverse": reverse,
    "size": size,
    "stack": stack,
    "tile": tile,
}
