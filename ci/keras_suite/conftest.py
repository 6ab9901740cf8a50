"""What Keras' tests import from the `conftest` of its repository, which its wheel does not have.

As a pytest plug-in it also keeps one tenth of the tests, by KERAS_SUITE_TENTH, and appends the
outcome of each to the file KERAS_SUITE_OUTCOMES.
"""

from __future__ import annotations

import os
import zlib
from typing import Any

import pytest

_LIBRARIES = "tensorflow tensorboard jax torch grain orbax onnxruntime"
_MISSING = tuple(
    text.format(name)
    for name in _LIBRARIES.split()
    for text in ("No module named '{}", "requires the {} module", "requires the '{}")
)
"""What errors say if a test needs a library that is not installed."""


def skip_if_backend(given_backend: str, reason: str) -> Any:
    """Return the mark that skips a test for one of Keras' own backends."""
    from keras.src.backend import backend  # after the environment has chosen one

    return pytest.mark.skipif(backend() == given_backend, reason=reason)


def pytest_configure(config: pytest.Config) -> None:
    """Declare the marks of Keras' tests."""
    for mark in ("requires_trainable_backend", "multi_device", "expensive"):
        config.addinivalue_line("markers", f"{mark}: of Keras' repository")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Keep the tests of one tenth."""
    tenth = os.environ.get("KERAS_SUITE_TENTH")
    if tenth:
        items[:] = [item for item in items if zlib.crc32(item.nodeid.encode()) % 10 == int(tenth)]


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Write the outcome of a test, once: with several processes, only the first one writes."""
    path = os.environ.get("KERAS_SUITE_OUTCOMES")
    if not path or "PYTEST_XDIST_WORKER" in os.environ:
        return
    if report.when == "call" or report.outcome != "passed":
        is_missing = report.failed and any(text in str(report.longrepr) for text in _MISSING)
        with open(path, "a", encoding="utf-8") as file:
            file.write(f"{'missing' if is_missing else report.outcome} {report.nodeid}\n")
