"""Gaussian elimination with Array API functions: the generic kernels of `lu`.

Every step eliminates one column of all matrices of a stack; nothing is read on the host.
"""

from __future__ import annotations

from typing import Any

import numpy as np


def find_pivots(xp: Any, x: Any, *, dtype: str) -> tuple[Any, Any]:
    """Return the row permutation of partial pivoting, as a vector and as a matrix."""
    m, n = x.shape[-2:]
    rows = xp.arange(m, device=x.device)[:, None]
    order = xp.broadcast_to(rows, (*x.shape[:-1], 1))
    for k in range(min(m, n)):
        sizes = xp.where(rows >= k, _size(xp, x[..., :, k : k + 1]), -1.0)
        is_best = rows == xp.argmax(sizes, axis=-2, keepdims=True)
        x, order = (_swap_rows(xp, matrix, rows == k, is_best, k) for matrix in (x, order))
        x = _eliminate(xp, x, rows, k)
    flat = xp.reshape(order, order.shape[:-1])
    swap = xp.astype(order == xp.arange(m, device=x.device), x.dtype)
    return xp.astype(flat, np.dtype(dtype)), swap


def factorize(xp: Any, x: Any) -> Any:
    """Return L and U of square matrices packed in one matrix, without pivoting."""
    rows = xp.arange(x.shape[-1], device=x.device)[:, None]
    for k in range(x.shape[-1]):
        x = _eliminate(xp, x, rows, k)
    return x


def _size(xp: Any, x: Any) -> Any:
    """Return |Re| + |Im|, as LAPACK does, so that the same pivots are chosen."""
    if xp.isdtype(x.dtype, "complex floating"):
        return xp.abs(xp.real(x)) + xp.abs(xp.imag(x))
    return xp.abs(x)


def _swap_rows(xp: Any, x: Any, is_first: Any, is_best: Any, k: int) -> Any:
    """Swap row k with the pivot row, which may differ between the matrices of a stack."""
    zero = xp.zeros((), dtype=x.dtype, device=x.device)
    best = xp.sum(xp.where(is_best, x, zero), axis=-2, keepdims=True)
    return xp.where(is_first, best, xp.where(is_best, x[..., k : k + 1, :], x))


def _eliminate(xp: Any, x: Any, rows: Any, k: int) -> Any:
    """Eliminate column k below the diagonal, and store the factors there."""
    columns = xp.arange(x.shape[-1], device=x.device)
    zero = xp.zeros((), dtype=x.dtype, device=x.device)
    pivot = x[..., k : k + 1, k : k + 1]
    safe = xp.where(pivot == 0, xp.ones_like(pivot), pivot)
    factors = xp.where(rows > k, x[..., :, k : k + 1] / safe, zero)
    reduced = x - factors * x[..., k : k + 1, :]
    kept = xp.where((columns == k) & (rows > k), factors, x)
    return xp.where(columns > k, reduced, kept)
