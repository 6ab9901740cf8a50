"""Half precision inside of kernels: computed in single, rounded once.

A running sum in bfloat16 stops at 256 times what is added to it, one in float16 at 2048 times.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any


def widened(xp: Any, *arrays: Any) -> tuple[Any, ...]:
    """Return arrays in float32 if they are in half precision."""
    if str(arrays[0].dtype) in ("float16", "bfloat16"):
        return tuple([xp.astype(array, xp.float32) for array in arrays])
    return arrays


def in_single(kernel: Callable[..., Any]) -> Callable[..., Any]:
    """Return a kernel, of a namespace and arrays, that widens them and rounds its result."""

    @wraps(kernel)
    def run(xp: Any, *arrays: Any, **params: Any) -> Any:
        wide = widened(xp, *arrays)
        result = kernel(xp, *wide, **params)
        return result if wide[0] is arrays[0] else xp.astype(result, arrays[0].dtype)

    return run
