"""Buffers for large results of programs, reused if no object holds the earlier result.

New memory of a few megabytes costs about as much as a loop over it, because the system has to map
and clear each page. Reference counts show whether an array or a view of it is still held; see
tapegrad/core/ownership.py.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tapegrad.core.ownership import count_for, reference_counts, why_not_used
from tapegrad_numpy.ownership import check_views

MOST_KEPT = 2
"""Arrays per result: while one is held, as in `y = step(x)`, the next call takes the other."""

WORTH = 1 << 17
"""The size in bytes from which buffers are kept."""

_HOLDERS = 3
"""Holders of a free array: the list of kept arrays, the loop variable, the tuple."""


class Recycled:
    """Returns an array of one shape and dtype that nothing else holds."""

    def __init__(self, shape: tuple[int, ...], dtype: Any) -> None:
        self._shape = shape
        self._dtype = dtype
        self._kept: list[Any] = []

    def __call__(self) -> Any:
        free = [count_for(_HOLDERS)]
        for array in self._kept:
            # The loop variable counts, so two threads cannot both take the array.
            if reference_counts((array,)) == free:
                return array
        array = np.empty(self._shape, self._dtype)
        if len(self._kept) < MOST_KEPT:
            self._kept.append(array)
        return array


def recycled(shape: tuple[int, ...], dtype: Any) -> Recycled | None:
    """Return a source of buffers for a result, or None if it is small."""
    check_views()
    dtype = np.dtype(dtype)
    worth = int(np.prod(shape, dtype=np.int64)) * dtype.itemsize >= WORTH
    return Recycled(shape, dtype) if worth and not why_not_used() else None
