"""Accumulate half precision in float32: float16 cannot count past 2048, bfloat16 past 256."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

Array = Any

_HALF = np.dtype(np.float16)
_SINGLE = np.dtype(np.float32)


def is_half(dtype: np.dtype[Any]) -> bool:
    """Whether this is a 16-bit floating dtype; bfloat16 has NumPy's kind "V"."""
    return dtype == _HALF or dtype.kind == "V"


def accumulator(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """Return the dtype for accumulation: float32 for 16-bit floats, else `dtype`."""
    return _SINGLE if is_half(dtype) else dtype


def widened(x: Array) -> Array:
    """Return 16-bit floats as float32, others unchanged."""
    return x if x.itemsize > 2 else x.astype(_SINGLE)


def refuse_complex(x: Array) -> None:
    """Raise for complex numbers, for which the formulas of real functions are wrong."""
    if x.dtype.kind == "c":
        raise TypeError(f"Expected real arrays. Got {x.dtype}.")


def in_single(kernel: Callable[..., Array]) -> Callable[..., Array]:
    """Return a kernel that computes half precision in float32 and rounds once."""

    def run(*arrays: Array, **params: Any) -> Array:
        dtype = arrays[0].dtype
        if not is_half(dtype):
            return kernel(*arrays, **params)
        return kernel(*[array.astype(_SINGLE) for array in arrays], **params).astype(dtype)

    return run
