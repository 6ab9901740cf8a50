"""Gather entries by index, and other operations that only move entries, as raw bits.

An index out of range reads zeros and writes nothing, because raising an error would make the host
wait for the device.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator
from typing import Any

import cupy
import numpy as np

from tapegrad.core.backend.registry import by_name
from tapegrad.core.primitive.index_check import NOWHERE
from tapegrad.errors import IndexOutOfRangeError
from tapegrad_cupy.kernels.elementwise.conversions import converted
from tapegrad_cupy.kernels.elementwise.pointwise import Pointwise
from tapegrad_cupy.kernels.generic import run_generic
from tapegrad_cupy.launch.cuda_prelude import C_TYPES, UNITS
from tapegrad_cupy.launch.cuda_source import (
    THREADS,
    Source,
    blocks_for,
    compile_kernel,
    contiguous,
    full_source,
)

Array = Any
Shape = tuple[int, ...]

_INT64 = np.dtype(np.int64)

_PLACEHOLDERS = "ABCDEFGHIJKL"


_SOURCE = r"""
// The unit that a thread moves, and the type that counts the units of x[outer][entries][width].
typedef UNIT U;
typedef COUNT K;

struct Place { K column, entry, outer; };

__device__ __forceinline__ Place place_of(K i, K width, K entries) {
    K rest = i / width;
    return {i - rest * width, rest % entries, rest / entries};
}

#define EACH(i, count) \
    K i = (K)blockIdx.x * blockDim.x + threadIdx.x; \
    if (i >= (K)(count)) return;

extern "C" __global__ void __launch_bounds__(256) take(
    const U* __restrict__ x, const i64* __restrict__ index, const i64* __restrict__ last,
    U* __restrict__ out, i64 count, i64 n, i64 size, i64 width
) {
    EACH(i, count)
    Place place = place_of(i, (K)width, (K)n);
    i64 at = index[place.entry];
    U value = U();
    bool is_there = at >= 0 && at < size;
    if (is_there && last) is_there = last[at] == (i64)place.entry;
    if (is_there) value = x[((i64)place.outer * size + at) * width + place.column];
    out[i] = value;
}

// The number of the last entry for each position. Integers, so the order does not matter.
extern "C" __global__ void __launch_bounds__(256) last_of(
    const i64* __restrict__ index, i64* __restrict__ last, i64 n, i64 size
) {
    EACH(i, n)
    i64 at = index[i];
    if (at >= 0 && at < size) atomicMax(last + at, (i64)i);
}

extern "C" __global__ void __launch_bounds__(256) replace(
    const U* __restrict__ x, const U* __restrict__ v, const i64* __restrict__ last,
    U* __restrict__ out, i64 count, i64 n, i64 size, i64 width
) {
    EACH(i, count)
    Place place = place_of(i, (K)width, (K)size);
    i64 from = last[place.entry];
    out[i] = from < 0 ? x[i] : v[((i64)place.outer * n + from) * width + place.column];
}

extern "C" __global__ void __launch_bounds__(256) take_along(
    const U* __restrict__ x, const i64* __restrict__ index, U* __restrict__ out,
    i64 count, i64 n, i64 size, i64 width
) {
    EACH(i, count)
    Place place = place_of(i, (K)width, (K)n);
    i64 at = index[i];
    if (at < 0) at += size;
    U value = U();
    if (at >= 0 && at < size) value = x[((i64)place.outer * size + at) * width + place.column];
    out[i] = value;
}

// The position of each entry in out[outer][size][width], or -1; negative ones count from the end.
__device__ __forceinline__ i64 target(K i, const i64* index, i64 n, i64 size, i64 width) {
    Place place = place_of(i, (K)width, (K)n);
    i64 at = index[i];
    if (at < 0) at += size;
    if (at < 0 || at >= size) return -1;
    return ((i64)place.outer * size + at) * width + place.column;
}

extern "C" __global__ void __launch_bounds__(256) targets(
    const i64* __restrict__ index, i64* __restrict__ out, i64 count, i64 n, i64 size, i64 width
) {
    EACH(i, count)
    out[i] = target(i, index, n, size, width);
}

extern "C" __global__ void __launch_bounds__(256) write_along(
    const U* __restrict__ x, const i64* __restrict__ index, U* __restrict__ out,
    i64 count, i64 n, i64 size, i64 width
) {
    EACH(i, count)
    i64 at = target(i, index, n, size, width);
    if (at >= 0) out[at] = x[i];
}

#if UNIT_SIZE <= 8
extern "C" __global__ void __launch_bounds__(256) one_hot(
    const i64* __restrict__ index, U* __restrict__ out, i64 count, i64 depth, i64 width,
    unsigned long long on, unsigned long long off
) {
    EACH(i, count)
    Place place = place_of(i, (K)width, (K)depth);
    bool is_hit = index[(i64)place.outer * width + place.column] == (i64)place.entry;
    out[i] = (U)(is_hit ? on : off);
}
#endif
"""


@functools.cache
def _kernel(name: str, unit: int = 8, is_long: bool = False) -> Any:
    return compile_kernel(_SOURCE, name, **_macros(unit, is_long))


def _macros(unit: int, is_long: bool) -> dict[str, str | int]:
    count_type = "unsigned long long" if is_long else "unsigned int"
    return {"UNIT": UNITS[unit], "UNIT_SIZE": unit, "COUNT": count_type}


def _launch(name: str, unit: int, count: int, arguments: tuple[Any, ...]) -> None:
    """Launch a kernel with one thread for each of `count` units."""
    is_long = count + THREADS >= 2**32
    _kernel(name, unit, is_long)((blocks_for(count),), (THREADS,), arguments)


def _unit(size: int, *arrays: Array) -> int:
    """Return the largest unit, in bytes, in which entries of `size` bytes can be moved."""
    bits = size | 16
    for array in arrays:
        bits |= array.data.ptr
    return bits & -bits


def _as_index(index: Array) -> Array:
    return contiguous(converted(index, _INT64))


def linear_index(*arrays: Array, lengths: Shape, axes: tuple[int, ...], name: str) -> Array:
    """Combine index arrays to positions along the merged axis; negative ones count from the end.

    An index out of range along any axis makes its position NOWHERE.
    """
    if 0 in lengths and all([array.size for array in arrays]):
        raise IndexOutOfRangeError(
            f"{name} got indices for axis {axes[lengths.index(0)]}, which is empty."
        )
    if len(arrays) > len(_PLACEHOLDERS):
        params = {"lengths": lengths, "axes": axes, "name": name}
        return run_generic("linear_index", *arrays, **params)
    return _join_kernel(len(arrays))(*arrays, *lengths)


@functools.cache
def _join_kernel(count: int) -> Any:
    return _join(count).kernel()


def _join(count: int) -> Pointwise:
    indices = [f"{letter} i{k}" for k, letter in zip(range(count), _PLACEHOLDERS, strict=False)]
    lengths = [f"int64 n{k}" for k in range(count)]
    steps = [
        f"long long j{k} = (long long)i{k} + (i{k} < 0 ? n{k} : 0);"
        f" is_wrong |= j{k} < 0 || j{k} >= n{k}; total = total * n{k} + j{k};"
        for k in range(count)
    ]
    return Pointwise(
        ", ".join([*indices, *lengths]),
        "int64 y",
        f"long long total = 0; bool is_wrong = false; {' '.join(steps)}"
        f" y = is_wrong ? {NOWHERE}LL : total;",
        "tapegrad_linear_index",
    )


# The same indices for all positions of the other axes


def take(x: Array, indices: Array, *, axis: int) -> Array:
    """Return the entries at `indices` along an axis."""
    if not x.flags.c_contiguous and x.shape[axis] > 2 * indices.size:
        return _taken_strided(x, indices, axis)
    return _taken(x, indices, axis)


def _taken_strided(x: Array, indices: Array, axis: int) -> Array:
    """Take a few entries of an array that is not contiguous, without a copy of the whole array."""
    there = (indices >= 0) & (indices < x.shape[axis])
    there = there.reshape((*indices.shape, *[1] * (x.ndim - axis - 1)))
    # CuPy can take bfloat16 only as bits.
    whole = x.view(np.uint16) if x.dtype.kind == "V" else x
    taken = cupy.take(whole, indices, axis=axis)  # wraps around, so that it is safe
    return cupy.where(there, taken, cupy.zeros((), whole.dtype)).view(x.dtype)


def _taken(x: Array, indices: Array, axis: int, *, last: Array = 0) -> Array:
    x, index = contiguous(x), _as_index(indices)
    inner = x.shape[axis + 1 :]
    out = cupy.empty((*x.shape[:axis], *indices.shape, *inner), x.dtype)
    if out.size:
        size = math.prod(inner) * x.dtype.itemsize
        unit = _unit(size, x, out)
        count = out.nbytes // unit
        sizes = (count, index.size, x.shape[axis], size // unit)
        _launch("take", unit, count, (x, index, last, out, *sizes))
    return out


def gather_rows(x: Array, indices: Array) -> Array:
    return take(x, indices, axis=0)


def segment_take(x: Array, ids: Array) -> Array:
    """Return the row of each id, and zeros for ids out of range."""
    return _taken(x, ids, 0)


def _last_of(indices: Array, size: int) -> Array:
    """Return for each position the number of the last index equal to it, or -1."""
    last = cupy.full(size, -1, _INT64)
    if indices.size and size:
        _launch("last_of", 8, indices.size, (indices, last, indices.size, size))
    return last


def take_last(t: Array, indices: Array, *, axis: int) -> Array:
    """Like `take`, with zeros for all but the last of repeated indices."""
    index = _as_index(indices)
    return _taken(t, index, axis, last=_last_of(index, t.shape[axis]))


def take_set(x: Array, v: Array, indices: Array, *, axis: int) -> Array:
    """Return a copy of `x` with entries along an axis replaced; the last of equal indices wins."""
    if v.dtype != x.dtype or v.size * x.shape[axis] != x.size * indices.size:
        return run_generic("take_set", x, v, indices, axis=axis)
    x, v, index = contiguous(x), contiguous(v), _as_index(indices)
    out = cupy.empty(x.shape, x.dtype)
    if out.size:
        last = _last_of(index, x.shape[axis])
        size = math.prod(x.shape[axis + 1 :]) * x.dtype.itemsize
        unit = _unit(size, x, v, out)
        count = out.nbytes // unit
        sizes = (count, index.size, x.shape[axis], size // unit)
        _launch("replace", unit, count, (x, v, last, out, *sizes))
    return out


# Separate indices for each position of the other axes


def take_along_axis(x: Array, indices: Array, *, axis: int, unique: bool) -> Array:
    """Return the elements at `indices` along an axis; the other axes are matched by position."""
    if not _matches(x.shape, indices.shape, axis):
        return cupy.take_along_axis(x, indices, axis=axis)
    x, index = contiguous(x), _as_index(indices)
    out = cupy.empty(indices.shape, x.dtype)
    if out.size:
        sizes = (out.size, *_lengths(indices.shape, axis, x.shape[axis]))
        _launch("take_along", x.dtype.itemsize, out.size, (x, index, out, *sizes))
    return out


def _matches(shape: Shape, other: Shape, axis: int) -> bool:
    return shape[:axis] == other[:axis] and shape[axis + 1 :] == other[axis + 1 :]


def _lengths(shape: Shape, axis: int, size: int) -> tuple[int, int, int]:
    return shape[axis], size, math.prod(shape[axis + 1 :])


def write_along_axis(t: Array, indices: Array, axis: int, size: int) -> Array:
    """Write `t` into zeros at indices that are unique along the axis."""
    out = cupy.zeros((*t.shape[:axis], size, *t.shape[axis + 1 :]), t.dtype)
    if t.size and size:
        t, index = contiguous(t), _as_index(indices)
        sizes = (t.size, *_lengths(t.shape, axis, size))
        _launch("write_along", t.dtype.itemsize, t.size, (t, index, out, *sizes))
    return out


def flat_places(indices: Array, axis: int, size: int) -> Array:
    """Return the flat position of each index along an axis of length `size`."""
    index = _as_index(indices)
    out = cupy.empty(index.size, _INT64)
    sizes = (index.size, *_lengths(indices.shape, axis, size))
    _launch("targets", 8, index.size, (index, out, *sizes))
    return out


def one_hot(
    indices: Array, *, depth: int, on: Any, off: Any, axis: int, dtype: np.dtype[Any]
) -> Array:
    """Write `on` at each index along a new axis of `off`; indices out of range write nothing."""
    dtype = np.dtype(dtype)
    if dtype.itemsize > 8:
        params = {"depth": depth, "on": on, "off": off, "axis": axis, "dtype": dtype}
        return run_generic("one_hot", indices, **params)
    place = axis % (indices.ndim + 1)
    out = cupy.empty((*indices.shape[:place], depth, *indices.shape[place:]), dtype)
    if out.size:
        width = math.prod(indices.shape[place:])
        bits = [
            np.uint64(int.from_bytes(np.array(v, dtype).tobytes(), "little")) for v in (on, off)
        ]
        arguments = (_as_index(indices), out, out.size, depth, width, *bits)
        _launch("one_hot", dtype.itemsize, out.size, arguments)
    return out


def variants() -> Iterator[Source]:
    """Yield all sources of this module."""
    for unit in UNITS:
        for is_long in (False, True):
            text = full_source(_SOURCE, **_macros(unit, is_long))
            yield Source(f"gather {unit} bytes {'long' if is_long else 'short'}", text)
    for dtype in C_TYPES:
        if dtype.startswith(("int", "uint")):
            yield _join(2).source(A=dtype, B="int64")
    yield _join(len(_PLACEHOLDERS)).source(**dict.fromkeys(_PLACEHOLDERS, "int32"))


KERNELS = by_name(
    gather_rows, linear_index, one_hot, segment_take, take, take_along_axis, take_last, take_set
)
