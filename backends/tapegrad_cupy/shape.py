"""Changes of shape by the cheapest call CuPy has for them: views, and memory set to zero."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import cupy

Array = Any


def reshape(x: Array, *, shape: tuple[int, ...]) -> Array:
    return x.reshape(shape)


def broadcast_to(x: Array, *, shape: tuple[int, ...]) -> Array:
    return x if x.shape == shape else cupy.broadcast_to(x, shape)


def permute_dims(x: Array, *, axes: tuple[int, ...]) -> Array:
    return x.transpose(axes)


def take_slice(x: Array, *, index: tuple[Any, ...]) -> Array:
    return x[index]


def full_like(x: Array, *, shape: tuple[int, ...], value: Any, dtype: Any) -> Array:
    if _is_all_zero_bits(value):
        return cupy.zeros(shape, dtype)  # the driver sets memory, no kernel runs
    array = cupy.empty(shape, dtype)
    array.fill(value)
    return array


def _is_all_zero_bits(value: Any) -> bool:
    if type(value) is float:
        return value == 0.0 and math.copysign(1.0, value) > 0.0
    return type(value) in (int, bool) and not value


KERNELS: dict[str, Callable[..., Any]] = {
    "broadcast_to": broadcast_to,
    "full_like": full_like,
    "permute_dims": permute_dims,
    "reshape": reshape,
    "slice": take_slice,
}
