"""Binary search in sorted sequences; the generic kernel would compare all pairs."""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator
from typing import Any

import cupy
import numpy as np

from tapegrad_cupy.kernels.generic import run_generic
from tapegrad_cupy.launch.cuda_prelude import C_TYPES
from tapegrad_cupy.launch.cuda_source import (
    THREADS,
    Source,
    compile_kernel,
    contiguous,
    full_source,
)
from tapegrad_cupy.launch.launch import Kernel

Array = Any

_SOURCE = r"""
// NaN sorts last.
__device__ __forceinline__ bool is_before(W a, W b) { return a < b || (b != b && a == a); }

// One value per thread. There is a sequence of `length` elements for each `per_row` values.
extern "C" __global__ void __launch_bounds__(256) search(
    const T* __restrict__ sequences, const T* __restrict__ values, i64* __restrict__ places,
    i64 count, i64 length, i64 per_row
) {
    i64 at = (i64)blockIdx.x * 256 + threadIdx.x;
    if (at >= count) return;
    const T* row = sequences + at / per_row * length;
    W value = (W)values[at];
    i64 low = 0, high = length;
    while (low < high) {
        i64 middle = (low + high) >> 1;
        W here = (W)row[middle];
        if (RIGHT ? !is_before(value, here) : is_before(here, value)) low = middle + 1;
        else high = middle;
    }
    places[at] = low;
}
"""


def searchsorted(sequence: Array, values: Array, *, right: bool) -> Array:
    """Return the insertion position of each value in the sequence of its row."""
    dtype = sequence.dtype
    if values.dtype != dtype:
        if any(array.dtype.kind not in "biuf" for array in (sequence, values)):
            return run_generic("searchsorted", sequence, values, right=right)
        dtype = np.result_type(dtype, values.dtype)
    if dtype.name not in C_TYPES:
        return run_generic("searchsorted", sequence, values, right=right)
    found = cupy.empty(values.shape, np.int64)
    if not found.size:
        return found
    rows = contiguous(sequence.astype(dtype, copy=False))
    sought = contiguous(values.astype(dtype, copy=False))
    length = sequence.shape[-1]
    per_row = found.size // math.prod(sequence.shape[:-1])
    _kernel(dtype.name, right)(
        -(-found.size // THREADS), THREADS, rows.data.ptr, sought.data.ptr, found.data.ptr,
        found.size, length, per_row,
    )  # fmt: skip
    return found


@functools.cache
def _kernel(dtype: str, right: bool) -> Kernel:
    return Kernel(lambda: compile_kernel(_SOURCE, "search", **_macros(dtype, right)), "PPPqqq")


def _macros(dtype: str, right: bool) -> dict[str, str | int]:
    stored = C_TYPES[dtype]
    wide = "float" if dtype in ("float16", "bfloat16") else stored
    return {"T": stored, "W": wide, "RIGHT": int(right)}


def variants() -> Iterator[Source]:
    """Yield all sources of this module."""
    for dtype in C_TYPES:
        for right in (False, True):
            text = full_source(_SOURCE, **_macros(dtype, right))
            yield Source(f"search {dtype} right={right}", text)


KERNELS = {"searchsorted": searchsorted}
