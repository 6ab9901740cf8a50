"""Matrix products; NumPy passes transposed views to BLAS without a copy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tapegrad_numpy.kernels.half import is_half, widened


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
    return [_product(x, a) if transpose else _product(a, x) for x in xs]


def _product(a: Any, b: Any) -> Any:
    """Multiply by BLAS, half precision as single: NumPy's own loop is hundreds of times slower."""
    if a.itemsize == b.itemsize == 2 and is_half(a.dtype) and a.dtype == b.dtype:
        return np.matmul(widened(a), widened(b)).astype(a.dtype)
    return np.matmul(a, b)


KERNELS: dict[str, Callable[..., Any]] = {
    "matmul": matmul,
    "matmul_stack": matmul,
    "matvec": matvec,
    "matvecs": matvecs,
}
