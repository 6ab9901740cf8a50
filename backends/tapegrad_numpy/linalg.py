"""Linear algebra that NumPy lacks or that the Array API cannot say: triangular solves, LU, eig."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

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


# Coefficients of the [13/13] Padé approximant of exp, divided by the first.
_PADE = [
    1, 1 / 2, 3 / 25, 11 / 600, 11 / 5520, 3 / 18400, 1 / 96600, 1 / 1932000, 1 / 48944000,
    1 / 1585785600, 1 / 67395888000, 1 / 3953892096000, 1 / 355850288640000,
    1 / 64764752532480000,
]  # fmt: skip


def _norm(x: Any) -> float:
    return float(np.abs(x).sum(axis=-2).max(initial=0.0))


def expm(x: Any) -> Any:
    """Scale, approximate, square: only as often as the largest matrix needs."""
    norm = _norm(x)
    if not np.isfinite(norm):
        return np.full_like(x, np.nan)
    squarings = max(0, int(np.ceil(np.log2(norm / 5.37)))) if norm > 5.37 else 0
    x = x * x.dtype.type(2.0**-squarings)
    b, one = _PADE, np.eye(x.shape[-1], dtype=x.dtype)
    x2 = x @ x
    x4 = x2 @ x2
    x6 = x4 @ x2
    odd = x6 @ (b[13] * x6 + b[11] * x4 + b[9] * x2) + b[7] * x6 + b[5] * x4 + b[3] * x2
    even = x6 @ (b[12] * x6 + b[10] * x4 + b[8] * x2) + b[6] * x6 + b[4] * x4 + b[2] * x2
    odd = x @ (odd + b[1] * one)
    even = even + one
    result = np.linalg.solve(even - odd, even + odd)
    for _ in range(squarings):
        result = result @ result
    return result


def sqrtm(x: Any) -> Any:
    """Iterate (Denman and Beavers, product form) until nothing changes any more."""
    one = np.eye(x.shape[-1], dtype=x.dtype)
    root = rest = x
    limit = x.shape[-1] * np.finfo(x.dtype).eps
    for _ in range(100):
        inverse = np.linalg.inv(rest)
        root = root @ (one + inverse) / 2
        rest = (one + (rest + inverse) / 2) / 2
        if not _norm(rest - one) > limit:
            break
    return root


def logm(x: Any) -> Any:
    """Take roots until close to the identity, then approximate log(1 + z) by quadrature."""
    one = np.eye(x.shape[-1], dtype=x.dtype)
    roots = 0
    while _norm(x - one) > 0.25 and roots < 60:
        x = sqrtm(x)
        roots += 1
    nodes, weights = (v.astype(x.real.dtype) for v in np.polynomial.legendre.leggauss(8))
    small = x - one
    parts = [np.linalg.solve(one + s * small, small) for s in (nodes + 1) / 2]
    return sum(w * part for w, part in zip(weights / 2, parts, strict=True)) * 2.0**roots


KERNELS: dict[str, Callable[..., Any]] = {
    "triangular_solve": triangular_solve,
    "lu_pivots": lu_pivots,
    "lu_unpivoted": lu_unpivoted,
    "eig": eig,
    "eigvals": eigvals,
    "expm": expm,
    "sqrtm": sqrtm,
    "logm": logm,
}
