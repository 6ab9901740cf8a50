"""One group of contenders: prepared and checked, timed in turns, and written down as cells."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

from tapegrad_bench.adapters import Contender
from tapegrad_bench.evidence import Evidence, compare, verdicts
from tapegrad_bench.judge import Checked, Judgement, judge, judge_loss
from tapegrad_bench.options import Group
from tapegrad_bench.process import NotSupportedError, TooSlowError, Worker, WorkerError
from tapegrad_bench.progress import Progress
from tapegrad_bench.reference import Reference
from tapegrad_bench.results import Cell, Status
from tapegrad_bench.timing import steps_per_repeat
from tapegrad_bench.worker import Built
from tapegrad_bench.workload import Kind

LEAST_REPEATS, MOST_REPEATS = 3, 40
CORES_PER_PREPARATION = 4
"""Contenders are prepared at the same time where there are enough cores; never timed so."""

PATIENCE = {"cpu": 20.0, "cuda": 120.0}
"""Seconds that the preparation of one contender may take, however small the budget."""

SHARE_OF_PREPARATION = 0.75
"""Of a group's seconds, for those that are slow to compile."""


@dataclass
class Entry:
    """What is known of one contender in one group so far."""

    contender: Contender
    status: Status = Status.OK
    reason: str = ""
    built: Built | None = None
    generation: int = 0
    """Of the process that built it."""
    error: float | None = None
    is_too_slow: bool = False
    """Whether it was given up before it was ready."""
    times: list[float] = field(default_factory=list)
    device_times: list[float] = field(default_factory=list)
    launches: float | None = None
    transfers: float | None = None

    @property
    def is_running(self) -> bool:
        """Whether it can be timed."""
        return self.status is Status.OK and self.built is not None

    def end(self, status: Status, reason: str) -> None:
        """Take it out of the contest; what was measured before does not count any more."""
        self.status, self.reason = status, reason

    def take(self, judgement: Judgement, when: str = "") -> None:
        """Note the error of a result; a wrong one ends the contest for it."""
        self.error = max(self.error or 0.0, judgement.error)
        if judgement.complaint:
            self.end(Status.WRONG, when + judgement.complaint)

    def cell(self, group: Group, unfinished: str = "", **measured: Any) -> Cell:
        """Return its cell of the table; what was not timed yet has the reason `unfinished`."""
        status, reason = self.status, self.reason
        if unfinished and status is Status.OK and not self.times:
            status, reason = Status.SKIPPED, unfinished
        return Cell(
            workload=group.workload.name,
            size=group.workload.size(group.dims),
            dtype=group.dtype,
            device=group.device,
            library=self.contender.library,
            mode=self.contender.mode,
            status=status,
            reason=reason,
            times=tuple(self.times) if status is Status.OK else (),
            device_times=tuple(self.device_times) if status is Status.OK else (),
            **measured,
        )


def _by_process(entries: Sequence[Entry]) -> dict[str, list[Entry]]:
    found: dict[str, list[Entry]] = {}
    for entry in entries:
        found.setdefault(entry.contender.process, []).append(entry)
    return found


class Contest:
    """Runs one group. `cells` can be asked for at any time, also after an interruption."""

    def __init__(
        self,
        group: Group,
        workers: Mapping[str, Worker],
        reference: Callable[[], Reference],
        plain: Worker,
        progress: Progress,
    ) -> None:
        self._group, self._workers, self._plain, self._progress = group, workers, plain, progress
        self._reference = reference
        self._lock = threading.Lock()
        self._was_stopped = False
        self._known: Evidence | None = None
        """The right results at the size that is timed, where they can be computed."""
        self.entries = [Entry(contender) for contender in group.contenders]

    def run(self, seconds: float, count_launches: bool) -> None:
        """Prepare, time and count within `seconds`, as far as that can be kept."""
        start = time.monotonic()
        self._prepare(start + SHARE_OF_PREPARATION * seconds)
        self._take_turns(start + seconds)
        self._check_again()
        if count_launches and self._group.device == "cuda":
            self._count()

    # Preparation

    def _prepare(self, deadline: float) -> None:
        entries = [entry for entry in self.entries if entry.status is Status.OK]
        # The slow ones last: they get what time the others leave.
        entries.sort(key=lambda entry: entry.contender.is_slow_to_compile)
        by_process = _by_process(entries)
        at_once = max(1, (os.cpu_count() or 1) // CORES_PER_PREPARATION)
        with ThreadPoolExecutor(at_once) as pool, ThreadPoolExecutor(1) as beside:
            expected = beside.submit(self._plain_loss, deadline)
            known = beside.submit(self._timed_reference, deadline)
            waiting = [
                pool.submit(self._prepare_all, same, deadline) for same in by_process.values()
            ]
            try:
                for future in waiting:
                    future.result()
                self._judge_losses(expected.result())
                self._known = known.result()
                self._judge_evidence()
            except BaseException:
                # Ctrl-C: the threads wait for workers, so those have to go before the pool can.
                self._was_stopped = True
                pool.shutdown(wait=False, cancel_futures=True)
                for worker in (*self._workers.values(), self._plain):
                    worker.stop()
                raise

    def _prepare_all(self, entries: Sequence[Entry], deadline: float) -> None:
        """Prepare the contenders of one process one after the other."""
        for entry in entries:
            if not self._was_stopped:
                self._prepare_one(entry, deadline)

    def _prepare_one(self, entry: Entry, deadline: float) -> None:
        group, contender = self._group, entry.contender
        worker = self._workers[contender.process]
        end = deadline
        if not contender.is_slow_to_compile:
            end = max(deadline, time.monotonic() + PATIENCE[group.device])

        def ask(name: str, *arguments: object) -> object:
            left = max(1.0, end - time.monotonic())
            return worker.request(name, contender, *arguments, timeout=left)

        self._progress.say(f"{self.title}: preparing {contender.name}")
        try:
            ask("load")
            checked = ask("check", group.workload, group.dtype)
            assert isinstance(checked, Checked)
            judgement = self._judge(checked)
            entry.error = judgement.error
            if judgement.complaint:
                entry.end(Status.WRONG, judgement.complaint)
                return
            built = ask("build", group.workload, group.dims, group.dtype)
            assert isinstance(built, Built)
            entry.built, entry.generation = built, worker.generation
        except NotSupportedError as error:
            entry.end(Status.SKIPPED, str(error))
        except TooSlowError as error:
            entry.is_too_slow = True
            entry.end(Status.SKIPPED, f"It was not ready in time: {error}. Give a larger --budget.")
        except WorkerError as error:
            if not self._was_stopped:
                entry.end(Status.FAILED, str(error))

    def _judge(self, checked: Checked) -> Judgement:
        group = self._group
        with self._lock:  # the reference is computed once, by whoever comes first
            known = self._reference()
        return judge(group.workload, group.dtype, checked, known)

    def _plain_loss(self, deadline: float) -> float | None:
        """NumPy's loss at the size that is timed; None where the step has no loss."""
        if self._group.workload.kind not in (Kind.GRADIENT, Kind.TRAINING):
            return None
        found = self._ask_plain("plain_loss", deadline)
        return None if found is None else float(found)

    def _timed_reference(self, deadline: float) -> Evidence | None:
        """NumPy's results in float64 at the size that is timed; None where that is too large."""
        found = self._ask_plain("timed_reference", deadline)
        assert found is None or isinstance(found, Evidence)
        return found

    def _ask_plain(self, name: str, deadline: float) -> Any:
        group = self._group
        left = max(PATIENCE[group.device], deadline - time.monotonic())
        try:
            return self._plain.request(name, group.workload, group.dims, group.dtype, timeout=left)
        except WorkerError:
            return None

    def _judge_losses(self, expected: float | None) -> None:
        label = self._group.workload.size(self._group.dims).label
        for entry in self.entries:
            if expected is None or entry.built is None or entry.built.loss is None:
                continue
            entry.take(judge_loss(self._group.dtype, entry.built.loss, expected, label))

    # What the step that is timed computed

    def _judge_evidence(self) -> None:
        """Compare the first steps at the timed size with NumPy's, or else with each other."""
        running = {e.contender.name: e for e in self.entries if e.is_running and e.built}
        if self._known is not None:
            for entry in running.values():
                assert entry.built is not None
                entry.take(self._compare(entry.built.evidence, self._known), "At this size: ")
            return
        found = {n: (e.contender.library, e.built.evidence) for n, e in running.items() if e.built}
        tolerance, dtype = self._group.workload.tolerance, self._group.dtype
        for name, judgement in verdicts(tolerance, dtype, found).items():
            running[name].take(judgement, "At this size: ")

    def _compare(self, found: Evidence, known: Evidence) -> Judgement:
        return compare(self._group.workload.tolerance, self._group.dtype, found, known)

    def _check_again(self) -> None:
        """Run the first steps again, by the step that was timed: it may have become wrong.

        Where the right results are not known, those from before are: they agreed with the peers.
        """
        for entry in self.entries:
            if not entry.is_running or not entry.times:
                continue
            if self._is_gone(entry):
                entry.end(Status.FAILED, "Its process ended before it was checked again.")
                continue
            assert entry.built is not None
            try:
                found = self._ask(entry, "check_again")
            except WorkerError as error:
                entry.end(Status.FAILED, str(error))
                continue
            known = self._known or entry.built.evidence
            entry.take(self._compare(found, known), "After it was timed: ")

    # Timing

    def _take_turns(self, deadline: float) -> None:
        for turn in range(MOST_REPEATS):
            running = [entry for entry in self.entries if entry.is_running]
            if not running or (turn >= LEAST_REPEATS and time.monotonic() > deadline):
                return
            self._progress.detail(f"{self.title}: repeat {turn + 1}")
            for entry in running:
                self._time_once(entry)

    def _time_once(self, entry: Entry) -> None:
        if self._is_gone(entry):
            # Another mode of the same library took the process along.
            self._prepare_one(entry, time.monotonic() + PATIENCE[self._group.device])
            if not entry.is_running:
                return
        assert entry.built is not None
        count = steps_per_repeat(entry.built.step_seconds, self._group.device)
        try:
            seconds, on_device = self._ask(entry, "measure", count)
        except WorkerError as error:
            entry.end(Status.FAILED, str(error))
            return
        entry.times.append(seconds)
        if on_device is not None:
            entry.device_times.append(on_device)

    def _is_gone(self, entry: Entry) -> bool:
        """Whether the process that built the step is another one now."""
        return entry.generation != self._workers[entry.contender.process].generation

    def _count(self) -> None:
        self._progress.say(f"{self.title}: counting kernels")
        running = _by_process([entry for entry in self.entries if entry.is_running])
        with ThreadPoolExecutor(max(1, len(running))) as pool:
            list(pool.map(self._count_all, running.values()))

    def _count_all(self, entries: Sequence[Entry]) -> None:
        for entry in entries:
            try:
                entry.launches, entry.transfers = self._ask(entry, "count")
            except WorkerError:
                return  # the times stand without it

    def _ask(self, entry: Entry, name: str, *arguments: object) -> Any:
        worker = self._workers[entry.contender.process]
        return worker.request(name, entry.contender, *arguments, timeout=300)

    @property
    def title(self) -> str:
        """The group in a few words."""
        group = self._group
        return f"{group.device} {group.workload.name} ({group.workload.size(group.dims).label})"

    def cells(self, unfinished: str) -> list[Cell]:
        """Return what is known now; entries without a time get the reason `unfinished`."""
        return [self._cell(entry, unfinished) for entry in self.entries]

    def _cell(self, entry: Entry, unfinished: str) -> Cell:
        group, built = self._group, entry.built
        cost = group.workload.cost(group.dims, group.dtype)
        return entry.cell(
            group,
            unfinished,
            warmup=built.warmup if built else 0,
            compile_seconds=built.compile_seconds if built else None,
            peak_host_bytes=built.peak_host_bytes if built else None,
            peak_device_bytes=built.peak_device_bytes if built else None,
            launches=entry.launches,
            transfers=entry.transfers,
            bytes_needed=cost.bytes,
            flops_needed=cost.flops,
            loss_error=entry.error,
        )
