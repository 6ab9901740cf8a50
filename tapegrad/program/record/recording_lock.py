"""A lock between recordings and the worker threads of datasets.

During a recording all variables hold recorded arrays. A function in a data pipeline may use
variables as well, such as the state of a random generator, so it must not run at that time.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

PATIENCE = 5.0
"""Seconds after which a recording starts even if a worker is active, to avoid a deadlock."""

_condition = threading.Condition()
_workers: dict[int, int] = {}
_recorders: list[int] = []
"""The threads that record or wait to record, once per recording."""


@contextmanager
def working() -> Iterator[None]:
    """Block recordings of other threads; first wait for the active one.

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
    """Block workers while a recording runs; may be nested.

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
