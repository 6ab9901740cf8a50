"""Square roots and logarithms of upper triangular complex matrices, with Array API functions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tapegrad.ops.linalg.schur_iteration import decompose

_NODES, _WEIGHTS = (v.tolist() for v in np.polynomial.legendre.leggauss(8))
_ROOTS = 8
"""The number of square roots: they bring numbers of 1e±27 to within 0.25 of 1.

This suffices for the approximant. The diagonal, which may be larger, is computed exactly."""


def by_schur(xp: Any, x: Any, function: Callable[[Any, Any], Any]) -> Any:
    """Apply a function of triangular matrices to general complex matrices, by Schur form."""
    t, z = decompose(xp, x)
    back = xp.conj(xp.matrix_transpose(z))
    return xp.matmul(xp.matmul(z, function(xp, _snap_to_branch_cut(xp, t))), back)


def _snap_to_branch_cut(xp: Any, t: Any) -> Any:
    """Move negative eigenvalues that are off the real axis by rounding only back to the axis.

    Otherwise the rounding error would select the branch.
    """
    n = t.shape[-1]
    if n == 0:
        return t
    sizes = xp.max(xp.max(xp.abs(t), axis=-1, keepdims=True), axis=-2, keepdims=True)
    limit = sizes * (float(xp.finfo(sizes.dtype).eps) * 4 * n)
    is_on_cut = (xp.abs(xp.imag(t)) <= limit) & (xp.real(t) < -limit) & _on_diagonal(xp, t, 0)
    return xp.where(is_on_cut, xp.astype(xp.real(t), t.dtype), t)


def _on_diagonal(xp: Any, t: Any, number: int) -> Any:
    positions = xp.arange(t.shape[-1], device=t.device)
    return positions - positions[:, None] == number


def root(xp: Any, t: Any) -> Any:
    """Return the square root, computed by diagonals (Björck and Hammarling 1983)."""
    zero = xp.zeros((), dtype=t.dtype, device=t.device)
    y = xp.sqrt(xp.where(_on_diagonal(xp, t, 0), t, zero))
    diagonal = xp.sum(y, axis=-1, keepdims=True)
    sums = diagonal + xp.matrix_transpose(diagonal)
    for number in range(1, t.shape[-1]):
        missing = t - xp.matmul(y, y)
        # Two zero eigenvalues have a root only if they are not coupled.
        lost = xp.where(missing == 0, zero, xp.full_like(t, float("nan")))
        entry = xp.where(sums == 0, lost, missing / xp.where(sums == 0, zero + 1, sums))
        y = xp.where(_on_diagonal(xp, t, number), entry, y)
    return y


def logarithm(xp: Any, t: Any) -> Any:
    """Take roots until close to the identity, then Gauss quadrature of z / (1 + s z) over s."""
    is_diagonal = _on_diagonal(xp, t, 0)
    one = xp.astype(is_diagonal, t.dtype)
    x = t
    for _ in range(_ROOTS):
        x = root(xp, x)
    small = x - one
    total = small * 0.0
    for node, weight in zip(_NODES, _WEIGHTS, strict=True):
        total = total + xp.linalg.solve(one + small * ((node + 1) / 2), small) * (weight / 2)
    exact = xp.log(xp.where(is_diagonal, t, xp.ones_like(t)))
    return xp.where(is_diagonal, exact, total * 2.0**_ROOTS)
