"""Stand-ins for the processes of the zoo, which answer from tables."""

from __future__ import annotations

import numpy as np

from tapegrad_bench.evidence import Evidence, digest
from tapegrad_bench.process import TooSlowError
from tapegrad_bench.results import Ceiling
from tapegrad_zoo import row, runner
from tapegrad_zoo.measure import Ready, Usage
from tapegrad_zoo.program import Cost, entries
from tapegrad_zoo.row import Contest
from tapegrad_zoo.runner import Zoo

ENTRIES = {entry.name: entry for entry in entries()}
PROGRAMS = [entry for entry in ENTRIES.values() if not entry.spelling]
MODES = [("tapegrad", "function"), ("jax", "jit"), ("torch", "eager"), ("torch", "compile")]
NEEDED = Cost(bytes=2e6, operations=4e6)


class Process:
    """Stands in for all processes: answers from tables of seconds, losses and results.

    An exception in a table is raised; those of `once` are raised at the first request.
    """

    def __init__(self, times=None, losses=None, complaints=(), results=None, check=None, once=None):
        self.times, self.losses, self.complaints = times or {}, losses or {}, list(complaints)
        self.results, self.check, self.once = results or {}, check, dict(once or {})
        self.asked, self.timeouts = [], []

    def answer(self, contender, name, *arguments, timeout=None):
        self.asked.append((name, *(arguments or contender)))
        self.timeouts.append(timeout)
        key = name if name == "check" else contender[:3]
        if key in self.once:
            raise self.once.pop(key)
        if name == "check":
            return given(self.check) or self.complaints
        if name == "ceiling":
            return Ceiling("cpu", "float32", copy_tb_per_s=0.01, matmul_tflop_per_s=0.05)
        program, library, mode, *_ = contender
        keys = ((program, library, mode), (program, library), library)
        seconds = given(next((self.times[key] for key in keys if key in self.times), 1.0))
        if name == "prepare":
            return Ready(0.5, self.losses.get(library, 1.0))
        if name == "evidence":
            result = self.results.get((program, library), self.results.get(library, 1.0))
            return Evidence(({"the result": digest(np.array([given(result), 2.0]))},))
        return (
            seconds if name == "turn" else Usage(2**20, NEEDED if library == "tapegrad" else None)
        )


def given(value):
    """Return an entry of a table, or raise it."""
    if isinstance(value, Exception):
        raise value
    return value


class Stub:
    """One process."""

    def __init__(self, process):
        self.process, self.contender = process, ()

    def start(self):
        pass

    def request(self, name, *arguments, timeout=None):
        if name == "prepare":
            self.contender = arguments
        return self.process.answer(self.contender, name, *arguments, timeout=timeout)

    def stop(self):
        self.process.asked.append(("stop", *self.contender[:3]))


class SlowProcess(Process):
    """Has one contender that needs more time than it is given, by a clock that the test turns."""

    def __init__(self, now, slow):
        super().__init__()
        self.now, self.slow = now, slow

    def answer(self, contender, name, *arguments, timeout=None):
        if name == "prepare" and arguments[:2] == self.slow:
            self.now[0] += timeout
            raise TooSlowError(f"no answer within {timeout:.0f} seconds")
        self.now[0] += 5.0 if name == "prepare" else 0.0
        return super().answer(contender, name, *arguments, timeout=timeout)


def make_zoo(monkeypatch, path, process, modes=MODES, side_by_side=1, **patience):
    """Return a zoo whose processes answer as `process` does."""
    monkeypatch.setattr(row, "worker", lambda device, threads, caches: Stub(process))
    monkeypatch.setattr(row, "reason_absent", lambda library: None)
    monkeypatch.setattr(runner, "checker", lambda device, threads: Stub(process))
    monkeypatch.setattr(runner, "Worker", lambda *args, **settings: Stub(process))
    monkeypatch.setattr(runner, "versions", lambda: {"python": "3.12"})
    monkeypatch.setattr(runner, "current_commit", lambda: "abc123")
    monkeypatch.setattr(runner, "source_digest", lambda more: "0" * 64)
    return Zoo(path, Contest("cpu", 1, modes, 0.1, side_by_side, **patience))
