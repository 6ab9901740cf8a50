"""Copy many contiguous arrays in one launch."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from typing import Any

import cupy

from tapegrad_cupy.kernels.copying.copies import contiguous_copy, copy_into
from tapegrad_cupy.launch.cuda_source import THREADS, Source, compile_kernel, full_source
from tapegrad_cupy.launch.launch import Kernel
from tapegrad_cupy.launch.multi_tensors import TENSOR_OF_BLOCK, capacities, layout

Array = Any

_SOURCE = (
    TENSOR_OF_BLOCK
    + r"""
struct Table { const char* x[T]; char* y[T]; i64 size[T]; int first[T]; };

// Copy a range of bytes in units of type U; returns the end of the last whole unit.
template <class U> __device__ __forceinline__ i64 move(
    const char* __restrict__ x, char* __restrict__ y, i64 begin, i64 end
) {
    i64 units = end / (i64)sizeof(U);
    for (i64 i = begin / (i64)sizeof(U) + threadIdx.x; i < units; i += 256) {
        ((U*)y)[i] = ((const U*)x)[i];
    }
    return units * (i64)sizeof(U);
}

// Chunks are multiples of 16 bytes, so every block begins with a whole unit.
extern "C" __global__ void __launch_bounds__(256) copy_many(
    const __grid_constant__ Table table, i64 chunk, int tensors
) {
    int k = tensor_of_block(table.first, tensors);
    i64 begin = (i64)((int)blockIdx.x - table.first[k]) * chunk;
    i64 end = begin + chunk < table.size[k] ? begin + chunk : table.size[k];
    const char* x = table.x[k];
    char* y = table.y[k];
    i64 bits = (i64)x | (i64)y;
    if (!(bits & 15)) begin = move<uint4>(x, y, begin, end);
    else if (!(bits & 3)) begin = move<unsigned int>(x, y, begin, end);
    move<char>(x, y, begin, end);
}
"""
)


def copy_many(targets: Sequence[Array], sources: Sequence[Array]) -> None:
    """Copy arrays to others of their shapes and dtypes; sources must not overlap targets."""
    plain: list[tuple[Array, Array]] = []
    for target, source in zip(targets, sources, strict=True):
        if not source.size:
            continue
        if source._c_contiguous and target._c_contiguous:
            plain.append((target, source))
        else:
            copy_into(target, source)
    if len(plain) == 1:
        copy_into(*plain[0])
    elif plain:
        _launch(plain)


def copies_of(arrays: Sequence[Array]) -> list[Array]:
    """Return contiguous copies."""
    if len(arrays) == 1:
        return [contiguous_copy(arrays[0])]
    copies = [cupy.ndarray(array.shape, array.dtype) for array in arrays]
    copy_many(copies, arrays)
    return copies


def _launch(pairs: Sequence[tuple[Array, Array]]) -> None:
    chunk, capacity, parts = layout(tuple([source.nbytes for _, source in pairs]), 16, 2)
    kernel = _kernel(capacity)
    from_places = [source.data.ptr for _, source in pairs]
    to_places = [target.data.ptr for target, _ in pairs]
    for part in parts:
        table = part.table(from_places, to_places)
        kernel(part.blocks, THREADS, table, chunk, len(part.positions))


@functools.cache
def _kernel(capacity: int) -> Kernel:
    table = f"{capacity * 28}s"  # two addresses, a size and the number of a block
    return Kernel(lambda: compile_kernel(_SOURCE, "copy_many", T=capacity), f"{table}qi")


def variants() -> Iterator[Source]:
    """Yield all sources of this module."""
    for capacity in capacities(2):
        yield Source(f"copy_many up to {capacity}", full_source(_SOURCE, T=capacity))
