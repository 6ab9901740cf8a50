"""Sort rows in shared memory: sort, argsort and top_k along an axis of at most 4096 elements.

CuPy sorts all elements by row and value, in many passes over them. Here one block sorts a row, or
several short ones, by a bitonic network. Elements are compared by their values and then by their
positions, so that the order of equal elements is kept.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import Any

import cupy
import numpy as np

from tapegrad_cupy.kernels.generic import run_generic
from tapegrad_cupy.launch.cuda_prelude import C_TYPES
from tapegrad_cupy.launch.cuda_source import (
    MOST_BLOCKS,
    Source,
    compile_kernel,
    contiguous,
    full_source,
)
from tapegrad_cupy.launch.launch import Kernel

Array = Any

LONGEST = 4096
"""The most elements of a row. With keys of eight bytes they take all of 48 KB."""

_AT_ONCE = 1024
"""The least elements that a block sorts; of short rows it sorts several."""

_MOST_THREADS = 1024

_SOURCE = r"""
// A number that grows with the value. Zeros are equal, and NaN comes last.
__device__ __forceinline__ KEY key_of(T stored) {
#if KIND == 2
    W value = (W)stored;
    KEY bits = WIDE ? (KEY)__double_as_longlong((double)value) : (KEY)__float_as_uint((float)value);
    KEY key = bits >> (8 * sizeof(KEY) - 1) ? ~bits : bits | SIGN;
    key = value == (W)0 ? SIGN : key;
    key = value != value ? ~(KEY)0 : key;
#elif KIND == 1
    KEY key = (KEY)(W)stored ^ SIGN;
#else
    KEY key = (KEY)stored;
#endif
    return DESCENDING ? ~key : key;
}

// One block sorts ROWS rows of SIZE elements, of which each row has `length`; the others are last.
// The first `kept` elements of each row are written.
extern "C" __global__ void __launch_bounds__(THREADS) sort_rows(
    const T* __restrict__ x, T* __restrict__ values, i64* __restrict__ places,
    i64 rows, int length, int kept
) {
    __shared__ KEY keys[ROWS * SIZE];
    __shared__ int from[ROWS * SIZE];
    i64 first = (i64)blockIdx.x * ROWS;
    for (int i = threadIdx.x; i < ROWS * SIZE; i += THREADS) {
        int place = i % SIZE;
        i64 row = first + i / SIZE;
        bool is_inside = row < rows && place < length;
        keys[i] = is_inside ? key_of(x[row * length + place]) : ~(KEY)0;
        from[i] = place;
    }
    for (int size = 2; size <= SIZE; size *= 2) {
        for (int apart = size / 2; apart > 0; apart /= 2) {
            __syncthreads();
            for (int t = threadIdx.x; t < ROWS * SIZE / 2; t += THREADS) {
                int low = 2 * t - (t & (apart - 1)), high = low + apart;
                KEY a = keys[low], b = keys[high];
                int p = from[low], q = from[high];
                bool is_wrong = a > b || (a == b && p > q);
                bool is_down = (low & (SIZE - 1)) & size;
                if (is_wrong != is_down) {
                    keys[low] = b; keys[high] = a;
                    from[low] = q; from[high] = p;
                }
            }
        }
    }
    __syncthreads();
    for (int i = threadIdx.x; i < ROWS * SIZE; i += THREADS) {
        int place = i % SIZE;
        i64 row = first + i / SIZE;
        if (row < rows && place < kept) {
            if (VALUES) values[row * kept + place] = x[row * length + from[i]];
            if (PLACES) places[row * kept + place] = from[i];
        }
    }
}
"""


def sort(x: Array, *, axis: int, descending: bool) -> Array:
    """Return the elements in order; NaN is larger than all others."""
    if not _is_taken(x, axis):
        return run_generic("sort", x, axis=axis, descending=descending)
    return _sorted(x, axis, descending, wants="values")[0]


def argsort(x: Array, *, axis: int, descending: bool, stable: bool) -> Array:
    """Return the positions of the elements in order."""
    if not _is_taken(x, axis):
        return run_generic("argsort", x, axis=axis, descending=descending, stable=stable)
    return _sorted(x, axis, descending, wants="places")[1]


def top_k(x: Array, *, k: int) -> tuple[Array, Array]:
    """Return the largest elements of each row in order, and their positions."""
    if not _is_taken(x, x.ndim - 1) or k == 0:
        found: tuple[Array, Array] = run_generic("top_k", x, k=k)
        return found
    return _sorted(x, x.ndim - 1, True, "both", k)


def _is_taken(x: Array, axis: int) -> bool:
    if x.dtype.name not in C_TYPES or not x.size:
        return False
    length = x.shape[axis]
    rows_per_block = max(1, _AT_ONCE // _power(length))
    return length <= LONGEST and x.size // length // rows_per_block < MOST_BLOCKS


def _sorted(
    x: Array, axis: int, descending: bool, wants: str, kept: int | None = None
) -> tuple[Array, Array]:
    """Return the values and the places of sorted rows; what is not wanted is empty."""
    rows = contiguous(cupy.moveaxis(x, axis, -1))
    length = rows.shape[-1]
    shape = (*rows.shape[:-1], length if kept is None else kept)
    values = cupy.empty(shape if wants != "places" else 0, x.dtype)
    places = cupy.empty(shape if wants != "values" else 0, np.int64)
    macros = _macros(x.dtype.name, _power(length), descending, wants)
    count = x.size // length
    _kernel(x.dtype.name, _power(length), descending, wants)(
        -(-count // int(macros["ROWS"])), int(macros["THREADS"]),
        rows.data.ptr, values.data.ptr, places.data.ptr, count, length, shape[-1],
    )  # fmt: skip
    return _placed(values, axis, wants != "places"), _placed(places, axis, wants != "values")


def _placed(rows: Array, axis: int, is_wanted: bool) -> Array:
    """Move the last axis back to its place."""
    if not is_wanted or axis % rows.ndim == rows.ndim - 1:
        return rows
    return contiguous(cupy.moveaxis(rows, -1, axis))


def _power(length: int) -> int:
    """Return the smallest power of two that is no smaller, at least 2.

    >>> [_power(n) for n in (1, 2, 3, 1000)]
    [2, 2, 4, 1024]
    """
    return 1 << max(1, (length - 1).bit_length())


@functools.cache
def _kernel(dtype: str, size: int, descending: bool, wants: str) -> Kernel:
    macros = _macros(dtype, size, descending, wants)
    return Kernel(lambda: compile_kernel(_SOURCE, "sort_rows", **macros), "PPPqii")


def _macros(dtype: str, size: int, descending: bool, wants: str) -> dict[str, str | int]:
    stored = C_TYPES[dtype]
    is_half = dtype in ("float16", "bfloat16")
    is_wide = dtype in ("float64", "int64", "uint64")
    kind = 2 if "float" in dtype else int(dtype.startswith("int"))
    elements = max(size, _AT_ONCE)
    return {
        "T": stored,
        "W": "float" if is_half else stored,
        "KEY": "unsigned long long" if is_wide else "unsigned int",
        "SIGN": "0x8000000000000000ull" if is_wide else "0x80000000u",
        "WIDE": int(is_wide),
        "KIND": kind,
        "SIZE": size,
        "ROWS": elements // size,
        "THREADS": min(_MOST_THREADS, elements // 2),
        "DESCENDING": int(descending),
        "VALUES": int(wants != "places"),
        "PLACES": int(wants != "values"),
    }


def variants() -> Iterator[Source]:
    """Yield sources of all dtypes, sizes and results."""
    chosen = [(dtype, 1024, False, "values") for dtype in C_TYPES]
    chosen += [("float32", 1 << k, True, "both") for k in range(1, 13)]
    chosen += [("float64", LONGEST, False, "places"), ("int64", LONGEST, True, "places")]
    for dtype, size, descending, wants in chosen:
        text = full_source(_SOURCE, **_macros(dtype, size, descending, wants))
        yield Source(f"sort_rows {dtype} {size} descending={descending} {wants}", text)


KERNELS = {"sort": sort, "argsort": argsort, "top_k": top_k}
