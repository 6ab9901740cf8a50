"""Copy many arrays in one launch, if they are contiguous or small and made of equal lines."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import cupy

from tapegrad_cupy.kernels.copying.copies import contiguous_copy, copy_into
from tapegrad_cupy.launch.cuda_source import THREADS, Source, compile_kernel, full_source
from tapegrad_cupy.launch.launch import Kernel
from tapegrad_cupy.launch.multi_tensors import TENSOR_OF_BLOCK, capacities, layout
from tapegrad_cupy.launch.strided_layout import find_layout

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

_LINES_SOURCE = (
    TENSOR_OF_BLOCK
    + r"""
// Lines of `length` bytes, which begin at each `from` bytes of x and each `to` bytes of y.
struct Table {
    const char* x[T]; char* y[T]; i64 length[T]; i64 from[T]; i64 to[T]; i64 size[T]; int first[T];
};

template <class U> __device__ __forceinline__ void move(
    const char* __restrict__ x, char* __restrict__ y, unsigned int length, i64 from, i64 to,
    unsigned int begin, unsigned int end
) {
    const unsigned int width = sizeof(U), units = length / width;
    for (unsigned int i = begin / width + threadIdx.x; i < end / width; i += 256) {
        const unsigned int line = i / units, at = (i - line * units) * width;
        *(U*)(y + line * to + at) = *(const U*)(x + line * from + at);
    }
}

extern "C" __global__ void __launch_bounds__(256) copy_lines(
    const __grid_constant__ Table table, i64 chunk, int tensors
) {
    const int k = tensor_of_block(table.first, tensors);
    const unsigned int begin = (unsigned int)(((int)blockIdx.x - table.first[k]) * chunk);
    const unsigned int end = min(begin + (unsigned int)chunk, (unsigned int)table.size[k]);
    const char* x = table.x[k];
    char* y = table.y[k];
    const i64 length = table.length[k], from = table.from[k], to = table.to[k];
    const i64 bits = (i64)x | (i64)y | length | from | to;
    if (!(bits & 15)) move<uint4>(x, y, length, from, to, begin, end);
    else if (!(bits & 7)) move<uint2>(x, y, length, from, to, begin, end);
    else if (!(bits & 3)) move<unsigned int>(x, y, length, from, to, begin, end);
    else if (!(bits & 1)) move<unsigned short>(x, y, length, from, to, begin, end);
    else move<char>(x, y, length, from, to, begin, end);
}
"""
)

_MOST_BYTES = 1 << 22
"""The most bytes that are copied line by line with others; larger arrays are worth a launch."""


class _Lines(NamedTuple):
    """Lines of equal length: their bytes, and the steps in bytes from one to the next."""

    length: int
    source_step: int
    target_step: int


def copy_many(targets: Sequence[Array], sources: Sequence[Array]) -> None:
    """Copy arrays to others of their shapes and dtypes; sources must not overlap targets."""
    plain: list[tuple[Array, Array]] = []
    lines: list[tuple[Array, Array, _Lines]] = []
    for target, source in zip(targets, sources, strict=True):
        if not source.size:
            continue
        if source._c_contiguous and target._c_contiguous:
            plain.append((target, source))
        elif (found := _lines(target, source)) is not None:
            lines.append((target, source, found))
        else:
            copy_into(target, source)
    if len(plain) == 1:
        copy_into(*plain[0])
    elif plain:
        _launch(plain)
    if len(lines) == 1:
        copy_into(*lines[0][:2])
    elif lines:
        _launch_lines(lines)


def _lines(target: Array, source: Array) -> _Lines | None:
    """Return the lines of two arrays; None if they are large or have no such lines."""
    if source.nbytes > _MOST_BYTES:
        return None
    key = source.shape, source.strides, target.strides, source.dtype.itemsize
    return _lines_of(*key)


@functools.lru_cache(maxsize=4096)
def _lines_of(
    shape: tuple[int, ...], source: tuple[int, ...], target: tuple[int, ...], itemsize: int
) -> _Lines | None:
    found = find_layout(shape, [shape] * 2, [source, target], [itemsize] * 2)
    if found is None or min(0, *source, *target) < 0:
        return None
    (*outer_from, step_from), (*outer_to, step_to) = found.steps
    if not outer_from and found.inner == (1, 1):
        return _Lines(found.sizes[0] * itemsize, 0, 0)
    if not outer_from:
        return _Lines(itemsize, step_from * itemsize, step_to * itemsize)
    if len(outer_from) > 1 or found.inner != (1, 1):
        return None
    length = found.sizes[-1] * itemsize
    return _Lines(length, outer_from[0] * itemsize, outer_to[0] * itemsize)


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


def _launch_lines(copies: Sequence[tuple[Array, Array, _Lines]]) -> None:
    sizes = tuple([source.nbytes for _, source, _ in copies])
    chunk, capacity, parts = layout(sizes, 16, _LINE_COLUMNS)
    kernel = _lines_kernel(capacity)
    columns = [
        [source.data.ptr for _, source, _ in copies],
        [target.data.ptr for target, _, _ in copies],
        *zip(*[lines for _, _, lines in copies], strict=True),
    ]
    for part in parts:
        kernel(part.blocks, THREADS, part.table(*columns), chunk, len(part.positions))


_LINE_COLUMNS = 5


@functools.cache
def _lines_kernel(capacity: int) -> Kernel:
    table = f"{capacity * (8 * _LINE_COLUMNS + 12)}s"
    return Kernel(lambda: compile_kernel(_LINES_SOURCE, "copy_lines", T=capacity), f"{table}qi")


@functools.cache
def _kernel(capacity: int) -> Kernel:
    table = f"{capacity * 28}s"  # two addresses, a size and the number of a block
    return Kernel(lambda: compile_kernel(_SOURCE, "copy_many", T=capacity), f"{table}qi")


def variants() -> Iterator[Source]:
    """Yield all sources of this module."""
    for capacity in capacities(2):
        yield Source(f"copy_many up to {capacity}", full_source(_SOURCE, T=capacity))
    for capacity in capacities(_LINE_COLUMNS):
        yield Source(f"copy_lines up to {capacity}", full_source(_LINES_SOURCE, T=capacity))
