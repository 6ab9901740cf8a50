"""Linear algebra in sequences: systems of equations, inverses, determinants, Cholesky, bands.

Matrices are copied to the order of columns and to double precision for LAPACK, as NumPy does, so
results have the same bits. Triangular systems are the exception: NumPy has no function for them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import Any

from tapegrad.core.backend.native_sequences import Layout
from tapegrad_numpy.sequences.functions import Functions, Made, Writer, are_contiguous, for_dtypes
from tapegrad_numpy.sequences.lapack import LETTERS, lapack, whole_text
from tapegrad_numpy.sequences.stacks import WALK, matrices, stack_axes, walk

_MOST_MINORS = 4
"""The largest order of matrices whose adjugate consists of minors."""
_OPERATIONS_PER_ELEMENT = 8
"""Multiplications of LAPACK that take about as long as an element of a loop."""

_SHARED = r"""
/* Memory that is on the stack if it is small. */
#define TAKE(room, bytes) \
    char small_##room[4096]; \
    const size_t need_##room = (bytes); \
    char *room = need_##room <= sizeof small_##room ? small_##room : malloc(need_##room); \
    if (!room) return NO_MEMORY
#define GIVE(room) if (room != small_##room) free(room)
#define CONJ_double(x) (x)
#define CONJ_complex(x) __builtin_conj(x)
#define SIZE_double(x) fabs(x)
#define SIZE_complex(x) hypot(__real__ (x), __imag__ (x))
#define TURN_double(sign, x, size) ((x) < 0 ? -(sign) : (sign))
#define CONJ_float32 CONJ_double
#define CONJ_float64 CONJ_double
#define CONJ_complex64 CONJ_complex
#define CONJ_complex128 CONJ_complex
#define SIZE_float32 SIZE_double
#define SIZE_float64 SIZE_double
#define SIZE_complex64 SIZE_complex
#define SIZE_complex128 SIZE_complex
#define TURN_float32 TURN_double
#define TURN_float64 TURN_double
#define TURN_complex64 turned
#define TURN_complex128 turned
static inline double _Complex turned(double _Complex sign, double _Complex x, double size) {
    const double a = __real__ sign, b = __imag__ sign;
    const double c = __real__ x / size, d = __imag__ x / size;
    return __builtin_complex(a * c - b * d, a * d + b * c);
}
"""

_TEXT = r"""
typedef void Gesv_$N(const WHOLE *, const WHOLE *, $W *, const WHOLE *, WHOLE *, $W *,
                     const WHOLE *, WHOLE *);
typedef void Getrf_$N(const WHOLE *, const WHOLE *, $W *, const WHOLE *, WHOLE *, WHOLE *);
typedef void Potrf_$N(const char *, const WHOLE *, $W *, const WHOLE *, WHOLE *, size_t);
typedef void Trsm_$N(const char *, const char *, const char *, const char *, const WHOLE *,
                     const WHOLE *, const $W *, const $W *, const WHOLE *, $W *, const WHOLE *,
                     size_t, size_t, size_t, size_t);

/* Copy a matrix with any strides to the order of columns, and back to the order of rows. */
static void columns_$N($W *to, const char *from, int64_t rows, int64_t columns, int64_t down,
                       int64_t along) {
    for (int64_t j = 0; j < columns; ++j)
        for (int64_t i = 0; i < rows; ++i)
            to[j * rows + i] = *(const $T *)(from + i * down + j * along);
}
static void rows_$N($T *to, const $W *from, int64_t rows, int64_t columns) {
    for (int64_t i = 0; i < rows; ++i)
        for (int64_t j = 0; j < columns; ++j) to[i * columns + j] = ($T)from[j * rows + i];
}
/* The function, the order, the number of columns, whether elements are conjugated, both strides of
   the matrix, and those of the right-hand side; -1 for the identity. */
static int solve_one_$N(const int64_t *h, char **data) {
    const WHOLE n = h[1], count = h[2];
    TAKE(room, sizeof($W) * n * (n + count) + sizeof(WHOLE) * n);
    $W *a = ($W *)room, *b = a + n * n;
    WHOLE *pivots = (WHOLE *)(b + n * count), info = 0;
    columns_$N(a, data[0], n, n, h[4], h[5]);
    if (h[3]) for (int64_t i = 0; i < n * n; ++i) a[i] = CONJ_$N(a[i]);
    if (h[6] >= 0) columns_$N(b, data[1], n, count, h[6], h[7]);
    else for (int64_t i = 0; i < n * n; ++i) b[i] = i % (n + 1) == 0;
    ((Gesv_$N *)h[0])(&n, &count, a, &n, pivots, b, &n, &info);
    if (!info) rows_$N(($T *)data[2], b, n, count);
    GIVE(room);
    return info ? IN_PYTHON : 0;
}
int solve_$N(const int64_t *h, char **data) { return over_stack(solve_one_$N, h, data); }

/* Likewise for a triangle, which is the lower one if h[8] is 'L'. */
static int triangular_one_$N(const int64_t *h, char **data) {
    const WHOLE n = h[1], count = h[2];
    const char triangle = (char)h[8];
    TAKE(room, sizeof($W) * n * (n + count));
    $W *a = ($W *)room, *b = a + n * n;
    const $W one = 1;
    int is_singular = 0;
    columns_$N(a, data[0], n, n, h[4], h[5]);
    if (h[3]) for (int64_t i = 0; i < n * n; ++i) a[i] = CONJ_$N(a[i]);
    for (int64_t i = 0; i < n; ++i) is_singular |= a[i * (n + 1)] == 0;
    if (!is_singular) {
        columns_$N(b, data[1], n, count, h[6], h[7]);
        ((Trsm_$N *)h[0])("L", &triangle, "N", "N", &n, &count, &one, a, &n, b, &n, 1, 1, 1, 1);
        rows_$N(($T *)data[2], b, n, count);
    }
    GIVE(room);
    return is_singular ? IN_PYTHON : 0;
}
int triangular_$N(const int64_t *h, char **data) { return over_stack(triangular_one_$N, h, data); }

/* The function, the order, both strides. Writes a triangle with zeros above it. */
static int cholesky_one_$N(const int64_t *h, char **data) {
    const WHOLE n = h[1];
    TAKE(room, sizeof($W) * n * n);
    $W *a = ($W *)room;
    $T *y = ($T *)data[1];
    WHOLE info = 0;
    columns_$N(a, data[0], n, n, h[2], h[3]);
    ((Potrf_$N *)h[0])("L", &n, a, &n, &info, 1);
    for (int64_t i = 0; i < n && !info; ++i)
        for (int64_t j = 0; j < n; ++j) y[i * n + j] = j <= i ? ($T)a[j * n + i] : 0;
    GIVE(room);
    return info ? IN_PYTHON : 0;
}
int cholesky_$N(const int64_t *h, char **data) { return over_stack(cholesky_one_$N, h, data); }

/* The function, the order, both strides, and whether the sign and the logarithm are written, or
   their product. */
static int determinant_one_$N(const int64_t *h, char **data) {
    const WHOLE n = h[1];
    TAKE(room, sizeof($W) * n * n + sizeof(WHOLE) * n);
    $W *a = ($W *)room, sign = 1;
    double log_of_size = 0;
    WHOLE *pivots = (WHOLE *)(a + n * n), info = 0;
    columns_$N(a, data[0], n, n, h[2], h[3]);
    ((Getrf_$N *)h[0])(&n, &n, a, &n, pivots, &info);
    for (int64_t i = 0; i < n && !info; ++i) if (pivots[i] != i + 1) sign = -sign;
    for (int64_t i = 0; i < n && !info; ++i) {
        const $W x = a[i * (n + 1)];
        const double size = SIZE_$N(x);
        sign = TURN_$N(sign, x, size);
        log_of_size += log(size);
    }
    if (info) { sign = 0; log_of_size = -INFINITY; }
    GIVE(room);
    if (h[4]) { *($T *)data[1] = ($T)sign; *($R *)data[2] = ($R)log_of_size; }
    else *($T *)data[1] = ($T)(sign * exp(log_of_size));
    return 0;
}
int determinant_$N(const int64_t *h, char **data) {
    return over_stack(determinant_one_$N, h, data);
}

/* The determinant of the matrix without a row and a column, for up to three others. */
static $W minor_$N(const $W *a, int64_t n, int64_t row, int64_t column) {
    $W m[9];
    int64_t k = 0;
    for (int64_t i = 0; i < n; ++i)
        for (int64_t j = 0; j < n; ++j) if (i != row && j != column) m[k++] = a[i * n + j];
    if (n == 1) return 1;
    if (n == 2) return m[0];
    if (n == 3) return m[0] * m[3] - m[1] * m[2];
    return m[0] * (m[4] * m[8] - m[5] * m[7]) - m[1] * (m[3] * m[8] - m[5] * m[6]) +
           m[2] * (m[3] * m[7] - m[4] * m[6]);
}
/* The order and both strides. */
static int adjugate_one_$N(const int64_t *h, char **data) {
    const int64_t n = h[0];
    $W a[16];
    $T *y = ($T *)data[1];
    for (int64_t i = 0; i < n; ++i)
        for (int64_t j = 0; j < n; ++j) {
            const $W one = *(const $T *)(data[0] + i * h[1] + j * h[2]);
            if (!(SIZE_$N(one) < INFINITY)) return IN_PYTHON; /* there are no singular values */
            a[i * n + j] = one;
        }
    for (int64_t i = 0; i < n; ++i)
        for (int64_t j = 0; j < n; ++j) {
            const $W one = minor_$N(a, n, j, i);
            y[i * n + j] = ($T)((i + j) % 2 ? -one : one);
        }
    return 0;
}
int adjugate_$N(const int64_t *h, char **data) { return over_stack(adjugate_one_$N, h, data); }
"""

_BANDS = r"""
/* Bytes of an element, the number of matrices, their size, and the first and the last diagonal. */
int band(const int64_t *h, char **data) {
    const int64_t size = h[0], rows = h[2], columns = h[3];
    const char *from = data[0];
    char *to = data[1];
    for (int64_t k = 0; k < h[1]; ++k)
        for (int64_t i = 0; i < rows; ++i, from += columns * size, to += columns * size) {
            int64_t first = i + h[4], last = i + h[5] + 1;
            first = first < 0 ? 0 : first > columns ? columns : first;
            last = last > columns ? columns : last < first ? first : last;
            memset(to, 0, first * size);
            memcpy(to + first * size, from + first * size, (last - first) * size);
            memset(to + last * size, 0, (columns - last) * size);
        }
    return 0;
}
"""


def _text() -> str:
    return _SHARED + whole_text() + WALK + for_dtypes(_TEXT, LETTERS)


FUNCTIONS = Functions(_text)
BANDS = Functions(lambda: _BANDS)


def _address(name: str, layouts: Sequence[Layout]) -> int | None:
    """The address of a function for arrays of one dtype, None if it cannot be called."""
    library, dtype = lapack(), layouts[0].dtype
    if library is None or dtype.name not in LETTERS or not all(x.size for x in layouts):
        return None
    return library.address[("z" if dtype.kind == "c" else "d") + name]


def _work(stack: Sequence[int], operations: int) -> int:
    return prod(stack) * operations // _OPERATIONS_PER_ELEMENT


def _system(
    function: int | None, operands: Sequence[Layout], y: Layout, is_turned: bool
) -> list[int] | None:
    """The numbers of linear systems; without a right-hand side, inverses."""
    a, b = operands[0], operands[-1]
    axes = stack_axes(y.shape[:-2], [matrices(a), matrices(b), matrices(y)])
    if function is None or axes is None or not a.dtype == b.dtype == y.dtype:
        return None
    has_right = len(operands) == 2
    strides = a.strides[-2:][::-1] if is_turned else a.strides[-2:]
    right = b.strides[-2:] if has_right else (-1, -1)
    if has_right and min(right) < 0:
        return None
    return walk(axes, function, *y.shape[-2:], int(is_turned), *strides, *right)


def _solve(
    operands: Sequence[Layout], results: Sequence[Layout], params: Mapping[str, Any]
) -> Made:
    (y,), is_turned = results, params.get("adjoint", False)
    numbers = _system(_address("gesv", [*operands, y]), operands, y, is_turned)
    if numbers is None:
        return None
    n, count = y.shape[-2:]
    places = (0, len(operands) - 1, len(operands))
    work = _work(y.shape[:-2], n * n * (n + count))
    return FUNCTIONS.step(f"solve_{y.dtype.name}", places, numbers, work)


def _triangular_solve(
    operands: Sequence[Layout], results: Sequence[Layout], params: Mapping[str, Any]
) -> Made:
    (y,), is_turned = results, params["adjoint"]
    numbers = _system(_address("trsm", [*operands, y]), operands, y, is_turned)
    if numbers is None:
        return None
    triangle = ord("L" if params["lower"] != is_turned else "U")
    work = _work(y.shape[:-2], y.shape[-2] ** 2 * y.shape[-1])
    return FUNCTIONS.step(f"triangular_{y.dtype.name}", (0, 1, 2), (*numbers, triangle), work)


def _cholesky(
    operands: Sequence[Layout], results: Sequence[Layout], params: Mapping[str, Any]
) -> Made:
    (a,), (y,) = operands, results
    function = _address("potrf", [a, y])
    axes = stack_axes(y.shape[:-2], [matrices(a), matrices(y), matrices(y)])
    if function is None or axes is None or params.get("upper"):
        return None
    n = a.shape[-1]
    numbers = walk(axes, function, n, *a.strides[-2:])
    work = _work(y.shape[:-2], n**3)
    return FUNCTIONS.step(f"cholesky_{a.dtype.name}", (0, 1, 1), numbers, work)


def _determinant(is_split: bool) -> Writer:
    def write(
        operands: Sequence[Layout], results: Sequence[Layout], params: Mapping[str, Any]
    ) -> Made:
        (a,) = operands
        function = _address("getrf", [a, *results])
        ends = [(y.shape, y.strides) for y in (results[0], results[-1])]
        axes = stack_axes(a.shape[:-2], [matrices(a), *ends])
        if function is None or axes is None:
            return None
        n = a.shape[-1]
        numbers = walk(axes, function, n, *a.strides[-2:], int(is_split))
        work = _work(a.shape[:-2], n**3)
        return FUNCTIONS.step(f"determinant_{a.dtype.name}", (0, 1, len(results)), numbers, work)

    return write


def _adjugate(
    operands: Sequence[Layout], results: Sequence[Layout], params: Mapping[str, Any]
) -> Made:
    """Write the adjugate of small matrices by minors; that of larger ones takes singular values."""
    (a,), (y,) = operands, results
    axes = stack_axes(y.shape[:-2], [matrices(a), matrices(y), matrices(y)])
    n = a.shape[-1]
    if axes is None or not y.size or n > _MOST_MINORS or a.dtype.name not in LETTERS:
        return None
    if a.dtype != y.dtype:
        return None
    numbers = walk(axes, n, *a.strides[-2:])
    return FUNCTIONS.step(f"adjugate_{a.dtype.name}", (0, 1, 1), numbers, _work(y.shape[:-2], n**4))


def _band(operands: Sequence[Layout], results: Sequence[Layout], params: Mapping[str, Any]) -> Made:
    (x,) = operands
    if not are_contiguous(operands):
        return None
    *stack, rows, columns = x.shape
    low = -rows if params["low"] is None else params["low"]
    high = columns if params["high"] is None else params["high"]
    numbers = (x.dtype.itemsize, prod(stack), rows, columns, low, high)
    return BANDS.step("band", (0, 1), numbers, x.size)


WRITERS: dict[str, Writer] = {
    "adjugate": _adjugate,
    "band_part": _band,
    "cholesky": _cholesky,
    "det": _determinant(is_split=False),
    "inv": _solve,
    "slogdet": _determinant(is_split=True),
    "solve": _solve,
    "triangular_solve": _triangular_solve,
}
