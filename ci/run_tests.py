"""Run test files for a record: one process per file, with its sources, counts and log written down.

Only whole files run. An argument of pytest that could change which tests run is refused.
"""

from __future__ import annotations

import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple
from zlib import crc32

from evidence import Entry, Run, Tree, hash_of, log_hash, read_tree

RECORDING = Path(__file__).resolve().parent / "recording"
HARMLESS = re.compile(r"-q+|-v+|-r[a-zA-Z]+|--tb=\w+|--durations(-min)?=[\d.]+|--color=\w+|-s")
"""The only arguments that pytest gets from the caller: they change what is printed."""

WORKER_SECONDS = 60
"""A file whose tests take longer than this is given a second process, and so on."""

MOST_WORKERS = 4
KEPT = ("TAPEGRAD_CACHE",)
"""Variables of tapegrad that tests inherit from the caller."""

NO_TESTS = 5
"""What pytest returns when it collected nothing; such a record is no proof by its counts."""


class Job(NamedTuple):
    """One test file to run."""

    file: str
    environment: Mapping[str, str] = {}
    left_out: tuple[str, ...] = ()
    """Tests of the file that cannot hold on this device."""
    workers: int = 1


def workers_for(seconds: float) -> int:
    """Return how many processes a file gets whose tests took `seconds` in sum."""
    if importlib.util.find_spec("xdist") is None:
        return 1
    return max(1, min(MOST_WORKERS, 1 + int(seconds // WORKER_SECONDS)))


def refusal(arguments: Iterable[str]) -> str | None:
    """Return a sentence about the first argument that may change which tests run, or None."""
    for argument in arguments:
        if not HARMLESS.fullmatch(argument):
            return (
                f"{argument!r} is refused: a record is about whole test files, so pytest gets only "
                "-q, -v, -s, -rA, --tb=, --durations= and --color=. Choose files by their paths."
            )
    return None


@dataclass
class Runner:
    """Runs test files of a tree, several at once."""

    root: Path
    run: Run
    logs: Path
    arguments: Sequence[str] = ()
    slots: int = 1
    """How many processes may run at once."""

    def __post_init__(self) -> None:
        self.before: Tree = read_tree(self.root)
        contents = repr(sorted(self.before.items())).encode()
        self.seed = crc32(contents) % 1_000_000
        """Tests that got no seed would read all sources for one, and depend on each of them."""
        self.logs.mkdir(parents=True, exist_ok=True)

    def run_all(
        self,
        jobs: Sequence[Job],
        done: Callable[[str, Entry], None],
        deadline: float = float("inf"),
    ) -> list[str]:
        """Run the jobs in their order and hand over each result; return those not started.

        No job starts after `deadline`, a value of time.monotonic(); those that run are finished.
        """
        waiting, running = list(jobs), list[Process]()
        try:
            while running or (waiting and time.monotonic() < deadline):
                busy = sum(process.job.workers for process in running)
                if waiting and time.monotonic() < deadline and self._fits(waiting[0], busy):
                    running.append(Process(self, waiting.pop(0)))
                    continue
                ended = [process for process in running if process.popen.poll() is not None]
                for process in ended:
                    running.remove(process)
                    done(process.job.file, process.entry())
                if not ended:
                    time.sleep(0.05)
        finally:
            for process in running:
                process.stop()
        return [job.file for job in waiting]

    def _fits(self, job: Job, busy: int) -> bool:
        return busy == 0 or busy + job.workers <= self.slots


class Process:
    """pytest on one file, while it runs."""

    def __init__(self, runner: Runner, job: Job) -> None:
        self.runner, self.job = runner, job
        self.folder = Path(tempfile.mkdtemp(prefix="tapegrad-tests-"))
        self.log = runner.logs / (job.file.removesuffix(".py").replace("/", "-") + ".log")
        self.log_file = self.log.open("wb")
        self.popen = subprocess.Popen(
            self._command(),
            cwd=runner.root,
            env=self._environment(),
            stdout=self.log_file,
            stderr=subprocess.STDOUT,
        )

    def _command(self) -> list[str]:
        plugins = ["-p", "no:cacheprovider", "-p", "pytest_counts"]
        parallel = ["-n", str(self.job.workers)] if self.job.workers > 1 else ["-p", "no:xdist"]
        left_out = [f"--deselect={test}" for test in self.job.left_out]
        counts = f"--counts={self.folder / 'counts.json'}"
        command = [sys.executable, "-m", "pytest", *plugins, *parallel, counts, *left_out]
        return [*command, *self.runner.arguments, self.job.file]

    def _environment(self) -> dict[str, str]:
        root = self.runner.root
        places = [RECORDING, root, root / "backends", root / "benchmarks"]
        inherited = os.environ.get("PYTHONPATH")
        paths = [*map(str, places), *([inherited] if inherited else [])]
        # A variable of the caller could choose tests or switch parts of the engine off.
        changing = ("TAPEGRAD_", "PYTEST_ADDOPTS")
        names = [name for name in os.environ if name in KEPT or not name.startswith(changing)]
        return {
            **{name: os.environ[name] for name in names},
            **self.job.environment,
            "PYTHONPATH": os.pathsep.join(paths),
            "TAPEGRAD_SEED": str(self.runner.seed),
            "TAPEGRAD_SOURCES_OF": str(root),
            "TAPEGRAD_SOURCES_LOG": str(self.folder / "sources"),
        }

    def entry(self) -> Entry:
        """Return what was found; pytest has ended."""
        self.log_file.close()
        counts = self._counts()
        sources = self._sources()
        counts["failed"] += [*self._surprises(counts), *self._edited(sources)]
        lists = {name: tuple(counts.pop(name)) for name in ("failed", "left_out")}
        self._remove()
        return Entry(
            self.runner.run,
            sources,
            environment=dict(self.job.environment),
            log=self.log.name,
            log_sha256=log_hash(self.log),
            **lists,
            **counts,
        )

    def _counts(self) -> dict[str, Any]:
        path = self.folder / "counts.json"
        if path.exists():
            found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
            return found
        return {"failed": [], "left_out": []}  # it was killed, or could not start

    def _sources(self) -> dict[str, str]:
        path = self.folder / "sources"
        names = path.read_text(encoding="utf-8").split("\n") if path.exists() else []
        # What is not in the tree from the start was made by the tests.
        return {name: self.runner.before[name] for name in names if name in self.runner.before}

    def _surprises(self, counts: Mapping[str, Any]) -> list[str]:
        """What went wrong besides tests that failed."""
        found = []
        if self.popen.returncode not in (0, NO_TESTS) and not counts["failed"]:
            found.append(f"pytest ended with {self.popen.returncode}")
        without = [re.sub(r"\[.*", "", test, flags=re.DOTALL) for test in counts["left_out"]]
        found += [f"{test} is not on the list of tests to leave out"
                  for test in without if test not in self.job.left_out]  # fmt: skip
        found += [f"{test} is to be left out, but does not exist"
                  for test in self.job.left_out if test not in without]  # fmt: skip
        return found

    def _edited(self, sources: Tree) -> list[str]:
        paths = {name: self.runner.root / name for name in sources}
        return [f"{name} changed while the tests ran" for name, path in paths.items()
                if not path.exists() or hash_of(path) != sources[name]]  # fmt: skip

    def stop(self) -> None:
        """End pytest before its time."""
        self.popen.terminate()
        self.popen.wait()
        self.log_file.close()
        self._remove()

    def _remove(self) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)
