"""Scans in sequences: running sums, products and log-sum-exp, recurrences, frames, positions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import Any

from tapegrad.core.backend.native_sequences import Layout
from tapegrad_numpy.sequences.functions import (
    Functions,
    Made,
    Writer,
    are_contiguous,
    for_dtypes,
    parts_along,
)

_REAL = ("float32", "float64")
_NUMBERS = (*_REAL, "int32", "int64")

# Elements are combined in order, as NumPy does.
_TEXT = r"""
/* Blocks, rows of a block, elements of a row, whether each row is combined with those before it
   only, whether the last row comes first, and the first row where it is. */
#define SCAN(name, T, OP, START) \
int name(const int64_t *h, char **data) { \
    const int64_t outer = h[0], rows = h[1], inner = h[2], is_exclusive = h[3]; \
    const int64_t step = h[4] ? -inner : inner, first = h[4] ? (rows - 1) * inner : 0; \
    for (int64_t o = 0; o < outer; ++o) { \
        const T *x = (const T *)data[0] + o * rows * inner + first; \
        T *y = (T *)data[1] + o * rows * inner + first; \
        for (int64_t c = 0; c < inner; ++c) y[c] = is_exclusive ? START : x[c]; \
        if (inner == 1) { /* what was stored would be read again, which takes as long as OP */ \
            T total = *y; \
            for (int64_t r = 1; r < rows; ++r) { \
                total = OP(total, x[(is_exclusive ? r - 1 : r) * step]); \
                y[r * step] = total; \
            } \
            continue; \
        } \
        for (int64_t r = 1; r < rows; ++r, y += step) { \
            const T *now = x + (is_exclusive ? r - 1 : r) * step; \
            for (int64_t c = 0; c < inner; ++c) y[c + step] = OP(y[c], now[c]); \
        } \
    } \
    return 0; \
}
#define ADDED(a, b) ((a) + (b))
#define TIMES(a, b) ((a) * (b))
"""
_SCANS = r"""
SCAN(sum_$N, $T, ADDED, 0)
SCAN(prod_$N, $T, TIMES, 1)
int positions_$N(const int64_t *h, char **data) {
    $T *y = ($T *)data[0];
    for (int64_t i = 0; i < h[0]; ++i) y[i] = ($T)i;
    return 0;
}
"""
_REAL_SCANS = r"""
static $T both_$N($T a, $T b) {
    const $T top = a > b ? a : b, low = a > b ? b : a;
    if (a != a || b != b) return a + b;
    return top - low == top - low ? top + LOG1P_$N(EXP_$N(low - top)) : top;
}
SCAN(logsumexp_$N, $T, both_$N, 0)
/* y[i] = a[i] y[i - 1] + b[i] */
int recurrence_$N(const int64_t *h, char **data) {
    const int64_t outer = h[0], rows = h[1], inner = h[2];
    const int64_t step = h[3] ? -inner : inner, first = h[3] ? (rows - 1) * inner : 0;
    for (int64_t o = 0; o < outer; ++o) {
        const int64_t start = o * rows * inner + first;
        const $T *a = (const $T *)data[0] + start, *b = (const $T *)data[1] + start;
        $T *y = ($T *)data[2] + start;
        for (int64_t c = 0; c < inner; ++c) y[c] = b[c];
        for (int64_t r = 1; r < rows; ++r, y += step)
            for (int64_t c = 0; c < inner; ++c)
                y[c + step] = a[r * step + c] * y[c] + b[r * step + c];
    }
    return 0;
}
"""
_FRAMES = r"""
/* Add frames: the numbers of signals, of frames, of entries of a frame, and of those between the
   starts of frames. */
int frames_$N(const int64_t *h, char **data) {
    const int64_t count = h[1], length = h[2], step = h[3], size = (count - 1) * step + length;
    const $T *x = (const $T *)data[0];
    $T *y = ($T *)data[1];
    memset(y, 0, h[0] * size * sizeof($T));
    for (int64_t o = 0; o < h[0]; ++o, y += size)
        for (int64_t k = 0; k < count; ++k, x += length)
            for (int64_t i = 0; i < length; ++i) y[k * step + i] += x[i];
    return 0;
}
"""
_OFFSETS = r"""
/* Blocks, rows of a block, elements of a row, and what is added per row. */
int offset_$N(const int64_t *h, char **data) {
    const $T *x = (const $T *)data[0];
    $T *y = ($T *)data[1];
    for (int64_t o = 0; o < h[0]; ++o)
        for (int64_t r = 0; r < h[1]; ++r, x += h[2], y += h[2])
            for (int64_t c = 0; c < h[2]; ++c) y[c] = x[c] + ($T)(r * h[3]);
    return 0;
}
"""
_NAMES = r"""
#define EXP_float32 expf
#define EXP_float64 exp
#define LOG1P_float32 log1pf
#define LOG1P_float64 log1p
"""


def _text() -> str:
    scans = for_dtypes(_SCANS, _NUMBERS) + for_dtypes(_REAL_SCANS, _REAL)
    offsets = for_dtypes(_OFFSETS, ("int32", "int64"))
    return _NAMES + _TEXT + scans + for_dtypes(_FRAMES, _REAL) + offsets


FUNCTIONS = Functions(_text)


def _scan(name: str, dtypes: Sequence[str]) -> Writer:
    def write(
        operands: Sequence[Layout], results: Sequence[Layout], params: Mapping[str, Any]
    ) -> Made:
        (x,), (y,), parts = operands, results, parts_along(operands, params["axis"])
        if parts is None or x.dtype != y.dtype or x.dtype.name not in dtypes:
            return None
        flags = (int(params.get("exclusive", False)), int(params["reverse"]))
        return FUNCTIONS.step(f"{name}_{x.dtype.name}", (0, 1), (*parts, *flags), x.size)

    return write


def _recurrence(
    operands: Sequence[Layout], results: Sequence[Layout], params: Mapping[str, Any]
) -> Made:
    (a, b), (y,), parts = operands, results, parts_along(operands, params["axis"])
    if parts is None or a.shape != b.shape or y.dtype.name not in _REAL:
        return None
    if not a.dtype == b.dtype == y.dtype:
        return None
    numbers = (*parts, int(params["reverse"]))
    return FUNCTIONS.step(f"recurrence_{y.dtype.name}", (0, 1, 2), numbers, y.size)


def _frames(
    operands: Sequence[Layout], results: Sequence[Layout], params: Mapping[str, Any]
) -> Made:
    (x,), (y,) = operands, results
    if not x.size or x.dtype.name not in _REAL or not are_contiguous(operands):
        return None
    *lead, count, length = x.shape
    numbers = (prod(lead), count, length, params["step"])
    return FUNCTIONS.step(f"frames_{x.dtype.name}", (0, 1), numbers, x.size + y.size)


def _positions(
    operands: Sequence[Layout], results: Sequence[Layout], params: Mapping[str, Any]
) -> Made:
    (y,) = results
    if y.dtype.name not in _NUMBERS:
        return None
    return FUNCTIONS.step(f"positions_{y.dtype.name}", (len(operands),), (y.size,), y.size)


def _offsets(
    operands: Sequence[Layout], results: Sequence[Layout], params: Mapping[str, Any]
) -> Made:
    (x,), (y,), parts = operands, results, parts_along(operands, params["axis"])
    if parts is None or x.dtype != y.dtype or x.dtype.name not in ("int32", "int64"):
        return None
    numbers = (*parts, params["length"])
    return FUNCTIONS.step(f"offset_{x.dtype.name}", (0, 1), numbers, x.size)


WRITERS: dict[str, Writer] = {
    "cumulative_logsumexp": _scan("logsumexp", _REAL),
    "cumulative_prod": _scan("prod", _NUMBERS),
    "cumulative_sum": _scan("sum", _NUMBERS),
    "linear_recurrence": _recurrence,
    "offset_index": _offsets,
    "overlap_and_add": _frames,
    "positions_like": _positions,
}
