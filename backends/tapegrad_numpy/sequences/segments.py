"""Segments in sequences: rows of segments, their extremes, and the elements that attain these.

Rows with a negative id belong to no segment. Sums of segments are in indexing.py.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import Any

import numpy as np

from tapegrad.core.backend.native_sequences import Layout
from tapegrad_numpy.sequences.functions import Functions, Made, Writer, are_contiguous, for_dtypes

_INDICES = ("int32", "int64")
_REAL = ("float32", "float64")

_TAKE = r"""
/* The numbers of rows, of segments, and the bytes of a row. */
int take_$N(const int64_t *h, char **data) {
    const int64_t rows = h[0], size = h[1], bytes = h[2];
    const $T *ids = (const $T *)data[1];
    for (int64_t i = 0; i < rows; ++i) {
        if (ids[i] >= size) return IN_PYTHON;
        if (ids[i] < 0) memset(data[2] + i * bytes, 0, bytes);
        else memcpy(data[2] + i * bytes, data[0] + ids[i] * bytes, bytes);
    }
    return 0;
}
"""

# The last number of an extreme is that of segments without rows, as bits.
_EXTREMES = r"""
#define LARGER(a, b) ((b) > (a) || (b) != (b) ? (b) : (a))
#define SMALLER(a, b) ((b) < (a) || (b) != (b) ? (b) : (a))
#define EXTREME(name, T, I, OP, START) \
int name(const int64_t *h, char **data) { \
    const int64_t rows = h[0], size = h[1], width = h[2]; \
    const T *x = (const T *)data[0]; \
    const I *ids = (const I *)data[1]; \
    T *y = (T *)data[2], empty; \
    char *is_filled = calloc(size, 1); \
    int code = is_filled ? 0 : NO_MEMORY; \
    memcpy(&empty, h + 3, sizeof empty); \
    for (int64_t i = 0; i < size * width && !code; ++i) y[i] = START; \
    for (int64_t i = 0; i < rows && !code; ++i, x += width) { \
        const int64_t r = ids[i]; \
        if (r < 0) continue; \
        if (r >= size) { code = IN_PYTHON; break; } \
        is_filled[r] = 1; \
        for (int64_t c = 0; c < width; ++c) y[r * width + c] = OP(y[r * width + c], x[c]); \
    } \
    for (int64_t r = 0; r < size && !code; ++r) \
        if (!is_filled[r]) for (int64_t c = 0; c < width; ++c) y[r * width + c] = empty; \
    free(is_filled); \
    return code; \
}
/* 1 / (the number of elements of a segment that equal its extreme) where they do. */
#define TIES(name, T, I) \
int name(const int64_t *h, char **data) { \
    const int64_t rows = h[0], size = h[1], width = h[2]; \
    const T *x = (const T *)data[0], *best = (const T *)data[2]; \
    const I *ids = (const I *)data[1]; \
    T *y = (T *)data[3], *counts = calloc(size * width, sizeof(T)); \
    int code = counts ? 0 : NO_MEMORY; \
    for (int64_t i = 0; i < rows && !code; ++i) { \
        const int64_t r = ids[i]; \
        if (r >= size) code = IN_PYTHON; \
        else for (int64_t c = 0; c < width; ++c) { \
            const T a = x[i * width + c], b = r < 0 ? 0 : best[r * width + c]; \
            const int hits = r >= 0 && (a == b || (a != a && b != b)); \
            y[i * width + c] = hits; \
            if (hits) counts[r * width + c] += 1; \
        } \
    } \
    for (int64_t i = 0; i < rows && !code; ++i) \
        for (int64_t c = 0; c < width; ++c) \
            if (y[i * width + c] != 0) y[i * width + c] /= counts[ids[i] * width + c]; \
    free(counts); \
    return code; \
}
EXTREME(max_$N_int32, $T, int32_t, LARGER, -INFINITY)
EXTREME(max_$N_int64, $T, int64_t, LARGER, -INFINITY)
EXTREME(min_$N_int32, $T, int32_t, SMALLER, INFINITY)
EXTREME(min_$N_int64, $T, int64_t, SMALLER, INFINITY)
TIES(ties_$N_int32, $T, int32_t)
TIES(ties_$N_int64, $T, int64_t)
"""

FUNCTIONS = Functions(lambda: for_dtypes(_TAKE, _INDICES) + for_dtypes(_EXTREMES, _REAL))


def _is_known(operands: Sequence[Layout]) -> bool:
    ids = operands[1]
    are_rows = len(ids.shape) == 1 and ids.dtype.name in _INDICES
    return are_rows and all(x.size for x in operands) and are_contiguous(operands)


def _take(operands: Sequence[Layout], results: Sequence[Layout], params: Mapping[str, Any]) -> Made:
    if not _is_known(operands):
        return None
    (x, ids), (y,) = operands, results
    numbers = (ids.size, x.shape[0], prod(x.shape[1:]) * x.dtype.itemsize)
    return FUNCTIONS.step(f"take_{ids.dtype.name}", (0, 1, 2), numbers, y.size)


def _extreme(
    operands: Sequence[Layout], results: Sequence[Layout], params: Mapping[str, Any]
) -> Made:
    (x, ids), (y,), largest = operands, results, params["largest"]
    if not _is_known(operands) or x.dtype.name not in _REAL or ids.shape != x.shape[:1]:
        return None
    limits = np.finfo(x.dtype)
    empty = 0 if params["empty"] == 0 else limits.min if largest else limits.max
    bits = int(np.array([empty, 0], x.dtype).view(np.int64)[0])
    name = f"{'max' if largest else 'min'}_{x.dtype.name}_{ids.dtype.name}"
    numbers = (ids.size, y.shape[0], prod(x.shape[1:]), bits)
    return FUNCTIONS.step(name, (0, 1, 2), numbers, x.size + y.size)


def _ties(operands: Sequence[Layout], results: Sequence[Layout], params: Mapping[str, Any]) -> Made:
    x, ids, best = operands
    if not _is_known(operands) or x.dtype.name not in _REAL or x.dtype != best.dtype:
        return None
    if ids.shape != x.shape[:1] or x.shape[1:] != best.shape[1:]:
        return None
    numbers = (ids.size, best.shape[0], prod(x.shape[1:]))
    name = f"ties_{x.dtype.name}_{ids.dtype.name}"
    return FUNCTIONS.step(name, (0, 1, 2, 3), numbers, 2 * x.size + best.size)


WRITERS: dict[str, Writer] = {
    "segment_extreme": _extreme,
    "segment_take": _take,
    "segment_ties": _ties,
}
