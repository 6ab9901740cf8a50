"""Means that follow what is seen, each in one launch: moving ones, and those of metrics."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import Any

import cupy
import numpy as np

from tapegrad.core.backend import by_name
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

_MOVE = r"""
extern "C" __global__ void __launch_bounds__(256) moments_update(
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
_TALLY = r"""
extern "C" __global__ void tally_update(
    const P* total, const P* count, const P* value, P* new_total, P* new_count, double weight
) {
    *new_total = narrow<P>(widen(*total) + widen(*value) * (S)weight);
    *new_count = narrow<P>(widen(*count) + (S)weight);
}
"""
_KERNELS = {"moments_update": (_MOVE, "6Pqd"), "tally_update": (_TALLY, "5Pd")}
"""Sources and arguments."""


def moments_update(*arrays: Array, share: float) -> tuple[Array, ...]:
    """Move two averages towards what was seen; the arrays that come in are not written to."""
    size = arrays[0].size
    launch = _launch("moments_update", arrays, size) if size else None
    if launch is None:
        return generic("moments_update", *arrays, share=share)
    new = _pair_like(arrays[0])
    launch(*[array.data.ptr for array in (*arrays, *new)], size, share)
    return new


def tally_update(*arrays: Array, weight: float) -> tuple[Array, ...]:
    """Add a number that counts `weight` times to the total and the count of a mean."""
    launch = _launch("tally_update", arrays, 1) if arrays[0].size == 1 else None
    if launch is None:
        return generic("tally_update", *arrays, weight=weight)
    new = _pair_like(arrays[0])
    launch(*[array.data.ptr for array in (*arrays, *new)], weight)
    return new


def _pair_like(array: Array) -> tuple[Array, Array]:
    return cupy.ndarray(array.shape, array.dtype), cupy.ndarray(array.shape, array.dtype)


def _launch(name: str, arrays: tuple[Array, ...], count: int) -> Callable[..., None] | None:
    """Return the launch for so many elements, if all arrays are alike and in order."""
    shape, dtype = arrays[0].shape, arrays[0].dtype
    for array in arrays:
        if array.dtype != dtype or array.shape != shape or not array._c_contiguous:
            return None
    return _launch_on(_current_device(), name, dtype, count)


@functools.cache
def _launch_on(
    device: int, name: str, dtype: np.dtype[Any], count: int
) -> Callable[..., None] | None:
    """Return the launch on the current device, if the kernel takes the dtype."""
    if dtype.name not in FLOATS:
        return None
    source, arguments = _KERNELS[name]
    kernel = Kernel(lambda: compiled(source, name, **_macros(dtype.name)), arguments)
    return kernel.launcher(blocks_for(count), THREADS if count > 1 else 1)


def _macros(dtype: str) -> dict[str, str]:
    return {"P": C_TYPES[dtype], "S": C_TYPES[wide_name(dtype)]}


def variants() -> Iterator[Source]:
    """Yield all sources of this module."""
    for name, (source, _) in _KERNELS.items():
        for dtype in FLOATS:
            yield Source(f"{name} {dtype}", complete(source, **_macros(dtype)))


KERNELS = by_name(moments_update, tally_update)
