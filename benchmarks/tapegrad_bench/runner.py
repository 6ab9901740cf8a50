"""Runs a plan within its budget and keeps whatever was measured."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime

from tapegrad_bench import footprint
from tapegrad_bench.adapters import reason_absent, reason_without
from tapegrad_bench.contest import LEAST_REPEATS, MOST_REPEATS, Contest, Entry
from tapegrad_bench.machine import Gpu, describe_machine, versions
from tapegrad_bench.options import Group, Options
from tapegrad_bench.process import NotSupportedError, Worker, WorkerError
from tapegrad_bench.progress import Progress
from tapegrad_bench.provenance import current_commit, source_digest
from tapegrad_bench.reference import Reference, reference
from tapegrad_bench.results import Ceiling, Cell, Run, Status
from tapegrad_bench.workload import SETS, Kind, Problem

CEILING_SECONDS = 60.0
EXTRA_PART = 0.15
"""Of the budget, for groups that are no contest but show how time grows."""

LOAD_SECONDS = 120.0
GIVEN_UP = "It was given up because an earlier row took it too long. Give a larger --budget."
INTERRUPTED = "The run was interrupted before this was measured."
OUT_OF_BUDGET = "The budget ran out before this was measured. Give a larger --budget."


class Runner:
    """One run of the benchmark."""

    def __init__(self, options: Options, groups: Sequence[Group], progress: Progress) -> None:
        self._options, self._groups, self._progress = options, groups, progress
        self._workers: dict[tuple[str, str], Worker] = {}
        # Its losses are no contest, so it may use every core.
        self._plain = Worker("cpu", None)
        self._references: dict[tuple[str, str], Reference] = {}
        self._barred: dict[tuple[str, str], tuple[Status, str]] = {}
        """Contenders that cannot or shall not run on a device, with the reason."""
        self._cells: list[Cell] = []
        self._written = 0
        """How many groups have their cells."""
        self._ceilings: list[Ceiling] = []
        self._gpu: Gpu | None = None
        self.was_interrupted = False

    def run(self) -> Run:
        """Measure until all is done, the budget is spent, or somebody presses Ctrl-C."""
        started = datetime.now(UTC).isoformat(timespec="seconds")
        commit, digest = current_commit(), source_digest()
        complete = True
        try:
            self._load_libraries()
            self._measure_ceilings()
            complete = self._run_groups(time.monotonic() + self._options.budget)
        except KeyboardInterrupt:
            complete, self.was_interrupted = False, True
            for group in self._groups[self._written :]:
                self._write(self._contest(group).cells(INTERRUPTED))
        finally:
            for worker in (*self._workers.values(), self._plain):
                worker.stop()
        return Run(
            started=started,
            machine=describe_machine(self._options.threads, self._gpu),
            versions=versions(),
            cells=tuple(self._cells),
            ceilings=tuple(self._ceilings),
            complete=complete,
            commit=commit,
            digest=digest,
            sets=SETS,
        )

    def _run_groups(self, deadline: float) -> bool:
        """Run one group after the other, each with an equal part of what is left; say if all ran.

        Footprints take one look at least: a few seconds in all, and no library is prepared. Extras
        have a part of the budget to themselves, and are left out when that is spent.
        """
        complete = True
        kept_back = EXTRA_PART * self._options.budget if self._groups[-1].is_extra else 0.0
        deadline -= kept_back
        for group in self._groups:
            if group.is_extra and kept_back:
                # The rows before may have taken longer than they should: preparing takes its time.
                deadline, kept_back = time.monotonic() + kept_back, 0.0
            left = deadline - time.monotonic()
            if left > 0 or group.workload.kind is Kind.FOOTPRINT:
                self._run_group(group, left / max(1, self._like(group)))
            elif group.is_extra:
                self._write([])
            else:
                complete = complete and reason_without(group.device) is not None
                self._write(self._contest(group).cells(OUT_OF_BUDGET))
            self._progress.advance()
        return complete

    def _like(self, group: Group) -> int:
        """How many groups are still to run, this one included: extras, or all others."""
        waiting = [g for g in self._groups[self._written :] if g.is_extra == group.is_extra]
        return sum(reason_without(g.device) is None for g in waiting)

    def _run_group(self, group: Group, seconds: float) -> None:
        if group.workload.kind is Kind.FOOTPRINT:
            self._write(weigh(group, seconds, self._progress))
            return
        contest = self._contest(group)
        try:
            contest.run(seconds, self._options.count_launches)
        except KeyboardInterrupt:
            self._write(contest.cells(INTERRUPTED))
            raise
        cells = contest.cells(OUT_OF_BUDGET)
        self._write([c for c in cells if not group.is_extra or c.status is Status.OK])
        self._clean_up(contest, group)

    def _write(self, cells: Sequence[Cell]) -> None:
        self._cells += cells
        self._written += 1

    def _contest(self, group: Group) -> Contest:
        missing = reason_without(group.device)
        if missing is not None:
            # One line says it; the peers would only repeat it.
            ours = tuple(c for c in group.contenders if c.library == "tapegrad")
            group = replace(group, contenders=ours)
        contest = Contest(
            group,
            {c.process: self._worker(c.process, group.device) for c in group.contenders},
            lambda: self._reference(group),
            self._plain,
            self._progress,
        )
        for entry in contest.entries:
            self._exclude(entry, group.device, missing)
        return contest

    def _exclude(self, entry: Entry, device: str, missing: str | None) -> None:
        absent = missing or reason_absent(entry.contender.library)
        if absent is not None:
            entry.end(Status.ABSENT, absent)
        elif (entry.contender.name, device) in self._barred:
            entry.end(*self._barred[entry.contender.name, device])

    def _clean_up(self, contest: Contest, group: Group) -> None:
        for entry in contest.entries:
            if entry.is_too_slow:
                self._barred[entry.contender.name, group.device] = (Status.SKIPPED, GIVEN_UP)
        for (_, device), worker in self._workers.items():
            if device != group.device:
                continue
            if device == "cuda" and self._options.count_launches:
                # What counted the kernels would slow down what comes next.
                worker.stop()
                worker.start()
            elif worker.is_alive:
                try:
                    worker.request("release", timeout=60)
                except WorkerError:
                    worker.stop()

    def _load_libraries(self) -> None:
        """Start all processes, then wait until each has imported its library."""
        wanted = {
            (contender, group.device): self._worker(contender.process, group.device)
            for group in self._groups
            if group.workload.kind is not Kind.FOOTPRINT and reason_without(group.device) is None
            for contender in group.contenders
            if reason_absent(contender.library) is None
        }
        for worker in (*wanted.values(), self._plain):
            worker.start()
        for (contender, device), worker in wanted.items():
            self._progress.say(f"{device}: loading {contender.name}")
            try:
                worker.request("load", contender, timeout=LOAD_SECONDS)
            except NotSupportedError as error:
                self._barred[contender.name, device] = (Status.ABSENT, str(error))
            except WorkerError as error:
                self._barred[contender.name, device] = (Status.FAILED, str(error))

    def _worker(self, process: str, device: str) -> Worker:
        key = (process, device)
        if key not in self._workers:
            same = {
                contender
                for group in self._groups
                for contender in group.contenders
                if group.device == device and contender.process == process
            }
            preload = [c for c in same if reason_absent(c.library) is None]
            self._workers[key] = Worker(device, self._options.threads, preload)
        return self._workers[key]

    def _reference(self, group: Group) -> Reference:
        key = (group.workload.name, group.dtype)
        if key not in self._references:
            problem = Problem(group.workload, group.workload.check, group.dtype)
            self._references[key] = reference(problem)
        return self._references[key]

    def _measure_ceilings(self) -> None:
        """Copy and multiply on each device that is here, in each dtype of the plan."""
        wanted = dict.fromkeys(
            (group.device, group.dtype)
            for group in self._groups
            if group.workload.kind is not Kind.FOOTPRINT and reason_without(group.device) is None
        )
        for device, dtype in wanted:
            self._progress.say(f"{device}: measuring what it reaches at most in {dtype}")
            worker = self._worker("tapegrad", device)
            try:
                ceiling = worker.request("ceiling", dtype, timeout=CEILING_SECONDS)
                if device == "cuda":
                    self._gpu = worker.request("gpu", timeout=CEILING_SECONDS)
            except WorkerError as error:
                self._progress.say(f"{device}: no ceiling in {dtype}: {error}")
                continue
            self._ceilings.append(ceiling)


def weigh(group: Group, seconds: float, progress: Progress) -> list[Cell]:
    """Measure imports (in turns, as often as time allows) or installed sizes."""
    progress.say(group.workload.name)
    is_import = group.workload.name == "import"
    entries = [Entry(contender) for contender in group.contenders]
    for entry in entries:
        absent = reason_absent(entry.contender.library)
        if absent is not None:
            entry.end(Status.ABSENT, absent)
    deadline = time.monotonic() + seconds
    measure = footprint.import_seconds if is_import else footprint.installed_megabytes
    for turn in range(MOST_REPEATS if is_import else 1):
        if turn and time.monotonic() > deadline:
            break
        for entry in entries:
            if entry.status is Status.OK and (turn < LEAST_REPEATS or time.monotonic() < deadline):
                progress.detail(f"{group.workload.name}: {entry.contender.library}")
                _weigh_once(entry, measure)
    return [entry.cell(group, unit="s" if is_import else "MB") for entry in entries]


def _weigh_once(entry: Entry, measure: Callable[[str], float]) -> None:
    try:
        entry.times.append(measure(entry.contender.library))
    except (RuntimeError, TimeoutError, OSError) as error:
        entry.end(Status.FAILED, str(error))
