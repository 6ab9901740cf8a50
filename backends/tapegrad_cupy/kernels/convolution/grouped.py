"""Convolution in groups of few channels, such as depthwise convolution: one element per thread.

A matrix product per group would be a single column or row. The gradient of the filters is computed
in parts, each by one thread, and the parts are then added.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterator
from typing import Any

import cupy
import numpy as np

from tapegrad_cupy.kernels.convolution.grouped_source import GROUPED
from tapegrad_cupy.kernels.convolution.patches import Convolution, Plan
from tapegrad_cupy.kernels.convolution.windows import divider, is_many, window_macros
from tapegrad_cupy.kernels.reduction.reduction import sum_
from tapegrad_cupy.launch.cuda_prelude import C_TYPES, FLOATS
from tapegrad_cupy.launch.cuda_source import (
    THREADS,
    Source,
    blocks_for,
    compile_kernel,
    full_source,
    wide_name,
)
from tapegrad_cupy.launch.launch import Kernel

Array = Any

MOST_CHANNELS = 8
"""Groups with more input or output channels are left to matrix products."""

_BUSY = 2**18
"""The number of threads that keeps the device busy."""

_FEW_ROWS = 64
"""A thread adds at least this many windows."""


def is_thin(conv: Convolution) -> bool:
    """Return whether these kernels take a convolution."""
    widest = max(conv.fan_in, conv.c_out // conv.groups)
    return conv.groups > 1 and widest <= MOST_CHANNELS and conv.dtype.name in FLOATS


def plan_conv(conv: Convolution) -> Plan:
    """Return a function of data and filters that convolves them."""
    return _plan_launch("conv", conv, conv.output_shape, (conv.c_in,))


def plan_input_gradient(conv: Convolution) -> Plan:
    """Return a function of cotangents and filters that computes the gradient of the data."""
    return _plan_launch("conv_input_gradient", conv, conv.input_shape, divider(conv.c_in))


def plan_filter_gradient(conv: Convolution) -> Plan:
    """Return a function of data and cotangents that computes the gradient of the filters."""
    rows, elements = conv.batch * conv.rows, math.prod(conv.filter_shape)
    parts = max(1, min(_BUSY // elements, rows // _FEW_ROWS))
    per_part = -(-rows // parts)
    parts = -(-rows // per_part)
    total, wide = parts * elements, np.dtype(wide_name(conv.dtype.name))
    arguments = f"PPPqqqi9I{conv.windows.layout}"
    kernel = _kernel("conv_filter_gradient", conv, arguments, is_many(total, rows))
    sizes = (total, rows, per_part, conv.c_in, *_dividers(conv), *conv.windows.pack())

    def run(x: Array, t: Array) -> Array:
        sums = cupy.ndarray((parts, elements), wide)
        kernel(blocks_for(total), THREADS, x.data.ptr, t.data.ptr, sums.data.ptr, *sizes)
        g = sum_(sums, axis=(0,), keepdims=False) if parts > 1 else sums
        return g.reshape(conv.filter_shape).astype(conv.dtype, copy=False)

    return run


def _plan_launch(
    name: str, conv: Convolution, shape: tuple[int, ...], channels: tuple[int, ...]
) -> Plan:
    """Return the plan for a result of `shape` with one thread per element."""
    total = math.prod(shape)
    channel_letters = "i" if len(channels) == 1 else "3I"
    arguments = f"PPPqi{channel_letters}9I{conv.windows.layout}"
    kernel = _kernel(name, conv, arguments, is_many(total))
    sizes = (total, conv.places, *channels, *_dividers(conv), *conv.windows.pack())
    blocks = blocks_for(total)

    def run(a: Array, b: Array) -> Array:
        result = cupy.ndarray(shape, conv.dtype)
        kernel(blocks, THREADS, a.data.ptr, b.data.ptr, result.data.ptr, *sizes)
        return result

    return run


def _dividers(conv: Convolution) -> tuple[int, ...]:
    share = conv.c_out // conv.groups
    return *divider(conv.fan_in), *divider(conv.c_out), *divider(share)


# Kernels


def _macros(dtype: str, rank: int, is_long: bool) -> dict[str, str | int]:
    return {"T": C_TYPES[dtype], **window_macros(rank, is_long)}


def _kernel(name: str, conv: Convolution, arguments: str, is_long: bool) -> Kernel:
    return _make_kernel(name, conv.dtype.name, len(conv.windows.spatial), is_long, arguments)


@functools.cache
def _make_kernel(name: str, dtype: str, rank: int, is_long: bool, arguments: str) -> Kernel:
    return Kernel(lambda: compile_kernel(GROUPED, name, **_macros(dtype, rank, is_long)), arguments)


def variants() -> Iterator[Source]:
    """Yield all sources of this module, for three dimensions."""
    for dtype in FLOATS:
        for is_long in (False, True):
            macros = _macros(dtype, 3, is_long)
            yield Source(f"conv {dtype} {macros['COUNT']}", full_source(GROUPED, **macros))


PLANS: dict[str, Callable[[Convolution], Plan]] = {
    "conv": plan_conv,
    "conv_input_gradient": plan_input_gradient,
    "conv_filter_gradient": plan_filter_gradient,
}
