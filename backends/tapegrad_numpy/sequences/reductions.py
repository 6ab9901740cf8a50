"""Reductions in sequences: sums, means, products, extremes, their positions, log-sum-exp.

These are the reductions outside of fused loops: no other call reads or makes the same elements.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import Any

from tapegrad.core.backend.native_sequences import Layout
from tapegrad_numpy.loops.small_results import TEXT as SMALL_RESULTS
from tapegrad_numpy.loops.vector_maths import functions_text
from tapegrad_numpy.sequences.functions import (
    Functions,
    Made,
    Writer,
    either,
    for_dtypes,
    parts_along,
)

_REAL = ("float32", "float64")
_WHOLE = ("int32", "int64")
_EXTREMES = (*_REAL, *_WHOLE, "bool")
_MOST_COMPARED = 1 << 15
"""The most elements whose extremes are found here; NumPy compares more of them faster."""
_COMPLEX = {"complex64": "float32", "complex128": "float64"}

# Adjacent short rows are processed as one wide row, so that partial results fill vectors. The
# results of some rows are combined in a wider type, so that long sums of floats lose few digits.
_TEXT = r"""
#define COLUMNS 512
#define WIDE 64
#define BLOCK 64
#define LARGER(a, b) (((b) > (a)) | ((b) != (b)) ? (b) : (a))
#define SMALLER(a, b) (((b) < (a)) | ((b) != (b)) ? (b) : (a))
#define SUM(a, b) ((a) + (b))
#define PRODUCT(a, b) ((a) * (b))

/* Blocks, rows of a block, elements of a row, and a divisor of the results. */
#define REDUCTION(name, T, W, OP, START) \
static inline W name##_few(const T *x, int64_t rows, int64_t inner) { \
    W one = START; \
    for (int64_t r = 0; r < rows; ++r) one = OP(one, (W)x[r * inner]); \
    return one; \
} \
static void name##_wide(const T *x, int64_t rows, int64_t step, int64_t width, W *total) { \
    for (int64_t first = 0; first < rows; first += BLOCK) { \
        const int64_t last = first + BLOCK < rows ? first + BLOCK : rows; \
        T part[COLUMNS]; \
        memcpy(part, x + first * step, width * sizeof(T)); \
        for (int64_t r = first + 1; r < last; ++r) { \
            const T *row = x + r * step; \
            _Pragma("omp simd") \
            for (int64_t c = 0; c < width; ++c) part[c] = OP(part[c], row[c]); \
        } \
        if (first) for (int64_t c = 0; c < width; ++c) total[c] = OP(total[c], (W)part[c]); \
        else for (int64_t c = 0; c < width; ++c) total[c] = (W)part[c]; \
    } \
} \
int name(const int64_t *h, char **data) { \
    const int64_t outer = h[0], rows = h[1], inner = h[2], divisor = h[3]; \
    const int64_t m = inner <= WIDE / 2 ? WIDE / inner : 1, wide = rows / m; \
    const T *x = (const T *)data[0]; \
    T *y = (T *)data[1]; \
    W total[COLUMNS]; \
    for (int64_t o = 0; o < outer; ++o, x += rows * inner, y += inner) { \
        if (m > 1) { \
            if (wide > 1) name##_wide(x, wide, m * inner, m * inner, total); \
            for (int64_t c = 0; c < inner; ++c) { \
                const int64_t done = wide > 1 ? wide * m : 0; \
                W one = name##_few(x + done * inner + c, rows - done, inner); \
                if (done) for (int64_t k = c; k < m * inner; k += inner) one = OP(one, total[k]); \
                y[c] = (T)(divisor == 1 ? one : one / divisor); \
            } \
        } else for (int64_t first = 0; first < inner; first += COLUMNS) { \
            const int64_t left = inner - first, count = left < COLUMNS ? left : COLUMNS; \
            name##_wide(x + first, rows, inner, count, total); \
            if (divisor == 1) for (int64_t c = 0; c < count; ++c) y[first + c] = (T)total[c]; \
            else for (int64_t c = 0; c < count; ++c) y[first + c] = (T)(total[c] / divisor); \
        } \
    } \
    return 0; \
}
REDUCTION(sum_float32, float, double, SUM, 0)
REDUCTION(sum_float64, double, double, SUM, 0)
REDUCTION(sum_int32, int32_t, uint32_t, SUM, 0)
REDUCTION(sum_int64, int64_t, uint64_t, SUM, 0)
REDUCTION(prod_float32, float, double, PRODUCT, 1)
REDUCTION(prod_float64, double, double, PRODUCT, 1)
REDUCTION(prod_int32, int32_t, uint32_t, PRODUCT, 1)
REDUCTION(prod_int64, int64_t, uint64_t, PRODUCT, 1)
REDUCTION(max_float32, float, float, LARGER, -INFINITY)
REDUCTION(max_float64, double, double, LARGER, -INFINITY)
REDUCTION(max_int32, int32_t, int32_t, LARGER, INT32_MIN)
REDUCTION(max_int64, int64_t, int64_t, LARGER, INT64_MIN)
REDUCTION(max_bool, uint8_t, uint8_t, LARGER, 0)
REDUCTION(min_float32, float, float, SMALLER, INFINITY)
REDUCTION(min_float64, double, double, SMALLER, INFINITY)
REDUCTION(min_int32, int32_t, int32_t, SMALLER, INT32_MAX)
REDUCTION(min_int64, int64_t, int64_t, SMALLER, INT64_MAX)
REDUCTION(min_bool, uint8_t, uint8_t, SMALLER, 1)

int count_bool(const int64_t *h, char **data) {
    const int64_t outer = h[0], rows = h[1], inner = h[2];
    const uint8_t *x = (const uint8_t *)data[0];
    int64_t *y = (int64_t *)data[1];
    for (int64_t o = 0; o < outer; ++o, x += rows * inner, y += inner) {
        for (int64_t c = 0; c < inner; ++c) y[c] = 0;
        for (int64_t r = 0; r < rows; ++r)
            for (int64_t c = 0; c < inner; ++c) y[c] += x[r * inner + c];
    }
    return 0;
}
"""

# The first position of the extreme; NaN is beyond all numbers. Rows are searched in pieces, most of
# which have no better element. Positions have the size of an element, so that vectors hold both.
_POSITIONS = r"""
#define POSITION(name, T, I, IS_BETTER) \
int name(const int64_t *h, char **data) { \
    const int64_t outer = h[0], rows = h[1], inner = h[2]; \
    const T *x = (const T *)data[0]; \
    int64_t *y = (int64_t *)data[1]; \
    for (int64_t o = 0; o < outer; ++o, x += rows * inner, y += inner) { \
        if (inner == 1) { \
            T best = x[0]; \
            int64_t at = 0; \
            for (int64_t start = 1; start < rows && best == best; start += BLOCK) { \
                const int64_t end = start + BLOCK < rows ? start + BLOCK : rows; \
                I found = 0; \
                for (int64_t r = start; r < end; ++r) \
                    found |= (x[r] IS_BETTER best) | (x[r] != x[r]); \
                if (!found) continue; \
                for (int64_t r = start; r < end && best == best; ++r) \
                    if (x[r] IS_BETTER best || x[r] != x[r]) { best = x[r]; at = r; } \
            } \
            *y = at; \
            continue; \
        } \
        for (int64_t first = 0; first < inner; first += COLUMNS) { \
            const int64_t left = inner - first, count = left < COLUMNS ? left : COLUMNS; \
            T best[COLUMNS]; \
            I at[COLUMNS]; \
            for (int64_t c = 0; c < count; ++c) { best[c] = x[first + c]; at[c] = 0; } \
            for (int64_t r = 1; r < rows; ++r) { \
                const T *row = x + r * inner + first; \
                for (int64_t c = 0; c < count; ++c) { \
                    const T one = row[c], old = best[c]; \
                    const int is_new = (one IS_BETTER old) | ((one != one) & (old == old)); \
                    best[c] = is_new ? one : old; \
                    at[c] = is_new ? (I)r : at[c]; \
                } \
            } \
            for (int64_t c = 0; c < count; ++c) y[first + c] = at[c]; \
        } \
    } \
    return 0; \
}
POSITION(argmax_float32, float, int32_t, >)
POSITION(argmax_float64, double, int64_t, >)
POSITION(argmax_int32, int32_t, int32_t, >)
POSITION(argmax_int64, int64_t, int64_t, >)
POSITION(argmax_bool, uint8_t, int32_t, >)
POSITION(argmin_float32, float, int32_t, <)
POSITION(argmin_float64, double, int64_t, <)
POSITION(argmin_int32, int32_t, int32_t, <)
POSITION(argmin_int64, int64_t, int64_t, <)
POSITION(argmin_bool, uint8_t, int32_t, <)
"""

_LOGSUMEXP = r"""
static $T top_of_$N($T x) { return x - x == 0 ? x : 0; }
static $T row_of_$N(const $T *x, int64_t count) {
    $T top = -INFINITY, sum = 0;
    #pragma omp simd reduction(max:top)
    for (int64_t i = 0; i < count; ++i) top = x[i] > top ? x[i] : top;
    top = top_of_$N(top);
    #pragma omp simd reduction(+:sum)
    for (int64_t i = 0; i < count; ++i) sum += tg_exp(x[i] - top);
    return tg_log(sum) + top;
}
/* Blocks, rows of a block, elements of a row; along the rows. */
static __attribute__((noinline)) void logsumexp_of_$N(const int64_t *h, char **data) {
    const int64_t outer = h[0], rows = h[1], inner = h[2];
    const $T *x = (const $T *)data[0];
    $T *y = ($T *)data[1];
    for (int64_t o = 0; o < outer; ++o, x += rows * inner, y += inner) {
        if (inner == 1) { *y = row_of_$N(x, rows); continue; }
        for (int64_t first = 0; first < inner; first += COLUMNS) {
            const int64_t left = inner - first, count = left < COLUMNS ? left : COLUMNS;
            $T top[COLUMNS], sum[COLUMNS];
            for (int64_t c = 0; c < count; ++c) { top[c] = -INFINITY; sum[c] = 0; }
            for (int64_t r = 0; r < rows; ++r) {
                const $T *row = x + r * inner + first;
                #pragma omp simd
                for (int64_t c = 0; c < count; ++c) top[c] = row[c] > top[c] ? row[c] : top[c];
            }
            for (int64_t c = 0; c < count; ++c) top[c] = top_of_$N(top[c]);
            for (int64_t r = 0; r < rows; ++r) {
                const $T *row = x + r * inner + first;
                #pragma omp simd
                for (int64_t c = 0; c < count; ++c) sum[c] += tg_exp(row[c] - top[c]);
            }
            #pragma omp simd
            for (int64_t c = 0; c < count; ++c) y[first + c] = tg_log(sum[c]) + top[c];
        }
    }
}
/* Small terms do not change a sum of at least 1. */
int logsumexp_$N(const int64_t *h, char **data) {
    const unsigned state = flush_small_results();
    logsumexp_of_$N(h, data);
    keep_small_results(state);
    return 0;
}
"""


def _text() -> str:
    return "".join([
        functions_text(("exp", "log")), SMALL_RESULTS, _TEXT, _POSITIONS,
        for_dtypes(_LOGSUMEXP, _REAL),
    ])  # fmt: skip


FUNCTIONS = Functions(_text)


def _reduction(name: str, dtypes: Sequence[str]) -> Writer:
    """Return the writer of a reduction to the dtype of its operand."""

    def write(
        operands: Sequence[Layout], results: Sequence[Layout], params: Mapping[str, Any]
    ) -> Made:
        (x,), (y,), parts = operands, results, parts_along(operands, params["axis"])
        if parts is None or x.dtype != y.dtype or x.dtype.name not in dtypes:
            return None
        if name in ("max", "min") and x.size > _MOST_COMPARED:
            return None
        return FUNCTIONS.step(f"{name}_{x.dtype.name}", (0, 1), (*parts, 1), x.size)

    return write


def _sum(is_mean: bool) -> Writer:
    def write(
        operands: Sequence[Layout], results: Sequence[Layout], params: Mapping[str, Any]
    ) -> Made:
        (x,), (y,), parts = operands, results, parts_along(operands, params["axis"])
        dtype = x.dtype.name
        if parts is None or x.dtype != y.dtype or (is_mean and dtype in _WHOLE):
            return None
        if dtype in _COMPLEX:
            dtype, parts = _COMPLEX[dtype], parts._replace(inner=2 * parts.inner)
        if dtype not in (*_REAL, *_WHOLE):
            return None
        divisor = prod(x.shape[axis] for axis in params["axis"]) if is_mean else 1
        return FUNCTIONS.step(f"sum_{dtype}", (0, 1), (*parts, divisor), x.size)

    return write


def _count(
    operands: Sequence[Layout], results: Sequence[Layout], params: Mapping[str, Any]
) -> Made:
    """Return the sum or the count of booleans."""
    (x,), (y,), parts = operands, results, parts_along(operands, params["axis"])
    if parts is None or x.dtype.name != "bool" or y.dtype.name != "int64":
        return None
    return FUNCTIONS.step("count_bool", (0, 1), parts, x.size)


def _position(name: str) -> Writer:
    def write(
        operands: Sequence[Layout], results: Sequence[Layout], params: Mapping[str, Any]
    ) -> Made:
        (x,), (y,), parts = operands, results, parts_along(operands, params["axis"])
        if parts is None or x.dtype.name not in _EXTREMES or y.dtype.name != "int64":
            return None
        if x.size > _MOST_COMPARED:
            return None
        return FUNCTIONS.step(f"{name}_{x.dtype.name}", (0, 1), parts, x.size)

    return write


WRITERS: dict[str, Writer] = {
    "all": _reduction("min", ("bool",)),
    "any": _reduction("max", ("bool",)),
    "argmax": _position("argmax"),
    "argmin": _position("argmin"),
    "count_nonzero": _count,
    "logsumexp": _reduction("logsumexp", _REAL),
    "max": _reduction("max", _EXTREMES),
    "mean": _sum(is_mean=True),
    "min": _reduction("min", _EXTREMES),
    "prod": _reduction("prod", (*_REAL, *_WHOLE)),
    "sum": either(_sum(is_mean=False), _count),
}
