"""Wrong calls of public functions end in a result or in an error of tapegrad; see wrong_calls.py.

A run takes a few of the functions, others for each commit. TAPEGRAD_LONG=1 takes all of them, in
about ten minutes.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from types import FunctionType
from typing import Any

import pytest

from tapegrad.core.checked_calls import can_be_checked
from tests.api.wrong_calls import FACES, Call, all_names, outcome, public_names, valid_calls
from tests.house.sources import ROOT
from tests.seeds import LONG, chosen

ONE_IN = 60
MOST_SECONDS = 900 if LONG else 240


def outcomes_of(names: list[str]) -> list[dict[str, Any]]:
    """The calls that ended badly, from a process with limited time and memory."""
    paths = [str(ROOT), str(ROOT / "backends"), str(ROOT / "tests" / "backends")]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}
    run = subprocess.run(
        [sys.executable, "-m", "tests.api.wrong_calls", *names],
        env=environment,
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=MOST_SECONDS,
        check=False,
    )
    lines = run.stdout.splitlines()
    last = [line for line in lines if line.startswith("#")][-1:]
    assert run.returncode == 0, f"The process ended at {last}: {run.stderr[-800:]}"
    rows = [json.loads(line) for line in lines if line.startswith('{"call"')]
    return [row for row in rows if row["result"] != "returned"]


def groups() -> list[list[str]]:
    """The chosen functions; in a long run one group for each face."""
    names = chosen(all_names(), ONE_IN)
    if not LONG:
        return [names]
    by_face = [[name for name in names if name.rpartition(".")[0] == face] for face in FACES]
    return [group for group in by_face if group]


@pytest.mark.parametrize("names", groups(), ids=lambda names: names[0].rpartition(".")[0])
def test_wrong_calls_return_or_are_refused_in_words(names: list[str]) -> None:
    assert outcomes_of(names) == []


def test_there_are_valid_calls_to_begin_with() -> None:
    import tapegrad as tf

    (call,) = valid_calls("tapegrad.reshape", tf.reshape)

    assert call.function is tf.reshape
    assert len(call.args) == 2


@pytest.mark.parametrize(
    ("function", "result"),
    [
        (lambda x: x.missing, "internal"),
        (lambda x: [1][x], "raw"),
        (lambda x: {}[x], "internal"),
        (lambda x: x, "returned"),
    ],
)
def test_bad_ends_are_noticed(function: Any, result: str) -> None:
    found = outcome(Call("made up", function, (1.5,), {}), "x", "1.5", (1.5,), {})

    assert found.result == result


def test_every_public_function_of_a_face_is_checked() -> None:
    named = {name: target for face in FACES for name, target in public_names(face)}
    functions = {name: f for name, f in named.items() if isinstance(f, FunctionType)}
    # The first check their arguments themselves, and the second wrap functions that are checked.
    own = (
        "tapegrad.autodiff",
        "tapegrad.core",
        "tapegrad.program",
        "tapegrad.debug",
        "tapegrad.data",
        "tapegrad.compat.autograd",
        "tapegrad.experimental.dispatch",
        "tapegrad.experimental.dlpack",
        "tapegrad.keras.naming",
        "tapegrad.keras.version",
        "tapegrad.type_specs",
    )
    left = [
        name
        for name, function in functions.items()
        if can_be_checked(function)
        and not function.__module__.startswith(own)
        and not name.startswith("tapegrad.keras.ops")
    ]

    assert len(functions) > 1000
    assert left == []
