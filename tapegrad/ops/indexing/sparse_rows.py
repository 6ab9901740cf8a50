"""Summing the repeated rows of sparse gradients (IndexedSlices)."""

from __future__ import annotations

from typing import Any

from tapegrad.core.values.indexed_slices import IndexedSlices
from tapegrad.ops.casting.cast import cast
from tapegrad.ops.indexing.gather import take_p
from tapegrad.ops.indexing.segment import segment_extreme_p, segment_sum_p
from tapegrad.ops.indexing.sorting import argsort_p
from tapegrad.ops.reduction.cumulative import cumsum
from tapegrad.ops.reduction.recurrence import first_along, shift
from tapegrad.ops.shape.primitives import reshape_p


def merge_rows(values: Any, indices: Any) -> tuple[Any, Any]:
    """Sum the rows of equal index; return as many rows and indices as were passed.

    The rows of the distinct indices come first, in increasing order, followed by zero rows with
    index 0. The shape is therefore known without reading from the device, and the norm of the
    rows equals the norm of the dense tensor.

    >>> import tapegrad
    >>> values, indices = tapegrad.constant([[1.0], [2.0], [5.0]]), tapegrad.constant([7, 3, 7])
    >>> rows, places = merge_rows(values, indices)
    >>> rows.tolist(), places.tolist()
    ([[2.0], [6.0], [0.0]], [3, 7, 0])
    """
    count = indices.shape[0]
    if count == 0:
        return values, indices
    order = argsort_p(indices, axis=0, descending=False, stable=True)
    sorted_indices = take_p(indices, order, axis=0)
    before = shift(sorted_indices, 0, 1, first_along(sorted_indices, 0))
    numbers = cumsum(cast(sorted_indices != before, "int64"))
    rows = segment_sum_p(take_p(values, order, axis=0), numbers, num=count)
    places = segment_extreme_p(sorted_indices, numbers, num=count, largest=True, empty=0)
    return rows, places


def merged(slices: IndexedSlices) -> IndexedSlices:
    """Return an equal sparse tensor in which only zero rows repeat an index."""
    width = tuple(slices.shape[1:])
    count = slices.indices.size
    indices = reshape_p(slices.indices, shape=(count,))
    values = reshape_p(slices.values, shape=(count, *width))
    return IndexedSlices(*merge_rows(values, indices), slices.dense_shape)
