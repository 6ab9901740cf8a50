"""Build programs in the background, and run them unfused meanwhile.

The passes, fusion and the C compiler may take seconds for a long program, and the recorded calls
can run at once. A call that records waits a moment for the compiled form. If it is not ready by
then, calls run the unfused form until it is.
"""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

from tapegrad.core.backend.registry import find_backend
from tapegrad.core.background import Job, foreground, wait_for_jobs
from tapegrad.core.determinism import is_op_determinism_enabled
from tapegrad.core.gc_pause import gc_paused
from tapegrad.core.number_checks import is_checking_numbers
from tapegrad.core.values.variable import Variable
from tapegrad.core.world import current_world
from tapegrad.program.graph.graph import Graph
from tapegrad.program.graph.number_flags import FlaggedGraph, flagged
from tapegrad.program.program import Program, check_recorded, program_of
from tapegrad.program.progress import Progress
from tapegrad.program.record.recording_lock import seconds_of_recording
from tapegrad.program.unfused import Unfused, pruned

SECONDS = 0.06
"""A call that records waits for the compiled form until it has taken that long.

It shall take at most 0.1 s more than two eager calls; the rest is for what follows the wait.
"""

MOST_CALLS = 500
"""Programs of more calls are never ready in that time, so that nothing waits for them.

With all loops in the cache a build takes about a fifth to a half of a millisecond per call.
"""

one_at_a_time: Any = threading.RLock()
"""Held while a program is built, since the caches of passes and compilers are for one thread."""

_settings = {"wait": os.environ.get("TAPEGRAD_WAIT", "") not in ("", "0")}


def set_waiting(wait: bool) -> bool:
    """Set whether every function waits for its compiled form; return the setting before.

    >>> before = set_waiting(True)
    >>> set_waiting(before)
    True
    """
    before, _settings["wait"] = _settings["wait"], bool(wait)
    return before


def is_waiting() -> bool:
    """Return whether every function waits for its compiled form, e.g. to give the same bits.

    >>> before = set_waiting(True)
    >>> is_waiting()
    True
    >>> was_waiting = set_waiting(before)
    """
    # Several processes shall compute the same bits, and none at other times than the others.
    return _settings["wait"] or is_op_determinism_enabled() or not current_world().is_alone


def wait_for_programs() -> None:
    """Wait until all programs that are built in the background are compiled.

    A call after this one runs compiled programs, e.g. to measure how long they take. The
    environment variable `TAPEGRAD_WAIT=1` or `function(wait=True)` lets each first call wait.

    >>> import tapegrad
    >>> square = tapegrad.function(lambda x: x * x)
    >>> y = square(tapegrad.constant(3.0))
    >>> tapegrad.wait_for_programs()
    """
    wait_for_jobs()


def _nothing() -> None:
    """The report of a program that has been reported."""


class _Source(NamedTuple):
    """What a program is built from."""

    graph: Graph
    variables: Mapping[int, Variable]
    budget: int | None
    checked: FlaggedGraph | None


def _built(reference: weakref.ref[Building]) -> Program | None:
    building = reference()
    return None if building is None else building.make()


class Building:
    """A program that is built in the background, and its unfused form.

    Whoever keeps one replaces it by `latest` of it, which is the program as soon as that is ready.
    """

    def __init__(
        self,
        graph: Graph,
        variables: Mapping[int, Variable],
        name: str,
        budget: int | None = None,
        results: int | None = None,
    ) -> None:
        """Take what the program is built from.

        If numbers are checked, the first `results` outputs are, by default all of them.
        """
        with gc_paused:
            self.recorded = pruned(graph)
        """The recorded calls that are needed, for the variables and the kinds of results."""
        self._checked: FlaggedGraph | None = None
        if is_checking_numbers():
            count = len(graph.outputs) if results is None else results
            self._checked = flagged(self.recorded, count)
            graph = replace(self._checked.graph, obstacle=graph.obstacle)
        self._variables = {number: variables[number] for number in self.recorded.variables}
        self._unfused: Unfused | None = None
        self._name = name
        self.report: Callable[[], Callable[[Exception], None] | None] = _nothing
        """Returns what is called once if the program could not be built after the first call.

        It is a weak reference, since a function refers to its programs.
        """
        self._source: _Source | None = _Source(graph, variables, budget, self._checked)
        # A weak reference: what is dropped before its turn need not be built.
        self._job = Job(partial(_built, weakref.ref(self)))
        self.is_started = False
        self.calls_before_start = 0
        """How many calls run unfused before the build starts."""
        check_recorded(self.recorded)

    def make(self) -> Program | None:
        """Return the program, None if it has been made."""
        if self._source is None:
            return None
        with one_at_a_time, Progress(len(self._source.graph.calls), self._name):
            return program_of(*self._source)

    @property
    def is_done(self) -> bool:
        """Whether the program is ready or could not be built."""
        return self._job.is_done

    @property
    def seconds(self) -> float:
        """How long the build took, 0.0 before its end."""
        return self._job.seconds

    @property
    def error(self) -> BaseException | None:
        """Why the program could not be built, None if it is being built or ready."""
        return self._job.error if self._job.result is None else None

    def build(self, waits: bool) -> bool:
        """Build, in the background unless this `waits`; return whether it is done in `SECONDS`.

        An error is raised if it happens meanwhile.
        """
        if waits and not self.is_started:
            self.is_started = True
            self._job.run_here()
        self.start()
        if not waits:
            is_short = len(self.recorded.calls) <= MOST_CALLS
            left = max(0.0, SECONDS - seconds_of_recording()) if is_short else 0.0
            if not self._job.wait(left):
                return False
        self.program()
        return True

    def _may_leave_this_thread(self) -> bool:
        """Whether the arrays are on the first devices of their backends.

        These are the current devices of a new thread, and a program belongs to the current one.
        """
        calls = self.recorded.calls
        backends = [find_backend(kind) for kind in {call.array_type for call in calls}]
        first = {name for found in backends if found is not None for name in found.devices()[:1]}
        return {value.device for call in calls for value in call.results} <= first

    def start(self) -> None:
        """Let the background thread build it, if it can."""
        if self.is_started:
            return
        self.is_started = True
        if self._may_leave_this_thread():
            self._job.start()
        else:
            self._job.run_here()

    def program(self) -> Program:
        """Wait for the compiled form and return it; raise the error if it could not be built."""
        if not self._job.is_done:
            self.start()
            self._job.wait()
        if self._job.result is None:
            assert self._job.error is not None
            raise self._job.error
        return self._job.result

    def settled(self) -> Program | Unfused:
        """Return the program, or for good the unfused form if the program could not be built."""
        self._source = None
        if self._job.result is not None:
            self._unfused = None
            if self._checked is None:
                self.recorded = self._job.result.recorded
            return self._job.result
        report, self.report = self.report(), _nothing
        if report is not None and isinstance(self._job.error, Exception):
            report(self._job.error)
        return self.unfused

    @property
    def unfused(self) -> Unfused:
        """The form that runs meanwhile, which is made on first use."""
        found = self._unfused
        if found is None:
            with gc_paused:  # most of what is made is kept
                found = self._unfused = Unfused(self.recorded, self._variables, self._checked)
        return found

    def __call__(self, inputs: list[Any]) -> tuple[Any, ...]:
        """Run the form that is ready; see `Program`."""
        if self._job.is_done:
            return self.settled()(inputs)
        if self.calls_before_start:
            self.calls_before_start -= 1
            return self.unfused(inputs)
        self.start()
        with foreground(self._job):
            return self.unfused(inputs)


Runnable = Program | Building | Unfused


def latest(program: Runnable) -> Runnable:
    """Return the program that a `Building` has become, or what is given if there is no other."""
    return program.settled() if isinstance(program, Building) and program.is_done else program


def _start_child() -> None:
    """Free the lock in a forked process, where the thread that held it does not exist."""
    global one_at_a_time
    one_at_a_time = threading.RLock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_start_child)
