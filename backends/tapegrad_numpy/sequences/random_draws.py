"""Random draws in sequences: the words and formulas of kernels/philox.py in C.

Normal draws are left to NumPy, whose sines and logarithms differ from those in C in the last bits.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tapegrad.core.backend.native_sequences import Layout
from tapegrad_numpy.loops.draws import WORDS_TEXT, draw_parts
from tapegrad_numpy.sequences.functions import Functions, Made, Writer, are_contiguous
from tapegrad_numpy.sequences.loop_steps import step_of

_REAL = ("float32", "float64")
_WEIGHT = 8
"""Elements of a loop that take as long as a random number."""

_PIECES = r"""
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
    return WORDS_TEXT + _PIECES + whole


FUNCTIONS = Functions(_text)


def _is_state(operands: Sequence[Layout]) -> bool:
    is_alone = len(operands) == 1 and operands[0].dtype.name == "uint64"
    return is_alone and operands[0].size == 2 and are_contiguous(operands)


def _draw(name: str, operands: Sequence[Layout], y: Layout, number: int = 0) -> Made:
    parts = draw_parts(name, y.size, number) if _is_state(operands) else None
    return None if parts is None else [step_of(parts)]


def _uniform(
    operands: Sequence[Layout], results: Sequence[Layout], params: Mapping[str, Any]
) -> Made:
    (y,) = results
    return _draw(f"uniform_{y.dtype.name}", operands, y) if y.dtype.name in _REAL else None


def _bernoulli(
    operands: Sequence[Layout], results: Sequence[Layout], params: Mapping[str, Any]
) -> Made:
    threshold = math.ceil(float(np.float32(params["rate"])) * 2**24) << 8
    return _draw("bernoulli", operands, results[0], threshold)


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
    "random_uniform": _uniform,
}
