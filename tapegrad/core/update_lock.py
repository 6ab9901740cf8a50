"""The lock of read-modify-write updates, such as `assign_add` and an optimizer's step.

One lock serves all variables, because a step reads and writes many of them, and several locks would
have to be taken in one order. It is held for the arithmetic of an update, not for that of a
program.
"""

from __future__ import annotations

import os
import threading
from _thread import _count as other_threads
from contextlib import nullcontext
from typing import Any

__all__ = ["letting_others_update", "other_threads", "updating", "updating_alone", "withheld"]

updating: Any = threading.RLock()
"""Held while a thread replaces the value of a variable by one that depends on the old value.

Small updates take it only if there are `other_threads`, since it costs a tenth of an `assign_add`.
"""


withheld: dict[int, Any] = {}
"""Arrays that a program overwrites at the moment, by the numbers of their variables.

The variables do not have them meanwhile, so no other thread can take one as a snapshot.
"""


def updating_alone() -> Any:
    """Return the lock if there are other threads, and otherwise a context that does nothing."""
    return updating if other_threads() else _NO_LOCK


_NO_LOCK = nullcontext()


class letting_others_update:  # noqa: N801  # used like a function
    """Give the lock to other threads inside the block, which may wait for one of them.

    A generator would not do: after an interrupt it ends late, and would take the lock for good.

    >>> with updating, letting_others_update():
    ...     updating._is_owned()
    False
    """

    __slots__ = ("_state",)

    def __enter__(self) -> None:
        self._state = updating._release_save() if updating._is_owned() else None

    def __exit__(self, *_: object) -> None:
        if self._state is not None:
            updating._acquire_restore(self._state)


def _forget() -> None:
    """Free the lock in a forked process, where the thread that held it does not exist."""
    reset = getattr(updating, "_at_fork_reinit", None)
    if reset is not None:
        reset()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)
