"""Views of other shapes, and filled arrays, by the cheapest call that CuPy has."""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator
from typing import Any

import cupy

from tapegrad_cupy.launch.cuda_prelude import C_TYPES
from tapegrad_cupy.launch.cuda_source import Source, compile_kernel, full_source
from tapegrad_cupy.launch.launch import Kernel
from tapegrad_cupy.runtime.array_limits import check_dimensions

Array = Any

_MOST = 4096
_stretched: dict[Any, tuple[int, ...]] = {}

_FILL = 'extern "C" __global__ void fill(T* out, double value) { *out = (T)value; }'


def broadcast_to(x: Array, *, shape: tuple[int, ...]) -> Array:
    own = x.shape
    if own == shape:
        return x
    key = (own, x.strides, shape)
    strides = _stretched.get(key)
    if strides is None:
        if len(_stretched) >= _MOST:
            _stretched.clear()
        check_dimensions(shape)
        strides = _stretched[key] = cupy.broadcast_to(x, shape).strides
    return cupy.ndarray(shape, x.dtype, x.data, strides)


def permute_dims(x: Array, *, axes: tuple[int, ...]) -> Array:
    return x.transpose(axes)


def take_slice(x: Array, *, index: tuple[Any, ...]) -> Array:
    return x[index]


def full_like(x: Array, *, shape: tuple[int, ...], value: Any, dtype: Any) -> Array:
    check_dimensions(shape)
    if _is_all_zero_bits(value):
        return cupy.zeros(shape, dtype)  # the driver clears memory without a kernel
    array = cupy.ndarray(shape, dtype)
    if array.size == 1 and array.dtype.name in ("float32", "float64"):
        # The cotangent of a scalar loss; `fill` takes twice as long.
        _fill(array.dtype.name)(1, 1, array.data.ptr, value)
    elif value == 0 and array.dtype.kind == "f":
        array.fill(1)
        array *= value  # `fill` would lose the sign of this zero
    else:
        array.fill(value)
    return array


@functools.cache
def _fill(dtype: str) -> Kernel:
    return Kernel(lambda: compile_kernel(_FILL, "fill", T=C_TYPES[dtype]), "Pd")


def variants() -> Iterator[Source]:
    """Yield all sources of this module."""
    for dtype in ("float32", "float64"):
        yield Source(f"fill {dtype}", full_source(_FILL, T=C_TYPES[dtype]))


def _is_all_zero_bits(value: Any) -> bool:
    if type(value) is float:
        return value == 0.0 and math.copysign(1.0, value) > 0.0
    return type(value) in (int, bool) and not value


KERNELS = {
    "broadcast_to": broadcast_to,
    "full_like": full_like,
    "permute_dims": permute_dims,
    "slice": take_slice,
}
