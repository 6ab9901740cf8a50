"""A pytest plugin of ci/test.sh that saves a tenth of the time of all tests: `-p tests.economy`.

It divides the compilation of the tests among the processes of pytest-xdist, lets these send one
report of a test that passes instead of five messages, and compiles the C code of most tests with
few optimizations.
"""

from __future__ import annotations

import compileall
import os
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from _pytest.assertion import rewrite
from _pytest.runner import runtestprotocol

from tests.seeds import LONG, QUICK_FLAGS, is_chosen

ROOT = Path(__file__).parents[1]
SOURCES = ("tapegrad", "backends", "benchmarks")

COMPILED_AS_USERS_DO = {
    "tests/api/": 8, "tests/compat/": 8, "tests/data/": 8, "tests/distribute/": 8,
    "tests/examples/": 8, "tests/fuzz/": 8, "tests/keras/": 8, "tests/numpy/": 8,
    "tests/scipy/": 8, "tests/text/": 8,
    "tests/house/test_documents.py": 8, "tests/rules/test_samples_under_the_sentinel.py": 8,
    "tests/program/test_loops_with_stages.py::test_random_rows_equal_numpy": 8,
    "tests/program/": 8,
}  # fmt: skip
"""Of so many tests, by the first name that fits, one has the usual flags: others for each commit.

What these test is not how C is compiled, or they have equals that compile as users do.
"""

FLAGS = os.environ.get("TAPEGRAD_CFLAGS")


@pytest.hookimpl(tryfirst=True)
def pytest_collection(session: pytest.Session) -> None:
    """Compile the part of this process, if it is one of several that run tests of many folders.

    In a new checkout, all of them would rewrite the assertions of all test files and compile all
    modules at the same time. So each one compiles a part, and reads the rest as it collects.
    """
    config: Any = session.config
    worker = getattr(config, "workerinput", None)
    folders = [path for path in map(Path, config.args) if path.is_dir()]
    if worker is None or len(folders) < 2 or sys.dont_write_bytecode:
        return
    number, count = int(worker["workerid"].removeprefix("gw")), worker["workercount"]
    for path in _modules_in(ROOT / name for name in SOURCES)[number::count]:
        compileall.compile_file(path, quiet=2)
    if config.getoption("assertmode") == "rewrite":
        tests = [path for path in _modules_in(folders) if path.name.startswith("test_")]
        for path in tests[number::count]:
            _rewrite(path.absolute(), config)


def _modules_in(folders: Iterable[Path]) -> list[Path]:
    return [path for folder in folders for path in sorted(folder.rglob("*.py"))]


def _rewrite(path: Path, config: Any) -> None:
    """Write what pytest's importer would write for a test file, unless it is there."""
    target = rewrite.get_cache_dir(path) / f"{path.stem}{rewrite.PYC_TAIL}"
    if rewrite._read_pyc(path, target) is None and rewrite.try_makedirs(target.parent):
        stat, code = rewrite._rewrite_test(path, config)
        rewrite._write_pyc(config.stash[rewrite.assertstate_key], code, stat, target)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item, nextitem: pytest.Item | None) -> bool | None:
    """In workers of pytest-xdist, report only the results of calls and what did not pass.

    Two of three reports say that a setup or a teardown passed, and a test has two more messages
    when it begins and ends. Without them 50,000 tests take a minute of processor time less.
    """
    if not hasattr(item.config, "workerinput"):
        return None
    for report in runtestprotocol(item, log=False, nextitem=nextitem):
        if report.when == "call" or not report.passed:
            item.ihook.pytest_runtest_logreport(report=report)
    return True


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Choose the flags of the C compiler; `quick_compiler` does so for single tests."""
    one_in = next(
        (n for name, n in COMPILED_AS_USERS_DO.items() if item.nodeid.startswith(name)), 1
    )
    flags = FLAGS if LONG or is_chosen(item.name, one_in) else QUICK_FLAGS
    if flags is None:
        os.environ.pop("TAPEGRAD_CFLAGS", None)
    else:
        os.environ["TAPEGRAD_CFLAGS"] = flags
