"""A plug-in of pytest that judges mutants in forks of a process that has collected the tests.

A fork needs no start, no imports and no collection. It changes the code of the functions that have
the mutant, and runs tests until one fails. What it does not catch is for `judge.py`, which starts a
process: some functions run when their module is imported, and their results are not made again.
"""

from __future__ import annotations

import json
import os
import select
import signal
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.mutation.live import Functions

PLAN, TREE, VERDICTS = "MUTATION_PLAN", "MUTATION_TREE", "MUTATION_VERDICTS"
"""The variables with the file of the tasks, the copy of the tree, and the pipe for the verdicts."""


@dataclass(frozen=True)
class Task:
    """A mutant, and the tests that may catch it."""

    name: str
    file: str
    start: int
    end: int
    new: str
    tests: list[str]
    limit: float
    """Seconds."""


def write_tasks(path: Path, tasks: Sequence[Task]) -> None:
    """Write tasks for the process that judges."""
    path.write_text(json.dumps([asdict(task) for task in tasks]), "utf-8")


def read_tasks(path: Path) -> list[Task]:
    """Read what `write_tasks` has written."""
    return [Task(**task) for task in json.loads(path.read_text("utf-8"))]


class Forks:
    """The collected tests and the functions of the product."""

    def __init__(self, items: Sequence[pytest.Item], tree: Path) -> None:
        self.items = {item.nodeid: item for item in items}
        self.tree = tree
        self.functions = Functions.below(tree)
        self.passes: dict[str, bool] = {}
        """Whether tests pass in a fork without a mutant, as far as that was tried."""

    def judge(self, task: Task) -> tuple[str, str]:
        """Return "caught" and the test that fails with a mutant and passes without it, or ""."""
        tests = [test for test in task.tests if test in self.items and self.passes.get(test, True)]
        while tests:
            failed = self.first_failure(tests, task.limit, task)
            if not failed:
                break
            if failed not in self.passes:
                self.passes[failed] = self.first_failure([failed], task.limit) == ""
            if self.passes[failed]:
                return "caught", failed
            tests.remove(failed)
        return "", ""

    def first_failure(
        self, tests: Sequence[str], limit: float, task: Task | None = None
    ) -> str | None:
        """Run tests in a fork; return the one that failed, "" for none, None for no answer."""
        reading, writing = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(reading)
            self._run(tests, task, writing)
        os.close(writing)
        ready, _, _ = select.select([reading], [], [], limit)
        answer = os.read(reading, 4096).decode() if ready else ""
        os.close(reading)
        os.kill(child, signal.SIGKILL)  # it may have ended; then nothing happens before the wait
        os.waitpid(child, 0)
        kind, _, test = answer.partition(" ")
        return {"passed": "", "failed": test}.get(kind)

    def _run(self, tests: Sequence[str], task: Task | None, writing: int) -> None:
        """Run tests in the fork, write the answer and end the process."""
        answer = "unknown"
        try:
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, 1)
            os.dup2(nowhere, 2)
            if task is None or self._mutate(task):
                failed = next(failures([self.items[test] for test in tests]), "")
                answer = f"failed {failed}" if failed else "passed"
        finally:
            os.write(writing, answer.encode())
            os._exit(0)

    def _mutate(self, task: Task) -> bool:
        path = self.tree / task.file
        source = path.read_bytes()
        changed = source[: task.start] + task.new.encode() + source[task.end :]
        return self.functions.change(path, source, changed)


def failures(items: Sequence[pytest.Item]) -> Iterator[str]:
    """Run tests and yield the names of those that fail."""
    reports: list[Any] = []
    for item in items:
        watcher = Watcher(reports)
        item.config.pluginmanager.register(watcher)
        item.config.hook.pytest_runtest_protocol(item=item, nextitem=None)
        item.config.pluginmanager.unregister(watcher)
        if any(report.failed for report in reports):
            yield item.nodeid


class Watcher:
    """Keeps the reports of a test."""

    def __init__(self, reports: list[Any]) -> None:
        self.reports = reports

    def pytest_runtest_logreport(self, report: Any) -> None:
        """Keep a report."""
        self.reports.append(report)


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop(session: pytest.Session) -> bool | None:
    """Judge the tasks in place of running the tests."""
    if PLAN not in os.environ:
        return None
    forks = Forks(session.items, Path(os.environ[TREE]))
    with os.fdopen(int(os.environ[VERDICTS]), "w") as pipe:
        for task in read_tasks(Path(os.environ[PLAN])):
            began = time.monotonic()
            kind, by = forks.judge(task)
            seconds = round(time.monotonic() - began, 1)
            pipe.write(json.dumps({"name": task.name, "kind": kind, "by": by, "seconds": seconds}))
            pipe.write("\n")
            pipe.flush()
    return True
