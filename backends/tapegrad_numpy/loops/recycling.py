"""Memory for large results of programs, used again once nobody holds the result of an earlier call.

Fresh memory of a few megabytes costs about as much as a loop over it: the system has to map and
clear each page. Python's reference counts tell whether anybody still holds an array or a view.
"""

from __future__ import annotations

from sys import getrefcount
from typing import Any

import numpy as np

MOST_KEPT = 2
"""Arrays per result: while one is held, as in `y = step(x)`, the next call takes the other."""

WORTH = 1 << 17
"""Bytes from which on memory is kept."""


class Recycled:
    """Returns an array of one shape and dtype that nobody holds."""

    def __init__(self, shape: tuple[int, ...], dtype: Any) -> None:
        self._shape = shape
        self._dtype = dtype
        self._kept: list[Any] = []

    def __call__(self) -> Any:
        for array in self._kept:
            # Another thread that looks at the same array counts as well, so none is taken twice.
            if getrefcount(array) == _ALONE:
                return array
        array = np.empty(self._shape, self._dtype)
        if len(self._kept) < MOST_KEPT:
            self._kept.append(array)
        return array


def _count_of_one_alone() -> int:
    """The count of an array that a list and a loop over it hold; versions of Python differ."""
    for array in [np.empty(1)]:
        return getrefcount(array)
    return 0


_ALONE = _count_of_one_alone()


def recycled(shape: tuple[int, ...], dtype: Any) -> Recycled | None:
    """Return where to get arrays for a result from, or None if new ones are as good."""
    dtype = np.dtype(dtype)
    worth = int(np.prod(shape, dtype=np.int64)) * dtype.itemsize >= WORTH
    return Recycled(shape, dtype) if worth else None
