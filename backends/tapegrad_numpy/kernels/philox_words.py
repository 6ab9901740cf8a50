"""Counter-based random words, equal on every device, in any order and for any size.

Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", 2011) turns a 128-bit
counter and a 64-bit key into four 32-bit words. The key is the seed. The upper half of the counter
is the offset, which names the draw; the lower half counts inside the draw. Word e of a draw is lane
`e % 4` of counter `e // 4`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]

_ROUNDS = 10
_LOW = 0xFFFFFFFF
_MULTIPLIERS = (0xD2511F53, 0xCD9E8D57)
_WEYL = (0x9E3779B9, 0xBB67AE85)
# Counters per block: the six scratch rows, 384 KiB, stay in the second-level cache.
_BLOCK = 8192

LEAST_COMPILED = 512
"""The number of elements from which a draw in C is faster than in NumPy."""


def philox(counters: Array, seed: int, offset: int) -> Array:
    """Return the four words, uint32[n, 4], of each 64-bit counter of the draw `offset`."""
    words = np.empty((counters.size, 4), np.uint32)
    scratch = np.empty((6, min(_BLOCK, counters.size)), np.uint64)
    keys = [
        [np.array((half + r * weyl) & _LOW, np.uint64) for half, weyl in zip(_halves(seed), _WEYL)]
        for r in range(_ROUNDS)
    ]
    for start in range(0, counters.size, _BLOCK):
        block = counters[start : start + _BLOCK]
        lanes = _philox_block(block, keys, offset, scratch[:, : block.size])
        for lane in range(4):
            words[start : start + _BLOCK, lane] = lanes[lane]
    return words


def _philox_block(counters: Array, keys: list[list[Array]], offset: int, scratch: Array) -> Array:
    low, half = np.array(_LOW, np.uint64), np.array(32, np.uint64)
    m0, m1 = (np.array(m, np.uint64) for m in _MULTIPLIERS)
    multiply, shift, xor, mask = np.multiply, np.right_shift, np.bitwise_xor, np.bitwise_and
    c0, c1, c2, c3, p0, p1 = scratch
    mask(counters, low, c0)
    shift(counters, half, c1)
    c2[:], c3[:] = _halves(offset)
    for k0, k1 in keys:
        multiply(c0, m0, p0)
        multiply(c2, m1, p1)
        shift(p1, half, c0)
        xor(c0, c1, c0)
        xor(c0, k0, c0)
        mask(p1, low, c1)
        shift(p0, half, c2)
        xor(c2, c3, c2)
        xor(c2, k1, c2)
        mask(p0, low, c3)
    return scratch


def _halves(number: int) -> tuple[int, int]:
    return number & _LOW, number >> 32


def random_bits(seed: int, offset: int, count: int, *, start: int = 0) -> Array:
    """Return the first `count` words, uint32, of a draw, or those from counter `start` on."""
    found = compiled_draw("words", np.array([seed, offset], np.uint64), count, first=start)
    if found is not None:
        return found[0]
    counters = np.arange((count + 3) // 4, dtype=np.uint64)
    counters += np.uint64(start)
    return philox(counters, seed, offset).reshape(-1)[:count]


CompiledDraw = Callable[..., tuple[Array, ...] | None]
_compiled: list[CompiledDraw] = []


def draw_compiled_by(draw: CompiledDraw) -> CompiledDraw:
    """Let `compiled_draw` call a function; for use as a decorator."""
    _compiled[:] = [draw]
    return draw


def compiled_draw(name: str, state: Array, size: int, **numbers: int) -> tuple[Array, ...] | None:
    """Return a draw by a compiled function with the same bits; None where NumPy draws it."""
    if size < LEAST_COMPILED or not _compiled:
        return None
    return _compiled[0](name, state, size, **numbers)


def draw_words(state: Array, count: int, *, start: int = 0) -> Array:
    """Return `random_bits` for a state, the uint64 array `[seed, offset]`."""
    return random_bits(int(state[0]), int(state[1]), count, start=start)


def draw_pairs(state: Array, count: int) -> Array:
    """Return the first `count` pairs of a draw, uint64: pair e is words 2e and 2e + 1."""
    return as_pairs(draw_words(state, 2 * count))


def as_pairs(words: Array) -> Array:
    """Join each two words along the last axis into one 64-bit number, the first as lower half."""
    return words.astype("<u4", copy=False).view("<u8").astype(np.uint64, copy=False)


def unit(pairs: Array) -> Array:
    """Map 64-bit numbers to float64 in [0, 1) by their upper 53 bits."""
    values = (pairs >> np.uint64(11)).astype(np.float64)
    values *= 2.0**-53
    return values
