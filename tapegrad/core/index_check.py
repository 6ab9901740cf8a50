"""Indices out of range: how they are marked on a device, and the check that debugging turns on.

On the CPU indices are always checked. On a device that would take waiting for it, so an index out
of range reads zeros there, and what is written to it is dropped.
"""

from __future__ import annotations

import math
from contextvars import ContextVar
from typing import Any

import numpy as np

from tapegrad.core import host
from tapegrad.core.primitive import INTERPRETERS
from tapegrad.core.tensor import Tensor
from tapegrad.errors import IndexOutOfRangeError

NOWHERE = -(2**62)
"""The position that stands for an index out of range; adding the size of any array keeps it so."""

_is_checking: ContextVar[bool] = ContextVar("tapegrad_check_indices", default=False)

is_checking = _is_checking.get
"""Whether functions that take indices look at them on devices too."""


class checking:  # noqa: N801  # a function to its users
    """Turn the check on or off for this thread, at once; as a context, until its end."""

    def __init__(self, on: bool) -> None:
        self._token = _is_checking.set(on)

    def __enter__(self) -> None:
        """The check was turned on or off when this was made."""

    def __exit__(self, *_: object) -> None:
        _is_checking.reset(self._token)


def check_range(
    name: str, indices: Any, length: int, axis: int = 0, lowest: float | None = None
) -> None:
    """Read indices from wherever they are and raise a sentence if one is out of range.

    `name` is the user's function, `lowest` the lowest index allowed (by default -length).
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
    """Raise a sentence about the first of the host's indices that is out of range, if one is."""
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
