"""Switches under which eager code calls other kernels, such as those that check their results."""

from __future__ import annotations

from collections.abc import Callable

_counts = {"numbers": 0, "memory": 0, "events": 0}
_listeners: list[Callable[[], None]] = []


def is_hooked(name: str) -> bool:
    """Return whether a switch is on.

    "numbers" are checked, the lines of "memory" are noted, or "events" are noted for a report.
    """
    return _counts[name] > 0


def is_any_hooked() -> bool:
    """Return whether a switch is on."""
    return any(_counts.values())


def switch_hook(name: str, on: bool) -> None:
    """Switch on, or off after as many calls as have switched it on."""
    before = is_hooked(name)
    _counts[name] = max(0, _counts[name] + (1 if on else -1))
    if is_hooked(name) is not before:
        for listener in _listeners:
            listener()


def on_hooks(listener: Callable[[], None]) -> None:
    """Let a function be called whenever a switch has changed."""
    _listeners.append(listener)
