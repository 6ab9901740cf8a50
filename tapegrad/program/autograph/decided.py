"""Records of the decisions of converted code."""

from __future__ import annotations

import threading


class BranchRaised(BaseException):  # it never leaves the package
    """A branch ends with an exception, which each call raises if it takes the branch.

    It is no `Exception`, so that the user's handlers do not see it.
    """


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
