"""docs/reliability.md is generated from the record of fuzzers and other long checks."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType

import pytest

from tests.house.scripts import imported
from tests.house.sources import ROOT


@pytest.fixture
def script() -> ModuleType:
    return imported("ci/reliability_page.py")


def test_the_page_is_up_to_date(script: ModuleType) -> None:
    assert script.main(["--check"]) == 0


def test_a_changed_page_is_noticed_and_written(script: ModuleType, tmp_path: Path) -> None:
    page = tmp_path / "reliability.md"
    page.write_text("old")

    assert script.main(["--check"], page) == 1
    assert script.main([], page) == 0
    assert script.main(["--check"], page) == 0


def test_every_command_has_a_purpose_and_units(script: ModuleType) -> None:
    commands = {
        ".".join(path.relative_to(ROOT).with_suffix("").parts)
        for folder in ("derivatives", "distribute", "fuzz", "mutation", "oracles", "soak")
        for path in (ROOT / "tests" / folder).glob("*.py")
        if 'if __name__ == "__main__"' in path.read_text(encoding="utf-8")
    }

    assert {script.module_of(name) for name in script.PURPOSES} == commands
    assert set(script.UNITS) == set(script.PURPOSES)


def test_faults_and_runs_of_other_sources_are_named(
    script: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    record = tmp_path / "record.json"
    run = '{"counts": {"files": 1200, "faults": 3}, "date": "2026-01-01", "digest": "old", '
    record.write_text('{"files": ' + run + '"machine": "m", "seconds": 5, "seed": 7}}')
    page = tmp_path / "reliability.md"

    assert script.main([], page, record) == 0
    assert script.main(["--check"], page, record) == 0

    text = page.read_text()
    assert "1,200 files" in text
    assert "3 faults" in text
    assert "python -m tests.fuzz.files --seconds 5 --seed 7" in text
    assert "Not recorded yet: programs" in text
    assert "Recorded on other sources than these: files." in capsys.readouterr().out
