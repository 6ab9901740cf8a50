"""The comparison of fast paths, on and off: who runs when, with what, and what the table says."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import cleverness
from tapegrad_bench.workload import Problem
from tapegrad_bench.workloads import WORKLOADS


@pytest.mark.parametrize("mode", cleverness.MODES)
@pytest.mark.parametrize("name", ["mlp_small", "scalar_chain"])
def test_steps_alternate_between_two_batches(name, mode):
    workload = WORKLOADS[name]
    problem = Problem(workload, workload.check, "float32")
    library, step = cleverness.make_step("cpu", mode, problem)

    losses = [float(np.asarray(step()[0])) for _ in range(4)]
    library.synchronize(None)

    assert all(np.isfinite(losses))
    if name == "mlp_small":
        # Adam changes the weights, and each batch is another one.
        assert len(set(losses)) == len(losses)


@pytest.fixture
def processes(monkeypatch):
    """Note which processes are started, instead of starting them."""
    started: list[dict[str, Any]] = []

    def run(command, env, **options):
        off = [name for name in cleverness.VARIABLES if env.get(name) == "0"]
        started.append({"off": off, "device": env.get("TAPEGRAD_DEVICE"), "command": command})
        seconds = {"rnn eager": 2e-3 if off else 1e-3}
        return SimpleNamespace(stdout=f"something printed\n{json.dumps(seconds)}\n")

    monkeypatch.setattr(cleverness.subprocess, "run", run)
    return started


def test_each_process_has_one_part_off_and_the_order_changes(processes, monkeypatch, capsys):
    monkeypatch.setenv("TAPEGRAD_DIRECT_CALLS", "0")
    clock = iter(range(100))
    monkeypatch.setattr(cleverness.time, "monotonic", lambda: float(next(clock)))

    status = cleverness.main(["--device", "cpu", "--rows", "rnn", "--budget", "7"])

    assert status == 0
    direct, counts = ["TAPEGRAD_DIRECT_CALLS"], ["TAPEGRAD_REFERENCE_COUNTS"]
    order = [one["off"] for one in processes]
    assert order[:6] == [[], direct, counts, direct, counts, []]
    assert {one["device"] for one in processes} == {"cpu"}
    printed = capsys.readouterr().out.splitlines()
    assert printed[0] == f"{len(order) // 3} rounds on cpu"
    assert "direct calls       rnn eager            1.00 ms  2.00 ms    2.000" in printed[2]
    assert printed[2].endswith("worth it")


def test_all_times_can_be_kept(processes, tmp_path, monkeypatch):
    monkeypatch.delenv("TAPEGRAD_DEVICE", raising=False)
    file = tmp_path / "times.json"

    cleverness.main(
        ["--device", "cuda", "--rows", "rnn", "--budget", "0", "--parts", "library replay",
         "--json", str(file)]
    )  # fmt: skip

    assert json.loads(file.read_text()) == [
        {"everything on": {"rnn eager": 1e-3}, "library replay": {"rnn eager": 2e-3}}
    ]
    assert [one["device"] for one in processes] == [None, None]


def test_unknown_words_are_refused(capsys):
    with pytest.raises(SystemExit):
        cleverness.main(["--device", "cpu", "--parts", "magic"])

    assert "There is no 'magic'." in capsys.readouterr().err
