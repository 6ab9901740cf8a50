"""Short tracebacks: errors that tapegrad raises on purpose show the lines of the user's program.

Between a call of a public function and the check that failed there are up to a dozen lines of
tapegrad, which say nothing about the fault. `TAPEGRAD_TRACEBACK=full` shows them.
"""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Callable
from types import TracebackType
from typing import Any

import numpy as np

from tapegrad.errors import TapegradError

_EXPLAINED = (TapegradError, np.linalg.LinAlgError)
"""Errors whose words say what is wrong."""

_REPLACED = (TapegradError, TypeError, ValueError, IndexError, ArithmeticError, OSError)
"""Errors that say no more than the error that replaces them; others may be faults of tapegrad."""

_LIBRARIES = frozenset({"tapegrad", "numpy", "cupy", "cupy_backends", "scipy", "ml_dtypes"})


def with_short_tracebacks(method: Callable[..., Any]) -> Callable[..., Any]:
    """Decorate a method so that its errors show no lines of tapegrad but those of its callers."""

    @functools.wraps(method)
    def call(*args: Any, **kwargs: Any) -> Any:
        try:
            return method(*args, **kwargs)
        except Exception as error:
            shorten(error)
            raise

    return call


def shorten(error: Exception) -> None:
    """Leave the lines of the user's program in the traceback of an error that says what is wrong.

    That is an error of tapegrad or one that the user's code raised. An error of Python or NumPy
    that led to an error of tapegrad is left out, unless the user's code raised it: the words of the
    new error replace its words.

    >>> error = TapegradError("Too long.")
    >>> error.__cause__ = TypeError("len() got 3 items")
    >>> shorten(error)
    >>> error.__cause__ is None
    True
    """
    if os.environ.get("TAPEGRAD_TRACEBACK") == "full":
        return
    if not isinstance(error, _EXPLAINED) and not _is_last_line_of_user(error.__traceback__):
        return
    error.__traceback__ = _of_users(error.__traceback__)
    cause = error.__cause__
    is_replaced = isinstance(error, _EXPLAINED) and isinstance(cause, _REPLACED)
    if is_replaced and cause is not None and not has_lines_of_users(cause.__traceback__):
        error.__cause__ = None
        error.__suppress_context__ = True


def _is_library(package: str) -> bool:
    """Whether a package is tapegrad, Python or a library that tapegrad calls."""
    known = package in _LIBRARIES or package.startswith("tapegrad_")
    return known or package in sys.stdlib_module_names


def has_lines_of_users(traceback: TracebackType | None) -> bool:
    """Return whether the user's code raised an error, or called the code that did."""
    while traceback is not None:
        module = str(traceback.tb_frame.f_globals.get("__name__", "tapegrad"))
        if not _is_library(module.partition(".")[0]):
            return True
        traceback = traceback.tb_next
    return False


def _is_last_line_of_user(traceback: TracebackType | None) -> bool:
    """Whether an error was raised by a line of the user's code."""
    last = traceback
    while traceback is not None:
        last, traceback = traceback, traceback.tb_next
    return last is not None and has_lines_of_users(last)


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
