"""Sums and means of the rows of a table that sparse tensors of ids name."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tapegrad.errors import ArgumentError, ArgumentTypeError, ShapeError
from tapegrad.ops.casting.cast import cast
from tapegrad.ops.creation import constant, ones_like
from tapegrad.ops.elementwise.comparison import logical_and
from tapegrad.ops.elementwise.no_nan import divide_no_nan
from tapegrad.ops.elementwise.powers import sqrt
from tapegrad.ops.elementwise.selection import maximum, where
from tapegrad.ops.indexing.gather import embedding_lookup
from tapegrad.ops.indexing.segment_functions import unsorted_segment_sum
from tapegrad.ops.linalg.common import as_column
from tapegrad.ops.nn.clipping import clip_by_norm
from tapegrad.ops.shape.primitives import reshape_p
from tapegrad.sparse.tensor import SparseTensor

COMBINERS = ("mean", "sqrtn", "sum")


def embedding_lookup_sparse(
    params: Any,
    sp_ids: Any,
    sp_weights: Any,
    combiner: str | None = None,
    max_norm: Any = None,
    name: str | None = None,
    allow_fast_lookup: bool = False,
) -> Any:
    """Return the combined rows of `params` for each row of ids, up to the last one with an id.

    `combiner` is 'sum', 'mean' (the default), or 'sqrtn', which divides by the length of the vector
    of weights. Rows without ids are 0. With `max_norm`, longer rows of the table are shortened.

    >>> import tapegrad
    >>> ids = tapegrad.SparseTensor([[0, 0], [0, 1], [1, 0]], [0, 1, 1], [2, 2])
    >>> table = tapegrad.constant([[1.0, 2.0], [3.0, 4.0]])
    >>> embedding_lookup_sparse(table, ids, None).tolist()
    [[2.0, 3.0], [3.0, 4.0]]
    """
    places, ids, weights = _parts("embedding_lookup_sparse", sp_ids, sp_weights)
    rows = places[:, 0] if places.shape[1] else places.reshape(-1)
    count = int(rows.max()) + 1 if rows.size else 0
    return _combined(params, ids, weights, rows, count, combiner, max_norm)


def safe_embedding_lookup_sparse(
    embedding_weights: Any,
    sparse_ids: Any,
    sparse_weights: Any = None,
    combiner: str | None = "mean",
    default_id: int | None = None,
    max_norm: Any = None,
    name: str | None = None,
    allow_fast_lookup: bool = False,
) -> Any:
    """Return the combined rows of a table for each row of ids, some of which may be invalid.

    Ids below 0 do not count, nor do weights of 0 or less unless the combiner is 'sum'. Rows without
    ids are 0, or the row `default_id` of the table.

    >>> import tapegrad
    >>> ids = tapegrad.SparseTensor([[0, 0], [0, 1]], [1, -1], [2, 2])
    >>> table = tapegrad.constant([[1.0, 2.0], [3.0, 4.0]])
    >>> safe_embedding_lookup_sparse(table, ids).tolist()
    [[3.0, 4.0], [0.0, 0.0]]
    """
    name = "safe_embedding_lookup_sparse"
    places, ids, weights = _parts(name, sparse_ids, sparse_weights)
    lead = tuple(sparse_ids.shape)[:-1]
    if not lead:
        raise ShapeError(f"{name} needs ids with at least two axes. Got {tuple(sparse_ids.shape)}.")
    rows = np.ravel_multi_index(tuple(places[:, :-1].T), lead) if places.size else places[:, 0]
    count = math.prod(lead)
    is_valid = ids >= 0
    if weights is not None and combiner != "sum":
        is_valid = logical_and(is_valid, weights > 0)
    mask = cast(is_valid, "float32" if weights is None else weights.dtype)
    known = mask if weights is None else weights * mask
    found = _combined(embedding_weights, maximum(ids, 0), known, rows, count, combiner, max_norm)
    if default_id is not None:
        is_empty = unsorted_segment_sum(mask, rows, count) == 0
        instead = _table_rows(embedding_weights, constant([int(default_id)]), max_norm)
        found = where(as_column(is_empty), instead, found)
    return reshape_p(found, shape=(*lead, found.shape[-1]))


def _parts(name: str, ids: Any, weights: Any) -> tuple[np.ndarray[Any, Any], Any, Any]:
    """Return the indices on the host, the ids and the weights."""
    for value in (ids, *([] if weights is None else [weights])):
        if not isinstance(value, SparseTensor):
            raise ArgumentTypeError(f"{name} needs sparse tensors. Got {type(value).__name__}.")
    if not ids.values.dtype.is_integer:
        raise ArgumentTypeError(f"{name} needs ids that are integers. Got {ids.values.dtype}.")
    places = np.asarray(ids.indices.numpy())
    if weights is None:
        return places, ids.values, None
    if not weights.values.dtype.is_floating or weights.values.shape != ids.values.shape:
        raise ArgumentError(
            f"{name} needs one floating-point weight for each id. Got {weights.values.dtype} of "
            f"shape {tuple(weights.values.shape)} for {ids.values.shape[0]} ids."
        )
    return places, ids.values, weights.values


def _table_rows(params: Any, ids: Any, max_norm: Any) -> Any:
    rows = embedding_lookup(params, ids)
    if len(rows.shape) != 2 or not rows.dtype.is_floating:
        raise ShapeError(
            "The table of an embedding must be a matrix of floats. Got rows of shape "
            f"{tuple(rows.shape)[1:]} and dtype {rows.dtype}."
        )
    return rows if max_norm is None else clip_by_norm(rows, max_norm, axes=[1])


def _combined(
    params: Any, ids: Any, weights: Any, rows: Any, count: int, combiner: Any, max_norm: Any
) -> Any:
    combiner = "mean" if combiner is None else combiner
    if combiner not in COMBINERS:
        raise ArgumentError(f"combiner must be one of {', '.join(COMBINERS)}. Got {combiner!r}.")
    found = _table_rows(params, ids, max_norm)
    weights = ones_like(found[:, 0]) if weights is None else cast(weights, found.dtype)
    total = unsorted_segment_sum(found * as_column(weights), rows, count)
    if combiner == "sum":
        return total
    if combiner == "mean":
        size = unsorted_segment_sum(weights, rows, count)
    else:
        size = sqrt(unsorted_segment_sum(weights * weights, rows, count))
    return divide_no_nan(total, as_column(size))
