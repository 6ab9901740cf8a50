"""The memory of CUDA graphs, which is outside of CuPy's default pool."""

from __future__ import annotations

import weakref
from typing import Any

_live: weakref.WeakKeyDictionary[Any, tuple[int, Any]] = weakref.WeakKeyDictionary()


def track_pool(owner: Any, device: int, pool: Any) -> None:
    """Count a pool on a device as long as its owner exists."""
    _live[owner] = (device, pool)


def bytes_in_graphs(device: int) -> int:
    """Return the bytes of all graphs on a device, which must be the current one."""
    return sum(int(pool.total_bytes()) for own, pool in list(_live.values()) if own == device)
