"""The columns NumPy and CUDA of docs/functions.md match recorded test runs."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from tests.house.sources import ROOT

MODULES = ("evidence", "run_tests", "functions_page")
SOURCE = "tapegrad/code.py"


@dataclass(frozen=True)
class FakeSample:
    """What the page reads of a row of the table."""

    name: str
    differentiable: bool = True
    order: int = 2
    batches: bool = True
    records: bool = True


@pytest.fixture
def script(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    """The script, about a tree with one source and a table with two functions."""
    monkeypatch.syspath_prepend(str(ROOT / "ci"))
    *_, page = [importlib.import_module(name) for name in MODULES]
    (tmp_path / "tapegrad").mkdir()
    (tmp_path / SOURCE).write_text("x = 1\n")
    monkeypatch.setattr(page, "ROOT", tmp_path)
    for name in ("PAGE", "CPU_RECORD", "GPU_RECORD"):
        monkeypatch.setattr(page, name, tmp_path / name.lower())
    samples = [FakeSample("tanh"), FakeSample("tanh-wide"), FakeSample("cumsum")]
    monkeypatch.setattr(page, "all_samples", lambda: samples)
    yield page
    for name in MODULES:
        sys.modules.pop(name, None)


@pytest.fixture
def record(script: ModuleType) -> Callable[..., None]:
    """Write that a run at revision r1 saw these samples, in each of two test files."""

    def write(path: Path, files: tuple[str, ...], *outcomes: dict[str, bool]) -> None:
        tree = script.evidence.read_tree(script.ROOT)
        run = script.Run("r1", "2026-01-02T03:04:05+00:00", {"numpy": "2.4.2"})
        entries: dict[str, Any] = {
            file: script.Entry(
                run, {SOURCE: tree[SOURCE]}, executed=1, collected=1, samples=samples
            )
            for file, samples in zip(files, outcomes)
        }
        script.evidence.save(path, entries)

    return write


ALL = {"tanh": True, "tanh-wide": True, "cumsum": True}


def cells(script: ModuleType, name: str) -> list[str]:
    """Return the cells NumPy and CUDA of a function on a page that is written now."""
    text = script.page(script.evidence.read_tree(script.ROOT))
    (line,) = [line for line in text.splitlines() if line.startswith(f"| `tapegrad.{name}`")]
    return line.split(" | ")[6:8]


def test_without_a_record_nothing_was_seen(script):
    assert cells(script, "tanh") == ["not seen", "not seen"]
    assert "- NumPy: no run is recorded." in script.page(None)


def test_what_passed_on_these_sources_is_yes(script, record):
    record(script.CPU_RECORD, script.ON_THE_CPU, ALL, ALL)

    assert cells(script, "tanh") == ["yes", "not seen"]
    assert "- NumPy: revision r1 on 2026-01-02 (numpy 2.4.2)." in script.page(None)

    record(script.GPU_RECORD, script.ON_A_GPU, ALL, ALL)

    assert cells(script, "tanh") == ["yes", "yes"]


def test_what_failed_is_no_for_its_function_alone(script, record):
    record(script.CPU_RECORD, script.ON_THE_CPU, {**ALL, "tanh-wide": False}, ALL)
    record(script.GPU_RECORD, script.ON_A_GPU, ALL, {"cumsum": False})

    assert cells(script, "tanh") == ["no", "yes"]
    assert cells(script, "cumsum") == ["yes", "no"]


def test_changed_sources_make_it_not_seen_since_the_revision(script, record, tmp_path):
    record(script.CPU_RECORD, script.ON_THE_CPU, {**ALL, "cumsum": False}, ALL)

    (tmp_path / SOURCE).write_text("x = 2\n")

    assert cells(script, "tanh") == ["not seen since revision r1", "not seen"]
    assert cells(script, "cumsum") == ["no", "not seen"]


def test_a_row_that_did_not_run_was_not_seen(script, record):
    record(script.CPU_RECORD, script.ON_THE_CPU, {"tanh": True, "cumsum": True}, ALL)

    assert cells(script, "tanh") == ["not seen", "not seen"]
    assert cells(script, "cumsum") == ["yes", "not seen"]


def test_a_run_whose_sources_are_not_known_is_never_yes(script, record):
    record(script.CPU_RECORD, script.ON_THE_CPU, ALL)
    old = script.evidence.load(script.CPU_RECORD)[script.ON_THE_CPU[0]]
    without = script.Entry(old.run, {}, collected=1, executed=1, samples=ALL)
    script.evidence.save(script.CPU_RECORD, {script.ON_THE_CPU[0]: without})

    assert cells(script, "tanh")[0] == "not seen since revision r1"
    assert "not seen since revision r1" in script.page(None)


def test_the_check_takes_the_page_of_the_run_and_of_now_and_no_other(
    script, record, tmp_path, capsys
):
    record(script.CPU_RECORD, script.ON_THE_CPU, ALL, ALL)
    assert script.main([]) == 0
    assert script.main(["--check"]) == 0

    (tmp_path / SOURCE).write_text("x = 2\n")
    assert script.main(["--check"]) == 0  # it names the revision of its "yes"
    assert "lack 2 rows on these sources" in capsys.readouterr().out
    assert script.main([]) == 0
    assert script.main(["--check"]) == 0

    text = script.PAGE.read_text(encoding="utf-8")
    script.PAGE.write_text(text.replace("not seen since revision r1", "yes", 1), encoding="utf-8")
    assert script.main(["--check"]) == 1
    assert "Run: python ci/functions_page.py" in capsys.readouterr().out


def test_recording_runs_the_tests_and_keeps_what_they_saw(script, tmp_path, monkeypatch):
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    (tmp_path / "test_all.py").write_text(
        "import pytest\n\n@pytest.mark.parametrize('check', [1, 2])\n"
        "@pytest.mark.parametrize('sample', ['tanh', 'tanh-wide', 'cumsum'], ids=repr)\n"
        "def test_it(sample, check):\n    assert (sample, check) != ('cumsum', 1)\n"
    )
    monkeypatch.setattr(script, "ON_THE_CPU", ("test_all.py",))

    assert script.record(1) == 1

    found = script.evidence.load(script.CPU_RECORD)["test_all.py"]
    assert dict(found.samples) == {"'tanh'": True, "'tanh-wide'": True, "'cumsum'": False}
    assert (found.collected, found.executed, len(found.failed)) == (6, 6, 1)
    assert set(found.sources) == {"test_all.py"}
