"""docs/ecosystem.md is generated from the records of runs."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import pytest

from tests.house.scripts import imported


@pytest.fixture
def script() -> ModuleType:
    return imported("ci/ecosystem_page.py")


def test_the_page_is_up_to_date(script: ModuleType) -> None:
    assert script.main(["--check"]) == 0


def test_a_changed_page_is_noticed_and_written(script: ModuleType, tmp_path: Any) -> None:
    page = tmp_path / "ecosystem.md"
    page.write_text("old")

    assert script.main(["--check"], page) == 1
    assert script.main([], page) == 0
    assert script.main(["--check"], page) == 0


def test_models_that_differ_or_are_not_recorded_are_named(script: ModuleType) -> None:
    entry = {"weights": 10, "dtype": "float64", "peer": "torch 2", "loss": 1.0}
    errors = {"loss_error": 1e-14, "weight_error": 0.5, "compiled": True, "agrees": False}
    record = {"names": ["A", "B"], "models": {"A": {**entry, **errors}}}

    text = script.applications_section(record)

    assert "| A | 10 | float64 | torch 2 | 1e-14 | 5e-01 | yes | no |" in text
    assert "Not recorded yet: B." in text


def test_programs_are_counted_by_outcome(script: ModuleType) -> None:
    record = {
        "date": "2026-01-02",
        "how": "How.",
        "time": "Time.",
        "kinds": {"finished": "finished", "fault": "fault"},
        "of": {"guides": {"finished": 3}, "books": {"finished": 1, "fault": 2}},
        "faults": {"a name": 2},
    }

    text = script.programs_section(record)

    assert "6 published programs" in text
    assert "| guides | 3 | 0 |" in text
    assert "| all | 4 | 2 |" in text
    assert "| a name | 2 |" in text


def test_evaluations_of_gradbench_are_summed_up(script: ModuleType) -> None:
    section = imported("ci/ecosystem_gradbench.py")
    cells = {"tapegrad": {"best_ms": 2.0, "mean_ms": 4.0}, "jax": {"best_ms": 1.0, "mean_ms": 8.0}}
    lse = {"times": {"n=1": {"primal": cells, "gradient": cells}}, "arguments": ["-n", "1"]}
    det = {"times": {"5": {"gradient": {"tapegrad": cells["tapegrad"]}}}}
    record = {
        "machine": {"cpu": "A", "cores": 2},
        "date": "2026-01-02",
        "suite": "abc",
        "versions": {"tapegrad": "1", "jax": "2"},
        "remark": "Busy.",
        "evaluations": {
            "lse": {**lse, "problems": {}},
            "det": {**det, "problems": {"jax": "The suite has no entry."}},
        },
    }

    text = section.machine_section(record, script.table)

    assert "2 of 12 evaluations" in text
    assert "| `lse` | 1 | 2 | 4 | 0.5 | 0.5 | 2 |" in text
    assert "| `det` | 1 | 2 | 2 |  |  |  |" in text
    assert "- JAX: `det`. The suite has no entry." in text
    assert "- Workloads that were chosen: `lse -n 1`." in text
    assert "| `lse` | n=1 | gradient | JAX | 0.50 |" in text
