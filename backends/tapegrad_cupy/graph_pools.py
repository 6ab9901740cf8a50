"""How much memory CUDA graphs keep to themselves: it lies outside of CuPy's pool."""

from __future__ import annotations

import weakref
from typing import Any

_live: weakref.WeakKeyDictionary[Any, tuple[int, Any]] = weakref.WeakKeyDictionary()


def note_pool(owner: Any, device: int, pool: Any) -> None:
    """Count a pool on a device for as long as its owner lives."""
    _live[owner] = (device, pool)


def bytes_in_graphs(device: int) -> int:
    """Return the bytes that live graphs keep on a device, which must be the current one."""
    return sum(int(pool.total_bytes()) for own, pool in list(_live.values()) if own == device)
