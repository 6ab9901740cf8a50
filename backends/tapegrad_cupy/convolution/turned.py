"""Filters in cuDNN's order, kept from a convolution under a tape for its gradient.

Only in half precision, where filters are mostly casts that end with the step.
"""

from __future__ import annotations

import weakref
from typing import Any

from tapegrad.core.recorder import active_stack
from tapegrad_cupy.capture_memory import STATE

Array = Any

_kept: dict[int, tuple[weakref.ref[Array], Array]] = {}


def keep(w: Array, turned: Array) -> None:
    """Keep filters in another order for as long as they live, if a tape saves them."""
    if w.dtype.itemsize == 2 and active_stack().tokens and not STATE["capturing"]:
        number = id(w)
        _kept[number] = weakref.ref(w, lambda _: _kept.pop(number, None)), turned


def find(w: Array) -> Array | None:
    """Return filters in the other order as they were in the last convolution with them."""
    found = _kept.get(id(w))
    return None if found is None else found[1]


def forget(w: Array) -> None:
    """Turn filters anew at the next use, because they may have been written to."""
    _kept.pop(id(w), None)
