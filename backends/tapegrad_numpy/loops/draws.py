"""Random draws in C: the words of kernels/philox_words.py, and numbers made of them.

All results have the same bits as those of the kernels in NumPy.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from tapegrad_numpy.loops.binding import caller
from tapegrad_numpy.loops.compile import addresses_of
from tapegrad_numpy.loops.compiled_parts import CompiledParts, compiled_parts
from tapegrad_numpy.loops.layout import Cut
from tapegrad_numpy.loops.libraries import Address
from tapegrad_numpy.loops.pool import team
from tapegrad_numpy.loops.source import CUT, Kernel

WORDS_TEXT = r"""
#ifndef AT_ONCE
#define AT_ONCE 256
#define ROUND(n) { \
    const uint64_t p0 = (uint64_t)c0 * 0xD2511F53u, p1 = (uint64_t)c2 * 0xCD9E8D57u; \
    const uint32_t next = (uint32_t)(p1 >> 32) ^ c1 ^ (k0 + n * 0x9E3779B9u); \
    c2 = (uint32_t)(p0 >> 32) ^ c3 ^ (k1 + n * 0xBB67AE85u); \
    c0 = next; c1 = (uint32_t)p1; c3 = (uint32_t)p0; }
/* The words of `counters` counters of a draw, from `first` on. */
static void words_of(const uint64_t *state, uint64_t first, int64_t counters, uint32_t *words) {
    const uint32_t k0 = (uint32_t)state[0], k1 = (uint32_t)(state[0] >> 32);
    const uint32_t low = (uint32_t)state[1], high = (uint32_t)(state[1] >> 32);
    uint32_t lanes[4][AT_ONCE];
    #pragma omp simd
    for (int64_t i = 0; i < counters; ++i) {
        const uint64_t counter = first + i;
        uint32_t c0 = (uint32_t)counter, c1 = (uint32_t)(counter >> 32), c2 = low, c3 = high;
        ROUND(0) ROUND(1) ROUND(2) ROUND(3) ROUND(4) ROUND(5) ROUND(6) ROUND(7) ROUND(8) ROUND(9)
        lanes[0][i] = c0; lanes[1][i] = c1; lanes[2][i] = c2; lanes[3][i] = c3;
    }
    #pragma omp simd
    for (int64_t i = 0; i < counters; ++i) {
        words[4 * i] = lanes[0][i]; words[4 * i + 1] = lanes[1][i];
        words[4 * i + 2] = lanes[2][i]; words[4 * i + 3] = lanes[3][i];
    }
}
#endif
"""


class _Draw(NamedTuple):
    """A kind of draw."""

    words: int
    """The words per element."""
    dtypes: tuple[str, ...]
    """Of the results."""
    statement: str
    """Writes element `i` of a piece whose words are `w`; `z[11]` and `z[12]` are its numbers."""


_DRAWS = {
    "words": _Draw(1, ("uint32",), "y0[i] = w[i];"),
    "uniform_float32": _Draw(1, ("float32",), "y0[i] = (w[i] >> 8) * 0x1p-24f;"),
    "uniform_float64": _Draw(
        2, ("float64",),
        "y0[i] = (((uint64_t)w[2 * i + 1] << 32 | w[2 * i]) >> 11) * 0x1p-53;",
    ),
    "bernoulli": _Draw(1, ("bool",), "y0[i] = w[i] >= (uint64_t)z[12];"),
    "normal_inputs": _Draw(
        2, ("float32", "float32"),
        "y0[i] = w[2 * i] * 0x1p-32f + 0x1p-33f; y1[i] = (w[2 * i + 1] >> 8) * 0x1p-24f;",
    ),
}  # fmt: skip
_TYPES = {"uint32": "uint32_t", "float32": "float", "float64": "double", "bool": "uint8_t"}
_TASK = 1 << 13
"""The number of elements per task: a whole number of pieces."""
_WEIGHT = 4
"""Elements of a loop that take as long as a word."""
_WORTH_COMPILING = 1 << 15
"""The number of elements from which a draw is worth a run of the compiler."""


def _kernel(name: str, size: int, numbers: tuple[int, int]) -> Kernel:
    draw = _DRAWS[name]
    results = [
        f"{_TYPES[dtype]} *restrict y{k} = ({_TYPES[dtype]} *)data[{k + 1}] + start;"
        for k, dtype in enumerate(draw.dtypes)
    ]
    text = [
        WORDS_TEXT,
        "static void work_KEY(char **data, const int64_t *z, int64_t task, Slot *slots) {",
        "const uint64_t *state = (const uint64_t *)data[0];",
        "uint32_t w[4 * AT_ONCE];",
        f"int64_t start = task * {_TASK}, last = start + {_TASK};",
        f"last = last < {CUT['inner']} ? last : {CUT['inner']};",
        "for (int64_t count; start < last; start += count) {",
        f"count = {4 // draw.words} * AT_ONCE;",
        "count = last - start < count ? last - start : count;",
        f"const uint64_t first = (uint64_t)z[11] + start * {draw.words} / 4;",
        f"words_of(state, first, (count * {draw.words} + 3) / 4, w);",
        *results,
        "#pragma omp simd",
        f"for (int64_t i = 0; i < count; ++i) {{ {draw.statement} }}",
        "}\n}",
    ]
    cut = Cut(
        inner=size, piece=_TASK, pieces=1, rows=1, rows_at_once=1, deep=1, slices=1, share=1,
        tasks=-(-size // _TASK), results=0, elements=size * draw.words * _WEIGHT,
    )  # fmt: skip
    return Kernel("\n".join(text), frozenset(), (*cut, *numbers), 0)


_found: dict[str, Address | None] = {}


def _address(name: str, kernel: Kernel) -> Address | None:
    """The compiled function of a kind of draw, which has one text for all sizes."""
    if name not in _found:
        (_found[name],) = addresses_of([kernel])
    return _found[name]


def draw_parts(name: str, size: int, number: int = 0) -> CompiledParts | None:
    """Return the compiled parts of a draw for programs; None if there is no compiler."""
    kernel = _kernel(name, size, (0, number))
    address = _address(name, kernel)
    if address is None:
        return None
    return compiled_parts(kernel, address, 1 + len(_DRAWS[name].dtypes), team())


def draw(
    name: str, state: Any, size: int, *, first: int = 0, number: int = 0
) -> tuple[Any, ...] | None:
    """Return new arrays of `size` elements of a draw; None where NumPy draws them."""
    if size < _WORTH_COMPILING and name not in _found:
        return None
    function = _caller(name, size, first, number)
    results = tuple([np.empty(size, dtype) for dtype in _DRAWS[name].dtypes])
    if function is None or function(np.ascontiguousarray(state, np.uint64), *results):
        return None
    return results


@lru_cache(maxsize=256)
def _caller(name: str, size: int, first: int, number: int) -> Any:
    kernel = _kernel(name, size, (first, number))
    address = _address(name, kernel)
    if address is None:
        return None
    arrays = [(np.dtype(np.uint64), (2,))]
    arrays += [(np.dtype(dtype), (size,)) for dtype in _DRAWS[name].dtypes]
    return caller(arrays, 1, kernel, address)
