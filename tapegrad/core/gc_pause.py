"""Pause Python's garbage collector.

Memory that is freed during a CUDA capture is lost. And while a program is built, thousands of
objects are made and kept: the collector would visit them again and again for nothing, for a fifth
of the time of a long program.
"""

from __future__ import annotations

import gc
import os
import threading


class _GcPause:
    """A context that may be entered several times; the collector resumes when the last one ends.

    Several threads may be in it. A forked process goes on with the thread that forked it, and the
    collector resumes there if only other threads had paused it.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._entered: dict[int, int] = {}
        """How often each thread has entered."""
        self._was_on = False

    def __enter__(self) -> None:
        me = threading.get_ident()
        with self._lock:
            if not self._entered:
                self._was_on = gc.isenabled()
                gc.disable()
            self._entered[me] = self._entered.get(me, 0) + 1

    def __exit__(self, *_: object) -> None:
        me = threading.get_ident()
        with self._lock:
            self._entered[me] -= 1
            if not self._entered[me]:
                del self._entered[me]
                self._resume()

    def _resume(self) -> None:
        if self._was_on and not self._entered:
            gc.enable()

    def start_child(self) -> None:
        """Forget the parent's other threads, which do not exist in a forked process."""
        self._lock = threading.Lock()
        me = threading.get_ident()
        others = [thread for thread in self._entered if thread != me]
        for thread in others:
            del self._entered[thread]
        if others:
            self._resume()


gc_paused = _GcPause()

if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=gc_paused.start_child)
