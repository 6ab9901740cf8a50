"""Judge a mutant: the tests that run it, the quickest first, in a copy of the tree."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.mutation.forks import PLAN, TREE, VERDICTS, Task, write_tasks
from tests.mutation.mutants import Mutant
from tests.mutation.probes import Coverage, copy_tree
from tests.mutation.suites import Suite, end_group

STAGES = ((12, 5.0), (60, 20.0))
"""How many tests judge a mutant at most, and for how many seconds; then how many more."""

FORK_SECONDS = 20.0
"""For the start of a fork."""

QUICK = ((40, 3.0),)
"""The same for a fork, which needs no imports."""

LONG_TEST = 1.0
"""The seconds of a test that a fork does not run."""

START_SECONDS = 90.0
"""For the start of a process and the collection of tests, on a machine with other work."""


@dataclass(frozen=True)
class Verdict:
    """What the tests said about a mutant."""

    kind: str
    """"caught", "time" (caught because the tests did not end), "survived" or "not run"."""
    by: str
    """The test that failed first."""
    tests: int
    seconds: float


def stages(
    tests: Sequence[str],
    seconds: Mapping[str, float],
    limits: Sequence[tuple[int, float]] = STAGES,
) -> list[list[str]]:
    """Divide tests into a quick first stage and a longer second one; leave out the rest.

    >>> stages(["a", "b", "c"], {"a": 4.0, "b": 3.0, "c": 2.0})
    [['a', 'b'], ['c']]
    """
    found, rest = [], list(tests)
    for most, limit in limits:
        taken: list[str] = []
        spent = 0.0
        while rest and len(taken) < most and spent < limit:
            taken.append(rest.pop(0))
            spent += seconds[taken[-1]]
        if taken:
            found.append(taken)
    return found


class Judge:
    """A copy of the tree in which one mutant at a time is tested."""

    def __init__(self, root: Path, folder: Path, cache: Path, suite: Suite, seed: int) -> None:
        self.folder, self.cache, self.suite, self.seed = folder, cache, suite, seed
        copy_tree(root, folder)
        # Python trusts compiled code of a file with the same time and size: no time comes twice.
        self.times = int(time.time()) + 10

    def judge(self, mutant: Mutant, tests: Sequence[str], seconds: Mapping[str, float]) -> Verdict:
        """Test a mutant with tests in this order, and restore the file."""
        path = self.folder / mutant.file
        source = path.read_bytes()
        began, count = time.monotonic(), 0
        kind, by = "not run", ""
        try:
            self._write(path, mutant.applied(source))
            for stage in stages(tests, seconds):
                count += len(stage)
                limit = START_SECONDS + 10 * sum(seconds[test] for test in stage)
                kind, by = self.outcome(stage, limit)
                if kind != "survived":
                    break
        finally:
            self._write(path, source)
        return Verdict(kind, by, count, round(time.monotonic() - began, 1))

    def quick(
        self, mutants: Sequence[tuple[Mutant, Sequence[str]]], coverage: Coverage
    ) -> Iterator[tuple[Mutant, Verdict]]:
        """Judge mutants with their tests in forks of one process; yield those that are caught.

        Tests that take long or start processes do not run in forks.
        """
        seconds = coverage.seconds
        quick = {
            test
            for test, time in seconds.items()
            if time < LONG_TEST and test.partition("::")[0] not in coverage.with_processes
        }
        tasks: list[Task] = []
        files: set[str] = set()
        for mutant, tests in mutants:
            short = [test for test in tests if test in quick]
            if short and not mutant.is_imported:
                (taken,) = stages(short, seconds, QUICK)
                limit = FORK_SECONDS + 10 * sum(seconds[test] for test in taken)
                place = (mutant.file, mutant.start, mutant.end, mutant.new)
                tasks.append(Task(mutant.name, *place, taken, limit))
                files.update(test.partition("::")[0] for test in taken)
        if not tasks:
            return
        plan = self.folder / "tasks.json"
        write_tasks(plan, tasks)
        named = {mutant.name: mutant for mutant, _ in mutants}
        counts = {task.name: len(task.tests) for task in tasks}
        for row in self._forked(plan, sorted(files)):
            if row["kind"]:
                found = Verdict(row["kind"], row["by"], counts[row["name"]], row["seconds"])
                yield named[row["name"]], found

    def _forked(self, plan: Path, files: Sequence[str]) -> Iterator[dict[str, Any]]:
        """Yield the verdicts of a process that has collected the tests of some files."""
        reading, writing = os.pipe()
        variables = {PLAN: str(plan), TREE: str(self.folder), VERDICTS: str(writing)}
        found = self.suite.environment(self.folder, self._fresh_cache(), self.seed)
        process = subprocess.Popen(
            self.suite.command("-p", "tests.mutation.forks", *files),
            cwd=self.suite.place(self.folder),
            env={**found, **variables},
            stdout=subprocess.DEVNULL,
            start_new_session=True,
            pass_fds=[writing],
        )
        os.close(writing)
        try:
            with os.fdopen(reading, encoding="utf-8") as lines:
                yield from map(json.loads, lines)
        finally:
            end_group(process.pid)
            process.wait()

    def _fresh_cache(self) -> Path:
        """Return a copy of the compiled loops: a mutant may spoil the files that it writes."""
        cache = self.folder / "loops"
        shutil.rmtree(cache, ignore_errors=True)
        shutil.copytree(self.cache, cache, copy_function=os.link)
        return cache

    def _write(self, path: Path, source: bytes) -> None:
        self.times += 2
        path.write_bytes(source)
        os.utime(path, (self.times, self.times))

    def outcome(self, tests: Sequence[str], limit: float) -> tuple[str, str]:
        """Run tests until one fails; return the kind of the verdict and the test that failed."""
        names = self.folder / "tests.txt"
        names.write_text("\n".join(tests), "utf-8")
        cache = self._fresh_cache()
        found = self.suite.environment(self.folder, cache, self.seed)
        process = subprocess.Popen(
            self.suite.command("-x", "-rfE", f"@{names}"),
            cwd=self.suite.place(self.folder),
            env={**found, "HYPOTHESIS_STORAGE_DIRECTORY": str(cache)},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            output, _ = process.communicate(timeout=limit)
        except subprocess.TimeoutExpired:
            return "time", ""
        finally:
            end_group(process.pid)
            process.wait()
        return verdict_of(process.returncode, output.decode("utf-8", "replace"))


def verdict_of(code: int, output: str) -> tuple[str, str]:
    """Return the verdict and the test that failed, from what pytest returned and printed.

    >>> verdict_of(1, "FAILED tests/api/test_x.py::test_y[a b] - assert 1 == 2")
    ('caught', 'tests/api/test_x.py::test_y[a b]')
    >>> verdict_of(0, "3 passed")
    ('survived', '')
    """
    if code in (0, 5):
        return "survived", ""
    if code == 4 and "not found: " in output and "ImportError" not in output:
        return "unknown", "The tests have other names than before."
    found = re.search(r"^(?:FAILED|ERROR) (\S*?\.py(?:::.*?)?)(?: - .*)?$", output, re.M)
    return "caught", found[1] if found else f"pytest ended with {code}"
