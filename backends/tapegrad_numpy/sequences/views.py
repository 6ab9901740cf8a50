"""The offsets and strides of views, found by making them of an array that is never read."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.lib.array_utils import byte_bounds

from tapegrad.core.backend.native_sequences import Layout


def views_of(
    kernel: Callable[..., Any], operand: Layout, params: Mapping[str, Any]
) -> list[tuple[int, Layout]] | None:
    """Return the offset and the layout of each result of a kernel, if all are views."""
    if not operand.size or any(stride < 0 for stride in operand.strides):
        return None
    itemsize = operand.dtype.itemsize
    extent = sum((n - 1) * step for n, step in zip(operand.shape, operand.strides)) + itemsize
    # The system maps no page for memory that nothing touches.
    memory = np.empty(extent, np.uint8)
    array = np.ndarray(operand.shape, operand.dtype, memory, 0, operand.strides)
    made = kernel(array, **params)
    results = made if isinstance(made, tuple | list) else [made]
    first, last = byte_bounds(memory)
    found = []
    for result in results:
        if not isinstance(result, np.ndarray) or result.dtype != operand.dtype or not result.size:
            return None
        low, high = byte_bounds(result)
        if low < first or high > last:
            return None
        offset = result.ctypes.data - first
        found.append((offset, Layout(result.shape, result.strides, operand.dtype)))
    return found
