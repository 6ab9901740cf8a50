"""The record of GPU runs: which tests it holds for, and which have to run again."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

from tests.house.sources import ROOT

PASSING = "def test_one():\n    assert True\n"
FAILING = "def test_one():\n    assert False\n"


@pytest.fixture
def report(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    """The script, in a tree with an engine and two parts that need no GPU."""
    monkeypatch.syspath_prepend(str(ROOT / "ci"))
    parts = importlib.import_module("gpu_parts")
    script = importlib.import_module("gpu_report")
    for name, text in {
        "engine/core.py": "",
        "library/code.py": "",
        "tests/first/test_a.py": PASSING,
        "tests/first/test_b.py": PASSING,
        "tests/first/shared.py": "",
        "tests/second/test_c.py": PASSING,
    }.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    two = {
        "first": parts.Part(("library",), ("tests/first",), {}),
        "second": parts.Part((), ("tests/second/test_c.py",), {}),
    }
    for module in (parts, script):
        monkeypatch.setattr(module, "ROOT", tmp_path)
        monkeypatch.setattr(module, "ENGINE", ("engine",))
        monkeypatch.setattr(module, "PARTS", two)
    monkeypatch.setattr(script, "REPORT", tmp_path / "report.json")
    monkeypatch.setattr(script, "ON_THE_HOST", ())
    monkeypatch.setattr(script, "versions", dict)
    yield script
    for name in ("gpu_parts", "gpu_report"):
        sys.modules.pop(name, None)


def rest(script: ModuleType) -> list[str]:
    found = script.old_report()
    return [Path(file).name for name in script.PARTS for file in script.missing(found, name)]


def test_what_passed_is_not_run_again(report):
    assert rest(report) == ["test_a.py", "test_b.py", "test_c.py"]

    assert report.run(report.old_report(), ["-p", "no:xdist"]) == 0

    assert rest(report) == []
    assert report.check() == 0


def test_what_failed_is_run_again_alone_after_it_was_mended(report, tmp_path):
    mended = tmp_path / "tests/first/test_b.py"
    mended.write_text(FAILING)
    assert report.run(report.new_report(), []) == 1
    assert rest(report) == ["test_b.py"]

    mended.write_text(PASSING)

    assert report.run(report.old_report(), []) == 0
    assert rest(report) == []


@pytest.mark.parametrize(
    ("changed", "stale"),
    [
        ("tests/first/test_a.py", ["test_a.py"]),
        ("tests/first/shared.py", ["test_a.py", "test_b.py"]),
        ("library/code.py", ["test_a.py", "test_b.py"]),
        ("engine/core.py", ["test_a.py", "test_b.py", "test_c.py"]),
    ],
)
def test_a_change_makes_stale_what_depends_on_it(report, tmp_path, changed, stale):
    report.run(report.new_report(), [])

    with (tmp_path / changed).open("a") as file:
        file.write("# changed\n")

    assert rest(report) == stale
