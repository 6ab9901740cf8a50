"""Indices in sequences: rows that are gathered, added or written, elements along an axis, losses.

Large gathers and sums by index have separate compiled kernels (loops/indexed_rows.py).
Where an index is out of range, the steps run from Python, which raises the error.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import Any

from tapegrad.core.backend.native_sequences import Layout
from tapegrad_numpy.loops.vector_maths import functions_text
from tapegrad_numpy.sequences.functions import (
    C_TYPES,
    Functions,
    Made,
    Writer,
    are_contiguous,
    for_dtypes,
)

_INDICES = ("int32", "int64")
_REAL = ("float32", "float64")
_SUMS = (*_REAL, *_INDICES)

_GATHERS = r"""
#define EACH_ROW(type) for (int64_t i = 0; i < count; ++i) { \
    int64_t r = at[i]; \
    if (r < 0) r += size; \
    if (r < 0 || r >= size) return IN_PYTHON; \
    ((type *)y)[i] = ((const type *)x)[r]; \
}
typedef struct { int32_t parts[3]; } Three_$N;
typedef struct { int64_t parts[2]; } Two_$N;
/* The numbers of tables, of indices, of rows of a table, and the bytes of a row. */
int gather_$N(const int64_t *h, char **data) {
    const int64_t outer = h[0], count = h[1], size = h[2], bytes = h[3];
    const $T *at = (const $T *)data[1];
    const char *x = data[0];
    char *y = data[2];
    for (int64_t o = 0; o < outer; ++o, x += size * bytes, y += count * bytes) {
        if (bytes == 4) { EACH_ROW(int32_t) continue; }
        if (bytes == 8) { EACH_ROW(int64_t) continue; }
        if (bytes == 12) { EACH_ROW(Three_$N) continue; }
        if (bytes == 16) { EACH_ROW(Two_$N) continue; }
        for (int64_t i = 0; i < count; ++i) {
            int64_t r = at[i];
            if (r < 0) r += size;
            if (r < 0 || r >= size) return IN_PYTHON;
            memcpy(y + i * bytes, x + r * bytes, bytes);
        }
    }
    return 0;
}
/* Write rows over those of a copy of the table, or of the table itself if that is the result; the
   last one of equal indices counts. */
int write_$N(const int64_t *h, char **data) {
    const int64_t outer = h[0], count = h[1], size = h[2], bytes = h[3];
    const $T *at = (const $T *)data[2];
    const char *v = data[1];
    char *y = data[3];
    if (y != data[0]) memcpy(y, data[0], outer * size * bytes);
    for (int64_t o = 0; o < outer; ++o, y += size * bytes)
        for (int64_t i = 0; i < count; ++i, v += bytes) {
            int64_t r = at[i];
            if (r < 0) r += size;
            if (r < 0 || r >= size) return IN_PYTHON;
            memcpy(y + r * bytes, v, bytes);
        }
    return 0;
}
/* Gather along an axis: blocks, indices of a block, rows of a table, elements of a row. */
#define ALONG(T) for (int64_t o = 0; o < outer; ++o) \
    for (int64_t i = 0; i < count; ++i) \
        for (int64_t c = 0; c < inner; ++c, ++at, y += sizeof(T)) { \
            int64_t r = *at; \
            if (r < 0) r += size; \
            if (r < 0 || r >= size) return IN_PYTHON; \
            *(T *)y = ((const T *)data[0])[(o * size + r) * inner + c]; \
        }
int along_$N(const int64_t *h, char **data) {
    const int64_t outer = h[0], count = h[1], size = h[2], inner = h[3], bytes = h[4];
    const $T *at = (const $T *)data[1];
    char *y = data[2];
    if (bytes == 4) ALONG(int32_t)
    else if (bytes == 8) ALONG(int64_t)
    else if (bytes == 1) ALONG(int8_t)
    else if (bytes == 2) ALONG(int16_t)
    else ALONG(Two_$N)
    return 0;
}
"""

_ADDITIONS = r"""
/* Add rows at indices: tables, indices, rows of a table, elements of a row, and whether rows with a
   negative index are dropped. */
#define ADD_ROWS(name, T, I) \
int name(const int64_t *h, char **data) { \
    const int64_t outer = h[0], count = h[1], size = h[2], width = h[3]; \
    const I *at = (const I *)data[1]; \
    const T *x = (const T *)data[0]; \
    T *y = (T *)data[2]; \
    memset(y, 0, outer * size * width * sizeof(T)); \
    for (int64_t o = 0; o < outer; ++o, y += size * width) \
        for (int64_t i = 0; i < count; ++i, x += width) { \
            const int64_t r = at[i]; \
            if (r < 0 && h[4]) continue; \
            if (r < 0 || r >= size) return IN_PYTHON; \
            T *to = y + r * width; \
            for (int64_t c = 0; c < width; ++c) to[c] += x[c]; \
        } \
    return 0; \
}
/* Add rows to those of a copy of a table, or of the table itself if that is the result. */
#define ADD_TO_ROWS(name, T, I) \
int name(const int64_t *h, char **data) { \
    const int64_t outer = h[0], count = h[1], size = h[2], width = h[3]; \
    const I *at = (const I *)data[2]; \
    const T *x = (const T *)data[1]; \
    T *y = (T *)data[3]; \
    if (data[0] != data[3]) memcpy(y, data[0], outer * size * width * sizeof(T)); \
    for (int64_t o = 0; o < outer; ++o, y += size * width) \
        for (int64_t i = 0; i < count; ++i, x += width) { \
            const int64_t r = at[i]; \
            if (r < 0 || r >= size) return IN_PYTHON; \
            T *to = y + r * width; \
            for (int64_t c = 0; c < width; ++c) to[c] += x[c]; \
        } \
    return 0; \
}
/* Add elements along an axis. */
#define ADD_ALONG(name, T, I) \
int name(const int64_t *h, char **data) { \
    const int64_t outer = h[0], count = h[1], size = h[2], inner = h[3]; \
    const I *at = (const I *)data[1]; \
    const T *x = (const T *)data[0]; \
    T *y = (T *)data[2]; \
    memset(y, 0, outer * size * inner * sizeof(T)); \
    for (int64_t o = 0; o < outer; ++o, y += size * inner) \
        for (int64_t i = 0; i < count; ++i) \
            for (int64_t c = 0; c < inner; ++c, ++at, ++x) { \
                int64_t r = *at; \
                if (r < 0) r += size; \
                if (r < 0 || r >= size) return IN_PYTHON; \
                y[r * inner + c] += *x; \
            } \
    return 0; \
}
/* Add rows times -rate to a copy of a table. */
#define MOVE_ROWS(name, T, I, R) \
int name(const int64_t *h, char **data) { \
    const int64_t count = h[0], size = h[1], width = h[2]; \
    const I *at = (const I *)data[2]; \
    const T *x = (const T *)data[1], scale = (T)-(double)*(const R *)data[3]; \
    T *y = (T *)data[4]; \
    memcpy(y, data[0], size * width * sizeof(T)); \
    for (int64_t i = 0; i < count; ++i, x += width) { \
        int64_t r = at[i]; \
        if (r < 0) r += size; \
        if (r < 0 || r >= size) return IN_PYTHON; \
        T *to = y + r * width; \
        for (int64_t c = 0; c < width; ++c) to[c] += scale * x[c]; \
    } \
    return 0; \
}
ADD_ROWS(add_$N_int32, $T, int32_t)
ADD_ROWS(add_$N_int64, $T, int64_t)
ADD_TO_ROWS(add_to_$N_int32, $T, int32_t)
ADD_TO_ROWS(add_to_$N_int64, $T, int64_t)
ADD_ALONG(add_along_$N_int32, $T, int32_t)
ADD_ALONG(add_along_$N_int64, $T, int64_t)
"""

_LOSSES = r"""
/* The cross entropy of each row with its label, and its gradient times a number per row: the
   numbers of rows and of classes. */
#define CROSS_ENTROPY(name, T, I) \
int name(const int64_t *h, char **data) { \
    const int64_t rows = h[0], classes = h[1]; \
    const T *x = (const T *)data[0], *t = (const T *)data[2]; \
    const I *label = (const I *)data[1]; \
    T *loss = (T *)data[3], *y = (T *)data[4]; \
    for (int64_t r = 0; r < rows; ++r, x += classes, y += classes) { \
        if (label[r] < 0 || label[r] >= classes) return IN_PYTHON; \
        T top = -INFINITY, sum = 0; \
        int has_nan = 0; \
        for (int64_t c = 0; c < classes; ++c) { \
            top = x[c] > top ? x[c] : top; \
            has_nan |= x[c] != x[c]; \
        } \
        if (has_nan) top = NAN; \
        if (top == -INFINITY) top = 0; \
        _Pragma("omp simd reduction(+:sum)") \
        for (int64_t c = 0; c < classes; ++c) { y[c] = tg_exp(x[c] - top); sum += y[c]; } \
        if (sum == 0) sum = 1; \
        loss[r] = tg_log(sum) - (x[label[r]] - top); \
        _Pragma("omp simd") \
        for (int64_t c = 0; c < classes; ++c) y[c] = y[c] / sum * t[r]; \
        y[label[r]] -= t[r]; \
    } \
    return 0; \
}
CROSS_ENTROPY(cross_entropy_$N_int32, $T, int32_t)
CROSS_ENTROPY(cross_entropy_$N_int64, $T, int64_t)
"""

_UPDATES = r"""
MOVE_ROWS(move_$N_int32_float32, $T, int32_t, float)
MOVE_ROWS(move_$N_int64_float32, $T, int64_t, float)
MOVE_ROWS(move_$N_int32_float64, $T, int32_t, double)
MOVE_ROWS(move_$N_int64_float64, $T, int64_t, double)
"""


ROWS = Functions(lambda: _row_functions())
LOSSES = Functions(lambda: functions_text(("exp", "log")) + for_dtypes(_LOSSES, _REAL))


def _row_functions() -> str:
    sums = for_dtypes(_ADDITIONS, _SUMS)
    return for_dtypes(_GATHERS, _INDICES) + sums + for_dtypes(_UPDATES, _REAL)


def _are_known(x: Layout, indices: Layout, layouts: Sequence[Layout]) -> bool:
    is_index = indices.dtype.name in _INDICES
    return is_index and x.size > 0 and indices.size > 0 and are_contiguous(layouts)


def _gather(
    operands: Sequence[Layout], results: Sequence[Layout], params: Mapping[str, Any]
) -> Made:
    (x, indices), (y,), axis = operands, results, params.get("axis", 0)
    if not _are_known(x, indices, operands) or not y.size:
        return None
    width = prod(x.shape[axis + 1 :]) * x.dtype.itemsize
    numbers = (prod(x.shape[:axis]), indices.size, x.shape[axis], width)
    return ROWS.step(f"gather_{indices.dtype.name}", (0, 1, 2), numbers, y.size)


def _write(
    operands: Sequence[Layout], results: Sequence[Layout], params: Mapping[str, Any]
) -> Made:
    (x, v, indices), axis = operands, params["axis"]
    if not _are_known(x, indices, operands) or x.dtype != v.dtype:
        return None
    outer, inner = x.shape[:axis], x.shape[axis + 1 :]
    if v.shape != (*outer, *indices.shape, *inner):
        return None
    numbers = (prod(outer), indices.size, x.shape[axis], prod(inner) * x.dtype.itemsize)
    name = f"write_{indices.dtype.name}"
    return ROWS.step(name, (0, 1, 2, 3), numbers, x.size + v.size)


def _add_to(
    operands: Sequence[Layout], results: Sequence[Layout], params: Mapping[str, Any]
) -> Made:
    (x, v, indices), axis = operands, params["axis"]
    if not _are_known(x, indices, operands) or x.dtype != v.dtype or x.dtype.name not in _SUMS:
        return None
    outer, inner = x.shape[:axis], x.shape[axis + 1 :]
    numbers = (prod(outer), indices.size, x.shape[axis], prod(inner))
    name = f"add_to_{x.dtype.name}_{indices.dtype.name}"
    return ROWS.step(name, (0, 1, 2, 3), numbers, x.size + v.size)


def _add(operands: Sequence[Layout], results: Sequence[Layout], params: Mapping[str, Any]) -> Made:
    """Return the sums of rows by index (`take_add`) or by segment (`segment_sum`)."""
    (x, indices), (y,), axis = operands, results, params.get("axis", 0)
    if not _are_known(x, indices, operands) or x.dtype.name not in _SUMS or not y.size:
        return None
    is_segment = "num" in params
    numbers = (
        prod(y.shape[:axis]), indices.size, y.shape[axis], prod(y.shape[axis + 1 :]), is_segment
    )  # fmt: skip
    name = f"add_{x.dtype.name}_{indices.dtype.name}"
    return ROWS.step(name, (0, 1, 2), map(int, numbers), x.size + y.size)


def _move(operands: Sequence[Layout], results: Sequence[Layout], params: Mapping[str, Any]) -> Made:
    """Return a step of gradient descent for some rows of a table."""
    p, rows, indices, rate = operands
    if not _are_known(p, indices, operands) or p.dtype.name not in _REAL or p.dtype != rows.dtype:
        return None
    if rate.size != 1 or rate.dtype.name not in _REAL or len(indices.shape) != 1:
        return None
    if rows.shape != (indices.size, *p.shape[1:]):
        return None
    numbers = indices.size, p.shape[0], prod(p.shape[1:])
    name = f"move_{p.dtype.name}_{indices.dtype.name}_{rate.dtype.name}"
    return ROWS.step(name, range(5), numbers, p.size + rows.size)


def _along(
    operands: Sequence[Layout], results: Sequence[Layout], params: Mapping[str, Any]
) -> Made:
    (x, indices), (y,), axis = operands, results, params["axis"]
    if not _are_known(x, indices, operands) or x.dtype.name not in C_TYPES:
        return None
    outer, inner = x.shape[:axis], x.shape[axis + 1 :]
    if indices.shape != y.shape or y.shape != (*outer, y.shape[axis], *inner):
        return None
    numbers = (prod(outer), y.shape[axis], x.shape[axis], prod(inner), x.dtype.itemsize)
    return ROWS.step(f"along_{indices.dtype.name}", (0, 1, 2), numbers, y.size)


def _add_along(
    operands: Sequence[Layout], results: Sequence[Layout], params: Mapping[str, Any]
) -> Made:
    (x, indices), (y,), axis = operands, results, params["axis"]
    if not _are_known(x, indices, operands) or x.dtype.name not in _SUMS:
        return None
    if indices.shape != x.shape or not y.size:
        return None
    outer, inner = prod(y.shape[:axis]), prod(y.shape[axis + 1 :])
    numbers = (outer, x.shape[axis], y.shape[axis], inner)
    name = f"add_along_{x.dtype.name}_{indices.dtype.name}"
    return ROWS.step(name, (0, 1, 2), numbers, x.size + y.size)


def _cross_entropy(
    operands: Sequence[Layout], results: Sequence[Layout], params: Mapping[str, Any]
) -> Made:
    x, labels, t = operands
    if not _are_known(x, labels, operands) or x.dtype.name not in _REAL or t.dtype != x.dtype:
        return None
    if t.shape != labels.shape or labels.shape != x.shape[:-1]:
        return None
    name = f"cross_entropy_{x.dtype.name}_{labels.dtype.name}"
    return LOSSES.step(name, range(5), (labels.size, x.shape[-1]), 4 * x.size)


WRITERS: dict[str, Writer] = {
    "added_rows": _add_to,
    "gather_rows": _gather,
    "scatter_along_axis": _add_along,
    "segment_sum": _add,
    "sgd_rows_update": _move,
    "sparse_cross_entropy_and_gradient": _cross_entropy,
    "take": _gather,
    "take_add": _add,
    "take_along_axis": _along,
    "take_set": _write,
}
