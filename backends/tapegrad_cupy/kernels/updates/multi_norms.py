"""Clip many tensors by their global norm in a few launches.

Squares are added in double precision, so that they neither overflow nor lose digits, and in a fixed
order. The host reads no value.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from typing import Any

import cupy
import numpy as np

from tapegrad_cupy.kernels.updates.updates import is_float
from tapegrad_cupy.kernels.updates.updates_source import BLOCK_SUM
from tapegrad_cupy.launch.cuda_prelude import C_TYPES, FLOATS
from tapegrad_cupy.launch.cuda_source import (
    THREADS,
    Source,
    compile_kernel,
    full_source,
    wide_dtype,
    wide_name,
)
from tapegrad_cupy.launch.launch import Kernel
from tapegrad_cupy.launch.multi_tensors import (
    TENSOR_OF_BLOCK,
    aligned_inputs,
    capacities,
    device_of,
    layout,
    on_device,
)

Array = Any

_SQUARES = r"""
typedef Vec<P, N> Ps;
struct Table { const P* x[T]; i64 size[T]; int first[T]; };

extern "C" __global__ void __launch_bounds__(256) squares(
    const __grid_constant__ Table table, double* __restrict__ sums, i64 chunk, int tensors
) {
    int k = tensor_of_block(table.first, tensors);
    i64 begin = (i64)((int)blockIdx.x - table.first[k]) * chunk;
    i64 end = begin + chunk < table.size[k] ? begin + chunk : table.size[k];
    const P* x = table.x[k];
    double sum = 0.0;
    i64 vectors = end / N;
    for (i64 i = begin / N + threadIdx.x; i < vectors; i += 256) {
        Ps xs = ((const Ps*)x)[i];
        #pragma unroll
        for (int j = 0; j < N; ++j) {
            double value = widen(xs.v[j]);
            sum += value * value;
        }
    }
    for (i64 i = vectors * N + threadIdx.x; i < end; i += 256) {
        double value = widen(x[i]);
        sum += value * value;
    }
    sum = block_sum(sum);
    if (threadIdx.x == 0) sums[blockIdx.x] = sum;
}
"""

# The norm is tested for infinity in the dtype of the result.
_FACTOR = r"""
extern "C" __global__ void __launch_bounds__(256) factor(
    const double* __restrict__ sums, int count, double limit,
    Q* __restrict__ norm, S* __restrict__ factor
) {
    double sum = 0.0;
    for (int i = threadIdx.x; i < count; i += 256) sum += sums[i];
    sum = block_sum(sum);
    if (threadIdx.x) return;
    Q seen = narrow<Q>((S)sqrt(sum));
    double size = widen(seen);
    *norm = seen;
    *factor = (S)(isfinite(size) ? (size <= limit ? 1.0 : limit / size) : nan(""));
}
"""

_SCALE = r"""
typedef Vec<P, N> Ps;
struct Table { const P* x[T]; P* y[T]; i64 size[T]; int first[T]; };

extern "C" __global__ void __launch_bounds__(256) scale(
    const __grid_constant__ Table table, const S* __restrict__ factor, i64 chunk, int tensors
) {
    S by = *factor;
    int k = tensor_of_block(table.first, tensors);
    i64 begin = (i64)((int)blockIdx.x - table.first[k]) * chunk;
    i64 end = begin + chunk < table.size[k] ? begin + chunk : table.size[k];
    const P* x = table.x[k];
    P* y = table.y[k];
    i64 vectors = end / N;
    for (i64 i = begin / N + threadIdx.x; i < vectors; i += 256) {
        Ps xs = ((const Ps*)x)[i];
        #pragma unroll
        for (int j = 0; j < N; ++j) xs.v[j] = narrow<P>(widen(xs.v[j]) * by);
        ((Ps*)y)[i] = xs;
    }
    for (i64 i = vectors * N + threadIdx.x; i < end; i += 256) {
        y[i] = narrow<P>(widen(x[i]) * by);
    }
}
"""


def clip_group(arrays: Sequence[Array], limit: float) -> tuple[list[Array], Array] | None:
    """Return arrays scaled so that their global norm is at most `limit`, and the norm before.

    Return None if they differ in dtype or device, or are complex.
    """
    dtype = arrays[0].dtype
    device = device_of(arrays)
    if device < 0 or not is_float(dtype) or any([array.dtype != dtype for array in arrays]):
        return None
    with on_device(device):
        sources, addresses = aligned_inputs(arrays)
        norm, factor = _norm_and_factor(sources, addresses, limit, dtype)
        return _scaled(sources, addresses, factor), norm


def clip_factor(arrays: Sequence[Array], limit: float) -> Array:
    """Return only the factor, for arrays of one dtype on the current device."""
    sources, addresses = aligned_inputs(arrays)
    return _norm_and_factor(sources, addresses, limit, wide_dtype(arrays[0].dtype))[1]


def _norm_and_factor(
    arrays: Sequence[Array], addresses: Sequence[int], limit: float, dtype: np.dtype[Any]
) -> tuple[Array, Array]:
    """Return the global norm in `dtype`, and the factor."""
    own_dtype = arrays[0].dtype
    sizes = tuple([array.size for array in arrays])
    chunk, capacity, parts = layout(sizes, 16 // own_dtype.itemsize, 1)
    count = sum([part.blocks for part in parts])
    sums = cupy.ndarray(max(count, 1), np.float64)
    at = sums.data.ptr
    kernel = _squares_kernel(own_dtype, capacity)
    for part in parts:
        kernel(part.blocks, THREADS, part.table(addresses), at, chunk, len(part.positions))
        at += 8 * part.blocks
    norm, factor = cupy.ndarray((), dtype), cupy.ndarray((), wide_dtype(own_dtype))
    finish = _factor_kernel(dtype)
    finish(1, THREADS, sums.data.ptr, count, limit, norm.data.ptr, factor.data.ptr)
    return norm, factor


def _scaled(arrays: Sequence[Array], addresses: Sequence[int], factor: Array) -> list[Array]:
    dtype = arrays[0].dtype
    sizes = tuple([array.size for array in arrays])
    chunk, capacity, parts = layout(sizes, 16 // dtype.itemsize, 2)
    new = [cupy.ndarray(array.shape, dtype) for array in arrays]
    new_addresses = [array.data.ptr for array in new]
    kernel = _scale_kernel(dtype, capacity)
    for part in parts:
        table = part.table(addresses, new_addresses)
        kernel(part.blocks, THREADS, table, factor.data.ptr, chunk, len(part.positions))
    return new


def _macros(dtype: str, capacity: int) -> dict[str, str | int]:
    types = {"P": C_TYPES[dtype], "S": C_TYPES[wide_name(dtype)]}
    return {**types, "N": 16 // FLOATS[dtype], "T": capacity}


def _factor_macros(dtype: str) -> dict[str, str | int]:
    return {"Q": C_TYPES[dtype], "S": C_TYPES[wide_name(dtype)]}


_SQUARES_SOURCE = TENSOR_OF_BLOCK + BLOCK_SUM + _SQUARES
_FACTOR_SOURCE = BLOCK_SUM + _FACTOR
_SCALE_SOURCE = TENSOR_OF_BLOCK + _SCALE


@functools.cache
def _squares_kernel(dtype: np.dtype[Any], capacity: int) -> Kernel:
    macros = _macros(dtype.name, capacity)
    return Kernel(
        lambda: compile_kernel(_SQUARES_SOURCE, "squares", **macros), f"{20 * capacity}sPqi"
    )


@functools.cache
def _factor_kernel(dtype: np.dtype[Any]) -> Kernel:
    macros = _factor_macros(dtype.name)
    return Kernel(lambda: compile_kernel(_FACTOR_SOURCE, "factor", **macros), "PidPP")


@functools.cache
def _scale_kernel(dtype: np.dtype[Any], capacity: int) -> Kernel:
    macros = _macros(dtype.name, capacity)
    return Kernel(lambda: compile_kernel(_SCALE_SOURCE, "scale", **macros), f"{28 * capacity}sPqi")


def variants() -> Iterator[Source]:
    """Yield all sources of this module."""
    for dtype in FLOATS:
        squares, scale = (_macros(dtype, capacities(columns)[1]) for columns in (1, 2))
        yield Source(f"squares {dtype}", full_source(_SQUARES_SOURCE, **squares))
        yield Source(f"factor {dtype}", full_source(_FACTOR_SOURCE, **_factor_macros(dtype)))
        yield Source(f"scale {dtype}", full_source(_SCALE_SOURCE, **scale))
