"""A pytest plugin that counts what was collected, what ran and how it ended.

`--counts=FILE` names the JSON file to write. It works under xdist as well: workers send what they
collected, and the main process sees the result of every test.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest


class Counts:
    """The counts of one run; see `as_json` for what is kept."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.collected = 0
        self.left_out: set[str] = set()
        self.broken: list[str] = []
        """Files that could not be collected."""
        self.outcomes: dict[str, str] = {}
        self.samples: dict[str, bool] = {}
        self.seconds = 0.0

    @pytest.hookimpl(tryfirst=True)  # before other plugins drop tests
    def pytest_collection_modifyitems(self, items: list[Any]) -> None:
        self.collected = len(items)
        for item in items:
            parameters = item.callspec.params if hasattr(item, "callspec") else {}
            if "sample" in parameters:
                item.user_properties.append(("sample", repr(parameters["sample"])))

    def pytest_deselected(self, items: list[Any]) -> None:
        self.left_out.update(item.nodeid for item in items)

    def pytest_collectreport(self, report: Any) -> None:
        if report.failed:
            self.broken.append(report.nodeid)

    def pytest_runtest_logreport(self, report: Any) -> None:
        self.seconds += report.duration
        outcome = "passed" if hasattr(report, "wasxfail") and report.skipped else report.outcome
        # A test that is skipped has no call, and one that fails in its fixture has none either.
        if report.when == "call" or outcome != "passed":
            self._note(report, outcome)

    def _note(self, report: Any, outcome: str) -> None:
        if self.outcomes.get(report.nodeid) == "failed":
            return
        self.outcomes[report.nodeid] = outcome
        for kind, name in report.user_properties:
            if kind == "sample":
                self.samples[name] = self.samples.get(name, True) and outcome == "passed"

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any, error: Any) -> None:
        sent = getattr(node, "workeroutput", {}).get("counts")
        if sent is not None:
            self.collected = max(self.collected, sent["collected"])
            self.left_out.update(sent["left_out"])

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: Any) -> None:
        if hasattr(session.config, "workeroutput"):
            sent = {"collected": self.collected, "left_out": sorted(self.left_out)}
            session.config.workeroutput["counts"] = sent
        else:
            self.path.write_text(json.dumps(self.as_json()), encoding="utf-8")

    def as_json(self) -> dict[str, Any]:
        """Return the counts; `samples` says for each row of the sample table if all passed."""
        outcomes = list(self.outcomes.values())
        failed = [test for test, found in self.outcomes.items() if found == "failed"]
        return {
            "collected": self.collected,
            "executed": len(outcomes) - outcomes.count("skipped"),
            "skipped": outcomes.count("skipped"),
            "left_out": sorted(self.left_out),
            "failed": sorted({*self.broken, *failed}),
            "samples": self.samples,
            "seconds": round(self.seconds, 1),
        }


def pytest_addoption(parser: Any) -> None:
    parser.addoption("--counts", metavar="FILE", help="write the counts of this run to FILE")


def pytest_configure(config: Any) -> None:
    path = config.getoption("--counts")
    if path:
        config.pluginmanager.register(Counts(Path(path)), "counts")
