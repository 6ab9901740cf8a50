"""Work in the background: one thread of the process, which ends when nothing is left to do.

Python runs one thread at a time. A kernel that releases the interpreter lock waits up to 5 ms to
reacquire it from a busy thread, so a thousand small kernels would take seconds beside background
work. Both therefore take turns: the work pauses at its checkpoints while another thread is in
`foreground`, which afterwards leaves the work as much time as it took.
"""

from __future__ import annotations

import atexit
import os
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import Context, copy_context
from time import perf_counter, perf_counter_ns
from typing import Any, Generic, TypeVar

from tapegrad.core.event_log import LOGS
from tapegrad.core.gc_pause import gc_paused

Result = TypeVar("Result")
Item = TypeVar("Item")

PATIENCE = 1.0
"""The most seconds that background work pauses at one checkpoint, so that it ends at last."""


class Job(Generic[Result]):
    """Work for the background thread, which calls `work` once and keeps its result or its error."""

    def __init__(self, work: Callable[[], Result]) -> None:
        self._work: Callable[[], Any] = work
        self._context = copy_context()
        self.is_done = False
        self.result: Result | None = None
        self.error: BaseException | None = None
        self.seconds = 0.0
        """How long the work took, pauses included."""

    def start(self) -> None:
        """Let the background thread do the work after that of earlier jobs."""
        with _state.changed:
            _state.jobs.append(self)
            try:
                _start_thread()
            except RuntimeError:  # the process may have no more threads
                _state.jobs.remove(self)
                self.run_here()

    def wait(self, seconds: float | None = None) -> bool:
        """Wait until the work is done, at most for some seconds; return whether it is."""
        if _state.is_ending and not self.is_done:  # e.g. in a function of `atexit`
            self.run_here()
        if not self.is_done:
            # The thread that waits makes no garbage, and the work keeps most of what it makes.
            with gc_paused, _state.changed:
                _start_thread()
                _state.changed.wait_for(lambda: self.is_done, seconds)
        return self.is_done

    def run_here(self) -> None:
        """Do the work in this thread, instead of `start`; an interrupt ends it."""
        self.run()
        if self.error is not None and not isinstance(self.error, Exception):
            raise self.error
        self.end()

    def run(self) -> None:
        """Do the work in this thread."""
        start = perf_counter_ns()
        try:
            self.result = self._context.copy().run(self._work)
        except BaseException as error:  # the thread that waits for the job raises or reports it
            self.error = error
        end = perf_counter_ns()
        self.seconds = (end - start) / 1e9
        if LOGS:
            LOGS[-1].add("compile", "passes, fusion and compilers", "", start, end)

    def end(self) -> None:
        """Say that the work is done; what it needed is freed."""
        self._work, self._context = _no_work, Context()
        self.is_done = True


def _no_work() -> Any:
    """The work of a job that is done."""


class _State:
    """The background thread and its jobs."""

    def __init__(self) -> None:
        self.changed = threading.Condition()
        self.jobs: list[Job[Any]] = []
        """Those that are not done; the thread works on the first one."""
        self.thread: threading.Thread | None = None
        self.foreground = 0
        self.is_outside = False
        self.is_ending = False


_state = _State()


def wait_for_jobs() -> None:
    """Wait until all jobs that have been started are done."""
    for job in [*_state.jobs]:
        job.wait()


@contextmanager
def foreground(job: Job[Any]) -> Iterator[None]:
    """Let background work pause during the block, and wait for the job as long as that took."""
    start = perf_counter()
    with _state.changed:
        _state.foreground += 1
    try:
        yield
    finally:
        with _state.changed:
            _state.foreground = max(0, _state.foreground - 1)  # 0 after a fork inside the block
            _state.changed.notify_all()
    if not _state.is_outside:
        job.wait(perf_counter() - start)


def is_background() -> bool:
    """Whether this is the background thread."""
    return threading.current_thread() is _state.thread


def checkpoint() -> None:
    """Pause here if this is background work and another thread is in the foreground."""
    if not is_background():
        return
    with _state.changed:
        _state.changed.wait_for(lambda: not _state.foreground or _state.is_ending, PATIENCE)
    if _state.is_ending:
        raise SystemExit


def with_checkpoints(items: Iterable[Item], every: int = 32) -> Iterable[Item]:
    """Return the items, with a checkpoint before each so many of them in background work.

    >>> [*with_checkpoints([1, 2, 3])]
    [1, 2, 3]
    """
    return _paused(items, every) if is_background() else items


def _paused(items: Iterable[Item], every: int) -> Iterator[Item]:
    for number, item in enumerate(items):
        if number % every == 0:
            checkpoint()
        yield item


@contextmanager
def outside_python() -> Iterator[None]:
    """Mark that the block mostly waits for other programs, so that no turns are needed."""
    if not is_background():
        yield
        return
    _state.is_outside = True
    try:
        yield
    finally:
        _state.is_outside = False
    checkpoint()


def _start_thread() -> None:
    """Start the thread if it has jobs and does not run; the caller holds `_state.changed`.

    It is a daemon, so that the interpreter does not wait for it at its end.
    """
    if _state.jobs and _state.thread is None and not _state.is_ending:
        thread = threading.Thread(target=_work, name="tapegrad-builder", daemon=True)
        thread.start()
        _state.thread = thread


def _work() -> None:
    """Do all jobs. Each stays in the list until it is done: a forked process does it anew."""
    while True:
        with _state.changed:  # whoever started the thread has stored it before
            job = _state.jobs[0]
        job.run()
        with _state.changed:
            _state.jobs.remove(job)
            job.end()
            is_last = not _state.jobs or _state.is_ending
            if is_last:
                _state.thread = None
            _state.changed.notify_all()
        if is_last:
            return


def _end() -> None:
    """Let the work end at its next checkpoint, because the interpreter ends."""
    _state.is_ending = True


def _start_child() -> None:
    """Give a forked process, which has no background thread, a new state.

    Unfinished jobs begin anew when something waits for one of them.
    """
    jobs = _state.jobs
    _state.__init__()  # type: ignore[misc]  # other modules refer to the object
    _state.jobs = jobs


atexit.register(_end)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_start_child)
