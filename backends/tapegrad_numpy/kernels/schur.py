"""Schur decomposition by the QR algorithm with deflation."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

_MOST_SWEEPS = 40
"""The most QR sweeps per row; LAPACK allows 30."""


def schur(x: Any) -> tuple[Any, Any]:
    """Return t and z with x = z t z^H; for real x, t may have 2 × 2 blocks."""
    # In C order, so that the matrices of a batch are views.
    t, z = np.array(x, order="C"), np.empty(x.shape, x.dtype)
    n = x.shape[-1]
    count = math.prod(x.shape[:-2])
    decompose = _complex_schur if x.dtype.kind == "c" else _real_schur
    for h, q in zip(t.reshape(count, n, n), z.reshape(count, n, n), strict=True):
        q[...] = np.eye(n, dtype=x.dtype)
        if not np.isfinite(h).all() or not decompose(h, q):
            h[...] = q[...] = np.nan
    return t, z


def _reflect(h: Any, z: Any, column: Any, k: int) -> None:
    """Apply the Householder reflection, to rows and columns from k on, that reduces `column`."""
    size = np.abs(column).max()
    if size == 0:
        return
    normal = column / size
    length = math.sqrt(np.vdot(normal, normal).real)
    first = abs(normal[0])
    normal[0] += (normal[0] / first if first else 1) * length
    back = normal.conj() * (2 / np.vdot(normal, normal).real)
    rows = slice(k, k + len(column))
    h[rows] -= np.outer(normal, back @ h[rows])
    h[:, rows] -= np.outer(h[:, rows] @ normal, back)
    z[:, rows] -= np.outer(z[:, rows] @ normal, back)


def _reduce_to_hessenberg(h: Any, z: Any) -> None:
    for k in range(len(h) - 2):
        if h[k + 2 :, k].any():
            _reflect(h, z, h[k + 1 :, k].copy(), k + 1)
            h[k + 2 :, k] = 0


def _window(h: Any, stop: int, limit: float) -> int:
    """The first row of the unreduced block that ends at `stop`; set negligible entries to 0."""
    start = stop - 1
    while start > 0 and abs(h[start, start - 1]) > limit:
        start -= 1
    if start:
        h[start, start - 1] = 0
    return start


def _limit(h: Any) -> float:
    return float(np.finfo(h.dtype).eps * np.abs(h).max(initial=0.0))


def _complex_schur(h: Any, z: Any) -> bool:
    """Run QR sweeps with Wilkinson's shifts, in place; return whether they converged."""
    _reduce_to_hessenberg(h, z)
    limit, stop, count = _limit(h), len(h), 0
    while stop > 1:
        start = _window(h, stop, limit)
        if start == stop - 1:
            stop, count = start, 0
            continue
        count += 1
        if count > _MOST_SWEEPS:
            return False
        rows = slice(start, stop)
        shift = _shift(h[stop - 2 : stop, stop - 2 : stop], count)
        one = np.eye(stop - start, dtype=h.dtype) * shift
        q, r = np.linalg.qr(h[rows, rows] - one)
        h[rows, rows] = np.triu(r @ q + one, -1)
        h[:start, rows] = h[:start, rows] @ q
        h[rows, stop:] = q.conj().T @ h[rows, stop:]
        z[:, rows] = z[:, rows] @ q
    return True


def _shift(block: Any, count: int) -> Any:
    """The eigenvalue of the last 2 × 2 block that is nearer to its last entry."""
    if count % 10 == 0:
        return block[1, 1] + block[1, 0]
    # Differences of the entries, not products: near a multiple of the identity these would cancel.
    half = (block[0, 0] - block[1, 1]) / 2
    root = np.sqrt(half * half + block[0, 1] * block[1, 0])
    one, other = half + root, half - root
    return block[1, 1] + (one if abs(one) < abs(other) else other)


def _real_schur(h: Any, z: Any) -> bool:
    """Run Francis double-shift QR sweeps, in place; return whether they converged."""
    _reduce_to_hessenberg(h, z)
    limit, stop, count = _limit(h), len(h), 0
    while stop > 1:
        start = _window(h, stop, limit)
        if start >= stop - 2:
            if start == stop - 2:
                _standardize(h, z, start)
            stop, count = start, 0
            continue
        count += 1
        if count > _MOST_SWEEPS:
            return False
        _sweep(h, z, start, stop, count)
    return True


def _sweep(h: Any, z: Any, start: int, stop: int, count: int) -> None:
    (a, b), (c, d) = h[stop - 2 : stop, stop - 2 : stop].tolist()
    product = b * c
    if count % 10 == 0:
        size = abs(c) + abs(h[stop - 2, stop - 3])
        a = d = d + 0.75 * size
        product = -0.4375 * size * size
    (p, q, _), (r, s, _), (_, u, _) = h[start : start + 3, start : start + 3].tolist()
    # Differences first: near a multiple of the identity the products alone would cancel.
    first = (p - a) * (p - d) - product + q * r
    column = np.array([first, r * ((p - a) + (s - d)), r * u], h.dtype)
    for k in range(start, stop - 1):
        if k > start:
            column = h[k : min(k + 3, stop), k - 1].copy()
        _reflect(h, z, column[: stop - k], k)
        if k > start:
            h[k + 1 : k + 3, k - 1] = 0


def _standardize(h: Any, z: Any, k: int) -> None:
    """Split a 2 × 2 block with real eigenvalues; give others equal diagonal entries."""
    (a, b), (c, d) = h[k : k + 2, k : k + 2].tolist()
    half = (a - d) / 2
    inner = half * half + b * c
    if inner >= 0:
        long = half + math.copysign(math.sqrt(inner), half)
        cosine, sine = long / math.hypot(long, c), c / math.hypot(long, c)
    else:
        spread = math.hypot(a - d, b + c)
        cosine = math.sqrt((1 + (abs(b + c) / spread if spread else 1)) / 2)
        sine = -math.copysign(1, b + c) * half / (spread * cosine) if spread else 0.0
    turn = np.array([[cosine, -sine], [sine, cosine]], h.dtype)
    rows = slice(k, k + 2)
    h[rows] = turn.T @ h[rows]
    h[:, rows] = h[:, rows] @ turn
    z[:, rows] = z[:, rows] @ turn
    if inner >= 0:
        h[k + 1, k] = 0


KERNELS = {"schur": schur, "schur_real": schur}
