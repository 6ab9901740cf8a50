"""Matrix products; NumPy passes transposed views to BLAS without a copy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np


def matmul(a: Any, b: Any, *, transpose_a: bool, transpose_b: bool) -> Any:
    """Return the product of matrices, either of them transposed."""
    if transpose_a:
        a = a.T if a.ndim == 2 else a.swapaxes(-1, -2)
    if transpose_b:
        b = b.T if b.ndim == 2 else b.swapaxes(-1, -2)
    return _product(a, b)


def matvec(a: Any, x: Any, *, transpose: bool) -> Any:
    """Return a matrix (or its transpose) times a vector."""
    return _product(x, a) if transpose else _product(a, x)


def matvecs(a: Any, *xs: Any, transpose: bool) -> list[Any]:
    """Return the products of a matrix (or its transpose) with several vectors."""
    return [np.matmul(x, a) if transpose else np.matmul(a, x) for x in xs]


def _product(a: Any, b: Any) -> Any:
    result = np.matmul(a, b)
    if a.dtype.kind == "V" and a.dtype == b.dtype:  # NumPy gives float32 for bfloat16
        return result.astype(a.dtype)
    return result


KERNELS: dict[str, Callable[..., Any]] = {
    "matmul": matmul,
    "matmul_stack": matmul,
    "matvec": matvec,
    "matvecs": matvecs,
}
