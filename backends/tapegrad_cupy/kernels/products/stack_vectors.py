"""Stacks of matrices times one vector each, at the speed of reading the matrices.

Libraries compute such stacks with kernels for large matrices, which leave most of a device idle if
the matrices are small.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterator
from typing import NamedTuple

from tapegrad_cupy.launch.cuda_prelude import C_TYPES, FLOATS
from tapegrad_cupy.launch.cuda_source import Source, compile_kernel, full_source
from tapegrad_cupy.launch.launch import Kernel
from tapegrad_cupy.library_calls.product_steps import Layout, matrix_of, merged_axes

FEWEST = 64
"""The fewest matrices of a stack; libraries are fast for a few large ones."""

MOST_ELEMENTS = 1 << 20
"""The most elements of a matrix."""

_THREADS = 256

_SOURCE = r"""
typedef Wider<T>::type W;
typedef Vec<T, V> Ts;

// L lanes read a row of a matrix, V elements at a time, and add their products by shuffles.
extern "C" __global__ void __launch_bounds__(256) stack_rows(
    const T* __restrict__ a, const T* __restrict__ x, T* __restrict__ y, i64 matrices, i64 rows,
    i64 depth, i64 matrix, i64 leading, i64 vector
) {
    i64 own = ((i64)blockIdx.x * 256 + threadIdx.x) / L;
    int lane = threadIdx.x % L;
    bool is_beyond = own >= matrices * rows;
    i64 row = is_beyond ? matrices * rows - 1 : own, m = row / rows;
    const T* from = a + m * matrix + (row - m * rows) * leading;
    const T* by = x + m * vector;
    W total = 0;
    #pragma unroll 4
    for (int k = lane * V; k < (int)depth; k += L * V) {
        Ts left = *(const Ts*)(from + k), right = *(const Ts*)(by + k);
        #pragma unroll
        for (int e = 0; e < V; ++e) total += widen(left.v[e]) * widen(right.v[e]);
    }
    #pragma unroll
    for (int step = L / 2; step; step /= 2) total += __shfl_xor_sync(~0u, total, step);
    if (lane == 0 && !is_beyond) y[row] = narrow<T>(total);
}

// L lanes read V neighbouring columns each. P parts of a block share the depth, and 256 / (L * P)
// matrices share a block.
extern "C" __global__ void __launch_bounds__(256) stack_columns(
    const T* __restrict__ a, const T* __restrict__ x, T* __restrict__ y, i64 matrices, i64 rows,
    i64 depth, i64 matrix, i64 leading, i64 vector
) {
    __shared__ W parts[256 * V];
    int lane = threadIdx.x % L, part = threadIdx.x / L % P, side = threadIdx.x / (L * P);
    i64 tiles = (rows + L * V - 1) / (L * V);
    i64 tile = blockIdx.x % tiles, m = blockIdx.x / tiles * (256 / (L * P)) + side;
    i64 column = (tile * L + lane) * V;
    W total[V] = {};
    if (column < rows && m < matrices) {
        const T* from = a + m * matrix + column;
        const T* by = x + m * vector;
        #pragma unroll 4
        for (int k = part; k < (int)depth; k += P) {
            Ts left = *(const Ts*)(from + k * leading);
            W right = widen(by[k]);
            #pragma unroll
            for (int e = 0; e < V; ++e) total[e] += widen(left.v[e]) * right;
        }
    }
    W* own = parts + side * (P * L * V);
    #pragma unroll
    for (int e = 0; e < V; ++e) own[(part * L + lane) * V + e] = total[e];
    __syncthreads();
    for (int c = threadIdx.x % (L * P); c < L * V; c += L * P) {
        W sum = 0;
        #pragma unroll
        for (int p = 0; p < P; ++p) sum += own[p * (L * V) + c];
        i64 at = tile * (L * V) + c;
        if (at < rows && m < matrices) y[m * rows + at] = narrow<T>(sum);
    }
}
"""


class Form(NamedTuple):
    """A stack of products of a matrix and a vector; steps are in elements.

    `by_rows` says whether the elements of a row, which a vector multiplies, are neighbours in
    memory. Otherwise those of a column are.
    """

    matrices: int
    rows: int
    depth: int
    by_rows: bool
    matrix: int
    leading: int
    vector: int


def find_form(first: Layout, second: Layout) -> tuple[Form, bool] | None:
    """Return the form of a product of stacks, and whether the first stack has the matrices.

    None if neither operand is a stack of vectors, or the kernels do not suit the stacks.
    """
    for matrices, vectors, is_first in ((first, second, True), (second, first, False)):
        form = _form_of(matrices, vectors, is_first)
        if form is not None:
            return form, is_first
    return None


def _form_of(matrices: Layout, vectors: Layout, is_first: bool) -> Form | None:
    """Return the form of matrices times column vectors, or of row vectors times matrices."""
    if matrices.shape[:-2] != vectors.shape[:-2] or 1 not in vectors.shape[-2:]:
        return None
    one, other = matrix_of(matrices), matrix_of(vectors)
    if one is None or other is None:
        return None
    if not is_first:
        one, other = one.transposed(), other.transposed()
    along = vectors.strides[-2] if vectors.shape[-1] == 1 else vectors.strides[-1]
    if other.columns != 1 or other.rows < 2 or one.rows < 2 or along != 1:
        return None
    axes = merged_axes(matrices.shape[:-2], matrices.strides[:-2], vectors.strides[:-2])
    if len(axes) != 1:
        return None
    count, matrix, vector = axes[0]
    if count < FEWEST or min(matrix, vector) <= 0 or one.rows * one.columns > MOST_ELEMENTS:
        return None
    return Form(count, one.rows, one.columns, one.by_rows, matrix, one.leading, vector)


class StackedVectors:
    """A prepared stack of products; a call passes only addresses."""

    __slots__ = ("_launch", "_numbers")

    def __init__(self, form: Form, dtype: str, bits: int) -> None:
        size = FLOATS[dtype]
        width = _vector_length(form, size, bits)
        lanes, parts, blocks = _geometry(form, width)
        name = "stack_rows" if form.by_rows else "stack_columns"
        self._launch = _kernel(name, dtype, width, lanes, parts).launcher(blocks, _THREADS)
        self._numbers = (
            form.matrices, form.rows, form.depth, form.matrix, form.leading, form.vector
        )  # fmt: skip

    def __call__(self, matrices: int, vectors: int, result: int) -> None:
        """Write the products, which follow one another, to `result` on the current stream."""
        self._launch(matrices, vectors, result, *self._numbers)


def _vector_length(form: Form, size: int, bits: int) -> int:
    """Return how many neighbours are read at a time: a power of two, up to 16 bytes."""
    inner = form.depth if form.by_rows else form.rows
    steps = inner | form.matrix | form.leading | (form.vector if form.by_rows else 0)
    whole = steps * size | bits | 16
    return max(1, (whole & -whole) // size)


def _geometry(form: Form, width: int) -> tuple[int, int, int]:
    """Return the lanes side by side, the parts of the depth in a block, and the blocks."""
    inner = form.depth if form.by_rows else form.rows
    lanes = min(32, _power_of_two(-(-inner // width)))
    if form.by_rows:
        return lanes, 1, -(-form.matrices * form.rows * lanes // _THREADS)
    parts = min(_THREADS // lanes, _power_of_two(form.depth))
    tiles = -(-form.rows // (lanes * width))
    together = _THREADS // (lanes * parts)
    return lanes, parts, tiles * -(-form.matrices // together)


def _power_of_two(number: int) -> int:
    """Return the smallest power of two that is not smaller."""
    return 1 << (number - 1).bit_length()


def _macros(dtype: str, width: int, lanes: int, parts: int) -> dict[str, str | int]:
    return {"T": C_TYPES[dtype], "V": width, "L": lanes, "P": parts}


@functools.cache
def _kernel(name: str, dtype: str, width: int, lanes: int, parts: int) -> Kernel:
    macros = _macros(dtype, width, lanes, parts)
    return Kernel(lambda: compile_kernel(_SOURCE, name, **macros), "PPPqqqqqq")


def variants() -> Iterator[Source]:
    """Yield all sources of this module."""
    for dtype, size in FLOATS.items():
        widths = [width for width in (1, 2, 4, 8) if width * size <= 16]
        for width, (lanes, parts) in itertools.product(widths, ((1, 1), (1, 256), (32, 8))):
            label = f"stack_rows {dtype} {width} {lanes} {parts}"
            yield Source(label, full_source(_SOURCE, **_macros(dtype, width, lanes, parts)))
