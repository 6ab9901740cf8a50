"""A pytest plug-in that keeps the tests of one namespace and writes their outcomes to a file.

ARRAY_API_SUITE_OUTCOMES names the file. Its lines are JSON: test, outcome, seconds, reason.
"""

from __future__ import annotations

import functools
import json
import os
from collections.abc import Callable
from typing import Any

import pytest

NAMESPACE = "tapegrad.numpy"


def uses_namespace(item: pytest.Item) -> bool:
    """Whether a parameter of a test is the name of the namespace, the module, or contains it."""
    call = getattr(item, "callspec", None)
    return call is not None and any(_names(value) for value in call.params.values())


def _names(value: Any) -> bool:
    if isinstance(value, tuple):
        return any(_names(part) for part in value)
    if isinstance(value, functools.partial):  # scikit-learn's checks of an estimator
        return any(_names(part) for part in value.keywords.values())
    return value == NAMESPACE if isinstance(value, str) else _module(value) == NAMESPACE


def _module(value: Any) -> str | None:
    return value.__name__ if type(value).__name__ == "module" else None


_rules: list[Callable[[pytest.Item], bool]] = []


def kept_by(rule: Callable[[pytest.Item], bool]) -> None:
    """Keep the tests that a rule is true for, instead of those of the namespace."""
    _rules[:] = [rule]


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Keep the tests of the namespace, or those of the rule."""
    rule = _rules[0] if _rules else uses_namespace
    kept = [item for item in items if rule(item)]
    config.hook.pytest_deselected(items=[item for item in items if item not in {*kept}])
    items[:] = kept


def pytest_collectreport(report: pytest.CollectReport) -> None:
    """Write the outcome of a file that cannot be imported."""
    if report.failed:
        _write(report, 0.0)


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Write the outcome of a test; set-up and tear-down only count if they do not pass."""
    properties = dict(report.user_properties)
    if properties.get("calls") == 0:
        return  # a test of functions that tapegrad does not have
    if report.when == "call" or report.outcome != "passed":
        _write(report, report.duration)


def _write(report: pytest.TestReport | pytest.CollectReport, seconds: float) -> None:
    path = os.environ.get("ARRAY_API_SUITE_OUTCOMES")
    if not path or "PYTEST_XDIST_WORKER" in os.environ:
        return  # with several processes, the first one hears of all tests
    line = {
        "test": report.nodeid,
        "outcome": _outcome(report),
        "seconds": round(seconds, 3),
        "reason": _reason(report),
    }
    with open(path, "a", encoding="utf-8") as file:
        file.write(json.dumps(line) + "\n")


def _outcome(report: Any) -> str:
    """Return passed, skipped, failed or xfailed; an unexpected pass counts as passed."""
    return "xfailed" if report.skipped and hasattr(report, "wasxfail") else str(report.outcome)


def _reason(report: Any) -> str:
    """Return why a test was skipped, or the last line of its error."""
    if report.outcome == "passed":
        return ""
    if hasattr(report, "wasxfail"):
        return str(report.wasxfail)
    if isinstance(report.longrepr, tuple):
        return str(report.longrepr[2]).removeprefix("Skipped: ")
    crash = getattr(report.longrepr, "reprcrash", None)
    return str(crash.message if crash is not None else report.longrepr)[:2000]
