"""Fault injection: raise KeyboardInterrupt at the n-th event of a call.

Events are the lines and calls of Python code of the package and of `contextlib`. CPython delivers a
signal at some of them: the start of a function, a jump backwards, the end of a call.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import tapegrad
import tapegrad_numpy

_FOLDERS = tuple(str(Path(module.__file__ or "").parent) for module in (tapegrad, tapegrad_numpy))


def _is_traced(frame: FrameType) -> bool:
    name = frame.f_code.co_filename
    return name.startswith(_FOLDERS) or name == "<string>" or name == contextlib.__file__


def interrupted(function: Callable[[], Any], event: int) -> bool:
    """Call a function and interrupt it at an event; return False if it ended before."""
    left = event

    def trace(frame: FrameType, kind: str, _: Any) -> Any:
        nonlocal left
        if kind == "call" and not _is_traced(frame):
            return None
        if kind in ("call", "line"):
            left -= 1
            if left < 0:
                sys.settrace(None)
                raise KeyboardInterrupt
        return trace

    before = sys.gettrace()
    try:
        sys.settrace(trace)
        function()
    except KeyboardInterrupt:
        return True
    finally:
        sys.settrace(before)
    return False


def count_events(function: Callable[[], Any]) -> int:
    """Return the number of events of a call."""
    count = 0

    def trace(frame: FrameType, kind: str, _: Any) -> Any:
        nonlocal count
        if kind == "call" and not _is_traced(frame):
            return None
        count += kind in ("call", "line")
        return trace

    before = sys.gettrace()
    try:
        sys.settrace(trace)
        function()
    finally:
        sys.settrace(before)
    return count
