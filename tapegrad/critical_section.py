"""TensorFlow's `tf.CriticalSection`: functions of which one runs at a time."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from threading import RLock
from typing import Any

from tapegrad.core.checked_calls import check_calls as _check_calls
from tapegrad.errors import ArgumentTypeError


class CriticalSection:
    """Run one function at a time: others wait until it is done.

    A function that is recorded contains the operations, and the order of a recorded function is
    that of its program.

    >>> section, total = CriticalSection(), []
    >>> section.execute(lambda: total.append(1))
    >>> total
    [1]
    """

    def __init__(
        self,
        name: str | None = None,
        shared_name: str | None = None,
        critical_section_def: Any = None,
        import_scope: Any = None,
    ) -> None:
        self.name = name or shared_name or "critical_section"
        self._lock = RLock()

    def execute(
        self,
        fn: Callable[[], Any],
        exclusive_resource_access: bool = True,
        name: str | None = None,
    ) -> Any:
        """Return the result of a function without arguments."""
        if not callable(fn):
            raise ArgumentTypeError(f"execute takes a function. Got {fn!r}.")
        with self._lock if exclusive_resource_access else nullcontext():
            return fn()


_check_calls(globals(), ("CriticalSection",))
