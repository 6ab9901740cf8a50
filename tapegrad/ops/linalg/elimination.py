"""Gaussian elimination in Array API terms: the generic kernels under `lu`.

One step per column, each on whole stacks of matrices; nothing is read on the host.
"""

from __future__ import annotations

from typing import Any

import numpy as np


def find_pivots(xp: Any, x: Any, *, dtype: str) -> tuple[Any, Any]:
    """Return the row order that partial pivoting takes, and its matrix."""
    m, n = x.shape[-2:]
    rows = xp.arange(m, device=x.device)[:, None]
    order = xp.broadcast_to(rows, (*x.shape[:-1], 1))
    for k in range(min(m, n)):
        sizes = xp.where(rows >= k, _size(xp, x[..., :, k : k + 1]), -1.0)
        is_best = rows == xp.argmax(sizes, axis=-2, keepdims=True)
        x, order = (_swapped(xp, matrix, rows == k, is_best, k) for matrix in (x, order))
        x = _eliminated(xp, x, rows, k)
    flat = xp.reshape(order, order.shape[:-1])
    swap = xp.astype(order == xp.arange(m, device=x.device), x.dtype)
    return xp.astype(flat, np.dtype(dtype)), swap


def factorize(xp: Any, x: Any) -> Any:
    """Return L and U of square matrices in one matrix, rows taken as they come."""
    rows = xp.arange(x.shape[-1], device=x.device)[:, None]
    for k in range(x.shape[-1]):
        x = _eliminated(xp, x, rows, k)
    return x


def _size(xp: Any, x: Any) -> Any:
    """|Re| + |Im|, which LAPACK compares, too: the same rows win."""
    if xp.isdtype(x.dtype, "complex floating"):
        return xp.abs(xp.real(x)) + xp.abs(xp.imag(x))
    return xp.abs(x)


def _swapped(xp: Any, x: Any, is_first: Any, is_best: Any, k: int) -> Any:
    """Exchange row k and the best one, which differs from matrix to matrix."""
    zero = xp.zeros((), dtype=x.dtype, device=x.device)
    best = xp.sum(xp.where(is_best, x, zero), axis=-2, keepdims=True)
    return xp.where(is_first, best, xp.where(is_best, x[..., k : k + 1, :], x))


def _eliminated(xp: Any, x: Any, rows: Any, k: int) -> Any:
    """Clear column k below the diagonal, and keep the factors there."""
    columns = xp.arange(x.shape[-1], device=x.device)
    zero = xp.zeros((), dtype=x.dtype, device=x.device)
    pivot = x[..., k : k + 1, k : k + 1]
    safe = xp.where(pivot == 0, xp.ones_like(pivot), pivot)
    factors = xp.where(rows > k, x[..., :, k : k + 1] / safe, zero)
    reduced = x - factors * x[..., k : k + 1, :]
    kept = xp.where((columns == k) & (rows > k), factors, x)
    return xp.where(columns > k, reduced, kept)
