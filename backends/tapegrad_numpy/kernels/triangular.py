"""Square roots and logarithms of complex matrices by their Schur decomposition."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tapegrad_numpy.kernels.schur import schur

_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(8)


def by_schur(x: Any, function: Callable[[Any], Any]) -> Any:
    """Apply a function of triangular matrices to complex matrices by their Schur decomposition."""
    t, z = schur(x)
    return z @ function(_on_the_cut(t)) @ z.conj().swapaxes(-1, -2)


def _on_the_cut(t: Any) -> Any:
    """Move eigenvalues that are negative up to rounding onto the upper side of the branch cut.

    Otherwise rounding would choose between the two branches.
    """
    n = t.shape[-1]
    limit = np.abs(t).max(axis=(-1, -2), initial=0.0)[..., None] * np.finfo(t.dtype).eps * 4 * n
    places = np.arange(n)
    values = t[..., places, places]
    is_on_it = (np.abs(values.imag) <= limit) & (values.real < -limit)
    t[..., places, places] = np.where(is_on_it, values.real, values)
    return t


def triangular_root(t: Any) -> Any:
    """Return the square root, column by column (Björck and Hammarling 1983)."""
    n = t.shape[-1]
    places = np.arange(n)
    values = np.sqrt(t[..., places, places])
    y = np.zeros_like(t)
    y[..., places, places] = values
    for column in range(1, n):
        for row in range(column - 1, -1, -1):
            inner = slice(row + 1, column)
            done = np.einsum("...k,...k->...", y[..., row, inner], y[..., inner, column])
            missing = t[..., row, column] - done
            total = values[..., row] + values[..., column]
            # For two zero eigenvalues a root exists only if the entry is 0.
            lost = np.where(missing == 0, 0, np.nan)
            share = np.where(total == 0, lost, missing / np.where(total == 0, 1, total))
            y[..., row, column] = share
    return y


def triangular_logarithm(t: Any) -> Any:
    """Take square roots until close to the identity, then use quadrature; the diagonal is exact."""
    n = t.shape[-1]
    one, places, x = np.eye(n, dtype=t.dtype), np.arange(n), t
    roots = 0
    while np.abs(x - one).sum(axis=-2).max(initial=0.0) > 0.25 and roots < 60:
        x = triangular_root(x)
        roots += 1
    y = log_near_identity(x) * 2.0**roots
    with np.errstate(divide="ignore"):
        y[..., places, places] = np.log(t[..., places, places])
    return y


def log_near_identity(x: Any) -> Any:
    """Return log(x) by Gauss quadrature of z / (1 + s z) over s from 0 to 1, for z = x - 1."""
    one = np.eye(x.shape[-1], dtype=x.dtype)
    small = x - one
    nodes, weights = (v.astype(x.real.dtype) for v in (_NODES, _WEIGHTS))
    parts = [np.linalg.solve(one + s * small, small) for s in (nodes + 1) / 2]
    return sum(w * part for w, part in zip(weights / 2, parts, strict=True))
