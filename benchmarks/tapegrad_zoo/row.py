"""Measure one row of the zoo: a program on one device, by all contenders side by side."""

from __future__ import annotations

import copy
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import repeat
from statistics import median
from typing import Any

from tapegrad.errors import ArgumentError
from tapegrad_bench.adapters import reason_absent
from tapegrad_bench.evidence import Evidence, verdicts
from tapegrad_bench.process import MemoryExhaustedError, TooSlowError, Worker, WorkerError
from tapegrad_bench.results import Cell, Size, Status
from tapegrad_zoo.contenders import MODES
from tapegrad_zoo.measure import TURNS, Ready, Session, Usage
from tapegrad_zoo.program import LIBRARIES, Cost, Entry

PATIENCE = 300.0
"""Seconds that one contender may take at most, compilation included."""

SETTINGS = {"TAPEGRAD_TF32": "1", "CUPY_TF32": "1"}
"""TensorFloat-32 is allowed everywhere, as it is by default in JAX."""

JAX_CACHE = {
    "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
    "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "-1",
}
"""What lets JAX keep each program that it has compiled, however small."""

COMPILED = ("compile", "graph")
"""Modes of torch that need the same compilation."""

LEAST = 5
"""Turns that a contender has at least."""

TOLERANCE = {"float64": 1e-6, "float32": 2e-3, "bfloat16": 5e-2}
"""The relative difference of first losses that is allowed at the size that is timed."""

ARRAY_TOLERANCE = {"float64": 1e-5, "float32": 2e-2, "bfloat16": 0.3}
"""The relative difference of results and gradients that is allowed at that size.

Products in TensorFloat-32 have ten significant bits. A gradient that is missing is off by 1.
"""

Contenders = Sequence[tuple[str, str]]


def contenders(peers: Sequence[str], device: str) -> list[tuple[str, str]]:
    """Return ours and those that words name by library ("torch") or mode ("torch:eager").

    >>> contenders(["jax", "torch:eager"], "cpu")
    [('tapegrad', 'eager'), ('tapegrad', 'function'), ('jax', 'jit'), ('torch', 'eager')]
    """
    known = [(library, mode) for library in LIBRARIES for mode in MODES[device][library]]
    words = [word for pair in known[2:] for word in (pair[0], ":".join(pair))]
    unknown = sorted(set(peers) - set(words))
    if unknown:
        allowed = ", ".join(dict.fromkeys(words))
        raise ArgumentError(f"--peers takes {allowed}. Got {', '.join(unknown)}.")
    wanted = {"tapegrad", *peers}
    return [pair for pair in known if {pair[0], ":".join(pair)} & wanted]


def worker(device: str, threads: int, caches: str = "") -> Worker:
    """Return a process that times programs, and keeps what JAX has compiled in a folder if given.

    The other libraries keep what they have compiled by themselves.
    """
    kept = {**JAX_CACHE, "JAX_COMPILATION_CACHE_DIR": caches} if caches else {}
    return Worker(device, threads, session=Session, settings={**SETTINGS, **kept})


def checker(device: str, threads: int) -> Worker:
    """Return a process that checks programs.

    The versions for the peers are checked in float64 on the host, where they are compiled sooner
    and leave the device to those that are measured on it.
    """
    settings = {**SETTINGS, "JAX_PLATFORMS": "cpu"}
    return Worker(device, threads, session=Session, settings=settings)


class Clock:
    """The time that a command has left.

    Each of the requests of a row has an equal share of the budget, so that any row fits into it,
    and a contender that stalls takes no time from the others; or so many seconds as `patience`
    says.
    """

    def __init__(self, budget: float, requests: int, patience: float | None = None) -> None:
        self._deadline = time.monotonic() + budget
        self._patience = min(PATIENCE, budget / requests) if patience is None else patience
        self.was_too_short = False
        """Whether the end of the budget, not a contender's patience, ended anything."""

    def for_row(self) -> Clock:
        """Return a clock with the same end for one row, which tells whether that row was cut."""
        return copy.copy(self)

    @property
    def left(self) -> float:
        return max(0.0, self._deadline - time.monotonic())

    def request(
        self, process: Worker, name: str, *arguments: object, most: float | None = None
    ) -> object:
        """Ask a process for something within the time that is left, or at most so many seconds."""
        wanted = self._patience if most is None else min(most, self._patience)
        patience = min(wanted, self.left)
        try:
            return process.request(name, *arguments, timeout=patience)
        except TooSlowError:
            self.was_too_short = self.was_too_short or patience < wanted
            raise


@dataclass
class Competitor:
    """One contender in its process, and what is known of it so far."""

    library: str
    mode: str
    process: Worker
    status: Status = Status.OK
    reason: str = ""
    ready: Ready | None = None
    usage: Usage | None = None
    evidence: Evidence | None = None
    times: list[float] = field(default_factory=list)
    is_late: bool = False
    """Whether it gave no answer in time."""
    is_exhausted: bool = False
    """Whether there was not enough memory for it."""

    def ask(self, clock: Clock, name: str, *arguments: object, most: float | None = None) -> Any:
        """Ask its process for something; one that fails is out."""
        try:
            return clock.request(self.process, name, *arguments, most=most)
        except WorkerError as error:
            self.is_late = isinstance(error, TooSlowError)
            self.is_exhausted = isinstance(error, MemoryExhaustedError)
            self.end(Status.FAILED, str(error))
            return None

    def begin_again(self) -> None:
        """Forget that it ended."""
        self.status, self.reason, self.ready, self.usage = Status.OK, "", None, None
        self.is_late = self.is_exhausted = False

    def end(self, status: Status, reason: str) -> None:
        """Take the contender out."""
        self.status, self.reason, self.times = status, reason, []
        self.process.stop()

    @property
    def loss(self) -> float | None:
        return self.ready.loss if self.ready and self.status is Status.OK else None


@dataclass(frozen=True)
class Contest:
    """The conditions of a row."""

    device: str
    threads: int
    contenders: Contenders
    seconds: float
    """How long the steps of one contender are timed."""
    side_by_side: int = 1
    """How many programs make their first calls at the same time.

    Steps are timed one program after the other, with no process of another program on the device:
    each of them makes calls to the driver slower (measured on an H200: a call of 0.1 ms takes
    0.2 to 0.3 with 18 idle processes, and steps of 0.4 ms take 0.7 with 60).
    """
    batches: str = "device"
    """Where the batches are when a step gets them, "device" or "host"."""
    patience: float | None = None
    """Seconds for one request; None for an equal share of the budget."""
    compile_patience: float | None = None
    """Seconds for the first call of a mode in COMPILED; None for those of other requests.

    A compiler that stalls would otherwise hold up all programs whose first calls are made with it.
    """
    caches: str = ""
    """A folder for compiled programs, which serve the processes in which steps are timed."""


class Row:
    """A program and its contenders, while they are measured."""

    def __init__(self, contest: Contest, entry: Entry, clock: Clock) -> None:
        self.contest, self.entry, self.clock = contest, entry, clock
        self._found = [
            Competitor(*pair, worker(contest.device, contest.threads, contest.caches))
            for pair in contest.contenders
        ]
        self._is_unchecked = False
        """Whether there was not enough memory for the check."""

    def prepare(self, checker: Worker) -> None:
        """Check the program and make the first calls.

        Side by side with other programs, each process ends after its first call, and `measure`
        starts another.
        """
        self._exclude_absent()
        for one in _running(self._found):
            one.process.start()  # all import their library at the same time
        if self.contest.side_by_side == 1:
            self._exclude_wrong(checker)
            self._first_calls(_running(self._found))
            return
        # The modes of a library stay in their order: torch keeps what it has compiled in files.
        queues: dict[str, list[Competitor]] = {}
        for one in _running(self._found):
            queues.setdefault(one.library, []).append(one)
        with ThreadPoolExecutor(1 + len(queues)) as pool:
            checking = pool.submit(self._complaint, checker)
            list(pool.map(self._first_calls, queues.values(), repeat(True)))
            self._end_all(checking.result())

    def measure(self) -> None:
        """Time the steps."""
        running = _running(self._found)
        if self.contest.side_by_side > 1 and running:
            with ThreadPoolExecutor(len(running)) as pool:
                list(pool.map(self._call_again, running))
        self._take_turns(_running(self._found))

    def finish(self) -> None:
        """Read what the timed steps computed, and end the processes; nothing is timed."""
        with ThreadPoolExecutor(len(self._found)) as pool:
            list(pool.map(self._finish, self._found))

    def _finish(self, one: Competitor) -> None:
        for name in ("usage", "evidence"):
            if one.status is Status.OK:
                setattr(one, name, one.ask(self.clock, name))
        one.process.stop()

    @property
    def exhausted(self) -> list[Competitor]:
        """The contenders that ran out of memory while others held some."""
        is_alone = self.contest.side_by_side == 1 and len(self._found) == 1
        return [] if is_alone else [one for one in self._found if one.is_exhausted]

    def try_again(self, checker: Worker) -> None:
        """Measure those that ran out of memory once more, each alone.

        It is to be called when all other processes have ended. What fails again has failed.
        """
        again = self.exhausted
        if not self.clock.left:  # the next command begins with this row
            self.clock.was_too_short = True
            return
        for one in again:
            one.begin_again()
        if self._is_unchecked:
            self._exclude_wrong(checker)
        checker.stop()
        for one in _running(again):
            self._first_calls([one])
            self._take_turns(_running([one]))
            self._finish(one)

    def cells(self) -> list[Cell]:
        """Judge what was measured and return one cell per contender."""
        found = self._found
        dtype = self.entry.program.dtypes[self.contest.device]
        errors = _check_losses(found, dtype)
        _check_evidence(found, dtype)
        needs = [one.usage.needed for one in found if one.usage and one.usage.needed]
        return [self._cell(one, errors.get(id(one)), next(iter(needs), None)) for one in found]

    def stop(self) -> None:
        """End the processes."""
        for one in self._found:
            one.process.stop()

    def _exclude_absent(self) -> None:
        """Take out what is not installed."""
        for one in self._found:
            absent = reason_absent(one.library)
            if absent is not None:
                one.end(Status.ABSENT, absent)

    def _exclude_wrong(self, checker: Worker) -> None:
        """Take out all if the versions of a program differ: it is never timed then."""
        self._end_all(self._complaint(checker))

    def _complaint(self, checker: Worker) -> tuple[Status, str]:
        """Return how the check ended, and why if it did not end well."""
        present = tuple(dict.fromkeys(one.library for one in _running(self._found)))
        self._is_unchecked = False
        try:
            complaint = _complaint(self.entry, present, checker, self.clock)
        except WorkerError as error:
            # Nothing is known of the results then, so that they must not be called wrong.
            self._is_unchecked = isinstance(error, MemoryExhaustedError)
            return Status.FAILED, f"The check failed: {error}"
        return (Status.WRONG, complaint) if complaint else (Status.OK, "")

    def _end_all(self, checked: tuple[Status, str]) -> None:
        for one in _running(self._found) if checked[0] is not Status.OK else ():
            one.end(*checked)
            one.is_exhausted = self._is_unchecked

    def _first_calls(self, found: Sequence[Competitor], is_end: bool = False) -> None:
        """Make the first calls, one after the other, and end each process if that is the end."""
        stalled: set[str] = set()
        """Libraries whose compiler was not ready in time, in whatever mode."""
        for one in found:
            if one.mode in COMPILED and one.library in stalled:
                one.end(Status.FAILED, "Another mode of it was not compiled in time.")
                continue
            most = self.contest.compile_patience if one.mode in COMPILED else None
            one.ready = one.ask(self.clock, "prepare", *self._arguments(one), most=most)
            if one.is_late and one.mode in COMPILED:
                stalled.add(one.library)
            if is_end:
                one.process.stop()

    def _call_again(self, one: Competitor) -> None:
        """Prepare a contender in a new process, with what was compiled for its first call."""
        one.ask(self.clock, "prepare", *self._arguments(one))

    def _arguments(self, one: Competitor) -> tuple[object, ...]:
        contest = self.contest
        return self.entry.name, one.library, one.mode, contest.seconds, contest.batches

    def _take_turns(self, found: Sequence[Competitor]) -> None:
        """Time some steps of each in turn, so that a busy machine slows all of them alike."""
        start = time.monotonic()
        for place in range(TURNS):
            running = _running(found)
            if place >= LEAST and time.monotonic() - start > self.contest.seconds * len(running):
                break
            for one in running:
                seconds = one.ask(self.clock, "turn")
                if one.status is Status.OK:
                    one.times.append(seconds)

    def _cell(self, one: Competitor, error: float | None, needed: Cost | None) -> Cell:
        program, device = self.entry.program, self.contest.device
        dims = program.sizes[device]
        peak = one.usage.peak_bytes if one.usage else None
        is_host = device == "cpu"
        return Cell(
            workload=self.entry.name,
            size=Size(", ".join(f"{name} {value}" for name, value in dims.items()), 0),
            dtype=program.dtypes[device],
            device=device,
            library=one.library,
            mode=one.mode,
            status=one.status,
            reason=one.reason,
            times=tuple(_rounded(value) for value in one.times),
            compile_seconds=_rounded(one.ready.first_seconds) if one.ready else None,
            peak_host_bytes=peak if is_host else None,
            peak_device_bytes=None if is_host else peak,
            bytes_needed=int(needed.bytes) if needed else None,
            flops_needed=int(needed.operations) if needed else None,
            loss_error=error,
        )


def _running(found: Sequence[Competitor]) -> list[Competitor]:
    return [one for one in found if one.status is Status.OK]


def _complaint(entry: Entry, present: tuple[str, ...], checker: Worker, clock: Clock) -> str:
    """Say how the versions of a program differ in float64, or return ""."""
    if len(present) < 2:
        return ""
    complaints = clock.request(checker, "check", entry.name, present)
    assert isinstance(complaints, list)
    return "; ".join(complaints)


def _check_losses(found: Sequence[Competitor], dtype: str) -> dict[int, float]:
    """Take out contenders whose first loss is wrong; return the errors of all.

    The median over the libraries is taken for right, so that with three of them one that is wrong
    stands out.
    """
    losses = [(one, one.loss) for one in found if one.loss is not None]
    by_library = {one.library: loss for one, loss in reversed(losses)}
    if len(by_library) < 2:
        return {}
    expected = median(loss for loss in by_library.values())
    errors = {}
    for one, loss in losses:
        error = abs(loss - expected) / max(abs(expected), 1e-6)
        errors[id(one)] = _rounded(error)
        if not error <= TOLERANCE[dtype]:
            reason = f"Its first loss is {loss:.6g}, that of the others {expected:.6g}."
            one.end(Status.WRONG, reason)
    return errors


def _check_evidence(found: Sequence[Competitor], dtype: str) -> None:
    """Take out contenders whose timed step gives other results than those of most libraries."""
    shown = {
        f"{one.library} {one.mode}": (one.library, one.evidence)
        for one in _running(found)
        if one.evidence is not None
    }
    judged = verdicts(ARRAY_TOLERANCE, dtype, shown)
    for one in _running(found):
        judgement = judged.get(f"{one.library} {one.mode}")
        if judgement is not None and judgement.complaint:
            one.end(Status.WRONG, f"After the timing: {judgement.complaint}")


def _rounded(value: float) -> float:
    """Return a number with four digits, all that a time is good for."""
    return float(f"{value:.4g}")
