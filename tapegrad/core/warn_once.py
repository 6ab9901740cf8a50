"""Warn once about a fallback that would otherwise hide a failure."""

from __future__ import annotations

from tapegrad.core.call_site import warn_outside

_given: set[str] = set()


def warn_once(message: str, error: object = None) -> None:
    """Warn unless this process has given the same message before, whatever the error was.

    The message names what failed and the consequence.

    >>> import warnings
    >>> with warnings.catch_warnings(record=True) as caught:
    ...     warnings.simplefilter("always")
    ...     warn_once("The disk cannot be written, so nothing is cached.", OSError("It is full."))
    ...     warn_once("The disk cannot be written, so nothing is cached.", OSError("No rights."))
    >>> [str(warning.message) for warning in caught]
    ['The disk cannot be written, so nothing is cached. What went wrong: It is full.']
    """
    if message in _given:
        return
    _given.add(message)
    cause = f" What went wrong: {error}" if error is not None else ""
    warn_outside(f"{message}{cause}")


def reset_warnings() -> None:
    """Warn again about everything, e.g. in a test."""
    _given.clear()
