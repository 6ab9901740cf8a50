"""Turns: while one thread records, those that work for a dataset wait, and the other way round.

A recording lets all variables hold recorded arrays. A function in a pipeline may use variables as
well, such as the state of a random generator, so it must not run at that time.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

PATIENCE = 5.0
"""Seconds after which a recording begins although somebody still works, who may wait for it."""

_condition = threading.Condition()
_workers: dict[int, int] = {}
_recorders: list[int] = []
"""Threads that record or want to, once for each recording."""


@contextmanager
def working() -> Iterator[None]:
    """Keep recordings of other threads away in this block; wait for the one that is under way.

    >>> with working():
    ...     pass
    """
    me = threading.get_ident()
    with _condition:
        if me not in _workers and me not in _recorders:
            _condition.wait_for(lambda: not _recorders)
        _workers[me] = _workers.get(me, 0) + 1
    try:
        yield
    finally:
        with _condition:
            _leave(me)


@contextmanager
def without_workers() -> Iterator[None]:
    """Keep workers away in this block, which may be inside another one.

    >>> with without_workers(), without_workers():
    ...     pass
    """
    me = threading.get_ident()
    with _condition:
        # A worker that records does not wait for itself.
        was_working = _workers.pop(me, 0)
        _recorders.append(me)
        _condition.notify_all()
        _condition.wait_for(lambda: not _workers, PATIENCE)
    try:
        yield
    finally:
        with _condition:
            _recorders.remove(me)
            if was_working:
                _workers[me] = was_working
            _condition.notify_all()


def _leave(me: int) -> None:
    if _workers.get(me, 1) > 1:
        _workers[me] -= 1
    else:
        _workers.pop(me, None)
    _condition.notify_all()
