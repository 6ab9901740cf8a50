"""Half precision is added up in float32: float16 stops counting at 2048, bfloat16 at 256."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

Array = Any

_HALF = np.dtype(np.float16)
_SINGLE = np.dtype(np.float32)


def is_half(dtype: np.dtype[Any]) -> bool:
    """Whether it is a floating dtype of 16 bits; bfloat16 has NumPy's kind V."""
    return dtype == _HALF or dtype.kind == "V"


def accumulator(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """Return the dtype to add up in: float32 for the 16-bit floats, else `dtype` itself."""
    return _SINGLE if is_half(dtype) else dtype


def widened(x: Array) -> Array:
    """Return floats as they are, those of 16 bits in float32."""
    return x if x.itemsize > 2 else x.astype(_SINGLE)


def in_single(kernel: Callable[..., Array]) -> Callable[..., Array]:
    """Return a kernel that runs in float32 on half precision, and rounds once."""

    def run(*arrays: Array, **params: Any) -> Array:
        dtype = arrays[0].dtype
        if not is_half(dtype):
            return kernel(*arrays, **params)
        return kernel(*[array.astype(_SINGLE) for array in arrays], **params).astype(dtype)

    return run
