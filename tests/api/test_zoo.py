"""The zoo's programs: all are defined in full, and those of the day run as they run eagerly."""

from __future__ import annotations

import numpy as np
import pytest

from tapegrad_zoo import report
from tapegrad_zoo.check import disagreement
from tapegrad_zoo.program import Kind, entries
from tapegrad_zoo.runner import Zoo, contenders
from tapegrad_zoo.steps import results_of
from tests.seeds import chosen

ENTRIES = [*entries()]
TODAY = chosen(ENTRIES, one_in=8, name=lambda entry: entry.name)


def by_name(entry):
    return f"{entry.family}-{entry.name}"


@pytest.mark.parametrize("entry", ENTRIES, ids=by_name)
def test_programs_are_defined_in_full(entry):
    program = entry.program
    params, (first, second) = program.draw("check", 2)

    assert program.summary
    assert params
    assert first.keys() == second.keys()
    assert all(p.dtype.kind in "fc" for p in params.values())
    assert program.kind is Kind.STEP or all(np.all(np.isfinite(p)) for p in params.values())
    for dims in program.sizes.values():
        cost = program.cost(dims)
        assert cost.bytes > 0
        assert cost.operations > 0


@pytest.mark.parametrize("entry", TODAY, ids=by_name)
def test_programs_of_the_day_agree_with_eager_mode(entry, monkeypatch):
    recorded = results_of("tapegrad", entry.program, "check")
    monkeypatch.setattr("tapegrad.function", lambda step: step)
    eager = results_of("tapegrad", entry.program, "check")

    assert disagreement(entry.program, recorded, eager) == ""


def test_names_are_unique():
    names = [entry.name for entry in ENTRIES]

    assert len(set(names)) == len(names)


def test_both_halves_have_programs():
    halves = [entry.is_on_workbench for entry in ENTRIES if not entry.spelling]

    assert 0.3 < sum(halves) / len(halves) < 0.7


def cell(library, mode, seconds):
    return {"library": library, "mode": mode, "times": [seconds], "first_seconds": 1.0}


def row(ours, jax, workbench=True):
    cells = [cell("tapegrad", "function", ours), cell("jax", "jit", jax)]
    return {"cells": cells, "workbench": workbench, "spelling": "", "complaint": ""}


def test_the_report_has_means_of_both_halves_and_the_worst_rows():
    rows = {"fast": row(1.0, 4.0), "slow": row(1.0, 0.25), "other": row(1.0, 0.5, workbench=False)}

    text = report.summary(rows, ("jax:jit",))

    assert "workbench, jax:jit: 1.00x (2 of 2 programs)" in text
    assert "examination, jax:jit: 0.50x (1 of 1 programs)" in text
    assert "worst against jax:jit: slow 0.25x, other 0.50x, fast 4.00x" in text
    assert report.table(rows, ("jax:jit",)).splitlines()[2].startswith("| slow | 1e+03 |")


def test_a_contender_that_fails_wins_nothing():
    failed = {"library": "jax", "mode": "jit", "times": [], "reason": "MemoryError: no memory"}
    rows = {"one": {**row(1.0, 1.0), "cells": [cell("tapegrad", "function", 1.0), failed]}}

    assert report.ratio(rows["one"], "jax:jit") is None
    assert "jax jit: MemoryError: no memory" in report.table(rows, ("jax:jit",))


def test_a_program_that_disagrees_is_not_timed(tmp_path, monkeypatch):
    monkeypatch.setattr("tapegrad_zoo.runner.check", lambda entry, libraries: ["loss differs"])
    both = [("tapegrad", "eager"), ("jax", "jit")]
    monkeypatch.setattr("tapegrad_zoo.runner.contenders", lambda libraries: both)
    zoo = Zoo(tmp_path / "zoo.json", "cpu", ["tapegrad", "jax"])

    zoo.run(ENTRIES[:1], budget=60, seconds=0.1)

    (found,) = zoo.rows.values()
    assert (found["complaint"], found["cells"]) == ("loss differs", [])
    assert Zoo(tmp_path / "zoo.json", "cpu", ["tapegrad"]).rows == zoo.rows


def test_contenders_that_are_not_installed_are_left_out():
    assert contenders(["tapegrad"]) == [("tapegrad", "eager"), ("tapegrad", "function")]
