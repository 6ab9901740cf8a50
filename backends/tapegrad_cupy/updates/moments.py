"""The moving averages of a batch's mean and variance, both in one launch."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import Any

import cupy
import numpy as np

from tapegrad_cupy.compiled import (
    C_TYPES,
    FLOATS,
    THREADS,
    Source,
    blocks_for,
    compiled,
    complete,
    wide_name,
)
from tapegrad_cupy.launch import Kernel
from tapegrad_cupy.updates.updates import generic

Array = Any

_current_device = cupy.cuda.runtime.getDevice

_SOURCE = r"""
extern "C" __global__ void __launch_bounds__(256) move(
    const P* __restrict__ mean, const P* __restrict__ variance,
    const P* __restrict__ seen_mean, const P* __restrict__ seen_variance,
    P* __restrict__ new_mean, P* __restrict__ new_variance, i64 count, double share
) {
    i64 stride = (i64)gridDim.x * blockDim.x;
    for (i64 i = (i64)blockIdx.x * blockDim.x + threadIdx.x; i < count; i += stride) {
        S m = widen(mean[i]), v = widen(variance[i]);
        new_mean[i] = narrow<P>(m + (widen(seen_mean[i]) - m) * (S)share);
        new_variance[i] = narrow<P>(v + (widen(seen_variance[i]) - v) * (S)share);
    }
}
"""


def moments_update(*arrays: Array, share: float) -> tuple[Array, ...]:
    """Move two averages towards what was seen; the arrays that come in are not written to."""
    first = arrays[0]
    shape, dtype = first.shape, first.dtype
    for array in arrays:
        if array.dtype != dtype or array.shape != shape or not array._c_contiguous:
            return generic("moments_update", *arrays, share=share)
    launch = _launch(dtype, first.size, _current_device()) if first.size else None
    if launch is None:
        return generic("moments_update", *arrays, share=share)
    new = cupy.ndarray(shape, dtype), cupy.ndarray(shape, dtype)
    launch(*[array.data.ptr for array in (*arrays, *new)], first.size, share)
    return new


@functools.cache
def _launch(dtype: np.dtype[Any], count: int, device: int) -> Callable[..., None] | None:
    """Return the launch for so many elements on the current device, if the kernel takes them."""
    if dtype.name not in FLOATS:
        return None
    kernel = Kernel(lambda: compiled(_SOURCE, "move", **_macros(dtype.name)), "6Pqd")
    return kernel.launcher(blocks_for(count), THREADS)


def _macros(dtype: str) -> dict[str, str]:
    return {"P": C_TYPES[dtype], "S": C_TYPES[wide_name(dtype)]}


def variants() -> Iterator[Source]:
    """Yield all sources of this module."""
    for dtype in FLOATS:
        yield Source(f"moments_update {dtype}", complete(_SOURCE, **_macros(dtype)))


KERNELS: dict[str, Callable[..., Any]] = {"moments_update": moments_update}
