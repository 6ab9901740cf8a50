"""Run the zoo: measure the rows that a record lacks, and write the record after each.

A later command continues a record, so that a run may be done in parts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from tapegrad_bench.machine import Gpu, describe_machine, versions
from tapegrad_bench.process import Worker
from tapegrad_bench.provenance import current_commit, source_digest
from tapegrad_bench.results import Cell, Run, Status
from tapegrad_zoo.contenders import SETS
from tapegrad_zoo.program import Entry, entries
from tapegrad_zoo.record import Record, load, merged, place_of, save
from tapegrad_zoo.row import SETTINGS, Clock, Contest, Row, checker

CEILING_SECONDS = 120.0

Say = Callable[[str], None]


def shard(programs: Sequence[Entry], index: int, count: int) -> list[Entry]:
    """Return the programs of one shard of several, counted from 1.

    >>> shard([1, 2, 3, 4, 5], 2, 2)
    [2, 4]
    """
    return [*programs[index - 1 :: count]]


class Zoo:
    """A record, and what adds rows to it."""

    def __init__(self, path: Path, contest: Contest, remark: str = "") -> None:
        self._path, self._contest = path, contest
        self.record = _present(contest, remark)
        if path.exists():
            kept = load(path)
            both = merged(self.record, kept, str(path))
            run = replace(both.run, started=kept.run.started, commit=kept.run.commit)
            self.record = replace(both, run=run, remark=remark or kept.remark)

    def add(self, path: Path) -> None:
        """Take over the rows of another record."""
        self.record = merged(self.record, load(path), str(path))
        save(self.record, self._path)

    def missing(self, programs: Iterable[Entry]) -> list[Entry]:
        """Return the programs without a row that has all contenders."""
        names = [f"{library} {mode}" for library, mode in self._contest.contenders]
        return [entry for entry in programs if not self.record.has(entry.name, names)]

    def run(self, programs: Iterable[Entry], budget: float, say: Say = print) -> None:
        """Add the rows that are missing until the budget is spent.

        A row that the end of the budget cuts is left to the next command, where it comes first.
        """
        with TemporaryDirectory(prefix="tapegrad-zoo-") as caches:
            self._run(replace(self._contest, caches=caches), self.missing(programs), budget, say)

    def _run(self, contest: Contest, missing: Sequence[Entry], budget: float, say: Say) -> None:
        count = contest.side_by_side
        clock = Clock(budget, 2 + len(contest.contenders), contest.patience)
        checkers = [checker(contest.device, contest.threads) for _ in range(count)]
        try:
            for first in range(0, len(missing), count):
                if not clock.left:
                    return
                group = missing[first : first + count]
                rows = [Row(contest, entry, clock.for_row()) for entry in group]
                self._add(rows, checkers, say, keep_cut_rows=first == 0)
        finally:
            _all_at_once(_stop, checkers)

    def _add(
        self, rows: Sequence[Row], checkers: Sequence[Worker], say: Say, *, keep_cut_rows: bool
    ) -> None:
        """Prepare rows side by side, time them one by one, and add them to the record.

        Nothing else runs while steps are timed. What ran out of memory is tried again when the
        other processes of its row have ended.
        """

        def add(row: Row) -> None:
            cells = row.cells()
            if row.clock.was_too_short and not keep_cut_rows:
                return
            self.record = self.record.with_row(row.entry.name, place_of(row.entry), cells)
            save(self.record, self._path)
            say(f"{row.entry.family}/{row.entry.name}: {_words(cells)}")

        for row in rows:
            self._measure_ceiling(row.entry.program.dtypes[self._contest.device])
        try:
            _all_at_once(Row.prepare, rows, checkers)
            for row in rows:
                row.measure()
                row.finish()
                if row.exhausted:
                    _all_at_once(_stop, checkers)
                    row.try_again(checkers[0])
                add(row)
        finally:
            _all_at_once(_stop, rows)

    def _measure_ceiling(self, dtype: str) -> None:
        """Measure what the device reaches, unless the record has it for this dtype."""
        device, threads = self._contest.device, self._contest.threads
        if dtype not in {ceiling.dtype for ceiling in self.record.run.ceilings}:
            process = Worker(device, threads, settings=SETTINGS)
            try:
                ceiling = process.request("ceiling", dtype, timeout=CEILING_SECONDS)
            finally:
                process.stop()
            self.record = self.record.with_ceiling(ceiling)


def _stop(what: Worker | Row) -> None:
    what.stop()


def _all_at_once(action: Callable[..., None], *arguments: Sequence[Any]) -> None:
    """Call a function on each of some objects, each in a thread."""
    with ThreadPoolExecutor(max(1, len(arguments[0]))) as pool:
        list(pool.map(action, *arguments))


def _present(contest: Contest, remark: str) -> Record:
    """Return a record without rows, of the present sources, machine and versions."""
    run = Run(
        started=datetime.now(UTC).isoformat(timespec="seconds"),
        machine=describe_machine(contest.threads, _gpu(contest.device)),
        versions=versions(),
        cells=(),
        commit=current_commit(),
        digest=source_digest(more=["tapegrad_zoo"]),
        complete=False,
        sets=SETS,
    )
    size = len([*entries()])
    return Record(run, contest.device, remark=remark, batches=contest.batches, size=size)


def _gpu(device: str) -> Gpu | None:
    if device == "cpu":
        return None
    process = Worker(device, None)
    try:
        gpu: Gpu | None = process.request("gpu", timeout=CEILING_SECONDS)
        return gpu
    finally:
        process.stop()


def _words(cells: Sequence[Cell]) -> str:
    """Return the cells in a line."""
    reasons = {cell.reason for cell in cells}
    ended = {cell.status for cell in cells}
    if len(reasons) == 1 and ended in ({Status.WRONG}, {Status.FAILED}):
        return f"not timed. {reasons.pop()}"
    return ", ".join(
        f"{cell.contender} {cell.status.value}"
        if cell.median is None
        else f"{cell.contender} {1e3 * cell.median:.3g} ms"
        for cell in cells
    )
