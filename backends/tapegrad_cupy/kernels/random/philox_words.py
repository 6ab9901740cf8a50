"""Counter-based random words on the device, equal to those of tapegrad_numpy.

The kernels read the state, a uint64 array `[seed, offset]`, on the device. A captured graph
draws new numbers at each replay, and the host never waits.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import Any

import cupy as xp
import numpy as np

from tapegrad_cupy.launch.cuda_source import Source

Array = Any

_THREADS = 256
# Enough blocks to fill any device; each thread loops over the rest.
_MOST_BLOCKS = 1 << 16

PHILOX = r"""
typedef unsigned int u32;
typedef unsigned long long u64;

__device__ __forceinline__ uint4 philox(u64 counter, u64 seed, u64 offset) {
    u32 c0 = (u32)counter, c1 = (u32)(counter >> 32);
    u32 c2 = (u32)offset, c3 = (u32)(offset >> 32);
    u32 k0 = (u32)seed, k1 = (u32)(seed >> 32);
    #pragma unroll
    for (int round = 0; round < 10; ++round) {
        u32 high0 = __umulhi(0xD2511F53u, c0), low0 = 0xD2511F53u * c0;
        u32 high1 = __umulhi(0xCD9E8D57u, c2), low1 = 0xCD9E8D57u * c2;
        c0 = high1 ^ c1 ^ k0;
        c1 = low1;
        c2 = high0 ^ c3 ^ k1;
        c3 = low0;
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
    return make_uint4(c0, c1, c2, c3);
}
"""

_FILL = (
    PHILOX
    + r"""
extern "C" __global__ void tapegrad_random_words(
    const u64* state, uint4* words, long long counters, u64 start
) {
    u64 seed = state[0], offset = state[1];
    long long stride = (long long)gridDim.x * blockDim.x;
    long long first = (long long)blockIdx.x * blockDim.x + threadIdx.x;
    for (long long i = first; i < counters; i += stride) {
        words[i] = philox(start + (u64)i, seed, offset);
    }
}
"""
)


@functools.cache
def _fill_kernel() -> Any:
    return xp.RawKernel(_FILL, "tapegrad_random_words")


def variants() -> Iterator[Source]:
    """Yield the only source of this module."""
    yield Source("random_words", _FILL, ())


def draw_words(state: Array, count: int, *, start: int = 0) -> Array:
    """Return `count` words of a draw as uint32, starting at the counter `start`."""
    counters = (count + 3) // 4
    words = xp.empty(4 * counters, dtype=np.uint32)
    if counters:
        blocks = min(_MOST_BLOCKS, (counters + _THREADS - 1) // _THREADS)
        arguments = (xp.ascontiguousarray(state), words, np.int64(counters), np.uint64(start))
        _fill_kernel()((blocks,), (_THREADS,), arguments)
    return words[:count]


def draw_pairs(state: Array, count: int) -> Array:
    """Return the first `count` pairs of words as uint64; pair e is words 2e and 2e + 1."""
    return draw_words(state, 2 * count).view(np.uint64)


def unit(pairs: Array) -> Array:
    """Map 64-bit numbers to float64 in [0, 1) by their upper 53 bits."""
    return (pairs >> np.uint64(11)).astype(np.float64) * 2.0**-53
