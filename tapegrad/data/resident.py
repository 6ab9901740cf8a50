"""Small arrays that stay on a device, where batches are gathered from their rows.

To gather rows on the host and to copy them takes longer than the step of a small network. So arrays
that are small beside the memory of a device are copied there once, when a batch is first asked for.
Rows of larger ones a backend may put together where its device reads them.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from tapegrad.core import host, nest
from tapegrad.core.backend import backend_of
from tapegrad.core.recovery import run_again
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
        self._is_small = sum(leaf.nbytes for leaf in nest.flatten(arrays)) <= MOST_BYTES
        self._copies: dict[str, Any] = {}

    def is_for(self, like: Any) -> bool:
        """Tell whether the arrays may stay where the array `like` lies."""
        return self._is_small and _is_on_device(like)

    def rows(self, indices: np.ndarray, like: Any) -> Any:
        """Return rows as tensors beside the array `like`; None if the host has to gather them."""
        if not _is_on_device(like):
            return None
        attempt = partial(self._rows, indices, like)
        with working():
            try:
                return attempt()
            except MemoryError as error:
                return run_again("A batch", (like,), attempt, error)

    def _rows(self, indices: np.ndarray, like: Any) -> Any:
        kernels = backend_of(like).kernels
        if not self._is_small:
            place = kernels.get("rows.place")
            return place and _of_all(self._arrays, lambda all: place(all, indices, like))
        copies, take = self._copies_beside(like), kernels.get("rows.take")
        if take is not None:
            return _of_all(copies, lambda all: take(all, indices))
        chosen = host.place_like(indices, like)
        return mapped(lambda array: gather(wrap(array), wrap(chosen)), copies)

    def _copies_beside(self, like: Any) -> Any:
        device = backend_of(like).device_of(like)
        copies = self._copies.get(device)
        if copies is None:
            # Two threads may both do this at first; the later copy replaces the other.
            copies = mapped(lambda leaf: host.place_like(leaf, like), self._arrays)
            self._copies[device] = copies
        return copies


def _is_on_device(like: Any) -> bool:
    return like is not None and not isinstance(like, np.ndarray)


def _of_all(arrays: Any, function: Callable[[list[Any]], list[Any] | None]) -> Any:
    """Return tensors in the structure of some arrays, made of all of them; None if they are not."""
    leaves: list[Any] = []
    mapped(leaves.append, arrays)
    found = function(leaves)
    if found is None:
        return None
    made = iter(found)
    return mapped(lambda _: wrap(next(made)), arrays)
