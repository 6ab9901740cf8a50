"""Values that a recomputed function keeps from its first run.

The gradient of `recompute_grad(f)` runs `f` again. A recorded loop in `f` is divided into segments,
and its gradient needs the carried values at the beginnings of the segments. The first run of the
loop keeps them, so that each round runs again once, not twice.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any


class Checkpoints:
    """What the loops of one call of a function have kept, by the order in which they ran.

    Loops inside the rounds of other loops are not counted: they belong to other recordings.
    """

    def __init__(self, segments: int | None) -> None:
        self.segments = segments
        """Into how many segments loops are divided, None to choose."""
        self.is_first_run = True
        self.kept: dict[int, Any] = {}
        self._recording: Any = None
        self._count = 0

    def begin_again(self) -> None:
        """Begin a further run of the function."""
        self.is_first_run = False
        self._count = 0

    def number_of_next(self, recording: Any) -> int | None:
        """Count a loop and return its number, None if it is inside a round of another one."""
        if self._recording is None:
            self._recording = recording
        if recording is not self._recording:
            return None
        self._count += 1
        return self._count - 1

    def forget(self) -> None:
        """Use nothing of the first run any more, because the order of loops may differ."""
        self.kept.clear()
        self.is_first_run = False


_current: ContextVar[Checkpoints | None] = ContextVar("tapegrad_checkpoints", default=None)


@contextmanager
def with_checkpoints(checkpoints: Checkpoints | None) -> Iterator[None]:
    """Let the loops that run inside the block keep checkpoints, or use those of the first run.

    >>> with with_checkpoints(Checkpoints(None)):
    ...     current_checkpoints().is_first_run
    True
    """
    token = _current.set(checkpoints)
    try:
        yield
    finally:
        _current.reset(token)


def current_checkpoints() -> Checkpoints | None:
    """Return the checkpoints of the function that runs now, None if it keeps none."""
    return _current.get()
