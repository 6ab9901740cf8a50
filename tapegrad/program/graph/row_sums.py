"""Sums of rows that an index array selects, made by the loop that computes the rows."""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any, NamedTuple

import numpy as np

from tapegrad.program.graph.graph import Call, Shape, Value

DType = np.dtype[Any]

AddsRows = Callable[[DType, int, int], bool]
"""Whether a loop may add so many rows of a dtype into a number of rows."""

SUMS = frozenset({"segment_sum", "take_add"})


def without_row_sums(dtype: DType, entries: int, size: int) -> bool:
    """No loop adds rows."""
    return False


class RowSum(NamedTuple):
    """A sum of rows: the index array, its lengths in the space, its axes there, and the rows."""

    positions: Value
    seen: Shape
    axes: tuple[int, ...]
    size: int


def row_sum_of(call: Call, adds_rows: AddsRows) -> RowSum | None:
    """Return a call as a sum of rows that a loop can make, or None."""
    if call.primitive.name not in SUMS or not all(isinstance(x, Value) for x in call.operands):
        return None
    (values, index), (result,) = call.reads, call.results
    axis = call.params.get("axis", 0)
    inner = axis + len(index.shape)
    size = result.shape[axis]
    if 0 in (*values.shape, *result.shape) or values.shape[axis:inner] != index.shape:
        return None
    if prod(index.shape) < 2 or not adds_rows(result.dtype, prod(index.shape), size):
        return None
    lengths = [n if axis <= k < inner else 1 for k, n in enumerate(values.shape)]
    long = [k for k, n in enumerate(values.shape) if n != 1]
    return RowSum(
        index,
        tuple(lengths[k] for k in long),
        tuple(place for place, k in enumerate(long) if axis <= k < inner),
        size,
    )
