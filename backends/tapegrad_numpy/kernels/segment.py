"""Segment reductions of rows by NumPy's `bincount`, and `ufunc.at` on flat arrays."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tapegrad.core.backend.registry import by_name
from tapegrad.core.values.dtypes import as_dtype
from tapegrad_numpy.kernels.half import accumulator

Array = Any

# Elements per chunk, which limits the memory of their flat positions to 8 MiB.
_CHUNK = 1 << 20


def _reduce(ufunc: np.ufunc, x: Array, ids: Array, num: int, start: Any) -> Array:
    """Reduce rows by id, starting from `start`; ignore rows with a negative id."""
    if ids.size and int(ids.max()) >= num:
        raise ValueError(f"segment ids must be below {num}; one is {int(ids.max())}")
    if ids.size and int(ids.min()) < 0:
        there = ids >= 0
        x, ids = x[there], ids[there]
    wide = accumulator(x.dtype)
    length = math.prod(x.shape[1:])
    total = np.full(num * length, start, wide)
    rows = x.reshape(len(ids), length).astype(wide, copy=False)
    first = ids.astype(np.intp, copy=False) * length
    columns = np.arange(length)
    step = max(_CHUNK // max(length, 1), 1)
    for low in range(0, len(ids), step):
        places = (first[low : low + step, None] + columns).reshape(-1)
        # Some versions of NumPy warn about NaN in `maximum.at`.
        with np.errstate(invalid="ignore"):
            ufunc.at(total, places, rows[low : low + step].reshape(-1))
    return total.reshape(num, *x.shape[1:]).astype(x.dtype, copy=False)


def segment_sum(x: Array, ids: Array, *, num: int) -> Array:
    if x.dtype == np.float64 and x.ndim == 1 and ids.size and int(ids.min()) >= 0:
        total = np.bincount(ids, x, num)  # adds in the same order as `add.at`, and is faster
        if len(total) == num:
            return total
    return _reduce(np.add, x, ids, num, 0)


def segment_prod(x: Array, ids: Array, *, num: int) -> Array:
    return _reduce(np.multiply, x, ids, num, 1)


def segment_take(x: Array, ids: Array) -> Array:
    if ids.size and int(ids.min()) < 0:
        rows = x[np.maximum(ids, 0)]
        rows[ids < 0] = 0
        return rows
    return np.take(x, ids, axis=0)


def segment_extreme(x: Array, ids: Array, *, num: int, largest: bool, empty: float) -> Array:
    limits = as_dtype(x.dtype)
    finite = limits.min if largest else limits.max
    start = (-math.inf if largest else math.inf) if limits.is_floating else finite
    best = _reduce(np.maximum if largest else np.minimum, x, ids, num, start)
    filled = np.bincount(ids[ids >= 0], minlength=num)[:num] > 0
    if not filled.all():
        best[~filled] = 0 if empty == 0 else finite
    return best


def segment_ties(x: Array, ids: Array, y: Array) -> Array:
    best = segment_take(y, ids)
    hits = x == best
    hits[ids < 0] = False
    if np.isnan(y).any():
        hits |= np.isnan(x) & np.isnan(best)
    shares = hits.astype(x.dtype)
    count = segment_take(segment_sum(shares, ids, num=len(y)), ids)
    return np.divide(shares, count, out=shares, where=hits)


KERNELS = by_name(segment_sum, segment_prod, segment_take, segment_extreme, segment_ties)
