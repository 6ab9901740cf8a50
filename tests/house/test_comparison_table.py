"""The comparison table in the README is generated from recorded results."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import pytest

from tests.house.scripts import imported


@pytest.fixture
def script() -> ModuleType:
    return imported("benchmarks/comparison_table.py")


def test_the_readme_is_up_to_date(script: ModuleType) -> None:
    assert script.main(["--check"]) == 0


def test_a_changed_figure_is_noticed_and_written(script: ModuleType, tmp_path: Any) -> None:
    page = tmp_path / "README.md"
    page.write_text(f"above\n{script.BEGIN}\n\n| old |\n\n{script.END}\nbelow\n")

    assert script.main(["--check"], page) == 1
    assert script.main([], page) == 0
    assert script.main(["--check"], page) == 0
    assert page.read_text().startswith("above\n")
    assert page.read_text().endswith("below\n")


def test_figures_stand_in_the_columns_of_their_library(script: ModuleType) -> None:
    choice = {
        "columns": ["ours", "theirs"],
        "facts": [["free", "yes", "no"]],
        "figures": [{"workload": "w", "label": "step", "cells": {"theirs": "b jit"}}],
    }
    cell = {"workload": "w", "library": "b", "mode": "jit", "median": 0.0125}
    results = {
        "machine": {"gpu": "G"},
        "commit": "0123456789",
        "started": "2026-01-02T",
        "cells": [cell],
    }

    text = script.table(choice, results)

    assert "| free | yes | no |" in text
    assert "| step | - | 12.5 |" in text
    assert "G, revision 0123456, 2026-01-02, one fixed batch;" in text
    assert "2026-01-02, 8 batches in turn;" in script.table(choice, {**results, "sets": 8})
