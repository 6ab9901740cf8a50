"""Attention masks, combined from padding, causal and sliding-window masks."""

from __future__ import annotations

from functools import reduce
from typing import Any

from tapegrad.core.values.device import device
from tapegrad.ops.casting.cast import cast
from tapegrad.ops.creation import arange
from tapegrad.ops.elementwise.comparison import greater_equal, less, logical_and
from tapegrad.ops.elementwise.magnitude import abs as absolute
from tapegrad.ops.shape.functions import expand_dims


def visible(
    query: Any,
    key: Any,
    rank: int,
    attention_mask: Any = None,
    query_mask: Any = None,
    key_masks: tuple[Any, ...] = (),
    is_causal: bool = False,
    window: int | None = None,
) -> Any:
    """Return a boolean mask that broadcasts to scores `[..., heads, queries, keys]` of this rank.

    `query` and `key` are `[..., length, features]`. The result is None if nothing is masked.
    """
    parts = []
    if attention_mask is not None:
        parts.append(_with_rank(cast(attention_mask, "bool"), rank))
    if query_mask is not None:
        parts.append(_with_rank(expand_dims(cast(query_mask, "bool"), -1), rank))
    of_keys = (expand_dims(cast(mask, "bool"), -2) for mask in key_masks if mask is not None)
    parts.extend(_with_rank(mask, rank) for mask in of_keys)
    if is_causal:
        rows, columns = _positions(query, key)
        parts.append(greater_equal(rows, columns))
    if window is not None:
        rows, columns = _positions(query, key)
        parts.append(less(absolute(rows - columns), window))
    return reduce(logical_and, parts) if parts else None


def _with_rank(mask: Any, rank: int) -> Any:
    """Insert axes of length 1 before the last two axes of a mask `[..., queries, keys]`."""
    while len(mask.shape) < rank:
        mask = expand_dims(mask, -3)
    return mask


def _positions(query: Any, key: Any) -> tuple[Any, Any]:
    """Return the positions of the queries as a column, and of the keys as a row."""
    with device(query.device):
        return expand_dims(arange(query.shape[-2]), 1), arange(key.shape[-2])
