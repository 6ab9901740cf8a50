"""Linear algebra in sequences: systems of equations, inverses, determinants, Cholesky, bands.

Matrices are copied to the order of columns for LAPACK, as NumPy does, so results have the same
bits. Triangular systems are the exception: NumPy has no function for them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import Any

from tapegrad.core.backend.capabilities import Layout
from tapegrad_numpy.sequences.copies import copies
from tapegrad_numpy.sequences.functions import Functions, Made, Writer, are_contiguous, for_dtypes
from tapegrad_numpy.sequences.lapack import LETTERS, lapack
from tapegrad_numpy.sequences.stacks import WALK, matrices, matrix_form, stack_axes, walk

_OPERATIONS_PER_ELEMENT = 8
"""Multiplications of LAPACK that take about as long as an element of a loop."""

_ROOM = r"""
#define CONJ_float32(x) (x)
#define CONJ_float64(x) (x)
#define CONJ_complex64(x) __builtin_conjf(x)
#define CONJ_complex128(x) __builtin_conj(x)
#define LOG_float32 logf
#define LOG_float64 log
#define LOG_complex64 logf
#define LOG_complex128 log
/* Memory that is on the stack if it is small. */
#define TAKE(room, bytes) \
    char small_##room[4096]; \
    const size_t need_##room = (bytes); \
    char *room = need_##room <= sizeof small_##room ? small_##room : malloc(need_##room); \
    if (!room) return NO_MEMORY
#define GIVE(room) if (room != small_##room) free(room)
"""

_TEXT = r"""
typedef void Gesv_$N(const WHOLE *, const WHOLE *, $T *, const WHOLE *, WHOLE *, $T *,
                     const WHOLE *, WHOLE *);
typedef void Getrf_$N(const WHOLE *, const WHOLE *, $T *, const WHOLE *, WHOLE *, WHOLE *);
typedef void Potrf_$N(const char *, const WHOLE *, $T *, const WHOLE *, WHOLE *, size_t);
typedef void Trsm_$N(const char *, const char *, const char *, const char *, const WHOLE *,
                     const WHOLE *, const $T *, const $T *, const WHOLE *, $T *, const WHOLE *,
                     size_t, size_t, size_t, size_t);

/* Copy a matrix to the order of columns. */
static void columns_$N($T *to, const char *from, int64_t rows, int64_t columns, int64_t down,
                       int64_t along) {
    for (int64_t j = 0; j < columns; ++j)
        for (int64_t i = 0; i < rows; ++i)
            to[j * rows + i] = *(const $T *)(from + i * down + j * along);
}
/* The function, the order, the number of columns, whether elements are conjugated, both strides of
   the matrix, and those of the right-hand side; -1 for the identity. */
static int solve_one_$N(const int64_t *h, char **data) {
    const WHOLE n = h[1], count = h[2];
    TAKE(room, sizeof($T) * n * (n + count) + sizeof(WHOLE) * n);
    $T *a = ($T *)room, *b = a + n * n, *y = ($T *)data[2];
    WHOLE *pivots = (WHOLE *)(b + n * count), info = 0;
    columns_$N(a, data[0], n, n, h[4], h[5]);
    if (h[3]) for (int64_t i = 0; i < n * n; ++i) a[i] = CONJ_$N(a[i]);
    if (h[6] >= 0) columns_$N(b, data[1], n, count, h[6], h[7]);
    else for (int64_t i = 0; i < n * n; ++i) b[i] = i % (n + 1) == 0;
    ((Gesv_$N *)h[0])(&n, &count, a, &n, pivots, b, &n, &info);
    if (!info) columns_$N(y, (char *)b, count, n, n * sizeof($T), sizeof($T));
    GIVE(room);
    return info ? IN_PYTHON : 0;
}
int solve_$N(const int64_t *h, char **data) { return over_stack(solve_one_$N, h, data); }

/* The function, the order, both strides. Writes a triangle with zeros above it. */
static int cholesky_one_$N(const int64_t *h, char **data) {
    const WHOLE n = h[1];
    TAKE(room, sizeof($T) * n * n);
    $T *a = ($T *)room, *y = ($T *)data[1];
    WHOLE info = 0;
    columns_$N(a, data[0], n, n, h[2], h[3]);
    ((Potrf_$N *)h[0])("L", &n, a, &n, &info, 1);
    for (int64_t i = 0; i < n && !info; ++i)
        for (int64_t j = 0; j < n; ++j) y[i * n + j] = j <= i ? a[j * n + i] : 0;
    GIVE(room);
    return info ? IN_PYTHON : 0;
}
int cholesky_$N(const int64_t *h, char **data) { return over_stack(cholesky_one_$N, h, data); }

/* The function, which triangle the stored matrix has, how it is transposed, its order, its leading
   dimension, and the number of columns of the solution, which is written over the right side. */
static int triangular_one_$N(const int64_t *h, char **data) {
    const char triangle = (char)h[1], form = (char)h[2];
    const WHOLE n = h[3], leading = h[4], count = h[5];
    const $T *a = (const $T *)data[0], one = 1;
    for (int64_t i = 0; i < n; ++i) if (a[i * (leading + 1)] == 0) return IN_PYTHON;
    ((Trsm_$N *)h[0])("R", &triangle, &form, "N", &count, &n, &one, a, &leading, ($T *)data[1],
                      &count, 1, 1, 1, 1);
    return 0;
}
int triangular_$N(const int64_t *h, char **data) { return over_stack(triangular_one_$N, h, data); }
"""

_DETERMINANTS = r"""
/* The function, the order, both strides, and whether the sign and the logarithm are written, or
   their product. */
static int determinant_one_$N(const int64_t *h, char **data) {
    const WHOLE n = h[1];
    TAKE(room, sizeof($T) * n * n + sizeof(WHOLE) * n);
    $T *a = ($T *)room, sign = 1;
    $R log_of_size = 0;
    WHOLE *pivots = (WHOLE *)(a + n * n), info = 0;
    columns_$N(a, data[0], n, n, h[2], h[3]);
    ((Getrf_$N *)h[0])(&n, &n, a, &n, pivots, &info);
    for (int64_t i = 0; i < n && !info; ++i) {
        const $T x = a[i * (n + 1)];
        const $R size = SIZE_$N(x);
        if (pivots[i] != i + 1) sign = -sign;
        sign = TURN_$N(sign, x, size);
        log_of_size += LOG_$N(size);
    }
    if (info) { sign = 0; log_of_size = -INFINITY; }
    GIVE(room);
    if (h[4]) { *($T *)data[1] = sign; *($R *)data[2] = log_of_size; }
    else *($T *)data[1] = sign * EXP_$N(log_of_size);
    return 0;
}
int determinant_$N(const int64_t *h, char **data) {
    return over_stack(determinant_one_$N, h, data);
}
"""

_SIGNS = r"""
#define SIZE_float32 fabsf
#define SIZE_float64 fabs
#define SIZE_complex64(x) hypotf(__real__ (x), __imag__ (x))
#define SIZE_complex128(x) hypot(__real__ (x), __imag__ (x))
#define EXP_float32 expf
#define EXP_float64 exp
#define EXP_complex64 expf
#define EXP_complex128 exp
#define TURN_float32(sign, x, size) ((x) < 0 ? -(sign) : (sign))
#define TURN_float64 TURN_float32
#define TURNED(C, R) static inline C turned_##R(C s, C x, R size) { \
    const R a = __real__ s, b = __imag__ s, c = __real__ x / size, d = __imag__ x / size; \
    return __builtin_complex(a * c - b * d, a * d + b * c); }
TURNED(float _Complex, float)
TURNED(double _Complex, double)
#define TURN_complex64 turned_float
#define TURN_complex128 turned_double
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
    library = lapack()
    whole = "int64_t" if library is not None and library.integer == 8 else "int32_t"
    parts = (_ROOM, _SIGNS, f"#define WHOLE {whole}\n", WALK)
    return "".join(parts) + for_dtypes(_TEXT + _DETERMINANTS, LETTERS)


FUNCTIONS = Functions(_text)
BANDS = Functions(lambda: _BANDS)


def _address(name: str, layouts: Sequence[Layout]) -> int | None:
    """The address of a function for arrays of one dtype, None if it cannot be called."""
    library, dtype = lapack(), layouts[0].dtype
    if library is None or dtype.name not in LETTERS or not all(x.size for x in layouts):
        return None
    return library.address[LETTERS[dtype.name] + name]


def _work(stack: Sequence[int], operations: int) -> int:
    return prod(stack) * operations // _OPERATIONS_PER_ELEMENT


def _solve(
    operands: Sequence[Layout], results: Sequence[Layout], params: Mapping[str, Any]
) -> Made:
    """Return the solution of linear systems; without a right-hand side, inverses."""
    (y,), a, b = results, operands[0], operands[-1]
    function = _address("gesv", [*operands, y])
    axes = stack_axes(y.shape[:-2], [matrices(a), matrices(b), matrices(y)])
    if function is None or axes is None or not a.dtype == b.dtype == y.dtype:
        return None
    is_turned, has_right = params.get("adjoint", False), len(operands) == 2
    strides = a.strides[-2:][::-1] if is_turned else a.strides[-2:]
    right = b.strides[-2:] if has_right else (-1, -1)
    if has_right and min(right) < 0:
        return None
    n, count = y.shape[-2:]
    own = (function, n, count, int(is_turned), *strides, *right)
    places = (0, len(operands) - 1, len(operands))
    work = _work(y.shape[:-2], n * n * (n + count))
    return FUNCTIONS.step(f"solve_{a.dtype.name}", places, walk(axes, *own), work)


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


def _triangular_solve(
    operands: Sequence[Layout], results: Sequence[Layout], params: Mapping[str, Any]
) -> Made:
    """Return a copy of the right-hand side, and the solution in its place.

    BLAS sees the transposes of what lies in the order of rows: y^T with y^T M = b^T.
    """
    (a, b), (y,) = operands, results
    function, form = _address("trsm", [a, b, y]), matrix_form(a, False)
    axes = stack_axes(y.shape[:-2], [matrices(a), matrices(y), matrices(y)])
    if function is None or form is None or axes is None or not a.dtype == b.dtype == y.dtype:
        return None
    is_turned, n, _, leading = form
    adjoint, lower = params["adjoint"], params["lower"]
    if adjoint and is_turned and a.dtype.kind == "c":
        return None
    triangle = "U" if lower != is_turned else "L"
    how = ("N" if adjoint else "T") if is_turned else ("C" if adjoint else "N")
    numbers = walk(axes, function, ord(triangle), ord(how), n, leading, y.shape[-1])
    repeated = tuple(0 if size == 1 else step for size, step in zip(b.shape, b.strides))
    strides = (*[0] * (len(y.shape) - len(b.shape)), *repeated)
    copied = copies(Layout(y.shape, strides, b.dtype), y, (1, 2))
    work = _work(y.shape[:-2], n * n * y.shape[-1])
    solved = FUNCTIONS.step(f"triangular_{a.dtype.name}", (0, 2, 2), numbers, work)
    return None if copied is None or solved is None else [*copied, *solved]


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
    "band_part": _band,
    "cholesky": _cholesky,
    "det": _determinant(is_split=False),
    "inv": _solve,
    "slogdet": _determinant(is_split=True),
    "solve": _solve,
    "triangular_solve": _triangular_solve,
}
