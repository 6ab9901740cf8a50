"""Products of one matrix with a few vectors in C; the matrix is read once for all of them.

Such products are limited by memory bandwidth, so a second vector costs little. BLAS has no function
for them: its product of matrices packs the operands first.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tapegrad_numpy.loops.element_types import storage
from tapegrad_numpy.loops.layout import COLUMNS, TASK_ELEMENTS, Cut
from tapegrad_numpy.loops.source import CUT, Kernel, bounds

Described = tuple[tuple[int, ...], np.dtype[Any]]
"""The shape and the dtype of an operand."""

_LARGEST = 1 << 17
"""The most elements of a matrix; BLAS uses threads for larger ones.

Measured on one core of a Neoverse-N1, in microseconds, C against BLAS, in float32: a square matrix
of 64 columns with two vectors 2.7 against 6, of 256 columns 13 against 26. With one vector 1.5
against 3.4 and 9.6 against 13; with 1,024 columns there is no gain.
"""
_STEP = 1024
"""The number of terms that are summed in the matrix's precision before accumulation in double."""
_ROWS = 4
"""The number of rows that are processed together; a vector's element is read once for them."""


def write_vector_products(operands: Sequence[Described], *, transpose: bool) -> Kernel | None:
    """Return the kernel of a matrix, or its transpose, times vectors; None to use BLAS."""
    (rows, columns), dtype = operands[0]
    count = len(operands) - 1
    if not 0 < rows * columns <= _LARGEST:
        return None
    if transpose:
        lines = _columns_text(count, storage(dtype))
        piece, rows_at_once = min(COLUMNS, columns), rows
    else:
        lines = _rows_text(count, storage(dtype))
        piece, rows_at_once = columns, -(-TASK_ELEMENTS // (columns * _ROWS)) * _ROWS
    pieces = -(-columns // piece)
    numbers = Cut(
        columns, piece, pieces, rows, rows_at_once,
        deep=1, slices=1, share=1,
        tasks=-(-rows // rows_at_once) * pieces,
        results=columns if transpose else rows,
        elements=rows * columns,
    )  # fmt: skip
    return Kernel("\n".join(lines), frozenset(), tuple(numbers), 0)


# C source

TAIL = "#pragma GCC pop_options"


def definitions(kind: str) -> list[str]:
    """The definition of `add_product`, and compiler options that are reset by TAIL."""
    fused = "FMAF" if kind == "float" else "FMA"
    function = f"__builtin_fma{'f' if kind == 'float' else ''}"
    return [
        "#undef add_product",
        f"#ifdef __FP_FAST_{fused}",
        f"#define add_product(sum, a, b) (sum = {function}(a, b, sum))",
        "#else",
        "#define add_product(sum, a, b) (sum += (a) * (b))",
        "#endif",
        # With lower levels, GCC 12 keeps the sums in memory instead of registers.
        "#pragma GCC push_options",
        '#pragma GCC optimize("O2", "tree-vectorize")',
    ]


def _head(count: int, kind: str) -> list[str]:
    return [
        *definitions(kind),
        "static void work_KEY(char **data, const int64_t *z, int64_t task, Slot *slots) {",
        f"const {kind} *matrix = (const {kind} *)data[0];",
        *[f"const {kind} *x{k} = (const {kind} *)data[{1 + k}];" for k in range(count)],
        *[f"{kind} *y{k} = ({kind} *)data[{1 + count + k}];" for k in range(count)],
        f"const int64_t width = {CUT['inner']};",
    ]


def _rows_text(count: int, kind: str) -> list[str]:
    """Sums along rows; a task processes some of the rows."""
    size = CUT["rows_at_once"]
    return [
        *_head(count, kind),
        *bounds("row", "last", f"task * {size}", size, CUT["rows"]),
        f"for (; row + {_ROWS} <= last; row += {_ROWS}) {{",
        *_some_rows(_ROWS, count, kind),
        "}",
        "for (; row < last; ++row) {",
        *_some_rows(1, count, kind),
        "}\n}",
        TAIL,
    ]


def _some_rows(rows: int, count: int, kind: str) -> list[str]:
    pairs = [(r, k) for r in range(rows) for k in range(count)]
    sums = [f"s{r}_{k}" for r, k in pairs]
    return [
        *[f"const {kind} *a{r} = matrix + (row + {r}) * width;" for r in range(rows)],
        f"double {', '.join(f't{r}_{k} = 0' for r, k in pairs)};",
        f"for (int64_t begin = 0; begin < width; begin += {_STEP}) {{",
        f"const int64_t end = begin + {_STEP} < width ? begin + {_STEP} : width;",
        f"{kind} {', '.join(f'{name} = 0' for name in sums)};",
        f"#pragma omp simd reduction(+:{', '.join(sums)})",
        "for (int64_t j = begin; j < end; ++j) {",
        *[f"add_product(s{r}_{k}, a{r}[j], x{k}[j]);" for r, k in pairs],
        "}",
        *[f"t{r}_{k} += s{r}_{k};" for r, k in pairs],
        "}",
        *[f"y{k}[row + {r}] = t{r}_{k};" for r, k in pairs],
    ]


def _columns_text(count: int, kind: str) -> list[str]:
    """Sums along columns; a task processes adjacent columns."""
    piece = CUT["piece"]
    each = range(count)
    return [
        *_head(count, kind),
        *bounds("first", "end", f"task * {piece}", piece, CUT["inner"]),
        f"const int64_t length = end - first, rows = {CUT['rows']};",
        f"{kind} {', '.join(f's{k}[{COLUMNS}]' for k in each)};",
        f"double {', '.join(f't{k}[{COLUMNS}]' for k in each)};",
        "for (int64_t j = 0; j < length; ++j) {",
        *[f"t{k}[j] = 0;" for k in each],
        "}",
        f"for (int64_t begin = 0; begin < rows; begin += {_STEP}) {{",
        f"const int64_t last = begin + {_STEP} < rows ? begin + {_STEP} : rows;",
        "for (int64_t j = 0; j < length; ++j) {",
        *[f"s{k}[j] = 0;" for k in each],
        "}",
        "int64_t row = begin;",
        f"for (; row + {_ROWS} <= last; row += {_ROWS}) {{",
        *_more_rows(_ROWS, count, kind),
        "}",
        "for (; row < last; ++row) {",
        *_more_rows(1, count, kind),
        "}",
        "#pragma omp simd",
        "for (int64_t j = 0; j < length; ++j) {",
        *[f"t{k}[j] += s{k}[j];" for k in each],
        "}",
        "}",
        "#pragma omp simd",
        "for (int64_t j = 0; j < length; ++j) {",
        *[f"y{k}[first + j] = t{k}[j];" for k in each],
        "}\n}",
        TAIL,
    ]


def _more_rows(rows: int, count: int, kind: str) -> list[str]:
    pairs = [(r, k) for r in range(rows) for k in range(count)]
    each = range(count)
    return [
        *[f"const {kind} *a{r} = matrix + (row + {r}) * width + first;" for r in range(rows)],
        *[f"const {kind} u{r}_{k} = x{k}[row + {r}];" for r, k in pairs],
        "#pragma omp simd",
        "for (int64_t j = 0; j < length; ++j) {",
        *[f"{kind} v{k} = s{k}[j];" for k in each],
        *[f"add_product(v{k}, a{r}[j], u{r}_{k});" for r, k in pairs],
        *[f"s{k}[j] = v{k};" for k in each],
        "}",
    ]
