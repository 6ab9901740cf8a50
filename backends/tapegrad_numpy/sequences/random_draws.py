"""Random draws in sequences: the words and formulas of kernels/philox.py in C.

Normal draws are left to NumPy, whose sines and logarithms differ from those in C in the last bits.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tapegrad.core.backend.native_sequences import Layout
from tapegrad_numpy.sequences.functions import Functions, Made, Writer, are_contiguous

_REAL = ("float32", "float64")
_WEIGHT = 8
"""Elements of a loop that take as long as a random number."""

_WORDS = r"""
enum { AT_ONCE = 256 };
/* The words of `counters` counters of a draw, from `first` on. */
static void words_of(const uint64_t *state, uint64_t first, int64_t counters, uint32_t *words) {
    #pragma omp simd
    for (int64_t i = 0; i < counters; ++i) {
        const uint64_t counter = first + i;
        uint32_t c0 = (uint32_t)counter, c1 = (uint32_t)(counter >> 32);
        uint32_t c2 = (uint32_t)state[1], c3 = (uint32_t)(state[1] >> 32);
        uint32_t k0 = (uint32_t)state[0], k1 = (uint32_t)(state[0] >> 32);
        for (int round = 0; round < 10; ++round, k0 += 0x9E3779B9u, k1 += 0xBB67AE85u) {
            const uint64_t p0 = (uint64_t)c0 * 0xD2511F53u, p1 = (uint64_t)c2 * 0xCD9E8D57u;
            const uint32_t next = (uint32_t)(p1 >> 32) ^ c1 ^ k0;
            c2 = (uint32_t)(p0 >> 32) ^ c3 ^ k1;
            c0 = next; c1 = (uint32_t)p1; c3 = (uint32_t)p0;
        }
        words[4 * i] = c0; words[4 * i + 1] = c1; words[4 * i + 2] = c2; words[4 * i + 3] = c3;
    }
}
/* Run a statement for pieces of the elements 0 to h[0] - 1: `count` of them from `start` on, with
   their words at `w`, `per` words for each element. */
#define FOR_PIECES(per) \
    const uint64_t *state = (const uint64_t *)data[0]; \
    uint32_t w[AT_ONCE * 4]; \
    const int64_t piece = AT_ONCE * 4 / (per); \
    for (int64_t start = 0, count; start < h[0]; start += count) \
        if (count = h[0] - start < piece ? h[0] - start : piece, \
            words_of(state, start * (per) / 4, (count * (per) + 3) / 4, w), 1)
static inline uint64_t pair(const uint32_t *w, int64_t e) {
    return (uint64_t)w[2 * e + 1] << 32 | w[2 * e];
}
static inline double unit(const uint32_t *w, int64_t e) { return (pair(w, e) >> 11) * 0x1p-53; }

int uniform_float32(const int64_t *h, char **data) {
    float *y = (float *)data[1];
    FOR_PIECES(1) for (int64_t i = 0; i < count; ++i) y[start + i] = (w[i] >> 8) * 0x1p-24f;
    return 0;
}
int uniform_float64(const int64_t *h, char **data) {
    double *y = (double *)data[1];
    FOR_PIECES(2) for (int64_t i = 0; i < count; ++i) y[start + i] = unit(w, i);
    return 0;
}
int bernoulli(const int64_t *h, char **data) {
    uint8_t *y = (uint8_t *)data[1];
    FOR_PIECES(1) for (int64_t i = 0; i < count; ++i) y[start + i] = w[i] >= (uint64_t)h[1];
    return 0;
}
#define WHOLE_NUMBERS(name, T) \
int name(const int64_t *h, char **data) { \
    T *y = (T *)data[1]; \
    FOR_PIECES(2) for (int64_t i = 0; i < count; ++i) \
        y[start + i] = (T)(h[1] + (int64_t)((unsigned __int128)pair(w, i) * h[2] >> 64)); \
    return 0; \
}
"""


def _text() -> str:
    whole = "WHOLE_NUMBERS(integers_int32, int32_t)\nWHOLE_NUMBERS(integers_int64, int64_t)\n"
    return _WORDS + whole


FUNCTIONS = Functions(_text)


def _is_state(operands: Sequence[Layout]) -> bool:
    is_alone = len(operands) == 1 and operands[0].dtype.name == "uint64"
    return is_alone and operands[0].size == 2 and are_contiguous(operands)


def _real(name: str) -> Writer:
    def write(
        operands: Sequence[Layout], results: Sequence[Layout], params: Mapping[str, Any]
    ) -> Made:
        (y,) = results
        if not _is_state(operands) or y.dtype.name not in _REAL:
            return None
        return FUNCTIONS.step(f"{name}_{y.dtype.name}", (0, 1), (y.size,), _WEIGHT * y.size)

    return write


def _bernoulli(
    operands: Sequence[Layout], results: Sequence[Layout], params: Mapping[str, Any]
) -> Made:
    (y,) = results
    if not _is_state(operands) or y.dtype.name != "bool":
        return None
    threshold = math.ceil(float(np.float32(params["rate"])) * 2**24) << 8
    return FUNCTIONS.step("bernoulli", (0, 1), (y.size, threshold), _WEIGHT * y.size)


def _integers(
    operands: Sequence[Layout], results: Sequence[Layout], params: Mapping[str, Any]
) -> Made:
    (y,), low, high = results, params["low"], params["high"]
    if not _is_state(operands) or y.dtype.name not in ("int32", "int64"):
        return None
    limits = np.iinfo(y.dtype)
    if not limits.min <= low < high <= limits.max or high - low >= 1 << 63:
        return None
    numbers = (y.size, low, high - low)
    return FUNCTIONS.step(f"integers_{y.dtype.name}", (0, 1), numbers, _WEIGHT * y.size)


WRITERS: dict[str, Writer] = {
    "random_bernoulli": _bernoulli,
    "random_integers": _integers,
    "random_uniform": _real("uniform"),
}
