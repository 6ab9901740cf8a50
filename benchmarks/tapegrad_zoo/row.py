"""Measure one row of the zoo: a program on one device, by all contenders side by side."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import median

from tapegrad.errors import ArgumentError
from tapegrad_bench.adapters import reason_absent
from tapegrad_bench.process import TooSlowError, Worker, WorkerError
from tapegrad_bench.results import Cell, Size, Status
from tapegrad_zoo.contenders import MODES
from tapegrad_zoo.measure import Measured, Session
from tapegrad_zoo.program import LIBRARIES, Cost, Entry

PATIENCE = 300.0
"""Seconds that one contender may take at most, compilation included."""

SETTINGS = {"TAPEGRAD_TF32": "1", "CUPY_TF32": "1"}
"""TensorFloat-32 is allowed everywhere, as it is by default in JAX."""

TOLERANCE = {"float64": 1e-6, "float32": 2e-3, "bfloat16": 5e-2}
"""The relative difference of first losses that is allowed at the size that is timed."""

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


def worker(device: str, threads: int) -> Worker:
    """Return a process that checks and times programs."""
    return Worker(device, threads, session=Session, settings=SETTINGS)


class Clock:
    """The time that a command has left.

    Each of the requests of a row has an equal share of the budget, so that any row fits into it,
    and a contender that stalls takes no time from the others.
    """

    def __init__(self, budget: float, requests: int) -> None:
        self._deadline = time.monotonic() + budget
        self._patience = min(PATIENCE, budget / requests)
        self.was_too_short = False
        """Whether the end of the budget, not a contender's patience, ended anything."""

    @property
    def left(self) -> float:
        return max(0.0, self._deadline - time.monotonic())

    def request(self, process: Worker, name: str, *arguments: object) -> object:
        """Ask a process for something within the time that is left."""
        patience = min(self._patience, self.left)
        try:
            return process.request(name, *arguments, timeout=patience)
        except TooSlowError:
            self.was_too_short = self.was_too_short or patience < self._patience
            raise


@dataclass(frozen=True)
class Contest:
    """The conditions of a row."""

    device: str
    threads: int
    contenders: Contenders
    seconds: float
    """How long the steps of one contender are timed."""

    def cells(self, entry: Entry, checker: Worker, clock: Clock) -> list[Cell]:
        """Check a program, time it, and return one cell per contender."""
        absent = {library: reason_absent(library) for library, _ in self.contenders}
        present = tuple(library for library, reason in absent.items() if reason is None)
        complaint = _complaint(entry, present, checker, clock)
        cells, found = [], {}
        for library, mode in self.contenders:
            reason = absent[library] or complaint
            if reason:  # a program that disagrees with its peers is never timed
                status = Status.ABSENT if absent[library] else Status.WRONG
                cells.append(self._cell(entry, library, mode, status, reason=reason))
                continue
            process = worker(self.device, self.threads)
            try:
                arguments = (entry.name, library, mode, self.seconds)
                measured = clock.request(process, "measure", *arguments)
                assert isinstance(measured, Measured)
                found[library, mode] = measured
                cells.append(self._timed(entry, library, mode, measured))
            except WorkerError as error:
                cells.append(self._cell(entry, library, mode, Status.FAILED, reason=str(error)))
            finally:
                process.stop()
        return _with_losses(_with_needs(cells, found), found)

    def _timed(self, entry: Entry, library: str, mode: str, measured: Measured) -> Cell:
        is_host = self.device == "cpu"
        return replace(
            self._cell(entry, library, mode, Status.OK, times=measured.times),
            compile_seconds=_rounded(measured.first_seconds),
            peak_host_bytes=measured.peak_bytes if is_host else None,
            peak_device_bytes=None if is_host else measured.peak_bytes,
        )

    def _cell(
        self,
        entry: Entry,
        library: str,
        mode: str,
        status: Status,
        reason: str = "",
        times: Sequence[float] = (),
    ) -> Cell:
        program = entry.program
        dims = program.sizes[self.device]
        label = ", ".join(f"{name} {value}" for name, value in dims.items())
        return Cell(
            workload=entry.name,
            size=Size(label, 0),
            dtype=program.dtypes[self.device],
            device=self.device,
            library=library,
            mode=mode,
            status=status,
            reason=reason,
            times=tuple(_rounded(value) for value in times),
        )


def _complaint(entry: Entry, present: tuple[str, ...], checker: Worker, clock: Clock) -> str:
    """Say how the versions of a program differ in float64, or return ""."""
    if len(present) < 2:
        return ""
    try:
        complaints = clock.request(checker, "check", entry.name, present)
    except WorkerError as error:
        return f"The check failed: {error}"
    assert isinstance(complaints, list)
    return "; ".join(complaints)


def _with_needs(cells: Sequence[Cell], found: Mapping[tuple[str, str], Measured]) -> list[Cell]:
    """Return the cells with the least that the step needs, which one contender tells for all."""
    needs: list[Cost] = [m.needed for m in found.values() if m.needed is not None]
    if not needs:
        return [*cells]
    moved, made = int(needs[0].bytes), int(needs[0].operations)
    return [replace(cell, bytes_needed=moved, flops_needed=made) for cell in cells]


def _with_losses(cells: Sequence[Cell], found: Mapping[tuple[str, str], Measured]) -> list[Cell]:
    """Return the cells with the error of the first loss; a wrong one has no times.

    The median over the libraries is taken for right, so that with three of them one that is wrong
    stands out.
    """
    losses = {key: m.loss for key, m in found.items() if m.loss is not None}
    by_library = {library: loss for (library, _), loss in reversed(losses.items())}
    if len(by_library) < 2:
        return [*cells]
    expected = median(by_library.values())
    checked = []
    for cell in cells:
        loss = losses.get((cell.library, cell.mode))
        if cell.status is Status.OK and loss is not None:
            error = abs(loss - expected) / max(abs(expected), 1e-6)
            cell = replace(cell, loss_error=_rounded(error))
            if not error <= TOLERANCE[cell.dtype]:
                reason = f"Its first loss is {loss:.6g}, that of the others {expected:.6g}."
                cell = replace(cell, status=Status.WRONG, reason=reason, times=())
        checked.append(cell)
    return checked


def _rounded(value: float) -> float:
    """Return a number with four digits, all that a time is good for."""
    return float(f"{value:.4g}")
