"""Run a script, and note the functions that it calls and their last arguments."""

from __future__ import annotations

import runpy
import sys
import time
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest import mock

from tapegrad.autodiff.batching import current_frame
from tapegrad.errors import ArgumentError
from tapegrad.program.function import Function
from tapegrad.program.record.recording import current_recording

SETS = 8
"""The number of sets of inputs that a timed function gets in turn."""


@dataclass
class Called:
    """A function, the seconds of its first call, and the arguments of the last ones."""

    function: Function
    first_seconds: float
    calls: deque[tuple[tuple[Any, ...], dict[str, Any]]] = field(
        default_factory=lambda: deque(maxlen=SETS)
    )


def run_script(path: str, arguments: Sequence[str]) -> list[Called]:
    """Run a script as the main program; return its functions in the order of their first calls."""
    if not Path(path).is_file():
        raise ArgumentError(f"There is no script {path!r}.")
    before, folder = sys.argv, str(Path(path).resolve().parent)
    sys.argv = [path, *arguments]
    sys.path.insert(0, folder)
    try:
        with watching() as called:
            try:
                runpy.run_path(path, run_name="__main__")
            except SystemExit as error:
                if error.code not in (None, 0):
                    raise ArgumentError(f"{path} ended with exit status {error.code}.") from error
    finally:
        sys.argv = before
        sys.path.remove(folder)
    return called


@contextmanager
def watching() -> Iterator[list[Called]]:
    """Note the functions that the block calls, except those that others are recorded with."""
    called: list[Called] = []
    known: dict[int, Called] = {}
    plain = Function.__call__

    def call(function: Function, *args: Any, **kwargs: Any) -> Any:
        if current_recording() is not None or current_frame() is not None:
            return plain(function, *args, **kwargs)
        start = time.perf_counter()
        result = plain(function, *args, **kwargs)
        seconds = time.perf_counter() - start
        if id(function) not in known:
            known[id(function)] = Called(function, seconds)
            called.append(known[id(function)])
        known[id(function)].calls.append((args, kwargs))
        return result

    with mock.patch.object(Function, "__call__", call):
        yield called
