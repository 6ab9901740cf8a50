"""Trial calls, which find the shapes of results: their numbers mean nothing and are not printed."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np


class _Trials(threading.local):
    depth = 0


_trials = _Trials()


def is_trial() -> bool:
    """Whether this thread runs a trial call."""
    return _trials.depth > 0


@contextmanager
def trial_call() -> Iterator[None]:
    """Run code on zeros in place of data; tensors inside are printed without their numbers.

    >>> import tapegrad
    >>> with trial_call():
    ...     str(tapegrad.zeros([2]))
    'tapegrad.Tensor(unknown, shape=(2,), dtype=float32)'
    """
    _trials.depth += 1
    try:
        with np.errstate(all="ignore"):  # zeros may be outside of the domain of a function
            yield
    finally:
        _trials.depth -= 1
