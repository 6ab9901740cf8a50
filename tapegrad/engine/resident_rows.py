"""Rows of data sets that stay on a device, or that the device reads from the host.

Gathering rows on the host and copying them takes longer than a step of a small network.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tapegrad.core.backend.protocol import Array
from tapegrad.core.backend.registry import capabilities_of
from tapegrad.core.values import host
from tapegrad.core.values.tensor import Tensor, wrap
from tapegrad.engine.switch import is_on
from tapegrad.ops.indexing.gather import gather


def can_stay_beside(like: Array) -> bool:
    """Whether data may stay where the array `like` is: on a device that is not the host."""
    return is_on() and like is not None and not isinstance(like, np.ndarray)


def rows_on_device(copies: Sequence[Array], indices: np.ndarray) -> list[Tensor]:
    """Return rows of arrays on a device."""
    rows = capabilities_of(type(copies[0])).rows
    found = None if rows is None else rows.take(copies, indices)
    if found is not None:
        return [wrap(array) for array in found]
    chosen = wrap(host.place_like(indices, copies[0]))
    return [gather(wrap(array), chosen) for array in copies]


def rows_from_host(
    arrays: Sequence[np.ndarray], indices: np.ndarray, like: Array
) -> list[Tensor] | None:
    """Return rows of host arrays beside `like`, copied by its device; None if it cannot do that."""
    rows = capabilities_of(type(like)).rows
    found = None if rows is None else rows.place(arrays, indices, like)
    return None if found is None else [wrap(array) for array in found]
