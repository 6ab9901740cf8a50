"""Hooks of all tests: the seed in the header, the choice of tests without the engine.

Also spares the garbage collector the collected tests, and lets array_api_strict, a stand-in for a
device, compare dtypes quickly.
"""

from __future__ import annotations

import gc
import importlib
import importlib.util
import os
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

# Before tapegrad is imported: which form of a program runs must not depend on the time.
os.environ.setdefault("TAPEGRAD_WAIT", "1")

from tapegrad.engine import is_on
from tests.seeds import LONG, QUICK_FLAGS, SEED, is_chosen

COMPILED_AS_USERS_DO = 8
"""How many cases with `quick_compiler` there are to one that is compiled with the usual flags."""

SEED_NOTE = f"TAPEGRAD_SEED={SEED} chose the tests that rotate; set it to repeat this run."


def pytest_report_header() -> str:
    return SEED_NOTE


def pytest_terminal_summary(terminalreporter: Any, exitstatus: int) -> None:
    if exitstatus:
        terminalreporter.write_line(SEED_NOTE)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """Exempt the objects that collection makes, a million that live to the end, from the collector.

    Otherwise every full collection during the tests visits them all, which takes half a second.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Without the engine, leave out the tests that count what it saves."""
    if is_on():
        return
    left_out = [item for item in items if item.get_closest_marker("engine")]
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if not item.get_closest_marker("engine")]


@pytest.fixture
def quick_compiler(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Compile loops with few optimizations, as `tests.economy` does with most tests.

    For tests of what a program computes. The tests of the C code compile as users do, and so does
    one case in eight here, chosen anew for each commit.
    """
    if not LONG and not is_chosen(request.node.name, COMPILED_AS_USERS_DO):
        monkeypatch.setenv("TAPEGRAD_CFLAGS", QUICK_FLAGS)


def share_dtypes(strict: Any) -> None:
    """Let equal dtypes be the same object: what it accepts and refuses stays the same.

    It makes one for every array and looks it up in lists, by a method in Python: two fifths of
    the time of long formulas.
    """
    kind: Any = type(strict.float64)
    initialize = kind.__init__
    known = {value._np_dtype: value for value in vars(strict).values() if type(value) is kind}

    def make(cls: Any, np_dtype: Any) -> Any:
        found = known.get(np.dtype(np_dtype))
        if found is None:
            found = object.__new__(cls)
            initialize(found, np_dtype)
        return found

    kind.__new__, kind.__init__, kind.__eq__ = make, object.__init__, object.__eq__
    kind.__reduce__ = lambda self: (kind, (self._np_dtype,))


if importlib.util.find_spec("array_api_strict") is not None:  # the GPU's own tests need none
    share_dtypes(importlib.import_module("array_api_strict"))
