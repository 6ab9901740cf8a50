"""Copy matrices into the corners of larger ones, which are 0 elsewhere, or out of them.

Products of half precision are fast only if rows have whole multiples of 16 bytes. A thread writes
16 bytes and reads one element at a time, because the rows that it reads may begin anywhere.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import Any

import cupy

from tapegrad_cupy.kernels.copying.copies import contiguous_copy
from tapegrad_cupy.launch.cuda_source import THREADS, Source, compile_kernel, full_source
from tapegrad_cupy.launch.launch import Kernel
from tapegrad_cupy.library_calls.product_steps import merged_axes

Array = Any
Shape = tuple[int, ...]

_UNITS = {2: "unsigned short", 4: "unsigned int", 8: "unsigned long long"}

_SOURCE = r"""
// y is [count][rows][columns]. Its elements from [.][height][.] and [.][.][width] on are 0, the
// others those of x, whose matrices have two axes, the inner one of `inner` matrices.
extern "C" __global__ void __launch_bounds__(256) corner(
    const UNIT* __restrict__ x, UNIT* __restrict__ y, i64 count, i64 rows, i64 columns, i64 height,
    i64 width, i64 inner, i64 outer_step, i64 inner_step, i64 row_step
) {
    const INDEX total = (INDEX)(count * rows * columns);
    const INDEX at = ((INDEX)blockIdx.x * 256 + threadIdx.x) * V;
    if (at >= total) return;
    INDEX row = at / (INDEX)columns, column = at - row * (INDEX)columns, line = 0;
    const UNIT* from = x;
    Vec<UNIT, V> made;
    #pragma unroll
    for (int e = 0; e < V; ++e) {
        if (e == 0 || column == (INDEX)columns) {
            if (e) { ++row; column = 0; }
            INDEX matrix = row / (INDEX)rows, outer = matrix / (INDEX)inner;
            line = row - matrix * (INDEX)rows;
            from = x + (i64)outer * outer_step + (i64)(matrix - outer * (INDEX)inner) * inner_step
                 + (i64)line * row_step;
        }
        bool is_inside = line < (INDEX)height && column < (INDEX)width && at + e < total;
        made.v[e] = is_inside ? from[column] : (UNIT)0;
        ++column;
    }
    if (at + V <= total) *(Vec<UNIT, V>*)(y + at) = made;
    else for (int e = 0; e < V; ++e) if (at + e < total) y[at + e] = made.v[e];
}
"""


def in_corner(x: Array, rows: int, columns: int) -> Array:
    """Return a stack of matrices of these sizes, with those of `x` in a corner and zeros.

    All rows begin at multiples of 16 bytes. If the columns of `x` are contiguous, so are those of
    the result, and its columns are aligned.
    """
    size = x.dtype.itemsize
    if x.strides[-1] != size and x.strides[-2] == size:
        return in_corner(x.swapaxes(-1, -2), columns, rows).swapaxes(-1, -2)
    x = x if x.strides[-1] == size else contiguous_copy(x)
    return _copied(x, rows, -(-columns * size // 16) * 16 // size)[..., :columns]


def out_of_corner(x: Array, columns: int) -> Array:
    """Return a contiguous copy of the first columns of contiguous matrices."""
    return _copied(x[..., :columns], x.shape[-2], columns)


def _copied(x: Array, rows: int, columns: int) -> Array:
    *lead, height, width = x.shape
    size = x.dtype.itemsize
    axes = merged_axes(lead, [stride // size for stride in x.strides[:-2]])
    if len(axes) > 2:
        return _copied(contiguous_copy(x), rows, columns)
    outer, outer_step = axes[0] if len(axes) > 1 else (1, 0)
    inner, inner_step = axes[-1] if axes else (1, 0)
    result = cupy.ndarray((*lead, rows, columns), x.dtype)
    total = result.size
    index = "unsigned int" if total + 16 * THREADS < 2**32 else "i64"
    blocks = -(-total // (THREADS * (16 // size)))
    sizes = (outer * inner, rows, columns, height, width, inner)
    steps = (outer_step, inner_step, x.strides[-2] // size)
    _kernel(size, index)(blocks, THREADS, x.data.ptr, result.data.ptr, *sizes, *steps)
    return result


@functools.cache
def _kernel(size: int, index: str) -> Kernel:
    macros = _macros(size, index)
    return Kernel(lambda: compile_kernel(_SOURCE, "corner", **macros), "PPqqqqqqqqq")


def _macros(size: int, index: str) -> dict[str, str | int]:
    return {"UNIT": _UNITS[size], "V": 16 // size, "INDEX": index}


def variants() -> Iterator[Source]:
    """Yield all sources of this module."""
    for size in _UNITS:
        for index in ("unsigned int", "i64"):
            text = full_source(_SOURCE, **_macros(size, index))
            yield Source(f"corner of {size} bytes, {index}", text)
