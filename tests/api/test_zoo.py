"""The zoo's programs: all are defined in full, and a few chosen ones run as they run eagerly."""

from __future__ import annotations

import numpy as np
import pytest

from tapegrad_zoo.check import disagreement
from tapegrad_zoo.program import Kind, entries
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
