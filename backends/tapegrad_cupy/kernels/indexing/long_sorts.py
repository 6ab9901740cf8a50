"""Sort rows of more elements than a block sorts: sorted chunks of a row are merged.

One launch sorts chunks of 4096 elements in shared memory. Each further launch merges pairs of
sorted runs to runs of twice the length: a block finds by binary search which parts of both runs
make its part of the result, and merges them in shared memory. The last one writes the results.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import Any

import cupy
import numpy as np

from tapegrad_cupy.kernels.indexing.sorting_keys import LONGEST, SOURCE, macros
from tapegrad_cupy.launch.cuda_source import Source, compile_kernel, full_source
from tapegrad_cupy.launch.launch import Kernel

Array = Any

MOST_ELEMENTS = 1 << 27
"""The most elements that are sorted at once. Keys and positions take 16 to 24 bytes for each."""

_MERGING_THREADS = 256
_EACH = 8
"""Elements that a thread merges."""

_SOURCE = (
    SOURCE
    + r"""
// Sort the chunks of rows; what a row lacks to fill its last chunk comes last.
extern "C" __global__ void __launch_bounds__(THREADS) sort_chunks(
    const T* __restrict__ x, KEY* __restrict__ sorted, int* __restrict__ sources,
    i64 chunks, int length
) {
    __shared__ KEY keys[SIZE];
    __shared__ int from[SIZE];
    i64 row = blockIdx.x / chunks;
    int first = (int)(blockIdx.x % chunks) * SIZE;
    for (int i = threadIdx.x; i < SIZE; i += THREADS) {
        int place = first + i;
        keys[i] = place < length ? key_of(x[row * length + place]) : ~(KEY)0;
        from[i] = place;
    }
    sort_shared(keys, from);
    i64 begin = (i64)blockIdx.x * SIZE;
    for (int i = threadIdx.x; i < SIZE; i += THREADS) {
        sorted[begin + i] = keys[i];
        sources[begin + i] = from[i];
    }
}

// Return how many of the first `count` elements of two merged runs are from the first run.
__device__ __forceinline__ int split(const KEY* a, int na, const KEY* b, int nb, int count) {
    int low = count > nb ? count - nb : 0, high = count < na ? count : na;
    while (low < high) {
        int middle = (low + high) / 2;
        if (a[middle] <= b[count - 1 - middle]) low = middle + 1;
        else high = middle;
    }
    return low;
}

// Merge pairs of runs of rows with `padded` elements. Equal elements of the first run come first.
extern "C" __global__ void __launch_bounds__(MERGING) merge_runs(
    const KEY* __restrict__ keys, const int* __restrict__ sources, KEY* __restrict__ merged,
    int* __restrict__ merged_sources, const T* __restrict__ x, T* __restrict__ values,
    i64* __restrict__ places, i64 padded, i64 run, int length, int kept, int is_last
) {
    __shared__ KEY k[MERGING * EACH];
    __shared__ int f[MERGING * EACH];
    __shared__ int taken[2];
    const int tile = MERGING * EACH;
    i64 tiles = padded / tile;
    i64 row = blockIdx.x / tiles;
    i64 begin = (i64)(blockIdx.x % tiles) * tile;
    i64 start = begin / (2 * run) * (2 * run);
    i64 middle = start + run < padded ? start + run : padded;
    i64 end = start + 2 * run < padded ? start + 2 * run : padded;
    const KEY* a = keys + row * padded + start;
    const KEY* b = keys + row * padded + middle;
    int na = (int)(middle - start), nb = (int)(end - middle), first = (int)(begin - start);
    if (threadIdx.x < 2) taken[threadIdx.x] = split(a, na, b, nb, first + (int)threadIdx.x * tile);
    __syncthreads();
    int a0 = taken[0], ca = taken[1] - a0, b0 = first - a0, cb = tile - ca;
    const int* fa = sources + row * padded + start;
    const int* fb = sources + row * padded + middle;
    for (int i = threadIdx.x; i < tile; i += MERGING) {
        k[i] = i < ca ? a[a0 + i] : b[b0 + i - ca];
        f[i] = i < ca ? fa[a0 + i] : fb[b0 + i - ca];
    }
    __syncthreads();
    int own = threadIdx.x * EACH;
    int i = split(k, ca, k + ca, cb, own), j = own - i;
    KEY my_keys[EACH];
    int my_sources[EACH];
#pragma unroll
    for (int e = 0; e < EACH; e++) {
        bool is_first = j >= cb || (i < ca && k[i] <= k[ca + j]);
        int at = is_first ? i++ : ca + j++;
        my_keys[e] = k[at];
        my_sources[e] = f[at];
    }
    __syncthreads();
#pragma unroll
    for (int e = 0; e < EACH; e++) {
        k[own + e] = my_keys[e];
        f[own + e] = my_sources[e];
    }
    __syncthreads();
    for (int n = threadIdx.x; n < tile; n += MERGING) {
        i64 at = begin + n;
        if (!is_last) {
            merged[row * padded + at] = k[n];
            merged_sources[row * padded + at] = f[n];
        } else if (at < kept) {
            if (VALUES) values[row * kept + at] = x[row * length + f[n]];
            if (PLACES) places[row * kept + at] = f[n];
        }
    }
}
"""
)


def sort_long_rows(rows: Array, values: Array, places: Array, descending: bool, wants: str) -> None:
    """Write the sorted elements of contiguous rows, and where they come from, as far as wanted.

    The last axis of what is wanted may be shorter than the rows: the first elements are written.
    """
    length = rows.shape[-1]
    count, chunks = rows.size // length, -(-length // LONGEST)
    kept = (values if wants != "places" else places).shape[-1]
    settings = _settings(rows.dtype.name, descending, wants)
    sort, merge = _kernels(rows.dtype.name, descending, wants)
    padded = chunks * LONGEST
    keys, merged = (cupy.empty(count * padded, _key_dtype(rows.dtype)) for _ in range(2))
    sources, merged_sources = (cupy.empty(count * padded, np.int32) for _ in range(2))
    sort(
        count * chunks, int(settings["THREADS"]),
        rows.data.ptr, keys.data.ptr, sources.data.ptr, chunks, length,
    )  # fmt: skip
    run = LONGEST
    while run < padded:
        merge(
            count * padded // (_MERGING_THREADS * _EACH), _MERGING_THREADS,
            keys.data.ptr, sources.data.ptr, merged.data.ptr, merged_sources.data.ptr,
            rows.data.ptr, values.data.ptr, places.data.ptr,
            padded, run, length, kept, int(2 * run >= padded),
        )  # fmt: skip
        keys, merged, sources, merged_sources = merged, keys, merged_sources, sources
        run *= 2


def _key_dtype(dtype: np.dtype[Any]) -> type[np.generic]:
    return np.uint64 if dtype.itemsize == 8 else np.uint32


@functools.cache
def _kernels(dtype: str, descending: bool, wants: str) -> tuple[Kernel, Kernel]:
    settings = _settings(dtype, descending, wants)

    def compiled(name: str) -> Any:
        return compile_kernel(_SOURCE, name, **settings)

    sort = Kernel(lambda: compiled("sort_chunks"), "PPPqi")
    return sort, Kernel(lambda: compiled("merge_runs"), "PPPPPPPqqiii")


def _settings(dtype: str, descending: bool, wants: str) -> dict[str, str | int]:
    own = {"MERGING": _MERGING_THREADS, "EACH": _EACH}
    return {**macros(dtype, LONGEST, descending, wants), **own}


def variants() -> Iterator[Source]:
    """Yield sources of narrow and wide keys."""
    for dtype, descending, wants in (
        ("float32", False, "values"), ("float64", False, "places"), ("bfloat16", True, "both"),
    ):  # fmt: skip
        text = full_source(_SOURCE, **_settings(dtype, descending, wants))
        yield Source(f"sort_long_rows {dtype} descending={descending} {wants}", text)
