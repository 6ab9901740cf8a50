"""Limits on the work of loading a file from elsewhere.

While `limited` is active, code that a file can configure asks here before it allocates weights,
computes with arrays or repeats a loop.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar

from tapegrad.errors import FileFormatError

MOST_ELEMENTS = 2**27
"""Of one array that is computed while a file is loaded."""
_FREE_ELEMENTS = 2**24
"""Those that a small file may ask for; a larger one may ask for this many times its weights:"""
_PER_WEIGHT = 256
MOST_ROUNDS = 10_000
"""Of all loops together that run while a file is loaded."""
_FREE_WEIGHTS = 2**20
"""Elements of weights that a model may create beyond those in its file."""


class Limits:
    """What loading one file may still do."""

    def __init__(self, whose: str, weights: Iterable[int] | None) -> None:
        self.whose = whose
        sizes = None if weights is None else list(weights)
        self._largest = None if sizes is None else max(sizes, default=0)
        self._weights = None if sizes is None else 2 * sum(sizes) + _FREE_WEIGHTS
        asked = MOST_ELEMENTS if sizes is None else max(_FREE_ELEMENTS, _PER_WEIGHT * sum(sizes))
        self._elements = min(MOST_ELEMENTS, asked)
        self._rounds = MOST_ROUNDS

    def spend_weight(self, shape: Sequence[int]) -> None:
        """Account for a weight, which must not be larger than those in the file."""
        size = count(shape)
        if self._weights is None or self._largest is None:
            self.check_array(shape, "a weight")
            return
        self._weights -= size
        if size > max(self._largest, _FREE_WEIGHTS) or self._weights < 0:
            raise FileFormatError(
                f"{self.whose} describes a weight of shape {list(shape)}, and the largest one in "
                f"the file has {self._largest:,} elements: the description does not match the "
                "weights."
            )

    def check_array(self, shape: Sequence[int | None], what: str) -> None:
        """Refuse to compute an array that is too large."""
        if count(shape) > self._elements:
            raise FileFormatError(
                f"{self.whose} asks for {what} of shape {list(shape)!s:.300}. At most "
                f"{self._elements:,} elements are computed while this file is loaded. {_REMEDY}"
            )

    def spend_rounds(self, rounds: int) -> None:
        """Account for the rounds of a loop."""
        self._rounds -= rounds
        if self._rounds < 0:
            raise FileFormatError(
                f"{self.whose} asks for a loop of more than {MOST_ROUNDS:,} rounds, which would "
                f"run while the file is loaded. {_REMEDY}"
            )


_REMEDY = "If you trust the file, pass safe_mode=False."
_active: ContextVar[Limits | None] = ContextVar("limits", default=None)


@contextmanager
def limited(whose: str, weights: Iterable[int] | None = None) -> Iterator[None]:
    """Limit the work in the block; `weights` has the number of elements of each array of the file.

    >>> with limited("The file", [6, 3]):
    ...     active_limits().spend_weight((3000, 3000))
    Traceback (most recent call last):
    tapegrad.errors.FileFormatError: The file describes a weight of shape [3000, 3000], and the \
largest one in the file has 6 elements: the description does not match the weights.
    """
    token = _active.set(Limits(whose, weights))
    try:
        yield
    finally:
        _active.reset(token)


def active_limits() -> Limits | None:
    """Return the limits of the file that is being loaded, or None."""
    return _active.get()


def spend_rounds(rounds: int) -> None:
    """Account for the rounds of a loop if a file is being loaded."""
    limits = _active.get()
    if limits is not None:
        limits.spend_rounds(max(0, rounds))


def count(shape: Sequence[int | None]) -> int:
    """Return the number of elements of a shape, with 3 for unknown sizes.

    >>> count((None, 4))
    12
    """
    return math.prod(3 if n is None else n for n in shape)
