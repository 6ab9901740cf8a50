"""Products of a float32 matrix of very many rows with a matrix of few columns.

The memory limits them, because each element that is read is used a few times only. A block copies
the rows of a tile to shared memory in whole lines, and a thread computes two rows of the result.
cuBLASLt takes about twice the time of the memory for 16 columns (on an H200).
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import Any, NamedTuple

import cupy

from tapegrad_cupy.launch.cuda_source import Source, compile_kernel, full_source
from tapegrad_cupy.launch.launch import Kernel

Array = Any

LEAST_ROWS = 1 << 16
MOST_DEPTH = 256
MOST_COLUMNS = 16
"""The sizes of narrow products."""

_THREADS, _TILE = 128, 256

_SOURCE = r"""
const int STEP = 32, STRIDE = STEP + 1, TILE = 256, THREADS = 128;

// y[rows][columns] = x[rows][depth] w + bias. Steps are in elements, and C is not below `columns`.
// The bias may be missing.
extern "C" __global__ void __launch_bounds__(128) narrow_product(
    const float* __restrict__ x, const float* __restrict__ w, const float* __restrict__ bias,
    float* __restrict__ y, i64 rows, i64 columns, i64 depth, i64 leading, i64 w_row, i64 w_column
) {
    __shared__ float tile[TILE * STRIDE];
    __shared__ Vec<float, C> factors[STEP];
    const i64 first = (i64)blockIdx.x * TILE;
    const int own = threadIdx.x;
    float total[2][C];
    #pragma unroll
    for (int c = 0; c < C; ++c) {
        total[0][c] = total[1][c] = bias != 0 && c < (int)columns ? bias[c] : 0.0f;
    }
    for (int begin = 0; begin < (int)depth; begin += STEP) {
        // Eight threads read 32 neighbouring elements of a row; the depth is a multiple of 4.
        const int place = own % 8 * 4;
        #pragma unroll 8
        for (int line = own / 8; line < TILE; line += THREADS / 8) {
            Vec<float, 4> part = {};
            if (first + line < rows && begin + place < (int)depth) {
                part = *(const Vec<float, 4>*)(x + (first + line) * leading + begin + place);
            }
            #pragma unroll
            for (int e = 0; e < 4; ++e) tile[line * STRIDE + place + e] = part.v[e];
        }
        for (int i = own; i < STEP * C; i += THREADS) {
            const int k = i / C, c = i % C;
            const bool is_inside = begin + k < (int)depth && c < (int)columns;
            factors[k].v[c] = is_inside ? w[(begin + k) * w_row + c * w_column] : 0.0f;
        }
        __syncthreads();
        #pragma unroll 8
        for (int k = 0; k < STEP; ++k) {
            const float one = tile[own * STRIDE + k], other = tile[(own + THREADS) * STRIDE + k];
            const Vec<float, C> factor = factors[k];
            #pragma unroll
            for (int c = 0; c < C; ++c) {
                total[0][c] += one * factor.v[c];
                total[1][c] += other * factor.v[c];
            }
        }
        __syncthreads();
    }
    // Through shared memory, so that neighbouring threads write neighbouring elements.
    #pragma unroll
    for (int side = 0; side < 2; ++side) {
        #pragma unroll
        for (int c = 0; c < C; ++c) tile[(own + side * THREADS) * (C + 1) + c] = total[side][c];
    }
    __syncthreads();
    const i64 left = rows - first;
    const int count = (int)columns * (int)(left < TILE ? left : TILE);
    for (int i = own; i < count; i += THREADS) {
        const int line = i / (int)columns;
        y[first * columns + i] = tile[line * (C + 1) + (i - line * (int)columns)];
    }
}
"""


class Form(NamedTuple):
    """The sizes of a narrow product, and the steps of its operands in elements."""

    rows: int
    columns: int
    depth: int
    leading: int
    w_row: int
    w_column: int


def find_narrow(a: Array, b: Array, transpose_a: bool, transpose_b: bool) -> NarrowProduct | None:
    """Return the prepared product of two arrays, None if the kernel does not suit them."""
    if not a.ndim == b.ndim == 2 or not a.dtype == b.dtype == cupy.float32 or transpose_a:
        return None
    (rows, depth), (columns, _) = a.shape, b.shape if transpose_b else b.shape[::-1]
    leading, along = (step // 4 for step in a.strides)
    if along != 1 or leading < depth or leading % 4 or depth % 4 or a.data.ptr % 16:
        return None
    if rows < LEAST_ROWS or not 1 < columns <= MOST_COLUMNS or not 4 <= depth <= MOST_DEPTH:
        return None
    steps = [step // 4 for step in b.strides]
    if any(step % 4 for step in b.strides):
        return None
    w_row, w_column = steps[::-1] if transpose_b else steps
    return NarrowProduct(Form(rows, columns, depth, leading, w_row, w_column))


class NarrowProduct:
    """A prepared product; a call passes only addresses."""

    __slots__ = ("_launch", "_numbers", "shape")

    def __init__(self, form: Form) -> None:
        self.shape = (form.rows, form.columns)
        blocks = -(-form.rows // _TILE)
        self._launch = _kernel(_width(form.columns)).launcher(blocks, _THREADS)
        self._numbers = tuple(form)

    def __call__(self, a: int, b: int, d: int, bias: int = 0) -> None:
        """Write a b + bias to `d` on the current stream; the address 0 leaves out the bias."""
        self._launch(a, b, bias, d, *self._numbers)


def _width(columns: int) -> int:
    """Return the columns that a thread computes: a multiple of 4."""
    return -(-columns // 4) * 4


@functools.cache
def _kernel(width: int) -> Kernel:
    return Kernel(lambda: compile_kernel(_SOURCE, "narrow_product", C=width), "PPPPqqqqqq")


def variants() -> Iterator[Source]:
    """Yield all sources of this module."""
    for width in range(4, MOST_COLUMNS + 1, 4):
        yield Source(f"narrow_product {width}", full_source(_SOURCE, C=width))
