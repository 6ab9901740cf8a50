"""A line on a terminal while a long program is compiled."""

from __future__ import annotations

import sys
import threading
from time import perf_counter
from typing import Any

from tapegrad.core.background import is_background

SECONDS = 3.0
"""How long a compilation takes before the line appears."""


class Progress:
    """Shows a line on standard error, if it is a terminal and the block takes long."""

    def __init__(self, count: int, name: str) -> None:
        meanwhile = "runs unfused meanwhile" if is_background() else "the call waits for it"
        self._text = f"tapegrad: compiling {count:,} operations of {name!r} ({meanwhile})"
        self._timer: threading.Timer | None = None
        self._lock = threading.Lock()
        self._is_shown = self._is_over = False
        self._start = 0.0

    def __enter__(self) -> None:
        self._start = perf_counter()
        if _is_terminal(sys.stderr):
            self._timer = threading.Timer(SECONDS, self._show)
            self._timer.daemon = True
            self._timer.start()

    def __exit__(self, *_: object) -> None:
        if self._timer is None:
            return
        self._timer.cancel()
        with self._lock:
            self._is_over = True
            if self._is_shown:
                _write(f" ended after {perf_counter() - self._start:.1f} s\n")

    def _show(self) -> None:
        with self._lock:
            if not self._is_over:
                self._is_shown = True
                _write(self._text)


def _write(text: str) -> None:
    try:
        sys.stderr.write(text)
        sys.stderr.flush()
    except (AttributeError, OSError, ValueError):  # it was closed or replaced meanwhile
        pass


def _is_terminal(stream: Any) -> bool:
    try:
        return bool(stream.isatty())
    except (AttributeError, ValueError):  # there is none, or it is closed
        return False
