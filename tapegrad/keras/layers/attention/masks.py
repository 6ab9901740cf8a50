"""Which keys each query may see: masks of attention, put together from their parts."""

from __future__ import annotations

from functools import reduce
from typing import Any

from tapegrad.core.device import device
from tapegrad.ops.cast import cast
from tapegrad.ops.comparison import greater_equal, less, logical_and
from tapegrad.ops.creation import arange
from tapegrad.ops.magnitude import abs as absolute
from tapegrad.ops.shape import expand_dims


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
    """Return truth values that broadcast to scores `[..., heads, queries, keys]` of this rank.

    `query` and `key` are `[..., length, features]`. None stands for: all of them may be seen.
    """
    parts = []
    if attention_mask is not None:
        parts.append(_lifted(cast(attention_mask, "bool"), rank))
    if query_mask is not None:
        parts.append(_lifted(expand_dims(cast(query_mask, "bool"), -1), rank))
    of_keys = (expand_dims(cast(mask, "bool"), -2) for mask in key_masks if mask is not None)
    parts.extend(_lifted(mask, rank) for mask in of_keys)
    if is_causal:
        rows, columns = _places(query, key)
        parts.append(greater_equal(rows, columns))
    if window is not None:
        rows, columns = _places(query, key)
        parts.append(less(absolute(rows - columns), window))
    return reduce(logical_and, parts) if parts else None


def _lifted(mask: Any, rank: int) -> Any:
    """A mask `[..., queries, keys]` with axes of length 1 in front of these two."""
    while len(mask.shape) < rank:
        mask = expand_dims(mask, -3)
    return mask


def _places(query: Any, key: Any) -> tuple[Any, Any]:
    """Where in their sequences queries (a column) and keys (a row) stand, counted from 0."""
    with device(query.device):
        return expand_dims(arange(query.shape[-2]), 1), arange(key.shape[-2])
