"""docs/oracles.md is generated from the record, and every disagreement has a reason."""

from __future__ import annotations

import json
from pathlib import Path
from types import ModuleType

import pytest

from tests.house.scripts import imported


@pytest.fixture
def script() -> ModuleType:
    return imported("ci/oracles_page.py")


def test_the_page_is_up_to_date_and_has_all_reasons(script: ModuleType) -> None:
    assert script.main(["--check"]) == 0


def test_an_outcome_without_a_reason_is_named(
    script: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    row = ["jax", "float64", "sqrt", "differs", "value 0 differs by 1.0", "the library", False]
    counts = dict.fromkeys(("samples", "comparisons", "arrays", "agrees", "not compared"), 1)
    run = {"counts": {**counts, "differs": 1}, "date": "d", "machine": "m", "digest": "x"}
    record, page = tmp_path / "record.json", tmp_path / "oracles.md"
    record.write_text(json.dumps({"oracles": {**run, "details": [row]}}))

    assert script.main([], page, record) == 1
    assert "No reason is given for: jax float64 sqrt differs" in capsys.readouterr().out
    assert "| `sqrt` | float64 | jax |" in page.read_text()


def test_a_changed_page_is_noticed(script: ModuleType, tmp_path: Path) -> None:
    page = tmp_path / "oracles.md"
    page.write_text("old")

    assert script.main(["--check"], page) == 1
