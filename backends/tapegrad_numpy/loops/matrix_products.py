"""Products of small matrices in C; BLAS packs its operands, which pays only for larger ones.

A tile of sixteen vectors of sums stays in registers, for a few rows of one matrix and a few columns
of the other. Sizes that are no multiple of the tile are left to BLAS.
"""

from __future__ import annotations

import platform
from collections.abc import Sequence

from tapegrad_numpy.loops.element_types import storage
from tapegrad_numpy.loops.layout import Cut
from tapegrad_numpy.loops.source import CUT, Kernel
from tapegrad_numpy.loops.vector_products import TAIL, Described, definitions

_MACHINES = ("aarch64", "arm64")
"""The machines on which this was measured; they have 32 vector registers of 16 bytes."""
_LARGEST = {"float": 1 << 18, "double": 1 << 17}
"""The most multiplications of a product; BLAS uses threads for larger ones.

Measured on one core of a Neoverse-N1, in microseconds, C against BLAS: 64 x 64 by 64 x 64 in
float32 17 against 29, with the second matrix transposed 24 against 30; 16 x 16 by 16 x 16 2 against
4, also in float64.
"""
_NEAR = 1 << 15
"""The most bytes of the second matrix, which must stay in the first-level cache."""
_SHORT = 64
"""The number of terms below which the horizontal sum of lanes costs too much."""
_DEEPEST = 512
"""The most terms of a sum, which are added in order, as in BLAS."""
_TILE = 4
"""The rows of a tile, and its vectors, or columns of the second matrix."""
_LANES = {"float": 4, "double": 2}
_FIRST = len(Cut._fields)
"""The position of the strides of the first matrix among the integers."""


def write_matrix_product(
    operands: Sequence[Described], *, transpose_a: bool, transpose_b: bool
) -> Kernel | None:
    """Return the kernel of a product, with at most one matrix transposed; None to use BLAS."""
    (first, dtype), (second, _) = operands
    rows, deep = first[::-1] if transpose_a else first
    columns = second[0 if transpose_b else 1]
    kind = storage(dtype)
    width = _TILE if transpose_b else _TILE * _LANES[kind]
    count = rows * columns * deep
    fits = columns % width == 0 and deep <= _DEEPEST and 0 < count <= _LARGEST[kind]
    if transpose_b:
        pays = deep >= _SHORT or count <= _SHORT**2 * _TILE
    else:
        pays = columns * deep * dtype.itemsize <= _NEAR
    if not fits or not pays or (transpose_a and transpose_b):
        return None
    if platform.machine() not in _MACHINES:
        return None
    numbers = Cut(
        columns, columns, 1, rows, rows, deep,
        slices=1, share=1, tasks=1, results=rows * columns, elements=rows * columns,
    )  # fmt: skip
    steps = (1, rows) if transpose_a else (deep, 1)
    lines = _along_rows(kind) if transpose_b else _along_columns(kind)
    return Kernel("\n".join(lines), frozenset(), (*numbers, *steps), 0)


def _head(kind: str) -> list[str]:
    return [
        "static void work_KEY(char **data, const int64_t *z, int64_t task, Slot *slots) {",
        "#pragma clang fp contract(fast)",
        *[f"const {kind} *{name} = (const {kind} *)data[{k}];" for k, name in enumerate("ab")],
        f"{kind} *c = ({kind} *)data[2];",
        f"const int64_t rows = {CUT['rows']}, columns = {CUT['inner']}, deep = {CUT['deep']};",
        f"const int64_t down = z[{_FIRST}], along = z[{_FIRST + 1}];",
    ]


def _along_columns(kind: str) -> list[str]:
    """Multiply each element of the first matrix by a part of a row of the second."""
    lanes = _LANES[kind]
    return [
        f"typedef {kind} V_KEY __attribute__((vector_size(16), aligned(sizeof({kind}))));",
        "#pragma GCC push_options",
        '#pragma GCC optimize("O2", "fp-contract=fast")',
        *_head(kind),
        f"for (int64_t j = 0; j < columns; j += {_TILE * lanes}) {{",
        "int64_t i = 0;",
        f"for (; i + {_TILE} <= rows; i += {_TILE}) {{",
        *_tile_of_vectors(_TILE, kind),
        "}",
        "for (; i < rows; ++i) {",
        *_tile_of_vectors(1, kind),
        "}\n}\n}",
        TAIL,
    ]


def _tile_of_vectors(rows: int, kind: str) -> list[str]:
    lanes = _LANES[kind]
    pairs = [(r, q) for r in range(rows) for q in range(_TILE)]
    return [
        f"V_KEY {', '.join(f's{r}_{q} = {{0}}' for r, q in pairs)};",
        f"const {kind} *p = a + i * down, *w = b + j;",
        "for (int64_t k = 0; k < deep; ++k, p += along, w += columns) {",
        *[f"const V_KEY b{q} = *(const V_KEY *)(w + {q * lanes});" for q in range(_TILE)],
        *[f"const {kind} a{r} = p[{r} * down];" for r in range(rows)],
        *[f"s{r}_{q} += a{r} * b{q};" for r, q in pairs],
        "}",
        *[f"*(V_KEY *)(c + (i + {r}) * columns + j + {q * lanes}) = s{r}_{q};" for r, q in pairs],
    ]


def _along_rows(kind: str) -> list[str]:
    """Compute dot products of rows of both matrices (the second one is transposed)."""
    return [
        *definitions(kind),
        *_head(kind),
        f"for (int64_t j = 0; j < columns; j += {_TILE}) {{",
        *[f"const {kind} *b{q} = b + (j + {q}) * deep;" for q in range(_TILE)],
        "int64_t i = 0;",
        f"for (; i + {_TILE} <= rows; i += {_TILE}) {{",
        *_tile_of_sums(_TILE, kind),
        "}",
        "for (; i < rows; ++i) {",
        *_tile_of_sums(1, kind),
        "}\n}\n}",
        TAIL,
    ]


def _tile_of_sums(rows: int, kind: str) -> list[str]:
    pairs = [(r, q) for r in range(rows) for q in range(_TILE)]
    sums = [f"s{r}_{q}" for r, q in pairs]
    return [
        *[f"const {kind} *a{r} = a + (i + {r}) * deep;" for r in range(rows)],
        f"{kind} {', '.join(f'{name} = 0' for name in sums)};",
        f"#pragma omp simd reduction(+:{', '.join(sums)})",
        "for (int64_t k = 0; k < deep; ++k) {",
        *[f"add_product(s{r}_{q}, a{r}[k], b{q}[k]);" for r, q in pairs],
        "}",
        *[f"c[(i + {r}) * columns + j + {q}] = s{r}_{q};" for r, q in pairs],
    ]
