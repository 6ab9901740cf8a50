"""C functions that transpose tiles of a few rows, by shuffles of vectors in registers.

A processor reads and writes elements with gaps one by one, which takes 0.5 to 2 ns per element. To
transpose blocks of 8 x 8 in registers takes about 0.2 ns per element.
"""

from __future__ import annotations

from collections.abc import Iterable

TYPES = ("float", "double")
"""The C types of elements of which tiles are transposed."""

_HEAD = r"""
#ifdef __has_builtin
#if __has_builtin(__builtin_shufflevector)
#define SHUFFLES 1
#endif
#endif
/* to[c * to_step + r] = from[r * from_step + c], for rows r and columns c. Blocks may overlap. */
#define IN_BLOCKS(T, B, block) \
    for (int64_t r = 0; r < rows; r += B) { \
        const int64_t row = r + B <= rows ? r : rows - B; \
        for (int64_t c = 0; c < columns; c += B) { \
            const int64_t column = c + B <= columns ? c : columns - B; \
            block(to + column * to_step + row, to_step, \
                  from + row * from_step + column, from_step); \
        } \
    }
#define OF_COLUMNS(N) \
    if (columns == N && from_step == N) { \
        _Pragma("omp simd") \
        for (int64_t r = 0; r < rows; ++r) { \
            to[r] = from[r * N]; \
            to[to_step + r] = from[r * N + 1]; \
            if (N > 2) to[2 * to_step + r] = from[r * N + 2]; \
        } \
        return; \
    }
#define OF_ROWS(N) \
    if (rows == N && to_step == N) { \
        _Pragma("omp simd") \
        for (int64_t c = 0; c < columns; ++c) { \
            to[c * N] = from[c]; \
            to[c * N + 1] = from[from_step + c]; \
            if (N > 2) to[c * N + 2] = from[2 * from_step + c]; \
        } \
        return; \
    }
#ifdef SHUFFLES
#define LOW(x, y) __builtin_shufflevector(x, y, 0, 4, 1, 5)
#define HIGH(x, y) __builtin_shufflevector(x, y, 2, 6, 3, 7)
#define LEFT(x, y) __builtin_shufflevector(x, y, 0, 1, 4, 5)
#define RIGHT(x, y) __builtin_shufflevector(x, y, 2, 3, 6, 7)
#define LOW8(x, y) __builtin_shufflevector(x, y, 0, 8, 1, 9, 4, 12, 5, 13)
#define HIGH8(x, y) __builtin_shufflevector(x, y, 2, 10, 3, 11, 6, 14, 7, 15)
#define EVEN8(x, y) __builtin_shufflevector(x, y, 0, 1, 8, 9, 4, 5, 12, 13)
#define ODD8(x, y) __builtin_shufflevector(x, y, 2, 3, 10, 11, 6, 7, 14, 15)
#define LEFT8(x, y) __builtin_shufflevector(x, y, 0, 1, 2, 3, 8, 9, 10, 11)
#define RIGHT8(x, y) __builtin_shufflevector(x, y, 4, 5, 6, 7, 12, 13, 14, 15)
typedef float four_floats __attribute__((vector_size(16), aligned(4)));
typedef float eight_floats __attribute__((vector_size(32), aligned(4)));
typedef double four_doubles __attribute__((vector_size(32), aligned(8)));
#define FOUR(name, T, V) \
    static INLINE void name(T *to, int64_t to_step, const T *from, int64_t from_step) { \
        const V a = *(const V *)from, b = *(const V *)(from + from_step); \
        const V c = *(const V *)(from + 2 * from_step), d = *(const V *)(from + 3 * from_step); \
        const V e = LOW(a, b), f = HIGH(a, b), g = LOW(c, d), h = HIGH(c, d); \
        *(V *)to = LEFT(e, g); \
        *(V *)(to + to_step) = RIGHT(e, g); \
        *(V *)(to + 2 * to_step) = LEFT(f, h); \
        *(V *)(to + 3 * to_step) = RIGHT(f, h); \
    }
FOUR(four_by_four_float, float, four_floats)
FOUR(four_by_four_double, double, four_doubles)
#define PAIR8(i) \
    const eight_floats x##i = *(const eight_floats *)(from + 2 * i * from_step); \
    const eight_floats y##i = *(const eight_floats *)(from + (2 * i + 1) * from_step); \
    const eight_floats low##i = LOW8(x##i, y##i), high##i = HIGH8(x##i, y##i);
#define FOUR8(i, j, half) \
    const eight_floats half##0 = EVEN8(low##i, low##j), half##1 = ODD8(low##i, low##j); \
    const eight_floats half##2 = EVEN8(high##i, high##j), half##3 = ODD8(high##i, high##j);
#define STORE8(i) \
    *(eight_floats *)(to + i * to_step) = LEFT8(upper##i, lower##i); \
    *(eight_floats *)(to + (i + 4) * to_step) = RIGHT8(upper##i, lower##i);
/* Without loops and arrays, which compilers may leave in memory. */
static INLINE void eight_by_eight(float *to, int64_t to_step,
                                  const float *from, int64_t from_step) {
    PAIR8(0) PAIR8(1) PAIR8(2) PAIR8(3)
    FOUR8(0, 1, upper) FOUR8(2, 3, lower)
    STORE8(0) STORE8(1) STORE8(2) STORE8(3)
}
#endif
"""

_TRANSPOSED = r"""
static INLINE void transposed_$T($T *restrict to, int64_t to_step, const $T *restrict from,
                                 int64_t from_step, int64_t rows, int64_t columns) {
    OF_COLUMNS(2) OF_COLUMNS(3) OF_ROWS(2) OF_ROWS(3)
#ifdef SHUFFLES
    $BLOCKS
#endif
    for (int64_t r = 0; r < rows; ++r)
        for (int64_t c = 0; c < columns; ++c) to[c * to_step + r] = from[r * from_step + c];
}
"""
_BLOCKS = {
    "float": (
        "if (rows >= 8 && columns >= 8) { IN_BLOCKS(float, 8, eight_by_eight) return; }\n"
        "    if (rows >= 4 && columns >= 4) { IN_BLOCKS(float, 4, four_by_four_float) return; }"
    ),
    "double": "if (rows >= 4 && columns >= 4) "
    "{ IN_BLOCKS(double, 4, four_by_four_double) return; }",
}


def transposing_text(texts: Iterable[str]) -> str:
    """Return the functions that some C texts call."""
    texts = list(texts)
    called = [kind for kind in TYPES if any(f"transposed_{kind}(" in text for text in texts)]
    return "".join([
        *[_HEAD] * bool(called),
        *(_TRANSPOSED.replace("$T", kind).replace("$BLOCKS", _BLOCKS[kind]) for kind in called),
    ])  # fmt: skip
