"""Large stacks of matrix products, whose products are divided among threads."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tapegrad_numpy.eager.native import NativeKernel

Kernel = Callable[..., Any]


class StackKernel:
    """Products of stacks of matrices, which may lie in memory like their transposes."""

    def __init__(self, name: str, plain: Kernel) -> None:
        self._native = NativeKernel(name, plain)

    def __call__(self, a: Any, b: Any, *, transpose_a: bool, transpose_b: bool) -> Any:
        a, is_a = _as_stored(a, transpose_a)
        b, is_b = _as_stored(b, transpose_b)
        return self._native(a, b, transpose_a=is_a, transpose_b=is_b)


def _as_stored(array: Any, is_transposed: bool) -> tuple[Any, bool]:
    """Return the matrices as they lie in memory, and whether their transposes are multiplied."""
    if array.ndim > 1 and not array.flags.c_contiguous:
        stored = array.swapaxes(-1, -2)
        if stored.flags.c_contiguous:
            return stored, not is_transposed
    return array, is_transposed
