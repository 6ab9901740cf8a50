"""The plugin of ci/test.sh that saves time leaves out no result."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.economy import COMPILED_AS_USERS_DO
from tests.house.sources import ROOT

ENDINGS = """
import pytest

@pytest.fixture
def broken():
    1 / 0

@pytest.fixture
def unclean():
    yield
    1 / 0

def test_passes(): pass
def test_fails(): assert False
def test_is_skipped(): pytest.skip("why not")
def test_has_no_fixture(broken): pass
def test_leaves_something(unclean): pass
@pytest.mark.xfail
def test_fails_as_expected(): assert False
"""


def test_every_way_to_end_is_reported(tmp_path: Path) -> None:
    pytest.importorskip("xdist")
    (tmp_path / "test_endings.py").write_text(ENDINGS)
    paths = os.pathsep.join([str(ROOT), str(ROOT / "backends")])
    command = [sys.executable, "-m", "pytest", "-p", "xdist", "-p", "tests.economy", "-n", "2"]

    done = subprocess.run(
        [*command, "-p", "no:cacheprovider", str(tmp_path)],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": paths, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
        check=False,
    )

    counts = dict(map(reversed, re.findall(r"(\d+) (\w+)", done.stdout.splitlines()[-1])))
    wanted = {"passed": "2", "failed": "1", "skipped": "1", "errors": "2", "xfailed": "1"}
    assert {name: counts.get(name) for name in wanted} == wanted


def test_tests_that_are_compiled_quickly_exist() -> None:
    for start, one_in in COMPILED_AS_USERS_DO.items():
        assert one_in > 1
        path, _, name = start.partition("::")
        assert (ROOT / path).exists()
        assert not name or f"def {name}(" in (ROOT / path).read_text()
