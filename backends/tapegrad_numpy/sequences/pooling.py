"""Pooling in sequences: maxima and means of windows over `x[n, *spatial, c]`, and their gradients.

Channels are neighbours in memory, so the innermost loops run over them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import Any

from tapegrad.core.backend.native_sequences import Layout
from tapegrad_numpy.sequences.functions import Functions, Made, Writer, are_contiguous, for_dtypes
from tapegrad_numpy.sequences.windows import AXES, axes_numbers

_REAL = ("float32", "float64")

# The numbers of all functions: images, channels, and those of the axes.
_GEOMETRY = r"""
/* By how many elements the sum of a window is divided: those that are not padding, or all. */
static inline int64_t divisor_of(const Axis *axes, Part p, Part q, Part r, int64_t counts_padding) {
    if (counts_padding) return axes[0].extent * axes[1].extent * axes[2].extent;
    const int64_t real = (p.end - p.begin) * (q.end - q.begin) * (r.end - r.begin);
    return real ? real : 1;
}
#define GEOMETRY \
    const int64_t images = h[0], channels = h[1]; \
    const Axis *axes = (const Axis *)(h + 2), *a = axes, *b = axes + 1, *c = axes + 2; \
    const int64_t block = a->size * b->size * c->size
#define WINDOWS \
    for (int64_t n = 0; n < images; ++n) \
    for (int64_t i = 0; i < a->count; ++i) \
    for (int64_t j = 0; j < b->count; ++j) \
    for (int64_t k = 0; k < c->count; ++k)
#define PARTS const Part p = part_of(a, i), q = part_of(b, j), r = part_of(c, k)
/* The element (u, v, w) of the window (i, j, k), in the block of an image. */
#define PLACE(u, v, w) \
    (((i * a->stride - a->low + (u) * a->step) * b->size + j * b->stride - b->low + \
      (v) * b->step) * c->size + k * c->stride - c->low + (w) * c->step)
"""

_TEXT = r"""
enum { BLOCK_$N = 64 };
int max_pool_$N(const int64_t *h, char **data) {
    GEOMETRY;
    const $T *x = (const $T *)data[0];
    $T *y = ($T *)data[1];
    int64_t *found = (int64_t *)data[2];
    WINDOWS {
        PARTS;
        if (p.begin == p.end || q.begin == q.end || r.begin == r.end) return IN_PYTHON;
        for (int64_t first = 0; first < channels; first += BLOCK_$N) {
            const int64_t some = channels - first < BLOCK_$N ? channels - first : BLOCK_$N;
            $T best[BLOCK_$N];
            int32_t winner[BLOCK_$N];
            for (int64_t z = 0; z < some; ++z) best[z] = -INFINITY;
            const int32_t start = (int32_t)PLACE(p.begin, q.begin, r.begin);
            for (int64_t z = 0; z < some; ++z) winner[z] = start;
            for (int64_t u = p.begin; u < p.end; ++u)
            for (int64_t v = q.begin; v < q.end; ++v)
            for (int64_t w = r.begin; w < r.end; ++w) {
                const int64_t place = PLACE(u, v, w);
                const $T *from = x + (n * block + place) * channels + first;
                for (int64_t z = 0; z < some; ++z) {
                    const $T other = from[z], own = best[z];
                    const int wins = (other > own) | ((other != other) & (own == own));
                    best[z] = wins ? other : own;
                    winner[z] = wins ? (int32_t)place : winner[z];
                }
            }
            for (int64_t z = 0; z < some; ++z) y[first + z] = best[z];
            for (int64_t z = 0; z < some; ++z) found[first + z] = winner[z];
        }
        y += channels, found += channels;
    }
    return 0;
}
/* The sums along the first axis are added first, as NumPy's kernel does. */
int avg_pool_$N(const int64_t *h, char **data) {
    GEOMETRY;
    const $T *x = (const $T *)data[0];
    $T *y = ($T *)data[1];
    WINDOWS {
        PARTS;
        const $T count = ($T)divisor_of(axes, p, q, r, h[2 + 3 * 6]);
        for (int64_t first = 0; first < channels; first += BLOCK_$N) {
            const int64_t some = channels - first < BLOCK_$N ? channels - first : BLOCK_$N;
            $T sum[BLOCK_$N] = {0}, column[BLOCK_$N], plane[BLOCK_$N];
            for (int64_t w = r.begin; w < r.end; ++w) {
                for (int64_t z = 0; z < some; ++z) plane[z] = 0;
                for (int64_t v = q.begin; v < q.end; ++v) {
                    for (int64_t z = 0; z < some; ++z) column[z] = 0;
                    for (int64_t u = p.begin; u < p.end; ++u) {
                        const $T *from = x + (n * block + PLACE(u, v, w)) * channels + first;
                        for (int64_t z = 0; z < some; ++z) column[z] += from[z];
                    }
                    for (int64_t z = 0; z < some; ++z) plane[z] += column[z];
                }
                for (int64_t z = 0; z < some; ++z) sum[z] += plane[z];
            }
            for (int64_t z = 0; z < some; ++z) y[first + z] = sum[z] / count;
        }
        y += channels;
    }
    return 0;
}
int avg_pool_gradient_$N(const int64_t *h, char **data) {
    GEOMETRY;
    const $T *t = (const $T *)data[0];
    $T *g = ($T *)data[1];
    memset(g, 0, images * block * channels * sizeof($T));
    WINDOWS {
        PARTS;
        const $T count = ($T)divisor_of(axes, p, q, r, h[2 + 3 * 6]);
        for (int64_t first = 0; first < channels; first += BLOCK_$N) {
            const int64_t some = channels - first < BLOCK_$N ? channels - first : BLOCK_$N;
            $T share[BLOCK_$N];
            for (int64_t z = 0; z < some; ++z) share[z] = t[first + z] / count;
            for (int64_t u = p.begin; u < p.end; ++u)
            for (int64_t v = q.begin; v < q.end; ++v)
            for (int64_t w = r.begin; w < r.end; ++w) {
                $T *to = g + (n * block + PLACE(u, v, w)) * channels + first;
                for (int64_t z = 0; z < some; ++z) to[z] += share[z];
            }
        }
        t += channels;
    }
    return 0;
}
/* Images, channels, places of an image in t and in the result. */
int pool_scatter_$N(const int64_t *h, char **data) {
    const int64_t images = h[0], channels = h[1], places = h[2], block = h[3];
    const $T *t = (const $T *)data[0];
    const int64_t *from = (const int64_t *)data[1];
    $T *g = ($T *)data[2];
    memset(g, 0, images * block * channels * sizeof($T));
    for (int64_t n = 0; n < images; ++n, g += block * channels)
        for (int64_t i = 0; i < places; ++i, t += channels, from += channels)
            for (int64_t z = 0; z < channels; ++z) {
                if (from[z] < 0 || from[z] >= block) return IN_PYTHON;
                g[from[z] * channels + z] += t[z];
            }
    return 0;
}
"""

FUNCTIONS = Functions(lambda: AXES + _GEOMETRY + for_dtypes(_TEXT, _REAL))


def _is_known(operands: Sequence[Layout], results: Sequence[Layout]) -> bool:
    given = (*operands, *results)
    is_filled = all(x.size for x in given)
    return is_filled and are_contiguous(operands) and results[0].dtype.name in _REAL


def _pooling(name: str, *, is_gradient: bool) -> Writer:
    def write(
        operands: Sequence[Layout], results: Sequence[Layout], params: Mapping[str, Any]
    ) -> Made:
        if not _is_known(operands, results):
            return None
        large, small = (results[0], operands[0]) if is_gradient else (operands[0], results[0])
        spatial = large.shape[1:-1]
        # The position of a maximum in its image is a number of 32 bits.
        numbers = (
            axes_numbers(spatial, small.shape[1:-1], params) if prod(spatial) < 2**31 else None
        )
        if numbers is None:
            return None
        head = [large.shape[0], large.shape[-1], *numbers]
        head.append(int(params.get("count_padding", False)))
        arrays = range(1 + len(results))
        dtype = operands[0].dtype.name
        return FUNCTIONS.step(f"{name}_{dtype}", arrays, head, small.size * prod(params["window"]))

    return write


def _scatter(
    operands: Sequence[Layout], results: Sequence[Layout], params: Mapping[str, Any]
) -> Made:
    if not _is_known(operands, results) or operands[1].dtype.name != "int64":
        return None
    t, (g,) = operands[0], results
    numbers = (t.shape[0], t.shape[-1], prod(t.shape[1:-1]), prod(g.shape[1:-1]))
    return FUNCTIONS.step(f"pool_scatter_{t.dtype.name}", (0, 1, 2), numbers, t.size + g.size)


WRITERS: dict[str, Writer] = {
    "max_pool": _pooling("max_pool", is_gradient=False),
    "avg_pool": _pooling("avg_pool", is_gradient=False),
    "avg_pool_gradient": _pooling("avg_pool_gradient", is_gradient=True),
    "pool_scatter": _scatter,
}
