"""Sorting in sequences: short rows that are sorted, the largest elements, binary search."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import Any

from tapegrad.core.backend.native_sequences import Layout
from tapegrad_numpy.sequences.functions import Functions, Made, Writer, are_contiguous, for_dtypes

_DTYPES = ("float32", "float64", "int32", "int64")
_LONGEST, _MOST = 256, 4096
"""The longest rows and the most elements that are sorted here; NumPy sorts more of them faster."""
_MOST_LARGEST = 32
"""The most elements that are inserted one by one into a list of the largest."""

# NaN is after all numbers. Equal elements keep their order, also in descending order.
_TEXT = r"""
static inline int before_$N($T a, $T b) { return a < b || (b != b && a == a); }
static inline int after_$N($T a, $T b) { return before_$N(b, a); }

/* Sort positions by their elements, in runs of 16 that are merged. */
#define SORT(name, T, FIRST) \
static int64_t *name(const T *x, int64_t n, int64_t *order, int64_t *other) { \
    for (int64_t start = 0; start < n; start += 16) { \
        const int64_t end = start + 16 < n ? start + 16 : n; \
        for (int64_t i = start; i < end; ++i) { \
            int64_t k = i; \
            for (; k > start && FIRST(x[i], x[order[k - 1]]); --k) order[k] = order[k - 1]; \
            order[k] = i; \
        } \
    } \
    for (int64_t run = 16; run < n; run *= 2) { \
        for (int64_t start = 0; start < n; start += 2 * run) { \
            const int64_t half = start + run < n ? start + run : n; \
            const int64_t end = half + run < n ? half + run : n; \
            int64_t a = start, b = half; \
            for (int64_t k = start; k < end; ++k) { \
                const int takes_b = b < end && (a == half || FIRST(x[order[b]], x[order[a]])); \
                other[k] = order[takes_b ? b++ : a++]; \
            } \
        } \
        int64_t *kept = order; \
        order = other; \
        other = kept; \
    } \
    return order; \
}
SORT(ascending_$N, $T, before_$N)
SORT(descending_$N, $T, after_$N)

/* Sort along an axis: blocks, elements along it, elements of a row, whether the order is
   descending, and whether elements or positions are written. */
int sort_$N(const int64_t *h, char **data) {
    const int64_t n = h[1], inner = h[2];
    $T row[n];
    int64_t one[n], two[n];
    for (int64_t o = 0; o < h[0]; ++o)
        for (int64_t c = 0; c < inner; ++c) {
            const int64_t start = o * n * inner + c;
            const $T *x = ($T *)data[0] + start;
            for (int64_t i = 0; i < n; ++i) row[i] = x[i * inner];
            const int64_t *order =
                h[3] ? descending_$N(row, n, one, two) : ascending_$N(row, n, one, two);
            if (h[4]) {
                int64_t *y = (int64_t *)data[1] + start;
                for (int64_t i = 0; i < n; ++i) y[i * inner] = order[i];
            } else {
                $T *y = ($T *)data[1] + start;
                for (int64_t i = 0; i < n; ++i) y[i * inner] = row[order[i]];
            }
        }
    return 0;
}
/* The largest elements of rows and their positions: the numbers of rows, of their elements, and of
   those that are kept. */
int largest_$N(const int64_t *h, char **data) {
    const int64_t n = h[1], kept = h[2];
    const $T *x = (const $T *)data[0];
    $T *y = ($T *)data[1];
    int64_t *at = (int64_t *)data[2];
    for (int64_t r = 0; r < h[0]; ++r, x += n, y += kept, at += kept) {
        int64_t count = 0;
        for (int64_t i = 0; i < n; ++i) {
            const $T one = x[i];
            if (count == kept && !after_$N(one, y[kept - 1])) continue;
            int64_t k = count < kept ? count++ : kept - 1;
            for (; k > 0 && after_$N(one, y[k - 1]); --k) { y[k] = y[k - 1]; at[k] = at[k - 1]; }
            y[k] = one;
            at[k] = i;
        }
    }
    return 0;
}
/* Where values belong in sorted rows: the numbers of rows (1 for all values), of their elements, of
   values per row, and whether a value comes after equal elements. */
int search_$N(const int64_t *h, char **data) {
    const int64_t n = h[1], count = h[2], is_right = h[3];
    const $T *x = (const $T *)data[0], *v = (const $T *)data[1];
    int64_t *y = (int64_t *)data[2];
    for (int64_t r = 0; r < h[0]; ++r, x += n)
        for (int64_t i = 0; i < count; ++i, ++v, ++y) {
            int64_t low = 0, high = n;
            while (low < high) {
                const int64_t middle = low + (high - low) / 2;
                if (is_right ? !before_$N(*v, x[middle]) : before_$N(x[middle], *v)) {
                    low = middle + 1;
                } else high = middle;
            }
            *y = low;
        }
    return 0;
}
"""

FUNCTIONS = Functions(lambda: for_dtypes(_TEXT, _DTYPES))


def _is_known(operands: Sequence[Layout]) -> bool:
    x = operands[0]
    return x.size > 0 and x.dtype.name in _DTYPES and are_contiguous(operands)


def _sort(operands: Sequence[Layout], results: Sequence[Layout], params: Mapping[str, Any]) -> Made:
    """Return sorted elements (`sort`), or their positions (`argsort`)."""
    (x,), (y,), axis = operands, results, params["axis"]
    if not _is_known(operands) or x.shape[axis] > _LONGEST or x.size > _MOST:
        return None
    is_order = "stable" in params
    if y.dtype.name != ("int64" if is_order else x.dtype.name):
        return None
    parts = (prod(x.shape[:axis]), x.shape[axis], prod(x.shape[axis + 1 :]))
    numbers = (*parts, int(params["descending"]), int(is_order))
    return FUNCTIONS.step(f"sort_{x.dtype.name}", (0, 1), numbers, 8 * x.size)


def _largest(
    operands: Sequence[Layout], results: Sequence[Layout], params: Mapping[str, Any]
) -> Made:
    (x,), (y, positions), kept = operands, results, params["k"]
    if not _is_known(operands) or not 0 < kept <= _MOST_LARGEST:
        return None
    if x.dtype != y.dtype or positions.dtype.name != "int64":
        return None
    numbers = (prod(x.shape[:-1]), x.shape[-1], kept)
    return FUNCTIONS.step(f"largest_{x.dtype.name}", (0, 1, 2), numbers, 2 * x.size)


def _search(
    operands: Sequence[Layout], results: Sequence[Layout], params: Mapping[str, Any]
) -> Made:
    (x, values), (y,) = operands, results
    if not _is_known(operands) or x.dtype != values.dtype or y.dtype.name != "int64":
        return None
    if not values.size:
        return None
    rows = prod(x.shape[:-1])
    numbers = (rows, x.shape[-1], values.size // rows, int(params["right"]))
    return FUNCTIONS.step(f"search_{x.dtype.name}", (0, 1, 2), numbers, 16 * values.size)


WRITERS: dict[str, Writer] = {
    "argsort": _sort,
    "searchsorted": _search,
    "sort": _sort,
    "top_k": _largest,
}
