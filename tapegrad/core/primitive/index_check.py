"""Indices out of range: the sentinel that marks them on a device, and the debugging check.

Indices are always checked on the CPU. On a device the check would need a synchronisation, so reads
at an index out of range give zeros there, and writes are dropped.
"""

from __future__ import annotations

import math
from contextvars import ContextVar
from typing import Any

import numpy as np

from tapegrad.core.primitive.primitive import INTERPRETERS
from tapegrad.core.uninterrupted import starts_uninterrupted
from tapegrad.core.values import host
from tapegrad.core.values.tensor import Tensor
from tapegrad.errors import IndexOutOfRangeError

NOWHERE = -(2**62)
"""Sentinel for an index out of range; it stays out of range if the size of an array is added."""

_is_checking: ContextVar[bool] = ContextVar("tapegrad_check_indices", default=False)

is_checking = _is_checking.get
"""Whether functions also check indices on devices."""


class checking:  # noqa: N801  # used like a function
    """Turn the check on or off for this thread; as a context manager, until the block ends."""

    def __init__(self, on: bool) -> None:
        self._token = _is_checking.set(on)

    def __enter__(self) -> None:
        """Do nothing: the constructor has set the check."""

    @starts_uninterrupted
    def __exit__(self, *_: object) -> None:
        _is_checking.reset(self._token)


def check_range(
    name: str, indices: Any, length: int, axis: int = 0, lowest: float | None = None
) -> None:
    """Copy indices to the host and raise if one is out of range.

    `name` is the public function, `lowest` the lowest index allowed (by default -length).
    """
    while type(indices) in INTERPRETERS:
        indices = indices.tensor
    array = indices.array if isinstance(indices, Tensor) else indices
    if not isinstance(array, np.ndarray | np.generic | int):
        array = host.fetch(array, None, "debug.check_indices()")
    refuse_out_of_range(name, np.asarray(array), length, axis, lowest)


def refuse_out_of_range(
    name: str, indices: np.ndarray, length: int, axis: int, lowest: float | None = None
) -> None:
    """Raise if an index on the host is out of range; the message names the first one."""
    low = -length if lowest is None else lowest
    wrong = (indices < low) | (indices >= length)
    if not wrong.any():
        return
    place = np.argwhere(wrong)[0]
    found = f"{name} got index {int(indices[tuple(place)])} for axis {axis}"
    if not length:
        allowed = ", which is empty."
    elif low == -math.inf:
        allowed = f" of length {length}. Allowed are numbers below {length}."
    else:
        allowed = f" of length {length}. Allowed are {low} to {length - 1}."
    where = f" It stands at {place.tolist()} of the indices." if place.size else ""
    raise IndexOutOfRangeError(found + allowed + where)
