"""The check of numbers: whether it is on, and which line of the user's code made a value.

While the check is on, operations note their lines, so that an error in a gradient can name the line
of the forward pass. `debug.nan_sentinel` is its public form.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from tapegrad.core.backend.registry import backend_of, find_backend
from tapegrad.core.eager_hooks import is_hooked
from tapegrad.core.origin import origin_of_call
from tapegrad.core.recorder import Node, next_order

MOST_NOTES = 200_000
"""How many operations a thread remembers at most; the oldest half is forgotten then."""


def is_checking_numbers() -> bool:
    """Return whether the check is on."""
    return is_hooked("numbers")


NEAR = 64
"""By how much the order of a node exceeds that of its note at most; others were made elsewhere."""


class _Notes(threading.local):
    def __init__(self) -> None:
        self.node: Node | None = None
        """The node whose gradient is being computed."""
        self.orders: list[int] = []
        self.origins: list[tuple[str, str]] = []


_notes = _Notes()


def note_operation(site: str, function: str) -> None:
    """Remember the line of an operation; the node that is made for it has a higher order."""
    if len(_notes.orders) >= MOST_NOTES:
        del _notes.orders[: MOST_NOTES // 2], _notes.origins[: MOST_NOTES // 2]
    _notes.orders.append(next_order())
    _notes.origins.append((site, function))


def origin_of_node(node: Node) -> tuple[str, str]:
    """Return the line and the public function that led to a node, ("", "") if that is unknown."""
    from bisect import bisect_left  # slow to import, and needed for messages only

    place = bisect_left(_notes.orders, node.order)
    is_known = place > 0 and node.order - _notes.orders[place - 1] <= NEAR
    return _notes.origins[place - 1] if is_known else ("", "")


def origin_of_recorded_call() -> tuple[str, str, bool]:
    """Return the line and function of this call, and whether it belongs to a gradient.

    If numbers are checked, a call of a gradient has the line of the forward pass.
    """
    if not is_hooked("numbers"):
        site, function = origin_of_call()
        return site, function, False
    if _notes.node is not None:
        site, function = origin_of_node(_notes.node)
        return site, function or _notes.node.primitive.name, True
    site, function = origin_of_call()
    note_operation(site, function)
    return site, function, False


def forget_operations() -> None:
    """Forget the lines of this thread."""
    _notes.orders.clear()
    _notes.origins.clear()


@contextmanager
def pulling_back(node: Node) -> Iterator[None]:
    """Mark the operations in the block as those of the gradient of a node."""
    before, _notes.node = _notes.node, node
    try:
        yield
    finally:
        _notes.node = before


def backward_node() -> Node | None:
    """Return the node whose gradient is being computed, None in the forward pass."""
    return _notes.node


def largest(array: Any) -> float:
    """Return the largest absolute value of a floating-point array: NaN if there is one.

    It is 0.0 for empty arrays and for values of other kinds.

    >>> import numpy as np
    >>> largest(np.array([1.0, -3.0])), largest(np.array([1.0, np.nan])), largest(np.array([7]))
    (3.0, nan, 0.0)
    """
    backend = find_backend(type(array))
    if backend is None or not is_floating(backend.dtype_of(array)) or 0 in array.shape:
        return 0.0
    xp = backend.xp
    return float(backend.to_host(xp.max(xp.abs(xp.asarray(array)))))


def is_floating(dtype: Any) -> bool:
    """Whether numbers of a dtype can be infinite."""
    return dtype.kind in "fc" or "float" in dtype.name


def share_of(array: Any) -> str:
    """Say how many elements of an array are NaN or infinite."""
    values = np.asarray(backend_of(array).to_host(array))
    nans, finite = int(np.isnan(values).sum()), int(np.isfinite(values).sum())
    infinite = values.size - finite - nans
    parts = [f"{nans} of {values.size} elements are NaN"] if nans else []
    parts += [f"{infinite} of {values.size} elements are infinite"] if infinite else []
    return " and ".join(parts)
