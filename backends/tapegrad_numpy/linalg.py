"""Linear algebra that NumPy lacks or that the Array API cannot say: triangular solves, LU, eig."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from tapegrad.ops.linalg.functions import expm_kernel, logm_kernel, sqrtm_kernel

_BLOCK = 64
"""Rows per step of a triangular solve: large enough for BLAS, small enough to stay cubic-free."""


def triangular_solve(a: Any, b: Any, *, lower: bool, adjoint: bool) -> Any:
    """Substitute block by block; only the diagonal blocks meet a general solver."""
    if adjoint:
        a = np.conj(a).swapaxes(-1, -2) if a.dtype.kind == "c" else a.swapaxes(-1, -2)
        lower = not lower
    n = a.shape[-1]
    if n <= _BLOCK:
        return np.linalg.solve(np.tril(a) if lower else np.triu(a), b)
    shape = (*np.broadcast_shapes(a.shape[:-2], b.shape[:-2]), *b.shape[-2:])
    x = np.empty(shape, np.result_type(a, b))
    starts = range(0, n, _BLOCK)
    for start in starts if lower else reversed(starts):
        rows = slice(start, min(start + _BLOCK, n))
        done = slice(0, start) if lower else slice(rows.stop, n)
        rest = b[..., rows, :] - a[..., rows, done] @ x[..., done, :]
        block = a[..., rows, rows]
        x[..., rows, :] = np.linalg.solve(np.tril(block) if lower else np.triu(block), rest)
    return x


def lu_pivots(x: Any, *, dtype: str) -> tuple[Any, Any]:
    """Return the row order that partial pivoting takes, and its matrix."""
    work = np.array(x)
    *lead, m, n = work.shape
    stack = work.reshape(-1, m, n)
    order = np.broadcast_to(np.arange(m), (len(stack), m)).copy()
    each = np.arange(len(stack))
    for k in range(min(m, n)):
        column = stack[:, k:, k]
        # LAPACK compares |Re| + |Im|, so this does, too: the same rows win.
        best = k + np.argmax(np.abs(column.real) + np.abs(column.imag), axis=1)
        for rows in (stack, order):
            rows[each, best], rows[:, k] = rows[:, k].copy(), rows[each, best]
        _eliminate(stack, k)
    swap = np.eye(m, dtype=x.dtype)[order].reshape(*lead, m, m)
    return order.reshape(*lead, m).astype(dtype), swap


def lu_unpivoted(x: Any) -> Any:
    """Return L and U of square matrices in one matrix, rows taken as they come."""
    work = np.array(x)
    n = work.shape[-1]
    stack = work.reshape(-1, n, n)
    for k in range(n):
        _eliminate(stack, k)
    return work


def _eliminate(stack: Any, k: int) -> None:
    pivot = stack[:, k, k]
    safe = np.where(pivot == 0, 1, pivot)
    stack[:, k + 1 :, k] /= safe[:, None]
    stack[:, k + 1 :, k + 1 :] -= stack[:, k + 1 :, k, None] * stack[:, k, None, k + 1 :]


def _as_complex(x: Any) -> Any:
    return x.astype(np.result_type(x.dtype, np.complex64), copy=False)


def eig(x: Any) -> tuple[Any, Any]:
    """Return complex eigenvalues and vectors even where all of them are real."""
    values, vectors = np.linalg.eig(x)
    return _as_complex(values), _as_complex(vectors)


def eigvals(x: Any) -> Any:
    """Return complex eigenvalues even where all of them are real."""
    return _as_complex(np.linalg.eigvals(x))


KERNELS: dict[str, Callable[..., Any]] = {
    "triangular_solve": triangular_solve,
    "lu_pivots": lu_pivots,
    "lu_unpivoted": lu_unpivoted,
    "eig": eig,
    "eigvals": eigvals,
    "expm": partial(expm_kernel, np, reads=True),
    "sqrtm": partial(sqrtm_kernel, np, reads=True),
    "logm": partial(logm_kernel, np, reads=True),
}
