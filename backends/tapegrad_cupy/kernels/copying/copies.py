"""Copies between any two layouts, contiguous copies and reshapes.

CuPy copies one element per thread. Here a thread copies up to 16 bytes that are contiguous in both
arrays.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import cupy

from tapegrad_cupy.launch.cuda_source import THREADS, Source, compile_kernel, full_source
from tapegrad_cupy.launch.launch import Kernel
from tapegrad_cupy.launch.strided_layout import Layout, find_layout
from tapegrad_cupy.runtime.array_limits import check_dimensions

Array = Any
Shape = tuple[int, ...]

MOST_PLANS = 4096
_current_device = cupy.cuda.runtime.getDevice
_UNITS = {1: "unsigned char", 2: "unsigned short", 4: "unsigned int", 8: "uint2", 16: "uint4"}
_MOST_RANK = 8

_SOURCE = r"""
struct Sizes { i64 n[RANK]; };

// One unit per thread. The innermost dimension comes last, and steps are in units.
extern "C" __global__ void __launch_bounds__(256) copy(
    const UNIT* __restrict__ x, UNIT* __restrict__ y, i64 count, Sizes size, Sizes from, Sizes to
) {
    INDEX left = (INDEX)blockIdx.x * 256 + threadIdx.x;
    if (left >= (INDEX)count) return;
    i64 source = 0, target = 0;
    #pragma unroll
    for (int d = RANK - 1; d >= 0; --d) {
        INDEX n = (INDEX)size.n[d], at = d ? left % n : left;
        left /= n;
        source += (i64)at * from.n[d];
        target += (i64)at * to.n[d];
    }
    y[target] = x[source];
}

// One warp per row, whose units are neighbours in both arrays: fewer divisions per unit.
extern "C" __global__ void __launch_bounds__(256) copy_rows(
    const UNIT* __restrict__ x, UNIT* __restrict__ y, i64 count, Sizes size, Sizes from, Sizes to
) {
    INDEX left = ((INDEX)blockIdx.x * 256 + threadIdx.x) / 32;
    if (left >= (INDEX)count) return;
    i64 source = 0, target = 0;
    #pragma unroll
    for (int d = RANK - 2; d >= 0; --d) {
        INDEX n = (INDEX)size.n[d], at = d ? left % n : left;
        left /= n;
        source += (i64)at * from.n[d];
        target += (i64)at * to.n[d];
    }
    INDEX length = (INDEX)size.n[RANK - 1];
    #pragma unroll 4
    for (INDEX k = threadIdx.x % 32; k < length; k += 32) y[target + k] = x[source + k];
}
"""

_LONG_ROW, _LONGEST_ROW = 64, 4096
"""The fewest and the most units of a row for a warp."""

_MANY_ROWS = 2048
"""The fewest rows for which one warp each uses the whole device."""

_WIDE_UNIT = 8
"""Units of so many bytes are copied one per thread."""

_launches: dict[Any, Callable[[int, int], None] | None] = {}


def copy_into(target: Array, x: Array) -> None:
    """Copy `x` to an array of its shape and dtype, in any layouts."""
    at_x, at_target = x.data.ptr, target.data.ptr
    key = (x.shape, x.strides, target.strides, x.dtype.itemsize, (at_x | at_target) & 15,
           _current_device())  # fmt: skip
    try:
        launch = _launches[key]
    except KeyError:
        if len(_launches) >= MOST_PLANS:
            _launches.clear()
        launch = _launches[key] = _launcher(x, target, key[-2])
    if launch is None:
        target[...] = x
    else:
        launch(at_x, at_target)


def contiguous_copy(x: Array) -> Array:
    """Return a C-contiguous copy of `x`."""
    result = cupy.ndarray(x.shape, x.dtype)
    if x.size:
        copy_into(result, x)
    return result


def reshape(x: Array, *, shape: Shape) -> Array:
    """Return a view of `x` if possible, otherwise a copy."""
    check_dimensions(shape)
    if x._c_contiguous:
        return x.reshape(shape)
    try:
        view = x.view()
        view.shape = shape
    except AttributeError:  # no view has this shape
        return contiguous_copy(x).reshape(shape)
    return view


def roll(x: Array, *, shift: Sequence[int], axis: Sequence[int]) -> Array:
    """Return a copy whose elements are moved along axes, the last ones to the front."""
    result = x
    for places, along in zip(shift, axis):
        moved = places % max(1, x.shape[along])
        if moved:
            result = _rolled(result, moved, along)
    return contiguous_copy(x) if result is x else result


def _rolled(x: Array, places: int, axis: int) -> Array:
    result = cupy.ndarray(x.shape, x.dtype)
    before = (slice(None),) * axis
    if x.size:
        copy_into(result[(*before, slice(places, None))], x[(*before, slice(None, -places))])
        copy_into(result[(*before, slice(None, places))], x[(*before, slice(-places, None))])
    return result


def _launcher(x: Array, target: Array, low_bits: int) -> Callable[[int, int], None] | None:
    """Return the launch for arrays of these layouts, or None if the kernel does not take them."""
    itemsize = x.dtype.itemsize
    layout = find_layout(x.shape, [x.shape] * 2, [x.strides, target.strides], [itemsize] * 2)
    if layout is None or len(layout.sizes) > _MOST_RANK:
        return None
    unit, sizes, steps = _in_units(layout, itemsize, low_bits)
    count = math.prod(sizes)
    furthest = max(abs(step) * size for own in steps for step, size in zip(own, sizes))
    index = "unsigned int" if max(count + THREADS, furthest) < 2**31 else "i64"
    by_rows = takes_warps(unit, sizes, [own[-1] for own in steps])
    items = count // sizes[-1] if by_rows else count
    kernel = _kernel("copy_rows" if by_rows else "copy", len(sizes), unit, index)
    launch = kernel.launcher(-(-items * (32 if by_rows else 1) // THREADS), THREADS)
    rest = (items, *sizes, *steps[0], *steps[1])
    return lambda at_x, at_target: launch(at_x, at_target, *rest)


def takes_warps(unit: int, sizes: Sequence[int], inner: Sequence[int]) -> bool:
    """Return whether a warp copies each row: narrow units side by side in many long rows."""
    is_long = len(sizes) > 1 and _LONG_ROW <= sizes[-1] <= _LONGEST_ROW
    are_many = math.prod(sizes[:-1]) >= _MANY_ROWS
    return is_long and are_many and unit < _WIDE_UNIT and all(step == 1 for step in inner)


def _in_units(
    layout: Layout, itemsize: int, low_bits: int
) -> tuple[int, tuple[int, ...], list[tuple[int, ...]]]:
    """Return the largest unit that suits both layouts, and the sizes and steps in this unit."""
    sizes, steps = layout.sizes, layout.steps
    if layout.inner != (1, 1) or itemsize not in _UNITS:
        return itemsize, sizes, list(steps)
    bits = low_bits | 16 | sizes[-1] * itemsize
    for own in steps:
        for step in own[:-1]:
            bits |= abs(step) * itemsize
    unit = max(bits & -bits, itemsize)
    ratio = unit // itemsize
    scaled = [(*(step // ratio for step in own[:-1]), 1) for own in steps]
    return unit, (*sizes[:-1], sizes[-1] // ratio), scaled


@functools.cache
def _kernel(name: str, rank: int, unit: int, index: str) -> Kernel:
    macros = _macros(rank, unit, index)
    # The sizes are structures, so a recording cannot replay this launch.
    return Kernel(lambda: compile_kernel(_SOURCE, name, **macros), f"PPq{3 * rank}q")


def _macros(rank: int, unit: int, index: str) -> dict[str, str | int]:
    return {"RANK": rank, "UNIT": _UNITS[unit], "INDEX": index}


def variants() -> Iterator[Source]:
    """Yield all sources of this module."""
    for rank in range(1, _MOST_RANK + 1):
        for unit in _UNITS:
            for index in ("unsigned int", "i64"):  # each source has both kernels
                text = full_source(_SOURCE, **_macros(rank, unit, index))
                yield Source(f"copy rank {rank} by {unit} bytes, {index}", text)


KERNELS = {"reshape": reshape, "roll": roll}
