"""Convolution as matrix products of unrolled patches (im2col), for all numeric dtypes.

Windows are unrolled into rows in batches, so that scratch memory stays bounded. The transpose is a
gather: each element of the result adds its windows in a fixed order.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import cupy
import numpy as np

from tapegrad_cupy.kernels.convolution.convolution_source import PATCHES, SPREAD, TRANSPOSE
from tapegrad_cupy.kernels.convolution.windows import (
    Windows,
    divider,
    find_windows,
    is_many,
    window_macros,
)
from tapegrad_cupy.kernels.products.products import matmul
from tapegrad_cupy.launch.cuda_prelude import C_TYPES, UNITS
from tapegrad_cupy.launch.cuda_source import (
    THREADS,
    Source,
    blocks_for,
    compile_kernel,
    full_source,
    is_aligned,
    wide_dtype,
)
from tapegrad_cupy.launch.launch import Kernel

Array = Any
Plan = Callable[[Array, Array], Array]

MOST_SCRATCH = 512 * 2**20
"""The most bytes of unrolled patches at a time; the transpose never splits an image."""


_HALVES = ("float16", "bfloat16")

_REAL_PARTS: dict[str, np.dtype[Any]] = {
    "complex64": np.dtype(np.float32),
    "complex128": np.dtype(np.float64),
}

DTYPES = {name for name in C_TYPES if name != "bool"} | set(_REAL_PARTS)
"""The supported dtypes."""


@dataclass(frozen=True)
class Convolution:
    """The sizes of a convolution: x[batch, *spatial, c_in], w[*window, c_in / groups, c_out]."""

    batch: int
    windows: Windows
    c_in: int
    c_out: int
    groups: int
    dtype: np.dtype[Any]

    @property
    def fan_in(self) -> int:
        return self.c_in // self.groups

    @property
    def places(self) -> int:
        return math.prod(self.windows.window)

    @property
    def rows(self) -> int:
        """The number of windows in one image."""
        return math.prod(self.windows.counts)

    @property
    def row_bytes(self) -> int:
        """The bytes of an unrolled window, all groups together."""
        return self.places * self.c_in * self.dtype.itemsize

    @property
    def input_shape(self) -> tuple[int, ...]:
        return self.batch, *self.windows.spatial, self.c_in

    @property
    def filter_shape(self) -> tuple[int, ...]:
        return *self.windows.window, self.fan_in, self.c_out

    @property
    def output_shape(self) -> tuple[int, ...]:
        return self.batch, *self.windows.counts, self.c_out


# The three plans


def plan_conv(conv: Convolution) -> Plan:
    """Return a function of data and filters that convolves them."""
    total, step = conv.batch * conv.rows, _rows_at_a_time(conv)
    unroll = _unroller(conv, min(total, step))

    def run(x: Array, w: Array) -> Array:
        filters = _filters_by_group(conv, w)
        if step >= total and conv.groups == 1:
            y = matmul(unroll(x, 0, total), filters, transpose_a=False, transpose_b=False)
            return y.reshape(conv.output_shape)
        y = cupy.ndarray(conv.output_shape, conv.dtype)
        rows = _by_group(conv, y)
        for first in range(0, total, step):
            last = min(first + step, total)
            columns = unroll(x, first, last)
            part = matmul(columns, filters, transpose_a=False, transpose_b=False)
            rows[..., first:last, :] = part
        return y

    return run


def plan_input_gradient(conv: Convolution) -> Plan:
    """Return a function of cotangents and filters that computes the gradient of the data."""
    add = _adder(conv)
    step = max(1, MOST_SCRATCH // max(1, conv.rows * conv.row_bytes))

    def run(t: Array, w: Array) -> Array:
        filters = _filters_by_group(conv, w)
        rows = _by_group(conv, t)
        g = cupy.ndarray(conv.input_shape, conv.dtype)
        for first in range(0, conv.batch, step):
            last = min(first + step, conv.batch)
            part = rows[..., first * conv.rows : last * conv.rows, :]
            add(matmul(part, filters, transpose_a=False, transpose_b=True), g[first:last])
        return g

    return run


def plan_filter_gradient(conv: Convolution) -> Plan:
    """Return a function of data and cotangents that computes the gradient of the filters."""
    total, step = conv.batch * conv.rows, _rows_at_a_time(conv)
    unroll = _unroller(conv, min(total, step))
    wide = wide_dtype(conv.dtype) if conv.dtype.name in _HALVES else conv.dtype

    def run(x: Array, t: Array) -> Array:
        rows = _by_group(conv, t)
        g: Array = None
        for first in range(0, total, step):
            last = min(first + step, total)
            columns = unroll(x, first, last)
            part = matmul(columns, rows[..., first:last, :], transpose_a=True, transpose_b=False)
            g = part if g is None else g.astype(wide, copy=False) + part
        if conv.groups > 1:
            g = g.transpose(1, 0, 2)
        return cupy.ascontiguousarray(g.reshape(conv.filter_shape).astype(conv.dtype, copy=False))

    return run


def padder(conv: Convolution) -> Callable[[Array], Array]:
    """Return a function that pads data with zeros."""
    spatial, ones = conv.windows.spatial, (1,) * len(conv.windows.spatial)
    windows = find_windows(spatial, ones, ones, conv.windows.padding, ones)
    # Windows of one element unroll to the padded data itself.
    copies = Convolution(conv.batch, windows, conv.c_in, conv.c_in, 1, conv.dtype)
    rows = copies.batch * copies.rows
    unroll = _unroller(copies, rows)
    return lambda x: unroll(x, 0, rows).reshape(copies.output_shape)


PLANS: dict[str, Callable[[Convolution], Plan]] = {
    "conv": plan_conv,
    "conv_input_gradient": plan_input_gradient,
    "conv_filter_gradient": plan_filter_gradient,
}


def _rows_at_a_time(conv: Convolution) -> int:
    return max(1, MOST_SCRATCH // max(1, conv.row_bytes))


# Views for the products: one matrix, or a stack with one matrix per group


def _by_group(conv: Convolution, a: Array) -> Array:
    """View [n, *windows, c_out] as [rows, c_out], or as [groups, rows, c_out of the group]."""
    rows = a.reshape(conv.batch * conv.rows, conv.c_out)
    if conv.groups == 1:
        return rows
    return rows.reshape(-1, conv.groups, conv.c_out // conv.groups).transpose(1, 0, 2)


def _filters_by_group(conv: Convolution, w: Array) -> Array:
    """View filters as [depth, c_out], or as [groups, depth, c_out of the group]."""
    matrix = w.reshape(conv.places * conv.fan_in, conv.c_out)
    if conv.groups == 1:
        return matrix
    return matrix.reshape(-1, conv.groups, conv.c_out // conv.groups).transpose(1, 0, 2)


# Launches


@functools.cache
def _kernel(source: str, name: str, arguments: str, **macros: str | int) -> Kernel:
    return Kernel(lambda: compile_kernel(source, name, **macros), arguments)


def variants() -> Iterator[Source]:
    """Yield all sources of this module, for three dimensions and the longest vectors."""
    for unit in UNITS.values():
        yield Source(f"transpose {unit}", full_source(TRANSPOSE, UNIT=unit))
    for is_long in (False, True):
        macros = window_macros(3, is_long)
        for unit in UNITS.values():
            text = full_source(PATCHES, UNIT=unit, **macros)
            yield Source(f"gather_patches {unit} {macros['COUNT']}", text)
        for dtype in sorted(DTYPES & C_TYPES.keys()):
            vector = 16 // (2 if dtype == "bfloat16" else np.dtype(dtype).itemsize)
            text = full_source(SPREAD, T=C_TYPES[dtype], V=vector, **macros)
            yield Source(f"add_patches {dtype} {macros['COUNT']}", text)


def _unroller(conv: Convolution, most_rows: int) -> Callable[[Array, int, int], Array]:
    """Return a function that unrolls a range of windows to [rows, depth], or one per group."""
    windows, depth = conv.windows, conv.places * conv.fan_in
    geometry = windows.pack()
    size = conv.fan_in * conv.dtype.itemsize
    is_long = is_many(most_rows * conv.row_bytes, conv.batch * conv.rows)
    macros = window_macros(len(windows.spatial), is_long)
    arguments = f"PPqqi6I{windows.layout}"
    lead = () if conv.groups == 1 else (conv.groups,)

    def run(x: Array, first: int, last: int) -> Array:
        rows = last - first
        columns = cupy.ndarray((*lead, rows, depth), conv.dtype)
        at = x.data.ptr
        bits = size | at | 16
        unit = bits & -bits
        kernel = _kernel(PATCHES, "gather_patches", arguments, UNIT=UNITS[unit], **macros)
        count = columns.nbytes // unit
        kernel(
            blocks_for(count), THREADS,
            at, columns.data.ptr, count, first, conv.groups,
            *divider(size // unit), *divider(rows), *geometry,
        )  # fmt: skip
        return columns

    return run


def _adder(conv: Convolution) -> Callable[[Array, Array], None]:
    """Return a function that adds the unrolled windows of some images into these images."""
    windows, groups = conv.windows, conv.groups
    geometry = windows.pack()
    # Complex numbers are added as twice as many real channels.
    dtype: np.dtype[Any] = _REAL_PARTS.get(conv.dtype.name, conv.dtype)
    channels = conv.fan_in * (conv.dtype.itemsize // dtype.itemsize)
    rank, name = len(windows.spatial), C_TYPES[dtype.name]
    arguments = f"PPqqi6I{windows.layout}"

    def run(columns: Array, g: Array) -> None:
        vector = math.gcd(channels, 16 // dtype.itemsize) if is_aligned(columns, g) else 1
        total = g.nbytes // (dtype.itemsize * vector)
        macros = window_macros(rank, is_many(total))
        kernel = _kernel(SPREAD, "add_patches", arguments, T=name, V=vector, **macros)
        kernel(
            blocks_for(total), THREADS,
            columns.data.ptr, g.data.ptr, total, g.shape[0] * conv.rows, conv.places,
            *divider(channels // vector), *divider(groups), *geometry,
        )  # fmt: skip

    return run


def transposer(
    itemsize: int, rows: int, columns: int, shape: tuple[int, ...]
) -> Callable[[Array], Array]:
    """Return a function for the current device that transposes a contiguous matrix.

    The result has `shape`.
    """
    kernel = _kernel(TRANSPOSE, "transpose", "PPqqq", UNIT=UNITS[itemsize])
    tiles = (columns + 31) // 32
    launch = kernel.launcher((rows + 31) // 32 * tiles, THREADS)

    def run(x: Array) -> Array:
        y = cupy.ndarray(shape, x.dtype)
        launch(x.data.ptr, y.data.ptr, rows, columns, tiles)
        return y

    return run
