"""Small arrays that stay on a device, where batches are gathered from their rows.

To gather rows on the host and to copy them takes longer than the step of a small network. So arrays
that are small beside the memory of a device are copied there once, when a batch is first asked for.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tapegrad.core import host, nest
from tapegrad.core.backend import backend_of
from tapegrad.core.tensor import wrap
from tapegrad.data.structure import mapped
from tapegrad.ops.gather import gather
from tapegrad.program.turns import working

MOST_BYTES = 256 << 20
"""Larger arrays stay on the host: memory is for the network."""


class Resident:
    """Arrays of the host, and their copies on the devices where batches were asked for."""

    def __init__(self, arrays: Any) -> None:
        self._arrays = arrays
        leaves = nest.flatten(arrays)
        self._is_small = sum(leaf.nbytes for leaf in leaves) <= MOST_BYTES
        self._copies: dict[str, Any] = {}

    def is_for(self, like: Any) -> bool:
        """Tell whether the arrays may stay where the array `like` lies."""
        return self._is_small and like is not None and not isinstance(like, np.ndarray)

    def rows(self, indices: Any, like: Any) -> Any:
        """Return rows as tensors beside the array `like`."""
        device = backend_of(like).device_of(like)
        copies = self._copies.get(device)
        if copies is None:
            # Two threads may both do this at first; the later copy replaces the other.
            copies = mapped(lambda leaf: wrap(host.place_like(leaf, like)), self._arrays)
            self._copies[device] = copies
        chosen = wrap(host.place_like(np.asarray(indices, np.int64), like))
        with working():
            return mapped(lambda array: gather(array, chosen), copies)
