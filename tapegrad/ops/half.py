"""Half precision in kernels: compute in single precision and round once.

An accumulated sum stops growing at 256 times the addend in bfloat16, at 2048 times in float16.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any


def widened(xp: Any, *arrays: Any) -> tuple[Any, ...]:
    """Cast arrays of half precision to float32."""
    if str(arrays[0].dtype) in ("float16", "bfloat16"):
        return tuple([xp.astype(array, xp.float32) for array in arrays])
    return arrays


def in_single(kernel: Callable[..., Any]) -> Callable[..., Any]:
    """Decorate a kernel to compute half precision in float32 and to cast its result back."""

    @wraps(kernel)
    def run(xp: Any, *arrays: Any, **params: Any) -> Any:
        wide = widened(xp, *arrays)
        result = kernel(xp, *wide, **params)
        return result if wide[0] is arrays[0] else xp.astype(result, arrays[0].dtype)

    return run
