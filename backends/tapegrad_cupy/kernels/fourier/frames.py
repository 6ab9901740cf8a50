"""Overlapping frames of signals, each by one kernel: cut out, and added where they overlap."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import Any

import cupy
import numpy as np
from cupy.lib.stride_tricks import as_strided

from tapegrad_cupy.kernels.copying.copies import contiguous_copy
from tapegrad_cupy.kernels.generic import run_generic
from tapegrad_cupy.launch.cuda_prelude import FLOATS, prelude_for
from tapegrad_cupy.launch.cuda_source import THREADS, Source, blocks_for, contiguous
from tapegrad_cupy.launch.launch import Kernel, kernel_from

Array = Any

_TYPES = {
    "float16": "__half", "bfloat16": "__nv_bfloat16", "float32": "float", "float64": "double",
    "complex64": "complex<float>", "complex128": "complex<double>",
}  # fmt: skip

_SOURCE = r"""
// One result per thread: the sum over all frames that cover its place.
extern "C" __global__ void __launch_bounds__(256) overlap(
    const T* __restrict__ x, T* __restrict__ y, i64 elements, i64 whole, i64 count, i64 length,
    i64 step
) {
    const i64 at = (i64)blockIdx.x * 256 + threadIdx.x;
    if (at >= elements) return;
    const i64 place = at % whole, line = at / whole;
    const i64 first = place < length ? 0 : (place - length) / step + 1;
    const i64 last = place / step < count - 1 ? place / step : count - 1;
    W sum = (W)0.0f;
    for (i64 frame = first; frame <= last; ++frame) {
        sum = sum + (W)widen(x[(line * count + frame) * length + place - frame * step]);
    }
    y[at] = narrow<T>(sum);
}
"""


def frames(x: Array, *, length: int, step: int) -> Array:
    """Return the frames of `length` entries that start every `step` entries of the last axis."""
    count = max(0, 1 + (x.shape[-1] - length) // step)
    shape = (*x.shape[:-1], count, length)
    if not x.size or not count:
        return cupy.empty(shape, x.dtype)
    stride = x.strides[-1]
    return contiguous_copy(as_strided(x, shape, (*x.strides[:-1], step * stride, stride)))


def overlap_and_add(x: Array, *, step: int) -> Array:
    """Return the sum of overlapping frames that start every `step` entries."""
    if x.dtype.name not in _TYPES:
        return run_generic("overlap_and_add", x, step=step)
    count, length = x.shape[-2:]
    whole = (count - 1) * step + length if count else 0
    y = cupy.ndarray((*x.shape[:-2], whole), x.dtype)
    if y.size and length:
        x = contiguous(x)
        kernel = _kernel(x.dtype.name)
        addresses = x.data.ptr, y.data.ptr
        kernel(blocks_for(y.size), THREADS, *addresses, y.size, whole, count, length, step)
    elif y.size:
        y.fill(np.zeros((), x.dtype)[()])
    return y


def _text(dtype: str) -> str:
    stored = _TYPES[dtype]
    wide = "float" if dtype in FLOATS and FLOATS[dtype] == 2 else stored
    return f"{prelude_for([dtype])}#define T {stored}\n#define W {wide}\n{_SOURCE}"


@functools.cache
def _kernel(dtype: str) -> Kernel:
    return kernel_from(_text(dtype), "overlap", "PPqqqqq")


def variants() -> Iterator[Source]:
    """Yield all sources of this module."""
    for dtype in _TYPES:
        yield Source(f"overlap {dtype}", _text(dtype))


KERNELS = {"frames": frames, "overlap_and_add": overlap_and_add}
