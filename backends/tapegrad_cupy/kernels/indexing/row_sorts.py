"""Sort rows: sort, argsort and top_k along an axis.

CuPy sorts all elements by row and value, in many passes over them. Here one block sorts a row of at
most 4096 elements, or several short ones, by a bitonic network in shared memory. Longer rows are
sorted by long_sorts.py. Elements are compared by their values and then by their positions, so that
the order of equal elements is kept.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import Any

import cupy
import numpy as np

from tapegrad_cupy.kernels.generic import run_generic
from tapegrad_cupy.kernels.indexing.long_sorts import MOST_ELEMENTS, sort_long_rows
from tapegrad_cupy.kernels.indexing.sorting_keys import (
    AT_ONCE,
    LONGEST,
    SOURCE,
    macros,
    power_of_two,
)
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

_SOURCE = (
    SOURCE
    + r"""
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
    sort_shared(keys, from);
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
)


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
    if length > LONGEST:
        return bool(x.size <= MOST_ELEMENTS)
    rows_per_block = max(1, AT_ONCE // power_of_two(length))
    return bool(x.size // length // rows_per_block < MOST_BLOCKS)


def _sorted(
    x: Array, axis: int, descending: bool, wants: str, kept: int | None = None
) -> tuple[Array, Array]:
    """Return the values and the places of sorted rows; what is not wanted is empty."""
    rows = contiguous(cupy.moveaxis(x, axis, -1))
    length = rows.shape[-1]
    shape = (*rows.shape[:-1], length if kept is None else kept)
    values = cupy.empty(shape if wants != "places" else 0, x.dtype)
    places = cupy.empty(shape if wants != "values" else 0, np.int64)
    if length > LONGEST:
        sort_long_rows(rows, values, places, descending, wants)
        return _placed(values, axis, wants != "places"), _placed(places, axis, wants != "values")
    settings = macros(x.dtype.name, power_of_two(length), descending, wants)
    count = x.size // length
    _kernel(x.dtype.name, power_of_two(length), descending, wants)(
        -(-count // int(settings["ROWS"])), int(settings["THREADS"]),
        rows.data.ptr, values.data.ptr, places.data.ptr, count, length, shape[-1],
    )  # fmt: skip
    return _placed(values, axis, wants != "places"), _placed(places, axis, wants != "values")


def _placed(rows: Array, axis: int, is_wanted: bool) -> Array:
    """Move the last axis back to its place."""
    if not is_wanted or axis % rows.ndim == rows.ndim - 1:
        return rows
    return contiguous(cupy.moveaxis(rows, -1, axis))


@functools.cache
def _kernel(dtype: str, size: int, descending: bool, wants: str) -> Kernel:
    settings = macros(dtype, size, descending, wants)
    return Kernel(lambda: compile_kernel(_SOURCE, "sort_rows", **settings), "PPPqii")


def variants() -> Iterator[Source]:
    """Yield sources of all dtypes, sizes and results."""
    chosen = [(dtype, 1024, False, "values") for dtype in C_TYPES]
    chosen += [("float32", 1 << k, True, "both") for k in range(1, 13)]
    chosen += [("float64", LONGEST, False, "places"), ("int64", LONGEST, True, "places")]
    for dtype, size, descending, wants in chosen:
        text = full_source(_SOURCE, **macros(dtype, size, descending, wants))
        yield Source(f"sort_rows {dtype} {size} descending={descending} {wants}", text)


KERNELS = {"sort": sort, "argsort": argsort, "top_k": top_k}
