"""A builder of programs that tests hold back, so that calls run unfused for as long as they say."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import tapegrad as tf
from tapegrad.program import building
from tapegrad.program.program import Program

PATIENCE = 60.0
"""Seconds after which a test that would hang fails."""


class HeldBuilds:
    """Builds programs in the background one by one, when a test allows it."""

    def __init__(self) -> None:
        self._real: Callable[..., Program] = building.program_of
        self._permits = threading.Semaphore(0)
        self._is_free = False
        self.error: Exception | None = None
        """What the builder raises instead."""
        self.threads: list[threading.Thread] = []
        """The threads that have built a program."""

    def __call__(self, *given: Any) -> Program:
        thread = threading.current_thread()
        if thread is not threading.main_thread() and not self._is_free:
            assert self._permits.acquire(timeout=PATIENCE), "the test held the build"
        self.threads.append(thread)
        if self.error is not None:
            raise self.error
        return self._real(*given)

    def allow(self, count: int = 1) -> None:
        """Let some more programs be built."""
        self._permits.release(count)

    def finish(self) -> None:
        """Let all programs be built and wait for them."""
        self._is_free = True
        self._permits.release(100)
        tf.wait_for_programs()


def state(function: Any) -> str:
    """The state of the program of the last recording."""
    return str(function.explain().recordings[-1].state)


def program_that_runs(function: Any) -> Any:
    """What calls of a function with one program run at the moment."""
    (entry,) = function._entries.values()
    return entry._program


def drawing_body() -> Any:
    """Return a function whose first call draws the initial value of a variable."""
    made: list[Any] = []

    def body() -> Any:
        if not made:
            made.append(tf.Variable(tf.random.normal([2])))
        return made[0] + tf.random.normal([2])

    return body
