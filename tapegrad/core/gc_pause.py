"""Pause Python's garbage collector, or let it run less often.

Memory that is freed during a CUDA capture is lost. And while a program is built, thousands of
objects are made and kept: the collector would visit them again and again for nothing, for a fifth
of the time of a long program.
"""

from __future__ import annotations

import gc
import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

RARELY = 50_000
"""How many objects are made between two collections while code of the user is recorded."""


class _GcPause:
    """A context that may be entered several times; the collector resumes when the last one ends.

    Several threads may be in it. A forked process goes on with the thread that forked it, and the
    collector resumes there if only other threads had paused it. An interrupt may come between the
    start of the context and its block, so that it never ends: such a pause is over as soon as the
    context is used again.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._entered: dict[int, list[FrameType]] = {}
        """The frames of each thread that have entered."""
        self._was_on = False

    def __enter__(self) -> None:
        frame = sys._getframe(1)
        with self._lock:
            self._drop_abandoned(frame)
            if gc.isenabled() or not self._entered:
                self._was_on = gc.isenabled()
                gc.disable()
            self._entered.setdefault(threading.get_ident(), []).append(frame)

    def __exit__(self, *_: object) -> None:
        frame = sys._getframe(1)
        with self._lock:
            mine = self._entered.get(threading.get_ident(), [])
            if frame in mine:
                mine.remove(frame)
            self._drop_abandoned(frame)

    def _drop_abandoned(self, frame: FrameType) -> None:
        """Forget frames and threads that have ended, and resume if no others have entered."""
        stack: list[FrameType] = []
        below: FrameType | None = frame
        while below is not None:
            stack.append(below)
            below = below.f_back
        me, alive = threading.get_ident(), {thread.ident for thread in threading.enumerate()}
        kept = {
            thread: [one for one in frames if thread != me or one in stack]
            for thread, frames in self._entered.items()
            if thread == me or thread in alive
        }
        was_paused = bool(self._entered)
        self._entered = {thread: frames for thread, frames in kept.items() if frames}
        if was_paused and not self._entered and self._was_on:
            gc.enable()

    def start_child(self) -> None:
        """Forget the parent's other threads, which do not exist in a forked process."""
        self._lock = threading.Lock()
        me = threading.get_ident()
        self._entered = {thread: frames for thread, frames in self._entered.items() if thread == me}
        if not self._entered and self._was_on:
            gc.enable()


gc_paused = _GcPause()


@contextmanager
def gc_rarely() -> Iterator[None]:
    """Let the collector run less often in a block that keeps most of what it makes.

    It is not paused, because code of the user may make large arrays in reference cycles.

    >>> with gc_rarely():
    ...     gc.get_threshold()[0] >= RARELY
    True
    """
    before = gc.get_threshold()
    is_changed = 0 < before[0] < RARELY
    if is_changed:
        gc.set_threshold(RARELY, *before[1:])
    try:
        yield
    finally:
        if is_changed and gc.get_threshold()[0] == RARELY:
            gc.set_threshold(*before)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=gc_paused.start_child)
