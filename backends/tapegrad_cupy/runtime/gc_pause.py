"""Pause Python's garbage collector during CUDA captures: memory freed during one is lost."""

from __future__ import annotations

import gc
import threading


class _GcPause:
    """A context for captures; the collector resumes when the last one ends."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._captures = 0
        self._was_on = False

    def __enter__(self) -> None:
        with self._lock:
            if not self._captures:
                self._was_on = gc.isenabled()
                gc.disable()
            self._captures += 1

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._captures -= 1
            if self._was_on and not self._captures:
                gc.enable()


gc_paused = _GcPause()
