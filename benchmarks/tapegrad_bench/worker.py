"""The process in which one library runs: it answers the runner's requests one after the other.

A library that crashes takes only its own process along, and none can take memory or threads from
another one.
"""

from __future__ import annotations

import gc
import os
import signal
import sys
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Any

from tapegrad_bench import ceilings, counters, machine, timing
from tapegrad_bench.adapters import Contender, load
from tapegrad_bench.adapters.library import Library, Prepared, UnsupportedError
from tapegrad_bench.evidence import Evidence, again, evidence_of, reference_evidence
from tapegrad_bench.judge import Checked, checked
from tapegrad_bench.reference import CHECKED_STEPS, plain_loss
from tapegrad_bench.results import Ceiling
from tapegrad_bench.workload import Dims, Kind, Problem, Workload


@dataclass(frozen=True)
class Built:
    """What is known of a step before it is timed."""

    loss: float | None
    """At the first step, where the step gives one."""
    compile_seconds: float
    step_seconds: float
    warmup: int
    peak_host_bytes: int | None
    peak_device_bytes: int | None
    evidence: Evidence
    """Of the first steps."""


class Session:
    """The requests that a worker answers; each public method is one."""

    def __init__(self, device: str) -> None:
        self._device = device
        self._libraries: dict[str, Library] = {}
        self._prepared: dict[str, tuple[Prepared, Problem]] = {}
        self._problem: Problem | None = None

    def load(self, contender: Contender) -> str:
        """Import the library and return its version."""
        if contender.module not in self._libraries:
            self._libraries[contender.module] = load(contender, self._device)
        return self._libraries[contender.module].version

    def check(self, contender: Contender, workload: Workload, dtype: str) -> Checked:
        """Run the step at the small size."""
        problem = Problem(workload, workload.check, dtype)
        prepared = self._libraries[contender.module].prepare(contender.mode, problem)
        return checked(prepared)

    def build(self, contender: Contender, workload: Workload, dims: Dims, dtype: str) -> Built:
        """Make the step at the size that is timed, and warm it up."""
        library = self._libraries[contender.module]
        problem = self._shared_problem(workload, dims, dtype)
        gc.collect()
        host, device = counters.host_bytes("VmRSS"), library.allocated()
        prepared = library.prepare(contender.mode, problem)
        first, result = timing.first_step(library, prepared)
        results = [result, *(prepared.step() for _ in range(1, CHECKED_STEPS))]
        loss = self._loss(workload, prepared, result)
        evidence = evidence_of(prepared, problem, results)
        del result, results
        steps, seconds = timing.warm_up(library, prepared)
        self._prepared[contender.name] = prepared, problem
        peaks: list[int | None] = []

        def run() -> None:
            library.synchronize(prepared.step())

        host_peak = counters.host_peak_of(lambda: peaks.append(library.peak_of(run)))
        return Built(
            loss=loss,
            compile_seconds=max(0.0, first - seconds),
            step_seconds=seconds,
            warmup=CHECKED_STEPS + steps,
            peak_host_bytes=_beyond(host_peak, host),
            peak_device_bytes=_beyond(peaks[0], device),
            evidence=evidence,
        )

    def _shared_problem(self, workload: Workload, dims: Dims, dtype: str) -> Problem:
        """Draw the data once for all modes of a library."""
        problem = Problem(workload, dims, dtype)
        if self._problem is None or self._problem.key != problem.key:
            self._problem = problem
        return self._problem

    def _loss(self, workload: Workload, prepared: Prepared, result: Any) -> float | None:
        if workload.kind not in (Kind.GRADIENT, Kind.TRAINING):
            return None
        return float(prepared.fetch((result[0], []))[0])

    def measure(self, contender: Contender, count: int) -> tuple[float, float | None]:
        """Return the seconds per step on the host's clock, and between the device's events."""
        library, (prepared, _) = self._libraries[contender.module], self._prepared[contender.name]
        return timing.time_turn(library, prepared, count)

    def check_again(self, contender: Contender) -> Evidence:
        """Run the first steps again, by the step that was timed."""
        return again(*self._prepared[contender.name])

    def count(self, contender: Contender) -> tuple[float | None, float | None]:
        """Return kernels and copies per step; afterwards this process should time no more."""
        library, step = self._libraries[contender.module], self._prepared[contender.name][0].step
        counted = counters.count_kernels(step, library.synchronize)
        return counted or (None, library.transfers_of(step))

    def release(self) -> None:
        """Forget all steps and their data."""
        self._prepared.clear()
        self._problem = None
        for library in self._libraries.values():
            library.release()
        gc.collect()

    def plain_loss(self, workload: Workload, dims: Dims, dtype: str) -> float:
        """Return NumPy's loss at the size that is timed, in single precision."""
        problem = Problem(workload, dims, dtype)
        return float(plain_loss(problem, problem.params, problem.batch))

    def timed_reference(self, workload: Workload, dims: Dims, dtype: str) -> Evidence | None:
        """Return NumPy's results at the size that is timed, in double precision."""
        return reference_evidence(Problem(workload, dims, dtype))

    def ceiling(self, dtype: str) -> Ceiling:
        """Measure what this device reaches."""
        return ceilings.measure(self._device, dtype)

    def gpu(self) -> machine.Gpu | None:
        """Describe the CUDA device."""
        return machine.describe_gpu()


def _beyond(peak: int | None, before: int | None) -> int | None:
    return None if peak is None or before is None else max(0, peak - before)


def serve(
    connection: Connection,
    log: str,
    device: str,
    cores: tuple[int, ...],
    preload: tuple[Contender, ...],
    make_session: Callable[[str], Any] = Session,
) -> None:
    """Import the libraries of `preload`, then answer requests until the runner hangs up."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the runner's to handle
    _write_to(log)
    if cores:
        os.sched_setaffinity(0, cores)
    session = make_session(device)
    for contender in preload:
        _answer(session.load, (contender,))  # what goes wrong is told when somebody asks for it
    while True:
        try:
            name, arguments = connection.recv()
        except (EOFError, OSError):
            return
        connection.send(_answer(getattr(session, name), arguments))


def _answer(method: Callable[..., Any], arguments: tuple[Any, ...]) -> tuple[str, Any]:
    try:
        return "done", method(*arguments)
    except UnsupportedError as error:
        return "unsupported", str(error)
    except Exception as error:
        traceback.print_exc()
        if _is_exhaustion(error):
            return "exhausted", f"It ran out of memory: {_first_line(error)}"
        return "failed", f"{type(error).__name__}: {_first_line(error)}"


def _is_exhaustion(error: Exception) -> bool:
    """Say whether an error means that there was not enough memory."""
    # Words of PyTorch and CuPy, of JAX, and of cuBLAS and cuDNN when they find no workspace.
    words = ("out of memory", "resource_exhausted", "_alloc_failed")
    return isinstance(error, MemoryError) or any([word in str(error).lower() for word in words])


def _first_line(error: Exception) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[0][:300] if lines else "no message"


def _write_to(log: str) -> None:
    """Send what libraries print, also from C, to a file: the terminal has a progress bar."""
    descriptor = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    os.dup2(descriptor, 1)
    os.dup2(descriptor, 2)
