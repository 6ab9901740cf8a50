"""Floating formats by name, for data that must look the same to every library."""

from __future__ import annotations

import numpy as np

HALF = ("float16", "bfloat16")
ITEM_SIZE = {"float64": 8, "float32": 4, "float16": 2, "bfloat16": 2}


def is_half(dtype: str) -> bool:
    """Whether `dtype` has 16 bits.

    >>> is_half("bfloat16"), is_half("float32")
    (True, False)
    """
    return dtype in HALF


def rounded(array: np.ndarray, dtype: str) -> np.ndarray:
    """Return `array` in float32 (float64 if asked for) with values that `dtype` can hold.

    NumPy has no bfloat16, and the libraries that do take float32 and convert it without loss.

    >>> rounded(np.array([1.0, 1.001], "f4"), "bfloat16").tolist()
    [1.0, 1.0]
    """
    if dtype == "float64":
        return array.astype(np.float64)
    array = array.astype(np.float32)
    if dtype == "float16":
        return array.astype(np.float16).astype(np.float32)
    if dtype != "bfloat16":
        return array
    bits = np.ascontiguousarray(array).view(np.uint32)
    # To nearest, ties to even, as the hardware does.
    bits = bits + (((bits >> 16) & 1) + 0x7FFF)
    return (bits & np.uint32(0xFFFF0000)).view(np.float32)
