"""Update the running mean of a metric in one launch."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import Any

import cupy
import numpy as np

from tapegrad.core.backend.registry import by_name
from tapegrad_cupy.kernels.generic import run_generic
from tapegrad_cupy.launch.cuda_prelude import C_TYPES, FLOATS
from tapegrad_cupy.launch.cuda_source import Source, compile_kernel, full_source, wide_name
from tapegrad_cupy.launch.launch import Kernel

Array = Any

_current_device = cupy.cuda.runtime.getDevice

_TALLY = r"""
extern "C" __global__ void tally_update(
    const P* total, const P* count, const P* value, P* new_total, P* new_count, double weight
) {
    *new_total = narrow<P>(widen(*total) + widen(*value) * (S)weight);
    *new_count = narrow<P>(widen(*count) + (S)weight);
}
"""


def tally_update(*arrays: Array, weight: float) -> tuple[Array, ...]:
    """Add a number with a weight to the total and the count of a mean; return new arrays."""
    shape, dtype = arrays[0].shape, arrays[0].dtype
    is_one = arrays[0].size == 1 and all([a.dtype == dtype and a.shape == shape for a in arrays])
    launch = _launch_on(_current_device(), dtype) if is_one else None
    if launch is None:
        new: tuple[Array, ...] = run_generic("tally_update", *arrays, weight=weight)
        return new
    new = cupy.ndarray(shape, dtype), cupy.ndarray(shape, dtype)
    launch(*[array.data.ptr for array in (*arrays, *new)], weight)
    return new


@functools.cache
def _launch_on(device: int, dtype: np.dtype[Any]) -> Callable[..., None] | None:
    """Return the launch on the current device, or None if the kernel does not take the dtype."""
    if dtype.name not in FLOATS:
        return None
    macros = _macros(dtype.name)
    return Kernel(lambda: compile_kernel(_TALLY, "tally_update", **macros), "5Pd").launcher(1, 1)


def _macros(dtype: str) -> dict[str, str]:
    return {"P": C_TYPES[dtype], "S": C_TYPES[wide_name(dtype)]}


def variants() -> Iterator[Source]:
    """Yield all sources of this module."""
    for dtype in FLOATS:
        yield Source(f"tally_update {dtype}", full_source(_TALLY, **_macros(dtype)))


KERNELS = by_name(tally_update)
