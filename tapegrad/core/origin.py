"""Where a recorded call comes from: the line of the user's program and the function called there.

Every recorded call asks for it, and most of the time goes into the walk over the frames. A reverse
sweep makes many calls for one line, so it asks once.
"""

from __future__ import annotations

import threading

from tapegrad.core.call_site import place_of, user_call

Origin = tuple[str, str]
"""The file and line of the user's code, and the public function that it called there or ""."""

_HELPERS = {"call", "operate", "getitem", "variable_getitem", "wrapper", "Function"}
"""Functions and classes that stand between the user's code and a public function."""


class OneOrigin:
    """The origin of many calls, which is None until the first of them asks for it."""

    __slots__ = ("found",)

    def __init__(self) -> None:
        self.found: Origin | None = None


class _Thread(threading.local):
    one: OneOrigin | None = None
    """The origin of all calls that this thread makes now, None if each has its own."""


_thread = _Thread()


def set_origin(one: OneOrigin | None) -> OneOrigin | None:
    """Let the calls of a block that runs no code of the user have one origin.

    Return what was set before, which is to be set again at the end of the block. Blocks are many
    and short, so this is no context manager.
    """
    before, _thread.one = _thread.one, one
    return before


def origin_of_call() -> Origin:
    """Return the line of the user's code that led to this call, and the function called there."""
    one = _thread.one
    if one is None:
        return _find()
    if one.found is None:
        one.found = _find()
    return one.found


def _find() -> Origin:
    frame, called = user_call()
    name = called.f_code.co_name
    if name == "__call__":
        name = type(called.f_locals.get("self")).__name__
    return place_of(frame), "" if name.startswith("_") or name in _HELPERS else name
