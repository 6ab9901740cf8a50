"""Convolutions and their two transposes that store no windows: sums in registers, over the taps.

An image is copied once, in the precision of products, with the zeros around it. Then every element
of a window has a fixed distance from the window's first one, a tap, and neighbouring taps are runs
of memory. A tile of sums, some windows times some vectors of channels, stays in registers while all
taps are added. The gradient of the data is such a convolution of each phase: of the elements whose
positions have the same remainder by the stride, which read the same taps.
"""

from __future__ import annotations

import platform
from math import prod
from string import Template

from tapegrad.core.backend.native_sequences import Layout

_MACHINES = ("x86_64", "AMD64")
"""The machines on which this was measured."""
_FEWEST = 4
"""The fewest channels of a result; a vector of sums has sixteen or eight."""
_MOST_BYTES = {"conv": 1 << 20, "conv_input_gradient": 1 << 20, "conv_filter_gradient": 100_000}
"""The most bytes of the filters, which are read, or added to, once for each tile of windows.

CPU time on one core of a Cascade Lake in float32, windows unrolled for BLAS against this, in
microseconds, of the convolution, the gradient of the data and that of the filters: 8 images of
32 x 32 x 3 to 32 channels 1790, -, 1810 against 320, -, 470; 32 of 14 x 14 x 16 to 32 channels
1500, 1580, 1600 against 640, 1220, 770; 8 of 16 x 16 x 64 to 64 channels 2150, 2290, 2050 against
1750, 1800, 2430; 4 of 8 x 8 x 256 to 256 channels 5060, 5540, 3230 against 7370, 7050, 9580.
"""


def is_direct(name: str, filters: Layout, columns: int, axes: list[int], itemsize: int) -> bool:
    """Return whether a convolution of one group, or its transpose, is computed by tiles of sums.

    The result has `columns` channels; products take elements of `itemsize` bytes.
    """
    is_known = platform.machine() in _MACHINES and not any(low < 0 for low in axes[4::6])
    is_pointwise = prod(axes[2::6]) == 1 and prod(axes[3::6]) == 1 and not any(axes[4::6])
    is_small = filters.size * itemsize <= _MOST_BYTES[name]
    return is_known and is_small and not is_pointwise and columns >= _FEWEST


COMMON = r"""
#if defined(__AVX512F__)
enum { VECTOR = 64, TILE = 8, MOST = 3 };
#elif defined(__aarch64__)
enum { VECTOR = 16, TILE = 8, MOST = 3 };
#elif defined(__AVX__)
enum { VECTOR = 32, TILE = 4, MOST = 2 };
#else
enum { VECTOR = 16, TILE = 4, MOST = 2 };
#endif
#define INLINED static inline __attribute__((always_inline))
#define EACH(i, n) _Pragma("GCC unroll 8") for (int i = 0; i < (n); ++i)
enum { SUMMED_BYTES = 1 << 14, LEAST_SUMMED = 32, MOST_PARTS = 4 };

/* The threads, and the sizes: images, channels of the data and of the result, and the axes. */
typedef struct {
    const Team *team;
    int64_t images, channels, results;
    Axis axes[3];
} Sizes;
/* How images are read: copies with `low` zeros before an axis, and `size` elements with them. */
typedef struct {
    int64_t low[3], size[3], given[3], channels;
    int is_copied;
} Frame;
/* Some elements of an image that are computed alike: where their windows begin and where they are
   written, the runs of taps (each a distance and a length), and the packed filters. */
typedef struct {
    int64_t count, runs, taps;
    int64_t *at, *to, *run;
    void *filters;
} Phase;

static int64_t area(const int64_t *size) { return size[0] * size[1] * size[2]; }
/* The place of a position in a frame, counted in elements. */
static int64_t place_in(const Frame *f, int64_t i, int64_t j, int64_t k) {
    return ((i * f->size[1] + j) * f->size[2] + k) * f->channels;
}
/* Add a tap of some neighbouring elements; it may continue the last run. */
static void add_tap(Phase *p, int64_t at, int64_t length) {
    int64_t *last = p->run + 2 * p->runs - 2;
    p->taps += length;
    if (p->runs && last[0] + last[1] == at) last[1] += length;
    else p->run[2 * p->runs] = at, p->run[2 * p->runs++ + 1] = length;
}
static int take_phase(Phase *p, int64_t count, int64_t runs, int64_t filters) {
    *p = (Phase){.at = malloc(8 * count + 8), .to = malloc(8 * count + 8),
                 .run = malloc(16 * runs + 16), .filters = malloc(filters + VECTOR)};
    return p->at && p->to && p->run && p->filters;
}
static void free_phase(Phase *p) {
    free(p->at);
    free(p->to);
    free(p->run);
    free(p->filters);
}
static Frame frame_of_windows(const Sizes *s) {
    Frame f = {.channels = s->channels};
    for (int d = 0; d < 3; ++d) {
        const Axis *a = s->axes + d;
        const int64_t needed = (a->count - 1) * a->stride + (a->extent - 1) * a->step + 1;
        f.low[d] = a->low;
        f.given[d] = a->size;
        f.size[d] = needed;
        f.is_copied |= a->low || needed > a->size;
    }
    for (int d = 0; d < 3 && !f.is_copied; ++d) f.size[d] = s->axes[d].size;
    return f;
}
/* The windows of an image: one phase, with all taps. */
static int windows_of(const Sizes *s, const Frame *f, int64_t filters, Phase *p) {
    const Axis *a = s->axes, *b = a + 1, *c = a + 2;
    const int64_t count = a->count * b->count * c->count;
    if (!take_phase(p, count, a->extent * b->extent * c->extent, filters)) return 0;
    for (int64_t i = 0; i < a->count; ++i)
    for (int64_t j = 0; j < b->count; ++j)
    for (int64_t k = 0; k < c->count; ++k) {
        p->at[p->count] = place_in(f, i * a->stride, j * b->stride, k * c->stride);
        p->to[p->count] = p->count * s->results;
        ++p->count;
    }
    for (int64_t i = 0; i < a->extent; ++i)
    for (int64_t j = 0; j < b->extent; ++j)
    for (int64_t k = 0; k < c->extent; ++k)
        add_tap(p, place_in(f, i * a->step, j * b->step, k * c->step), s->channels);
    return 1;
}
/* Whether an element of a window meets the positions of a phase, and how many windows before the
   first of these it is. */
static int meets(const Axis *a, int64_t phase, int64_t element, int64_t *windows) {
    const int64_t distance = phase + a->low - element * a->step;
    *windows = (distance - (((distance % a->stride) + a->stride) % a->stride)) / a->stride;
    return *windows * a->stride == distance;
}
static int64_t positions(const Axis *a, int64_t phase) {
    return (a->size - phase + a->stride - 1) / a->stride;
}
/* The frame of the cotangents that the gradient of the data reads. */
static Frame frame_of_positions(const Sizes *s) {
    Frame f = {.channels = s->results, .is_copied = 1};
    for (int d = 0; d < 3; ++d) {
        const Axis *a = s->axes + d;
        int64_t least = 0, most = a->count - 1, windows;
        for (int64_t phase = 0; phase < a->stride && phase < a->size; ++phase)
            for (int64_t u = 0; u < a->extent; ++u)
                if (meets(a, phase, u, &windows)) {
                    const int64_t last = windows + positions(a, phase) - 1;
                    least = windows < least ? windows : least;
                    most = last > most ? last : most;
                }
        f.low[d] = -least;
        f.given[d] = a->count;
        f.size[d] = most - least + 1;
    }
    return f;
}
"""

TEXT = Template(r"""
typedef $W Vector_$N __attribute__((vector_size(VECTOR), aligned(sizeof($W)), may_alias));
enum { LANES_$N = VECTOR / sizeof($W), IS_HALF_$N = sizeof($T) < sizeof($W) };
/* What the tasks of a convolution share. */
typedef struct {
    const Sizes *sizes;
    const Frame *frame;
    const Phase *phases;
    int64_t count, columns, padded, parts;
    char **data;
    $W *sums;
    int code;
} Shared_$N;

static int64_t padded_$N(int64_t columns) {
    return (columns + LANES_$N - 1) / LANES_$N * LANES_$N;
}
/* The image with the zeros around it; `memory` has zeros where no image is ever copied. */
static const $W *framed_$N(const Frame *f, const $T *image, $W *memory) {
    if (!IS_HALF_$N && !f->is_copied) return (const $W *)image;
    int64_t first[3], last[3];
    for (int d = 0; d < 3; ++d) {
        first[d] = f->low[d] < f->size[d] ? f->low[d] : f->size[d];
        last[d] = f->low[d] + f->given[d] < f->size[d] ? f->low[d] + f->given[d] : f->size[d];
    }
    const int64_t length = (last[2] - first[2]) * f->channels;
    for (int64_t i = first[0]; i < last[0]; ++i)
    for (int64_t j = first[1]; j < last[1]; ++j) {
        const int64_t line = (i - f->low[0]) * f->given[1] + j - f->low[1];
        const $T *from = image + line * f->given[2] * f->channels;
        $W *to = memory + place_in(f, i, j, first[2]);
        for (int64_t c = 0; c < length; ++c) to[c] = WIDE_$N(from[c]);
    }
    return memory;
}
#pragma GCC push_options
#pragma GCC optimize("O2", "fp-contract=fast", "no-ivopts", "ira-region=mixed")
/* Tiles of some windows times `vectors` vectors of channels. */
INLINED void tiles_$N(const int vectors, const Phase *p, const $W *x, int64_t first,
                      int64_t columns, int64_t padded, $T *y) {
#pragma clang fp contract(fast)
    for (int64_t i = 0; i < p->count; i += TILE) {
        const $W *window[TILE], *w = ($W *)p->filters + first;
        Vector_$N sum[TILE][MOST], row[MOST];
        EACH(r, TILE) window[r] = x + p->at[i + r < p->count ? i + r : p->count - 1];
        EACH(r, TILE) EACH(q, vectors) sum[r][q] = (Vector_$N){0};
        for (const int64_t *run = p->run; run < p->run + 2 * p->runs; run += 2)
            for (int64_t k = run[0]; k < run[0] + run[1]; ++k, w += padded) {
                EACH(q, vectors) row[q] = *(const Vector_$N *)(w + q * LANES_$N);
                EACH(r, TILE) EACH(q, vectors) sum[r][q] += window[r][k] * row[q];
            }
        EACH(r, TILE) if (i + r < p->count) {
            $T *to = y + p->to[i + r] + first;
            EACH(q, vectors) {
                const int64_t left = columns - first - q * LANES_$N;
                $W lane[LANES_$N];
                if (!IS_HALF_$N && left >= LANES_$N)
                    *(Vector_$N *)(to + q * LANES_$N) = sum[r][q];
                else {
                    *(Vector_$N *)lane = sum[r][q];
                    for (int64_t c = 0; c < left && c < LANES_$N; ++c)
                        to[q * LANES_$N + c] = ROUNDED_$N(lane[c]);
                }
            }
        }
    }
}
/* Add products of the elements at some taps, and vectors of cotangents, over windows. */
INLINED void products_$N(const int vectors, const $W *x, const int64_t *at, int64_t count,
                         const int64_t *tap, int64_t taps, const $W *t, int64_t padded, $W *g) {
#pragma clang fp contract(fast)
    Vector_$N sum[TILE][MOST], row[MOST];
    int64_t from[TILE];
    EACH(r, TILE) from[r] = tap[r < taps ? r : taps - 1];
    EACH(r, TILE) EACH(q, vectors) sum[r][q] = (Vector_$N){0};
    for (int64_t i = 0; i < count; ++i, t += padded) {
        const $W *window = x + at[i];
        EACH(q, vectors) row[q] = *(const Vector_$N *)(t + q * LANES_$N);
        EACH(r, TILE) EACH(q, vectors) sum[r][q] += window[from[r]] * row[q];
    }
    EACH(r, TILE) if (r < taps)
        EACH(q, vectors) *(Vector_$N *)(g + r * padded + q * LANES_$N) += sum[r][q];
}
#define ALL_VECTORS(call) \
    for (int64_t left = s->padded / LANES_$N, first = 0, some; left > 0; \
         left -= some, first += some * LANES_$N) { \
        some = left == MOST + 1 ? MOST - 1 : left < MOST ? left : MOST; \
        if (some == 1) call(1); \
        else if (some == 2) call(2); \
        else call(MOST); \
    }
static void image_$N(const Shared_$N *s, const $W *x, $T *y) {
#define CALL_TILES(n) tiles_$N(n, p, x, first, s->columns, s->padded, y)
    for (const Phase *p = s->phases; p < s->phases + s->count; ++p)
        ALL_VECTORS(CALL_TILES)
}
static void image_products_$N(const Shared_$N *s, const $W *x, const int64_t *tap, const $W *t,
                              $W *g) {
    const Phase *p = s->phases;
#define CALL_PRODUCTS(n) products_$N(n, x, p->at + i, some_windows, tap + k, p->taps - k, \
                                     t + i * s->padded + first, s->padded, \
                                     g + k * s->padded + first)
    /* So many windows that what is read of them stays in the first-level cache. */
    int64_t most = SUMMED_BYTES / sizeof($W) / (s->padded + s->frame->channels);
    most = most < LEAST_SUMMED ? LEAST_SUMMED : most;
    for (int64_t i = 0; i < p->count; i += most) {
        const int64_t some_windows = p->count - i < most ? p->count - i : most;
        for (int64_t k = 0; k < p->taps; k += TILE) ALL_VECTORS(CALL_PRODUCTS)
    }
}
#pragma GCC pop_options
/* Compute one image. */
static void work_$N(char **data, const int64_t *z, int64_t task, Slot *slots) {
    Shared_$N *s = (Shared_$N *)data;
    const Frame *f = s->frame;
    $W *memory = calloc(area(f->size) * f->channels + 1, sizeof($W));
    if (!memory) { s->code = NO_MEMORY; return; }
    int64_t size = 0;
    for (const Phase *p = s->phases; p < s->phases + s->count; ++p) size += p->count;
    const $T *x = ($T *)s->data[0] + task * area(f->given) * f->channels;
    image_$N(s, framed_$N(f, x, memory), ($T *)s->data[2] + task * size * s->columns);
    free(memory);
}
/* Add the products of some images. */
static void work_products_$N(char **data, const int64_t *z, int64_t task, Slot *slots) {
    Shared_$N *s = (Shared_$N *)data;
    const Frame *f = s->frame;
    const Phase *p = s->phases;
    const int64_t images = s->sizes->images, columns = s->columns, padded = s->padded;
    const int is_padded = IS_HALF_$N || padded != columns;
    $W *memory = calloc(area(f->size) * f->channels + 1, sizeof($W));
    $W *lines = is_padded ? calloc(p->count * padded, sizeof($W)) : 0;
    int64_t *tap = malloc(8 * p->taps), k = 0;
    if (!memory || !tap || (is_padded && !lines)) s->code = NO_MEMORY;
    for (const int64_t *run = p->run; tap && run < p->run + 2 * p->runs; run += 2)
        for (int64_t i = 0; i < run[1]; ++i) tap[k++] = run[0] + i;
    const int64_t end = (task + 1) * images / s->parts;
    for (int64_t n = task * images / s->parts; n < end && !s->code; ++n) {
        const $T *x = ($T *)s->data[0] + n * area(f->given) * f->channels;
        const $T *t = ($T *)s->data[1] + n * p->count * columns;
        for (int64_t i = 0; is_padded && i < p->count; ++i)
            for (int64_t c = 0; c < columns; ++c)
                lines[i * padded + c] = WIDE_$N(t[i * columns + c]);
        image_products_$N(s, framed_$N(f, x, memory), tap, is_padded ? lines : (const $W *)t,
                          s->sums + task * p->taps * padded);
    }
    free(memory);
    free(lines);
    free(tap);
}
static int run_$N(Shared_$N *s, Work *work, int64_t tasks) {
    int64_t z[ELEMENTS + 1] = {0}, products = 0;
    for (const Phase *p = s->phases; p < s->phases + s->count; ++p) products += p->count * p->taps;
    z[TASKS] = tasks;
    z[ELEMENTS] = s->sizes->images * products * s->columns / OPERATIONS_PER_ELEMENT;
    return run_tasks((char **)s, z, s->sizes->team, 0, work, 0) || s->code ? NO_MEMORY : 0;
}
int direct_conv_$N(const int64_t *h, char **data) {
    const Sizes *s = (const Sizes *)h;
    const Frame f = frame_of_windows(s);
    const int64_t padded = padded_$N(s->results);
    const int64_t extents = s->axes[0].extent * s->axes[1].extent * s->axes[2].extent;
    const int64_t rows = extents * s->channels;
    Phase p;
    int code = NO_MEMORY;
    if (windows_of(s, &f, rows * padded * sizeof($W), &p)) {
        for (int64_t k = 0; k < rows; ++k)
            for (int64_t c = 0; c < padded; ++c)
                (($W *)p.filters)[k * padded + c] =
                    c < s->results ? WIDE_$N((($T *)data[1])[k * s->results + c]) : 0;
        Shared_$N shared = {s, &f, &p, 1, s->results, padded, 1, data};
        code = run_$N(&shared, work_$N, s->images);
    }
    free_phase(&p);
    return code;
}
/* One phase of the gradient of the data; the filters lie in the order of its taps. */
static int phase_$N(const Sizes *s, const Frame *f, const int64_t *at, const $T *w, Phase *p) {
    const Axis *a = s->axes, *b = a + 1, *c = a + 2;
    const int64_t rows = positions(a, at[0]), columns = positions(b, at[1]);
    const int64_t depth = positions(c, at[2]), padded = padded_$N(s->channels);
    const int64_t extents = a->extent * b->extent * c->extent;
    if (!take_phase(p, rows * columns * depth, extents, extents * s->results * padded * sizeof($W)))
        return 0;
    for (int64_t i = 0; i < rows; ++i)
    for (int64_t j = 0; j < columns; ++j)
    for (int64_t k = 0; k < depth; ++k) {
        const int64_t line = (at[0] + i * a->stride) * b->size + at[1] + j * b->stride;
        p->at[p->count] = place_in(f, i, j, k);
        p->to[p->count++] = (line * c->size + at[2] + k * c->stride) * s->channels;
    }
    $W *to = p->filters;
    /* From the last element to the first, so that taps are in the order of memory. */
    for (int64_t e = extents - 1; e >= 0; --e) {
        const int64_t i = e / c->extent / b->extent, j = e / c->extent % b->extent;
        int64_t u, v, t;
        if (!meets(a, at[0], i, &u) || !meets(b, at[1], j, &v)) continue;
        if (!meets(c, at[2], e % c->extent, &t)) continue;
        add_tap(p, place_in(f, u + f->low[0], v + f->low[1], t + f->low[2]), s->results);
        for (int64_t o = 0; o < s->results; ++o, to += padded)
            for (int64_t n = 0; n < padded; ++n)
                to[n] = n < s->channels ? WIDE_$N(w[(e * s->channels + n) * s->results + o]) : 0;
    }
    return 1;
}
int direct_conv_input_gradient_$N(const int64_t *h, char **data) {
    const Sizes *s = (const Sizes *)h;
    const Axis *a = s->axes, *b = a + 1, *c = a + 2;
    const Frame f = frame_of_positions(s);
    const int64_t most = a->stride * b->stride * c->stride;
    Phase *phases = calloc(most, sizeof(Phase));
    int64_t count = 0;
    int code = phases ? 0 : NO_MEMORY;
    for (int64_t k = 0; k < most && !code; ++k) {
        const int64_t at[3] = {k / c->stride / b->stride, k / c->stride % b->stride, k % c->stride};
        if (at[0] >= a->size || at[1] >= b->size || at[2] >= c->size) continue;
        if (!phase_$N(s, &f, at, ($T *)data[1], phases + count++)) code = NO_MEMORY;
    }
    Shared_$N shared = {s, &f, phases, count, s->channels, padded_$N(s->channels), 1, data};
    if (!code) code = run_$N(&shared, work_$N, s->images);
    for (int64_t k = 0; k < count; ++k) free_phase(phases + k);
    free(phases);
    return code;
}
int direct_conv_filter_gradient_$N(const int64_t *h, char **data) {
    const Sizes *s = (const Sizes *)h;
    const Frame f = frame_of_windows(s);
    const int64_t padded = padded_$N(s->results), columns = s->results;
    const int64_t parts = s->images < MOST_PARTS ? s->images : MOST_PARTS;
    Phase p;
    int code = NO_MEMORY;
    if (windows_of(s, &f, 0, &p)) {
        const int64_t size = p.taps * padded;
        Shared_$N shared = {s, &f, &p, 1, columns, padded, parts, data};
        shared.sums = calloc(parts * size + 1, sizeof($W));
        if (shared.sums) code = run_$N(&shared, work_products_$N, parts);
        for (int64_t k = 0; k < p.taps && !code; ++k)
            for (int64_t c = 0; c < columns; ++c) {
                $W sum = 0;
                for (int64_t n = 0; n < parts; ++n) sum += shared.sums[n * size + k * padded + c];
                (($T *)data[2])[k * columns + c] = ROUNDED_$N(sum);
            }
        free(shared.sums);
    }
    free_phase(&p);
    return code;
}
""")
