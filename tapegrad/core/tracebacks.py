"""Short tracebacks: errors that tapegrad raises on purpose show the lines of the user's program.

Between a call of a recorded function and the line in it that failed there are a dozen lines of
tapegrad, which say nothing about the fault. `TAPEGRAD_TRACEBACK=full` shows them.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable
from types import TracebackType
from typing import Any

from tapegrad.errors import TapegradError


def with_short_tracebacks(method: Callable[..., Any]) -> Callable[..., Any]:
    """Decorate a method so that its errors show no lines of tapegrad but those of its callers."""

    @functools.wraps(method)
    def call(*args: Any, **kwargs: Any) -> Any:
        try:
            return method(*args, **kwargs)
        except TapegradError as error:
            if os.environ.get("TAPEGRAD_TRACEBACK") != "full":
                error.__traceback__ = _of_users(error.__traceback__)
            raise

    return call


def _of_users(traceback: TracebackType | None) -> TracebackType | None:
    """Return a traceback with its first line, which calls, and the lines of other packages."""
    if traceback is None:
        return None
    kept = [traceback]
    following = traceback.tb_next
    while following is not None:
        package = str(following.tb_frame.f_globals.get("__name__", "")).partition(".")[0]
        if package != "tapegrad" and not package.startswith("tapegrad_"):
            kept.append(following)
        following = following.tb_next
    short = None
    for entry in reversed(kept):
        short = TracebackType(short, entry.tb_frame, entry.tb_lasti, entry.tb_lineno)
    return short
