"""The total and the count of a running mean, both in one launch."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import Any

import cupy
import numpy as np

from tapegrad_cupy.compiled import C_TYPES, FLOATS, Source, compiled, complete, wide_name
from tapegrad_cupy.launch import Kernel
from tapegrad_cupy.updates.updates import generic

Array = Any

_current_device = cupy.cuda.runtime.getDevice

_SOURCE = r"""
extern "C" __global__ void tally(
    const P* total, const P* count, const P* value, P* new_total, P* new_count, double weight
) {
    *new_total = narrow<P>(widen(*total) + widen(*value) * (S)weight);
    *new_count = narrow<P>(widen(*count) + (S)weight);
}
"""


def tally_update(total: Array, count: Array, value: Array, *, weight: float) -> tuple[Array, ...]:
    """Add a number that counts `weight` times; the arrays that come in are not written to."""
    dtype = total.dtype
    is_known = total.shape == count.shape == value.shape == ()
    is_known = is_known and count.dtype == dtype and value.dtype == dtype
    launch = _launch(dtype, _current_device()) if is_known else None
    if launch is None:
        return generic("tally_update", total, count, value, weight=weight)
    new = cupy.ndarray((), dtype), cupy.ndarray((), dtype)
    launch(*[array.data.ptr for array in (total, count, value, *new)], weight)
    return new


@functools.cache
def _launch(dtype: np.dtype[Any], device: int) -> Callable[..., None] | None:
    """Return the launch on the current device, if the kernel takes the dtype."""
    if dtype.name not in FLOATS:
        return None
    kernel = Kernel(lambda: compiled(_SOURCE, "tally", **_macros(dtype.name)), "5Pd")
    return kernel.launcher(1, 1)


def _macros(dtype: str) -> dict[str, str]:
    return {"P": C_TYPES[dtype], "S": C_TYPES[wide_name(dtype)]}


def variants() -> Iterator[Source]:
    """Yield all sources of this module."""
    for dtype in FLOATS:
        yield Source(f"tally_update {dtype}", complete(_SOURCE, **_macros(dtype)))


KERNELS: dict[str, Callable[..., Any]] = {"tally_update": tally_update}
