"""Locks of recordings: one at a time, and none while the worker threads of datasets are active.

A function in a data pipeline may use the variables of the recorded function, such as the state of a
random generator. Workers and recordings take turns, so that the order of their draws is clear.
"""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from time import perf_counter

from tapegrad.core.gc_pause import gc_rarely
from tapegrad.core.recorder import active_stack, restore_stack
from tapegrad.core.update_lock import letting_others_update

PATIENCE = 5.0
"""Seconds after which a recording starts even if a worker is active, to avoid a deadlock."""

_condition = threading.Condition()
_lock = threading.RLock()
_workers: dict[int, int] = {}
LOOK_AGAIN = 1.0
"""Seconds after which a waiting worker looks again whether a recording still exists."""


class _Turn:
    """Exists as long as a recording, also if an interrupt keeps it from saying that it ended."""

    __slots__ = ("__weakref__",)


class _Thread(threading.local):
    start: float | None = None
    """When the outermost recording of this thread began, None outside of recordings."""


_thread = _Thread()
_recorders: list[tuple[int, weakref.ref[_Turn]]] = []
"""The threads that record or wait to record, once per recording."""


@contextmanager
def working() -> Iterator[None]:
    """Block recordings of other threads; first wait for the active one.

    >>> with working():
    ...     pass
    """
    me = threading.get_ident()
    with _condition:
        while me not in _workers and _others_record(me):
            _condition.wait(LOOK_AGAIN)
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
    me, turn = threading.get_ident(), _Turn()
    entry = me, weakref.ref(turn)
    with _condition:
        # A worker that records does not wait for itself.
        was_working = _workers.pop(me, 0)
        _recorders.append(entry)
        _condition.notify_all()
        _condition.wait_for(lambda: not _workers, PATIENCE)
    try:
        yield
    finally:
        with _condition:
            _recorders.remove(entry)
            if was_working:
                _workers[me] = was_working
            _condition.notify_all()


@contextmanager
def recording_alone() -> Iterator[None]:
    """Let no other thread record inside the block; may be nested.

    >>> with recording_alone(), recording_alone():
    ...     pass
    """
    # In this order: other threads may wait for the lock of updates, and a worker for this one.
    with letting_others_update(), without_workers(), _lock, gc_rarely():
        before, outer = active_stack(), _thread.start
        _thread.start = perf_counter() if outer is None else outer
        try:
            yield
        except BaseException:
            # Imported here because data pipelines import this file, and record nothing.
            from tapegrad.program.record.recording import abandon_recording

            # An interrupt may have kept a recording or a tape from ending.
            abandon_recording()
            restore_stack(before)
            raise
        finally:
            _thread.start = outer


def seconds_of_recording() -> float:
    """Return how long the outermost `recording_alone` of this thread has lasted.

    >>> seconds_of_recording()
    0.0
    """
    return 0.0 if _thread.start is None else perf_counter() - _thread.start


def _start_child() -> None:
    """Forget the locks of the parent's other threads, which do not exist in a forked child."""
    global _condition, _lock
    me = threading.get_ident()
    _condition = threading.Condition()
    for worker in [worker for worker in _workers if worker != me]:
        del _workers[worker]
    _recorders[:] = [entry for entry in _recorders if entry[0] == me]
    if not _recorders:
        _lock = threading.RLock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_start_child)


def _others_record(me: int) -> bool:
    """Whether a thread records, but not this one."""
    _recorders[:] = [entry for entry in _recorders if entry[1]() is not None]
    return bool(_recorders) and all(recorder != me for recorder, _ in _recorders)


def _leave(me: int) -> None:
    if _workers.get(me, 1) > 1:
        _workers[me] -= 1
    else:
        _workers.pop(me, None)
    _condition.notify_all()
