"""Cast many arrays in one launch, as a sweep does with its last gradients.

Doubles are rounded to float16 once, as in NumPy, and to bfloat16 through single precision. Filters
in cuDNN's order are transposed as matrices in the same launch.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from typing import Any

import cupy
import numpy as np

from tapegrad_cupy.kernels.convolution.filter_layout import is_cudnn_order
from tapegrad_cupy.kernels.elementwise.conversions import converted
from tapegrad_cupy.launch.cuda_prelude import C_TYPES, FLOATS
from tapegrad_cupy.launch.cuda_source import THREADS, Source, compile_kernel, full_source
from tapegrad_cupy.launch.launch import Kernel
from tapegrad_cupy.launch.multi_tensors import TENSOR_OF_BLOCK, capacities, layout

Array = Any

_ndarray = cupy.ndarray
_current_device = cupy.cuda.runtime.getDevice

WIDTH = 4
"""The number of elements that a thread reads at once."""

_SOURCE = (
    TENSOR_OF_BLOCK
    + r"""
// `matrix` is the rows and columns of an array that is transposed, 0 for other arrays.
struct Table { const FROM* x[T]; TO* y[T]; int2 matrix[T]; i64 size[T]; int first[T]; };

template <class A, class B> struct Cast {
    static __device__ __forceinline__ B of(A x) {
        return narrow<B>((typename Wider<B>::type)widen(x));
    }
};
template <> struct Cast<double, __half> {
    static __device__ __forceinline__ __half of(double x) { return __double2half(x); }
};
__device__ __forceinline__ TO as_wanted(FROM x) { return Cast<FROM, TO>::of(x); }

// Transpose tiles of 32 rows and columns; those at the edges may be incomplete.
__device__ __forceinline__ void transpose(const FROM* x, TO* y, int2 shape, i64 begin, i64 end) {
    __shared__ TO tile[32][33];
    i64 rows = shape.x, columns = shape.y, across = (columns + 31) / 32;
    int lane = threadIdx.x % 32;
    for (i64 at = begin / 1024; at < end / 1024; ++at) {
        i64 top = at / across * 32, left = at % across * 32;
        for (int k = threadIdx.x / 32; k < 32; k += 8) {
            i64 row = top + k, column = left + lane, i = row * columns + column;
            if (row < rows && column < columns) tile[k][lane] = as_wanted(x[i]);
        }
        __syncthreads();
        for (int k = threadIdx.x / 32; k < 32; k += 8) {
            i64 row = top + lane, column = left + k;
            if (row < rows && column < columns) y[column * rows + row] = tile[lane][k];
        }
        __syncthreads();
    }
}

extern "C" __global__ void __launch_bounds__(256) cast_many(
    const __grid_constant__ Table table, i64 chunk, int tensors
) {
    int k = tensor_of_block(table.first, tensors);
    i64 begin = (i64)((int)blockIdx.x - table.first[k]) * chunk;
    i64 end = begin + chunk < table.size[k] ? begin + chunk : table.size[k];
    const FROM* x = table.x[k];
    TO* y = table.y[k];
    if (table.matrix[k].x) {
        transpose(x, y, table.matrix[k], begin, end);
        return;
    }
    i64 whole = begin + (end - begin) / 4 * 4;
    #pragma unroll 2
    for (i64 i = begin + 4 * threadIdx.x; i < whole; i += 4 * 256) {
        Vec<FROM, 4> given = *(const Vec<FROM, 4>*)(x + i);
        Vec<TO, 4> made;
        #pragma unroll
        for (int e = 0; e < 4; ++e) made.v[e] = as_wanted(given.v[e]);
        *(Vec<TO, 4>*)(y + i) = made;
    }
    for (i64 i = whole + threadIdx.x; i < end; i += 256) y[i] = as_wanted(x[i]);
}
"""
)


def cast_many(arrays: Sequence[Array], dtypes: Sequence[Any]) -> list[Array]:
    """Return each array in its dtype and row-major; arrays with equal dtypes share a launch."""
    results: list[Array] = [None] * len(arrays)
    by_dtypes: dict[tuple[Any, Any], list[int]] = {}
    transposes = [0] * len(arrays)
    here = _current_device()
    for i, (array, dtype) in enumerate(zip(arrays, dtypes, strict=True)):
        data = array.data
        if not array._c_contiguous and is_cudnn_order(array):
            transposes[i] = pack_shape(array.shape[-1], array.size // array.shape[-1])
        in_order = (array._c_contiguous or transposes[i]) and not data.ptr & 15
        if in_order and data.device_id == here and takes(array.dtype, dtype):
            by_dtypes.setdefault((array.dtype, dtype), []).append(i)
        else:
            results[i] = converted(array, dtype)
    for (given, dtype), positions in by_dtypes.items():
        made = _cast(
            [arrays[i] for i in positions], [transposes[i] for i in positions], given, dtype
        )
        for i, result in zip(positions, made):
            results[i] = result
    return results


def pack_shape(rows: int, columns: int) -> int:
    """Return the entry of the kernel's table for an array that is transposed as a matrix."""
    return rows | columns << 32


def work_items(size: int, transpose: int) -> int:
    """Return how many elements the blocks process for an array, whole tiles if it is transposed."""
    rows, columns = transpose & 0xFFFFFFFF, transpose >> 32
    return -(-rows // 32) * -(-columns // 32) * 1024 if transpose else size


@functools.cache
def takes(given: np.dtype[Any], wanted: np.dtype[Any]) -> bool:
    """Return whether the kernels cast between these dtypes."""
    return given.name in FLOATS and wanted.name in FLOATS


def _cast(
    arrays: Sequence[Array], transposes: Sequence[int], given: np.dtype[Any], dtype: np.dtype[Any]
) -> list[Array]:
    if len(arrays) == 1 and not transposes[0]:
        return [converted(arrays[0], dtype)]
    results = [_ndarray(array.shape, dtype) for array in arrays]
    sizes = tuple(
        [work_items(array.size, transpose) for array, transpose in zip(arrays, transposes)]
    )
    chunk, capacity, parts = layout(sizes, WIDTH, 3)
    kernel = kernel_for(capacity, given, dtype)
    from_places = [array.data.ptr for array in arrays]
    to_places = [result.data.ptr for result in results]
    for part in parts:
        table = part.table(from_places, to_places, transposes)
        kernel(part.blocks, THREADS, table, chunk, len(part.positions))
    return results


@functools.cache
def kernel_for(capacity: int, given: np.dtype[Any], wanted: np.dtype[Any]) -> Kernel:
    """Return the kernel whose table has this capacity."""
    table = f"{capacity * 36}s"  # two addresses, two numbers, a size and the number of a block
    macros = _macros(capacity, given.name, wanted.name)
    return Kernel(lambda: compile_kernel(_SOURCE, "cast_many", **macros), f"{table}qi")


def _macros(capacity: int, name: str, wanted: str) -> dict[str, str | int]:
    return {"T": capacity, "FROM": C_TYPES[name], "TO": C_TYPES[wanted]}


def variants() -> Iterator[Source]:
    """Yield all sources of this module."""
    for name in FLOATS:
        for wanted in FLOATS:
            for capacity in capacities(3) if name != wanted else ():
                text = full_source(_SOURCE, **_macros(capacity, name, wanted))
                yield Source(f"cast_many {name} to {wanted} up to {capacity}", text)
