"""Gather rows whose indices are on the host, from arrays on the device or on the host.

The indices are arguments of the launch. No copy precedes it, and one launch serves all arrays of a
batch.
"""

from __future__ import annotations

import functools
import math
import struct
from collections.abc import Iterator, Sequence
from typing import Any

import cupy
import numpy as np

from tapegrad_cupy.launch.cuda_prelude import C_TYPES
from tapegrad_cupy.launch.cuda_source import THREADS, Source, compile_kernel, full_source
from tapegrad_cupy.launch.launch import Kernel
from tapegrad_cupy.launch.multi_tensors import device_of, on_device
from tapegrad_cupy.runtime.host_to_device import place_gathered

Array = Any
HostArray = np.ndarray

_ARRAYS = 8
_ROWS = (128, 896)
"""Rows in the smaller and the larger table; all arguments take at most 4096 bytes."""

_PIECE = 16 * 1024
"""The most bytes that a block moves."""

_MOST_STAGED = 32 * 2**20
"""The most bytes of rows that are gathered in page-locked memory."""

_SOURCE = r"""
struct Table { const char* x[ARRAYS]; char* y[ARRAYS]; i64 width[ARRAYS]; unsigned int row[ROWS]; };

template <class U> __device__ __forceinline__ void move(
    const char* __restrict__ x, char* __restrict__ y, i64 begin, i64 end
) {
    i64 last = end / (i64)sizeof(U);
    for (i64 i = begin / (i64)sizeof(U) + threadIdx.x; i < last; i += 256) {
        ((U*)y)[i] = ((const U*)x)[i];
    }
}

// Each block moves a piece of one row of one array.
extern "C" __global__ void __launch_bounds__(256) take_rows(
    const __grid_constant__ Table table, i64 piece, int pieces
) {
    int k = blockIdx.y, entry = blockIdx.x / pieces;
    i64 width = table.width[k], begin = (i64)(blockIdx.x % pieces) * piece;
    if (begin >= width) return;
    i64 end = begin + piece < width ? begin + piece : width;
    i64 bits = (i64)table.x[k] | (i64)table.y[k] | width;
    const char* x = table.x[k] + (i64)table.row[entry] * width;
    char* y = table.y[k] + (i64)entry * width;
    if (!(bits & 15)) move<uint4>(x, y, begin, end);
    else if (!(bits & 3)) move<unsigned int>(x, y, begin, end);
    else move<char>(x, y, begin, end);
}
"""


# Arrays on the device


def take_rows(arrays: Sequence[Array], rows: HostArray) -> list[Array]:
    """Return the given rows of contiguous arrays; all indices must be in range."""
    with on_device(device_of(arrays)):
        made = [cupy.ndarray((len(rows), *array.shape[1:]), array.dtype) for array in arrays]
        filled = [(x, y) for x, y in zip(arrays, made, strict=True) if y.size]
        for at in range(0, len(filled), _ARRAYS):
            _take(filled[at : at + _ARRAYS], rows.astype(np.uint32))
    return made


def _take(pairs: Sequence[tuple[Array, Array]], rows: HostArray) -> None:
    widths = [y.nbytes // len(rows) for _, y in pairs]
    pieces = -(-max(widths) // _PIECE)
    capacity = _ROWS[len(rows) > _ROWS[0]]
    for start in range(0, len(rows), capacity):
        some = rows[start : start + capacity]
        to = [y.data.ptr + start * width for (_, y), width in zip(pairs, widths, strict=True)]
        columns = [[x.data.ptr for x, _ in pairs], to, widths]
        table = b"".join([struct.pack(f"{len(c)}q", *c).ljust(8 * _ARRAYS, b"\0") for c in columns])
        table += some.tobytes().ljust(4 * capacity, b"\0")
        size = (len(some) * pieces, len(pairs), THREADS, 0)
        _kernel(capacity).launch(*size, (table, _PIECE, pieces))


@functools.cache
def _kernel(capacity: int) -> Kernel:
    make = functools.partial(compile_kernel, _SOURCE, "take_rows", **_macros(capacity))
    return Kernel(make, f"{24 * _ARRAYS + 4 * capacity}sqi")


def _macros(capacity: int) -> dict[str, str | int]:
    return {"ARRAYS": _ARRAYS, "ROWS": capacity}


def variants() -> Iterator[Source]:
    """Yield all sources of this module."""
    for capacity in _ROWS:
        yield Source(f"take_rows up to {capacity}", full_source(_SOURCE, **_macros(capacity)))


# Arrays on the host


def place_rows(arrays: Sequence[HostArray], rows: HostArray, like: Array) -> list[Array] | None:
    """Return the given rows of host arrays on the device of `like`, or None if not supported.

    The rows are gathered directly into page-locked memory, which saves a copy.
    """
    widths = [math.prod(array.shape[1:]) * array.itemsize for array in arrays]
    if not all(0 < width * len(rows) <= _MOST_STAGED for width in widths):
        return None
    if not all(array.dtype.isnative and array.dtype.name in C_TYPES for array in arrays):
        return None
    with on_device(like.data.device_id):
        return place_gathered(arrays, rows)
