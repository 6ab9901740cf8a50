"""Python's collector rests while CUDA captures: memory that it frees then is lost."""

from __future__ import annotations

import gc
import threading


class _Resting:
    """Entered by every capture; the collector goes on when the last one ends."""

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


resting_collector = _Resting()
