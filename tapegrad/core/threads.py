"""Notify backends of a new number of threads."""

from __future__ import annotations

from collections.abc import Callable

_listeners: list[Callable[[], None]] = []


def when_threads_change(listener: Callable[[], None]) -> Callable[[], None]:
    """Call a function each time that the number of threads is set; for use as a decorator."""
    _listeners.append(listener)
    return listener


def threads_have_changed() -> None:
    """Let backends read $TAPEGRAD_THREADS again."""
    for listener in _listeners:
        listener()
