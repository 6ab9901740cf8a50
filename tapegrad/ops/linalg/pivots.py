"""Pivots of LU and QR: permutations as row swaps and back, and the order of columns.

They have no derivatives. Every step treats all matrices of a stack; nothing is read on the host.
"""

from __future__ import annotations

from typing import Any

from tapegrad.core.primitive.families import nondifferentiable
from tapegrad.ops.linalg.common import batches


def _swapped(xp: Any, x: Any, k: int, other: Any) -> Any:
    """Swap entry k with the entry at `other` on the last axis."""
    places = xp.arange(x.shape[-1], device=x.device)
    here = x[..., k : k + 1]
    there = xp.sum(xp.where(places == other, x, xp.zeros_like(x)), axis=-1, keepdims=True)
    there = xp.astype(there, x.dtype)
    return xp.where(places == k, there, xp.where(places == other, here, x))


def _numbered(xp: Any, like: Any, length: int, dtype: Any) -> Any:
    rows = xp.arange(length, dtype=dtype, device=like.device)
    return xp.broadcast_to(rows, (*like.shape[:-1], length))


def _to_swaps(xp: Any, order: Any, *, count: int) -> Any:
    """Return the swaps that make `order` of 0, 1, 2, ...: entry k goes with entry swaps[k]."""
    now = _numbered(xp, order, order.shape[-1], order.dtype)
    swaps = []
    for k in range(count):
        other = xp.argmax(xp.astype(now == order[..., k : k + 1], xp.int32), axis=-1, keepdims=True)
        now = _swapped(xp, now, k, other)
        swaps.append(xp.astype(other, order.dtype))
    return xp.concat(swaps, axis=-1) if swaps else order[..., :0]


def _from_swaps(xp: Any, swaps: Any, *, length: int) -> Any:
    """Return the order of `length` entries after the swaps."""
    now = _numbered(xp, swaps, length, swaps.dtype)
    for k in range(swaps.shape[-1]):
        now = _swapped(xp, now, k, swaps[..., k : k + 1])
    return now


def _find_columns(xp: Any, x: Any) -> Any:
    """Return the order of columns in which each is the longest of what remains of the others."""
    m, n = x.shape[-2:]
    order = _numbered(xp, x[..., 0], n, xp.int32)
    places = xp.arange(n, device=x.device)
    for k in range(min(m, n)):
        sizes = xp.sum(xp.abs(x) ** 2, axis=-2)
        best = xp.argmax(xp.where(places < k, -1.0, sizes), axis=-1, keepdims=True)
        order = _swapped(xp, order, k, best)
        x = _swapped(xp, x, k, best[..., None])
        column = x[..., k : k + 1]
        square = xp.sum(xp.abs(column) ** 2, axis=-2, keepdims=True)
        safe = xp.where(square == 0, xp.ones_like(square), square)
        is_complex = xp.isdtype(x.dtype, "complex floating")
        turned = xp.matrix_transpose(xp.conj(column) if is_complex else column)
        x = xp.where(places > k, x - column * (turned @ x / safe), x)
    return order


row_swaps_p = batches(nondifferentiable("row_swaps", _to_swaps))
swapped_rows_p = batches(nondifferentiable("swapped_rows", _from_swaps))
column_order_p = batches(nondifferentiable("column_order", _find_columns))
