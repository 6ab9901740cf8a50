"""All fuzzers for a few seconds, with seeds that are new for each commit; see `tests/seeds.py`."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tapegrad as tf
from tests.fuzz import calls, exact, failures, files, programs, sizes, special_values, views
from tests.fuzz.command import FaultError, hunt
from tests.house.sources import ROOT
from tests.interrupts import count_events
from tests.seeds import LONG, SEED

SECONDS = {
    "programs": 8.0,
    "sizes": 5.0,
    "exact": 5.0,
    "views": 5.0,
    "special_values": 5.0,
    "failures": 5.0,
    "files": 4.0,
    "calls": 4.0,
}
"""Less than a minute in all."""

CHECKS: dict[str, Any] = {
    "programs": programs.check,
    "sizes": sizes.check,
    "exact": exact.check,
    "views": views.check,
    "special_values": special_values.check,
    "failures": failures.check,
    "files": files.check,
    "calls": calls.check,
}


# CPython ignores an exception in a finalizer, which a failure may hit, and reports it.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.filterwarnings("ignore::ResourceWarning")
@pytest.mark.usefixtures("quick_compiler")
@pytest.mark.parametrize("name", CHECKS)
def test_a_short_hunt_finds_nothing(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    first = SEED * 1000
    seconds = SECONDS[name] * (20 if LONG else 1)
    again = f"To see one again: python -m tests.fuzz.{name} --seed SEED --most 1"

    if name == "calls":  # some functions change settings of their process
        hunt_in_another_process(name, first, seconds, again)
        return
    counts = hunt(CHECKS[name], first, seconds)

    assert not counts["faults"], f"{capsys.readouterr().out}\n{again}"
    assert counts["seeds"] > 0


def hunt_in_another_process(name: str, first: int, seconds: float, again: str) -> None:
    command = [sys.executable, "-m", f"tests.fuzz.{name}", "--seed", str(first)]
    command += ["--seconds", str(seconds)]
    folders = (ROOT, ROOT / "backends", ROOT / "benchmarks")
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, folders))}

    run = subprocess.run(
        command, env=environment, cwd=ROOT, capture_output=True, text=True, check=False
    )

    assert run.returncode == 0, f"{run.stdout}\n{run.stderr[-800:]}\n{again}"
    assert json.loads(run.stdout.splitlines()[-1])["seeds"] > 0


def test_a_hunt_counts_and_prints_faults(capsys: pytest.CaptureFixture[str]) -> None:
    def check(seed: int) -> Any:
        if seed % 2:
            raise FaultError("odd")
        return {"even": 1}

    counts = hunt(check, 4, 60.0, most=4)

    assert dict(counts) == {"even": 2, "faults": 2, "seeds": 4}
    assert "--- seed 5: FaultError: odd" in capsys.readouterr().out


@pytest.mark.parametrize("name", [one.__name__ for one in programs.CHECKS])
def test_the_program_checks_notice_a_wrong_result(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    check: Callable[[programs.Case], str | None] = getattr(programs, name)
    case = programs.case_of(12)
    real = programs.difference
    monkeypatch.setattr(
        programs,
        "difference",
        lambda found, wanted: real([np.asarray(x) + 1 for x in found], wanted),
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert check(case)


def test_views_notice_a_wrong_write(monkeypatch: pytest.MonkeyPatch) -> None:
    arrays = [np.ones(shape) for shape in views.SHAPES]

    def step(xp: Any, values: list[Any]) -> None:
        values[0][0] = 1.0 if xp is np else 2.0

    assert views.fault_of([("wrong", step)], arrays)


def test_failures_notice_a_change_that_is_half_done() -> None:
    a, b = tf.Variable(0.0), tf.Variable(0.0)
    case = failures.Case(
        lambda: (a.assign_add(1.0), b.assign_add(1.0)), lambda: [a.numpy(), b.numpy()]
    )
    states = [[np.float32(k), np.float32(k)] for k in range(3)]
    events = count_events(case.call)
    a.assign(0.0)
    b.assign(0.0)
    found = set()
    for event in range(0, events, 3):
        a.assign(0.0)
        b.assign(0.0)
        found.add(failures.fault_of(case, states, event, KeyboardInterrupt))
    assert "it is neither as before the call nor as after it" in found
