"""Linear algebra beyond NumPy or the Array API: triangular solves, LU, eig, expm, logm, sqrtm."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from tapegrad.core.backend.registry import by_name
from tapegrad.errors import ArgumentError
from tapegrad_numpy.kernels.triangular import (
    by_schur,
    log_near_identity,
    triangular_logarithm,
    triangular_root,
)

_BLOCK = 64
"""Rows per step of a triangular solve: large enough for BLAS, small next to the matrix."""


def triangular_solve(a: Any, b: Any, *, lower: bool, adjoint: bool) -> Any:
    """Solve by block substitution; only the diagonal blocks use a general solver."""
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
    """Return the row order of partial pivoting and its permutation matrix."""
    work = np.array(x, order="C")  # so that `stack` is a view
    *lead, m, n = work.shape
    stack = work.reshape(math.prod(lead), m, n)
    order = np.broadcast_to(np.arange(m), (len(stack), m)).copy()
    each = np.arange(len(stack))
    for k in range(min(m, n)):
        column = stack[:, k:, k]
        # Compare |Re| + |Im| as LAPACK does, to choose the same rows.
        best = k + np.argmax(np.abs(column.real) + np.abs(column.imag), axis=1)
        for rows in (stack, order):
            rows[each, best], rows[:, k] = rows[:, k].copy(), rows[each, best]
        _eliminate(stack, k)
    swap = np.eye(m, dtype=x.dtype)[order].reshape(*lead, m, m)
    return order.reshape(*lead, m).astype(dtype), swap


def row_swaps(order: Any, *, count: int) -> Any:
    """Return the swaps that make this order of 0, 1, 2, ...: entry k goes with entry swaps[k]."""
    *lead, m = order.shape
    wanted = order.reshape(math.prod(lead), m)
    now = np.broadcast_to(np.arange(m), wanted.shape).copy()
    place = now.copy()  # the entry of `now` that holds a number
    swaps = np.empty((len(wanted), count), order.dtype)
    each = np.arange(len(wanted))
    for k in range(count):
        other, here = place[each, wanted[:, k]], now[:, k].copy()
        now[each, other], place[each, here] = here, other
        now[:, k] = wanted[:, k]
        swaps[:, k] = other
    return swaps.reshape(*lead, count)


def swapped_rows(swaps: Any, *, length: int) -> Any:
    """Return the order of `length` entries after the swaps."""
    *lead, count = swaps.shape
    others = swaps.reshape(math.prod(lead), count)
    now = np.broadcast_to(np.arange(length, dtype=swaps.dtype), (len(others), length)).copy()
    each = np.arange(len(others))
    for k in range(count):
        other = others[:, k]
        now[each, other], now[:, k] = now[:, k].copy(), now[each, other]
    return now.reshape(*lead, length)


def lu_unpivoted(x: Any) -> Any:
    """Return L and U of square matrices in one matrix, without pivoting."""
    work = np.array(x, order="C")  # so that `stack` is a view
    *lead, n, _ = work.shape
    stack = work.reshape(math.prod(lead), n, n)
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
    """Return eigenvalues and eigenvectors, always as complex numbers."""
    values, vectors = np.linalg.eig(x)
    return _as_complex(values), _as_complex(vectors)


def eigvals(x: Any) -> Any:
    """Return eigenvalues, always as complex numbers."""
    return _as_complex(np.linalg.eigvals(x))


# Coefficients of the [13/13] Padé approximant of exp, divided by the first.
_PADE = [
    1, 1 / 2, 3 / 25, 11 / 600, 11 / 5520, 3 / 18400, 1 / 96600, 1 / 1932000, 1 / 48944000,
    1 / 1585785600, 1 / 67395888000, 1 / 3953892096000, 1 / 355850288640000,
    1 / 64764752532480000,
]  # fmt: skip


def _norms(x: Any) -> Any:
    """The 1-norm of each matrix."""
    return np.abs(x).sum(axis=-2).max(axis=-1, initial=0.0)


def _norm(x: Any) -> float:
    return float(_norms(x).max(initial=0.0))


def expm(x: Any) -> Any:
    """Compute the exponential by scaling and squaring, as often as the largest matrix needs."""
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


def _converged_root(x: Any, steps: int = 100, share: float = 0.5) -> Any:
    """Return the root by Denman and Beavers' product iteration; None if it does not converge.

    It does not converge if an eigenvalue is negative or 0. Rounding can make such an eigenvalue
    positive, so the squared root must agree with x in the fraction `share` of all digits.
    """
    one = np.eye(x.shape[-1], dtype=x.dtype)
    root = rest = x
    eps = float(np.finfo(x.dtype).eps)
    for step in range(steps):
        try:
            inverse = np.linalg.inv(rest)
        except np.linalg.LinAlgError:
            return None
        if step and _norm(inverse) > 0.1 / eps:
            return None
        root = root @ (one + inverse) / 2
        rest = (one + (rest + inverse) / 2) / 2
        distance = _norm(rest - one)
        if not distance > x.shape[-1] * eps:
            break
    is_lost = distance > 0.01 or (_norms(root @ root - x) > _norms(x) * eps**share).any()
    return None if is_lost else root


def _quick_root(x: Any) -> Any:
    """The root of complex matrices, None near the branch cut, where it converges slowly."""
    return _converged_root(x, steps=25, share=0.75)


def _real_root(x: Any, name: str) -> Any:
    root = _converged_root(x)
    if root is None:
        raise ArgumentError(
            f"{name} of this real matrix is not real: an eigenvalue is negative or 0. Cast the "
            "matrix to a complex dtype, e.g. tapegrad.cast(x, 'complex128')."
        )
    return root


def sqrtm(x: Any) -> Any:
    """Return the principal square root; complex matrices may have negative eigenvalues."""
    if x.dtype.kind != "c":
        return _real_root(x, "sqrtm")
    root = _quick_root(x)
    return by_schur(x, triangular_root) if root is None else root


def logm(x: Any) -> Any:
    """Return the principal logarithm; complex matrices may have negative eigenvalues."""
    if x.dtype.kind != "c":
        return _log_by_roots(x, lambda x: _real_root(x, "logm"))
    logarithm = _log_by_roots(x, _quick_root)
    return by_schur(x, triangular_logarithm) if logarithm is None else logarithm


def _log_by_roots(x: Any, root: Callable[[Any], Any]) -> Any:
    """Take square roots until close to the identity, then compute log(1 + z) by quadrature."""
    one = np.eye(x.shape[-1], dtype=x.dtype)
    roots = 0
    while _norm(x - one) > 0.25 and roots < 60:
        x = root(x)
        if x is None:
            return None
        roots += 1
    return log_near_identity(x) * 2.0**roots


KERNELS = by_name(
    triangular_solve,
    lu_pivots,
    lu_unpivoted,
    row_swaps,
    swapped_rows,
    eig,
    eigvals,
    expm,
    sqrtm,
    logm,
)
