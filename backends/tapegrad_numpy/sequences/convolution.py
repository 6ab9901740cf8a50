"""Convolutions and their two transposes in sequences: unrolled windows times filters, by BLAS.

The windows of a tile are copied to the rows of a matrix, which stays in the second-level cache.
Where windows have one element, the data is that matrix. bfloat16 is widened by the copy and rounded
once at the end.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from string import Template
from typing import Any

from tapegrad.core.backend.native_sequences import Layout
from tapegrad_numpy.loops.pool import team
from tapegrad_numpy.loops.vector_maths import functions_text
from tapegrad_numpy.sequences import direct_convolution
from tapegrad_numpy.sequences.blas import blas, whole_text
from tapegrad_numpy.sequences.functions import Functions, Made, Writer, are_contiguous
from tapegrad_numpy.sequences.windows import AXES, axes_numbers

_TILE_BYTES = 1 << 19
"""The bytes of the unrolled windows of a tile."""
_FEWEST = 64
"""The fewest windows of a tile."""
_OPERATIONS_PER_ELEMENT = 16
"""Multiplications of a matrix product that take about as long as an element of a loop."""

_TYPES = {"float32": ("float", "float"), "float64": ("double", "double")} | {
    "bfloat16": ("bfloat16", "float")
}
"""Per dtype the C types of elements in memory and of products."""

_GEOMETRY = r"""
#define WIDE_float32(x) (x)
#define WIDE_float64(x) (x)
#define WIDE_bfloat16(x) from_bfloat16(x)
#define ROUNDED_float32(x) (x)
#define ROUNDED_float64(x) (x)
#define ROUNDED_bfloat16(x) to_bfloat16(x)
/* The function of BLAS, the sizes, the windows of a tile, and the axes of x. */
typedef struct {
    void *gemm;
    int64_t images, channels, results, groups, tile;
    Axis axes[3];
} Convolution;
static int64_t count_of(const Convolution *c) {
    return c->images * c->axes[0].count * c->axes[1].count * c->axes[2].count;
}
/* The elements of the window of one group. */
static int64_t width_of(const Convolution *c) {
    const int64_t area = c->axes[0].extent * c->axes[1].extent * c->axes[2].extent;
    return area * (c->channels / c->groups);
}
/* Whether the windows are the elements of x, in order. */
static int is_pointwise(const Convolution *c) {
    for (const Axis *a = c->axes; a < c->axes + 3; ++a)
        if (a->extent != 1 || a->stride != 1 || a->low || a->count != a->size) return 0;
    return 1;
}
/* Go through the elements of a window, as runs of neighbours in x and in a row of its matrix:
   `inside` is a statement for a run that begins at x[from], `padding` for elements outside of x.
   The run begins at row[at] and has `length` elements. */
#define EACH_RUN(inside, padding) { \
    const Axis *a = c->axes, *b = a + 1, *d = a + 2; \
    const int64_t fan = c->channels / c->groups, k = window % d->count; \
    const int64_t j = window / d->count % b->count, i = window / d->count / b->count % a->count; \
    const int64_t n = window / d->count / b->count / a->count; \
    const Part p = part_of(a, i), q = part_of(b, j), r = part_of(d, k); \
    const int64_t together = d->step == 1 && c->groups == 1 ? r.end - r.begin : 1; \
    int64_t at = 0, length; \
    for (int64_t u = 0; u < a->extent; ++u) \
    for (int64_t v = 0; v < b->extent; ++v) { \
        if (u < p.begin || u >= p.end || v < q.begin || v >= q.end || r.begin == r.end) { \
            length = d->extent * fan; \
            padding; \
            at += length; \
            continue; \
        } \
        length = r.begin * fan; \
        padding; \
        at += length; \
        const int64_t line = (n * a->size + i * a->stride - a->low + u * a->step) * b->size + \
            j * b->stride - b->low + v * b->step; \
        for (int64_t w = r.begin; w < r.end; w += together, at += length) { \
            const int64_t place = line * d->size + k * d->stride - d->low + w * d->step; \
            const int64_t from = place * c->channels + group * fan; \
            length = together * fan; \
            inside; \
        } \
        length = (d->extent - r.end) * fan; \
        padding; \
        at += length; \
    } \
}
"""

_TEXT = Template(r"""
typedef void Gemm_$N(int, int, int, WHOLE, WHOLE, WHOLE, $W, const $W *, WHOLE, const $W *, WHOLE,
                     $W, $W *, WHOLE);
enum { IS_HALF_$N = sizeof($T) < sizeof($W) };
static void widen_$N($W *to, const $T *from, int64_t count) {
    for (int64_t i = 0; i < count; ++i) to[i] = WIDE_$N(from[i]);
}
static void round_$N($T *to, const $W *from, int64_t count) {
    for (int64_t i = 0; i < count; ++i) to[i] = ROUNDED_$N(from[i]);
}
/* Copy some windows to rows. */
static void unroll_$N(const Convolution *c, const $T *x, int64_t group, int64_t first, int64_t some,
                      $W *row) {
    const int64_t width = width_of(c);
    for (int64_t window = first; window < first + some; ++window, row += width)
        EACH_RUN(widen_$N(row + at, x + from, length),
                 for (int64_t z = 0; z < length; ++z) row[at + z] = 0)
}
/* Add rows to the elements of some windows. */
static void add_windows_$N(const Convolution *c, const $W *row, int64_t group, int64_t first,
                           int64_t some, $W *x) {
    const int64_t width = width_of(c);
    for (int64_t window = first; window < first + some; ++window, row += width)
        EACH_RUN(for (int64_t z = 0; z < length; ++z) x[from + z] += row[at + z], )
}
/* Make a statement for each tile of windows of each group. */
#define EACH_TILE \
    for (int64_t group = 0; group < c->groups; ++group) \
    for (int64_t first = 0, some; first < count; first += some) \
        if ((some = count - first < c->tile ? count - first : c->tile))
#define CONVOLUTION_$N \
    const Convolution *c = (const Convolution *)h; \
    Gemm_$N *gemm = (Gemm_$N *)c->gemm; \
    const int64_t width = width_of(c), count = count_of(c), out = c->results / c->groups; \
    const int64_t fan = c->channels / c->groups, is_plain = is_pointwise(c) && !IS_HALF_$N; \
    const int64_t filters = width * c->results
#define TAKE(name, many) \
    $W *name = malloc(sizeof($W) * (many) + 1); \
    if (!name) return NO_MEMORY

int conv_$N(const int64_t *h, char **data) {
    CONVOLUTION_$N;
    const $T *x = ($T *)data[0];
    $T *y = ($T *)data[2];
    TAKE(rows, c->tile * (width + c->results) + filters);
    $W *sums = rows + c->tile * width, *w = sums + c->tile * c->results;
    if (IS_HALF_$N) widen_$N(w, ($T *)data[1], filters);
    else w = ($W *)data[1];
    EACH_TILE {
        const $W *given = rows;
        if (is_plain) given = ($W *)data[0] + first * c->channels + group * fan;
        else unroll_$N(c, x, group, first, some, rows);
        $W *to = IS_HALF_$N ? sums : ($W *)data[2] + first * c->results + group * out;
        const int64_t down = IS_HALF_$N ? out : c->results;
        gemm(101, 111, 111, some, out, width, 1, given, is_plain ? c->channels : width,
             w + group * out, c->results, 0, to, down);
        if (IS_HALF_$N)
            for (int64_t i = 0; i < some; ++i)
                round_$N(y + (first + i) * c->results + group * out, sums + i * out, out);
    }
    free(rows);
    return 0;
}
int conv_input_gradient_$N(const int64_t *h, char **data) {
    CONVOLUTION_$N;
    const int64_t size = c->images * c->axes[0].size * c->axes[1].size * c->axes[2].size;
    TAKE(rows, c->tile * (width + c->results) + (IS_HALF_$N ? filters + size * c->channels : 0));
    $W *taken = rows + c->tile * width, *w = taken + c->tile * c->results, *g = w + filters;
    if (IS_HALF_$N) widen_$N(w, ($T *)data[1], filters);
    else w = ($W *)data[1], g = ($W *)data[2];
    if (!is_plain) memset(g, 0, sizeof($W) * size * c->channels);
    EACH_TILE {
        const $W *t = ($W *)data[0] + first * c->results + group * out;
        if (IS_HALF_$N) {
            widen_$N(taken, ($T *)data[0] + first * c->results, some * c->results);
            t = taken + group * out;
        }
        $W *to = is_plain ? g + first * c->channels + group * fan : rows;
        gemm(101, 111, 112, some, width, out, 1, t, c->results, w + group * out, c->results, 0, to,
             is_plain ? c->channels : width);
        if (!is_plain) add_windows_$N(c, rows, group, first, some, g);
    }
    if (IS_HALF_$N) round_$N(($T *)data[2], g, size * c->channels);
    free(rows);
    return 0;
}
int conv_filter_gradient_$N(const int64_t *h, char **data) {
    CONVOLUTION_$N;
    TAKE(rows, c->tile * (width + c->results) + filters);
    $W *taken = rows + c->tile * width, *g = taken + c->tile * c->results;
    if (!IS_HALF_$N) g = ($W *)data[2];
    EACH_TILE {
        const $W *given = rows, *t = ($W *)data[1] + first * c->results + group * out;
        if (is_plain) given = ($W *)data[0] + first * c->channels + group * fan;
        else unroll_$N(c, ($T *)data[0], group, first, some, rows);
        if (IS_HALF_$N) {
            widen_$N(taken, ($T *)data[1] + first * c->results, some * c->results);
            t = taken + group * out;
        }
        gemm(101, 112, 111, width, out, some, 1, given, is_plain ? c->channels : width, t,
             c->results, first ? 1 : 0, g + group * out, c->results);
    }
    if (IS_HALF_$N) round_$N(($T *)data[2], g, filters);
    free(rows);
    return 0;
}
#undef EACH_TILE
#undef TAKE
""")


def _text() -> str:
    parts = [functions_text(()), whole_text(), AXES, _GEOMETRY]
    for name, (kind, wide) in _TYPES.items():
        parts.append(_TEXT.substitute(N=name, T=kind, W=wide))
    return "".join(parts)


def _direct_text() -> str:
    operations = f"enum {{ OPERATIONS_PER_ELEMENT = {_OPERATIONS_PER_ELEMENT} }};\n"
    parts = [functions_text(()), AXES, _GEOMETRY, operations, direct_convolution.COMMON]
    for name, (kind, wide) in _TYPES.items():
        parts.append(direct_convolution.TEXT.substitute(N=name, T=kind, W=wide))
    return "".join(parts)


FUNCTIONS = Functions(_text)
DIRECT = Functions(_direct_text)


def _convolution(name: str) -> Writer:
    def write(
        operands: Sequence[Layout], results: Sequence[Layout], params: Mapping[str, Any]
    ) -> Made:
        library, given = blas(), (*operands, *results)
        dtype = results[0].dtype
        known = dtype.name in _TYPES and all(one.dtype == dtype for one in given)
        if library is None or not known or not all(one.size for one in given):
            return None
        x, w, y = _roles(name, given)
        groups, fan = params["groups"], w.shape[-2]
        axes = axes_numbers(x.shape[1:-1], y.shape[1:-1], {**params, "window": w.shape[:-2]})
        if axes is None or not are_contiguous(operands) or (groups > 1 and fan == 1):
            return None
        width, wide = prod(w.shape[:-1]), 8 if dtype.name == "float64" else 4
        windows = prod(y.shape[:-1])
        work = windows * width * y.shape[-1] // groups // _OPERATIONS_PER_ELEMENT
        columns = x.shape[-1] if name == "conv_input_gradient" else y.shape[-1]
        if groups == 1 and direct_convolution.is_direct(name, w, columns, axes, wide):
            given_sizes = (team(), x.shape[0], x.shape[-1], y.shape[-1], *axes)
            return DIRECT.step(f"direct_{name}_{dtype.name}", (0, 1, 2), given_sizes, work)
        tile = min(windows, max(_FEWEST, _TILE_BYTES // (width * wide)))
        sizes = (x.shape[0], x.shape[-1], y.shape[-1], groups, tile)
        numbers = (library.gemm[wide], *sizes, *axes)
        return FUNCTIONS.step(f"{name}_{dtype.name}", (0, 1, 2), numbers, work)

    return write


def _roles(name: str, given: Sequence[Layout]) -> tuple[Layout, Layout, Layout]:
    """Return the layouts of the data, the filters and the result of the convolution itself."""
    first, second, result = given
    if name == "conv":
        return first, second, result
    return (result, second, first) if name == "conv_input_gradient" else (first, result, second)


WRITERS: dict[str, Writer] = {
    name: _convolution(name) for name in ("conv", "conv_input_gradient", "conv_filter_gradient")
}
