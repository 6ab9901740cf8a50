"""Fault injection: raise KeyboardInterrupt, or another error, at the n-th event of a call.

Events are the lines and calls of Python code of the package and of `contextlib`. CPython delivers a
signal at some of them: the start of a function, a jump backwards, the end of a call. It delivers
none between the last statement of a `with` block and the call of `__exit__`, where a trace function
would see the line of the `with` again; an exception there would leave the block without its exit.
Nor does it deliver one in functions with an uninterrupted start, outside of the functions that they
call.
"""

from __future__ import annotations

import contextlib
import dis
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import tapegrad
import tapegrad_numpy
from tapegrad.core.uninterrupted import is_interrupted_at_start

_FOLDERS = tuple(str(Path(module.__file__ or "").parent) for module in (tapegrad, tapegrad_numpy))


def _is_traced(frame: FrameType) -> bool:
    name = frame.f_code.co_filename
    return name.startswith(_FOLDERS) or name == "<string>" or name == contextlib.__file__


@cache
def _ends_of_blocks(code: CodeType) -> frozenset[int]:
    """Return where a function begins to call `__exit__(None, None, None)` after a `with` block."""
    found: set[int] = set()
    steps = [step for step in dis.get_instructions(code) if step.opname not in ("CACHE", "PRECALL")]
    for k in range(len(steps) - 3):
        nones = [step.opname == "LOAD_CONST" and step.argval is None for step in steps[k : k + 3]]
        if all(nones) and steps[k + 3].opname == "CALL":
            found.add(steps[k].offset)
            while k and steps[k - 1].opname in ("NOP", "SWAP"):  # a value that is returned
                k -= 1
                found.add(steps[k].offset)
    return frozenset(found)


@cache
def _unseen_places(code: CodeType) -> frozenset[int]:
    """Return where an exception of a trace function is not seen by the block around the place.

    From Python 3.12 on these are the first statements of `with` blocks and the jumps of loops. A
    signal that is delivered there is seen.
    """
    if sys.version_info < (3, 12):
        return frozenset()
    steps = [step for step in dis.get_instructions(code) if step.opname != "CACHE"]
    # The value of `__enter__` is dropped or stored first.
    pairs = zip(steps, steps[2:])
    found = {after.offset for step, after in pairs if step.opname == "BEFORE_WITH"}
    return frozenset(found | {s.offset for s in steps if s.opname in ("FOR_ITER", "JUMP_BACKWARD")})


_starts_interrupted = cache(is_interrupted_at_start)


def _is_event(frame: FrameType, kind: str) -> bool:
    code = frame.f_code
    if not _starts_interrupted(code):
        return False
    edges = _ends_of_blocks(code) | _unseen_places(code)
    return kind == "call" or (kind == "line" and frame.f_lasti not in edges)


def interrupted(
    function: Callable[[], Any], event: int, error: type[BaseException] = KeyboardInterrupt
) -> bool:
    """Call a function and raise an error at an event; return False if it did not come out."""
    left = event

    def trace(frame: FrameType, kind: str, _: Any) -> Any:
        nonlocal left
        if kind == "call" and not _is_traced(frame):
            return None
        if _is_event(frame, kind):
            left -= 1
            if left < 0:
                sys.settrace(None)
                raise error
        return trace

    before = sys.gettrace()
    try:
        sys.settrace(trace)
        function()
    except error:
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
        count += _is_event(frame, kind)
        return trace

    before = sys.gettrace()
    try:
        sys.settrace(trace)
        function()
    finally:
        sys.settrace(before)
    return count
