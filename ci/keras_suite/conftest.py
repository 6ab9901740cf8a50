"""What Keras' tests import from the `conftest` of its repository, which its wheel does not have.

As a pytest plug-in it also keeps one tenth of the tests, by KERAS_SUITE_TENTH, and appends the
outcome and the seconds of each to the file KERAS_SUITE_OUTCOMES.
"""

from __future__ import annotations

import os
import re
import zlib
from collections.abc import Callable
from typing import Any

import missing_libraries
import pytest


def skip_if_backend(given_backend: str, reason: str) -> Any:
    """Return the mark that skips a test for one of Keras' own backends."""
    from keras.src.backend import backend  # after the environment has chosen one

    return pytest.mark.skipif(backend() == given_backend, reason=reason)


def pytest_configure(config: pytest.Config) -> None:
    """Declare the marks of Keras' tests, and let test files import without some libraries."""
    for mark in ("requires_trainable_backend", "multi_device", "expensive"):
        config.addinivalue_line("markers", f"{mark}: of Keras' repository")
    missing_libraries.serve_test_files()


@pytest.hookimpl(tryfirst=True)
def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Remove addresses from the names of tests: they differ between processes."""
    for mark in metafunc.definition.iter_markers("parametrize"):
        names = mark.kwargs.get("ids")
        if callable(names):
            mark.kwargs["ids"] = _without_addresses(names)


def _without_addresses(names: Callable[[Any], Any]) -> Callable[[Any], Any]:
    def name(value: Any) -> Any:
        found = names(value)
        return re.sub(r" ?at ?0x[0-9a-f]+", "", found) if isinstance(found, str) else found

    return name


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Keep the tests of one tenth."""
    tenth = os.environ.get("KERAS_SUITE_TENTH")
    if tenth:
        items[:] = [item for item in items if zlib.crc32(item.nodeid.encode()) % 10 == int(tenth)]


def pytest_collectreport(report: pytest.CollectReport) -> None:
    """Write the outcome of a file that cannot be imported."""
    if report.failed:
        _write(report, 0.0)


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Write the outcome of a test."""
    if report.when == "call" or report.outcome != "passed":
        _write(report, report.duration)


def _write(report: pytest.TestReport | pytest.CollectReport, seconds: float) -> None:
    path = os.environ.get("KERAS_SUITE_OUTCOMES")
    # With several processes, the first one hears of all tests.
    if not path or "PYTEST_XDIST_WORKER" in os.environ:
        return
    is_missing = report.failed and missing_libraries.is_cause_of(str(report.longrepr))
    outcome = "missing" if is_missing else report.outcome
    with open(path, "a", encoding="utf-8") as file:
        file.write(f"{outcome} {seconds:.3f} {report.nodeid}\n")
