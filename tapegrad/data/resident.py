"""Data sets whose arrays stay on the device where batches are used.

Arrays that are small beside the memory of a device are copied there once, with the first batch.
Rows of larger arrays are copied by the device if it can read them from the host.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tapegrad.core.backend.registry import backend_of
from tapegrad.core.out_of_memory import attempt
from tapegrad.core.values import host, nest
from tapegrad.data.structure import mapped
from tapegrad.engine.resident_rows import can_stay_beside, rows_from_host, rows_on_device
from tapegrad.program.record.recording_lock import working

MOST_BYTES = 256 << 20
"""Larger arrays stay on the host, to leave the memory of the device to the network."""


class Resident:
    """Arrays on the host, and their copies on the devices where batches were used."""

    def __init__(self, arrays: Any) -> None:
        self._arrays = arrays
        leaves = nest.flatten(arrays)
        self._has_text = any([leaf.dtype.kind == "O" for leaf in leaves])  # stays on the host
        self._is_small = not self._has_text and sum([leaf.nbytes for leaf in leaves]) <= MOST_BYTES
        self._copies: dict[str, Any] = {}

    def is_for(self, like: Any) -> bool:
        """Whether the arrays may stay on the device of the array `like`."""
        return self._is_small and can_stay_beside(like)

    def rows(self, indices: np.ndarray, like: Any) -> Any:
        """Return rows as tensors beside the array `like`; None if the host has to gather them."""
        if self._has_text or not can_stay_beside(like):
            return None
        with working():
            return attempt("A batch", self._rows, indices, like, on=like)

    def _rows(self, indices: np.ndarray, like: Any) -> Any:
        if self._is_small:
            found: Any = rows_on_device(_leaves(self._copies_beside(like)), indices)
        else:
            found = rows_from_host(_leaves(self._arrays), indices, like)
        if found is None:
            return None
        made = iter(found)
        return mapped(lambda _: next(made), self._arrays)

    def _copies_beside(self, like: Any) -> Any:
        device = backend_of(like).device_of(like)
        copies = self._copies.get(device)
        if copies is None:
            # Two threads may both do this at first; the later copy replaces the other.
            copies = mapped(lambda leaf: host.place_like(leaf, like), self._arrays)
            self._copies[device] = copies
        return copies


def _leaves(arrays: Any) -> list[Any]:
    leaves: list[Any] = []
    mapped(leaves.append, arrays)
    return leaves
