"""Count the decisions that converted code has recorded."""

from __future__ import annotations

import threading


class _Count(threading.local):
    decisions = 0


_count = _Count()


def note_decision() -> None:
    """Note that a decision in Python has become a part of the recording.

    From here on code runs that eager mode may not run, e.g. both branches of an `if`.
    """
    _count.decisions += 1


def decision_count() -> int:
    """Return how many decisions this thread has recorded."""
    return _count.decisions
