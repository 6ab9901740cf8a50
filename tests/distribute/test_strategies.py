"""Strategies with several replicas reach the weights of one replica."""

from __future__ import annotations

import json
import runpy
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from tapegrad.distribute import replica_processes
from tapegrad.distribute.replica_processes import REPLICAS, place_with_replicas
from tapegrad.errors import ArgumentError
from tests.distribute.processes import PROGRAMS, finish, needs_mpi, run
from tests.seeds import LONG


def _flat(values: Any) -> np.ndarray:
    return np.concatenate([np.ravel(value) for value in values])


@needs_mpi
@pytest.mark.parametrize("count", [2, 3, 4] if LONG else [2])
def test_replicas_train_as_one_does(
    count: int, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.argv", ["strategies.py"])
    runpy.run_path(str(PROGRAMS / "strategies.py"))
    expected = json.loads(capsys.readouterr().out)

    done = run("strategies.py", count, "different")

    # At the end the replicas make different layers, which the error names.
    assert done.status == 1
    assert "rank 0 is kernel:0 float32[4, 3], that of rank 1 is kernel:0 float32[4, 4]" in done.err
    printed = [line.partition("] ")[2] for line in done.out.splitlines()]
    # Programs that accumulate gradients and use Horovod's API check their results themselves.
    assert {f"done {rank}" for rank in range(count)} <= {*printed}
    assert {f"accumulated {rank}" for rank in range(count)} <= {*printed}
    found = json.loads(next(line for line in printed if line.startswith("{")))
    # Metrics count a last batch of fewer rows than replicas more than once.
    for name in expected.keys() - ({"history"} if count > 2 else set()):
        np.testing.assert_allclose(
            _flat(found[name]), _flat(expected[name]), rtol=2e-5, atol=1e-6, err_msg=name
        )


SCRIPT = """
import sys
import tapegrad as tf
from tapegrad import distribute, keras

strategy = tf.distribute.MirroredStrategy(sys.argv[1:] or None)
with strategy.scope():
    model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(1, kernel_initializer="ones")])
    model.compile(keras.optimizers.SGD(0.1), "mse")
rows = tf.reshape(tf.range(24.0) / 24, (8, 3))
model.fit(rows, rows[:, :1], batch_size=8, verbose=0)
print(strategy.num_replicas_in_sync, model.get_weights()[0].ravel().round(5).tolist())
total = float(distribute.all_reduce(1.0))
if "--fail" in sys.argv and distribute.rank() == 1:
    raise ZeroDivisionError("the data of this rank are bad")
print("sum", float(distribute.all_reduce(total)))
"""


@needs_mpi
@pytest.mark.parametrize("way", ["devices", "variable"] if LONG else ["devices"])
def test_a_script_starts_its_other_replicas(way: str, tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(SCRIPT)
    names = ["/cpu:0", "/cpu:1"] if way == "devices" else []
    alone = finish([sys.executable, str(script)], TAPEGRAD_REPLICAS="1")
    two = finish([sys.executable, str(script), *names], **({} if names else {REPLICAS: "2"}))

    assert (alone.status, alone.err) == (two.status, two.err) == (0, "")
    first, last = two.out.splitlines()
    assert first.replace("2 ", "1 ", 1) == alone.out.splitlines()[0]
    assert last == "sum 4.0"


@needs_mpi
def test_an_error_of_a_replica_ends_the_script(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(SCRIPT.replace("sys.argv[1:] or None", "None"))
    done = finish([sys.executable, str(script), "--fail"], TAPEGRAD_REPLICAS="2")

    assert done.status == 1
    assert "[1] ZeroDivisionError: the data of this rank are bad" in done.err
    assert "AbortedError: Rank 1 has failed." in done.err
    assert "sum" not in done.out


def test_only_scripts_are_started_again(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv(REPLICAS, "2")
    assert place_with_replicas([]) is None  # a test runner has called this

    monkeypatch.setitem(sys.modules, "__main__", SimpleNamespace(__file__=__file__))
    monkeypatch.setenv(REPLICAS, "none")
    with pytest.raises(ArgumentError, match="TAPEGRAD_REPLICAS must be a number of replicas"):
        place_with_replicas([])
    monkeypatch.delenv(REPLICAS)
    monkeypatch.setenv("TAPEGRAD_DEVICE", "cpu")
    assert place_with_replicas([]) is None
    assert "has one replica, because one device is visible" in capsys.readouterr().err
    monkeypatch.setenv("RANK", "0")
    monkeypatch.setenv("WORLD_SIZE", "1")
    assert place_with_replicas(["/cpu:0", "/cpu:1"]) is None  # torchrun decides


def test_replicas_are_counted_by_devices(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TAPEGRAD_DEVICE", raising=False)
    monkeypatch.setattr(replica_processes, "list_devices", lambda: ["cuda:0", "cuda:1", "cpu"])
    for devices, count in (
        ([], 2),
        (["/gpu:0", "/gpu:1", "/job:localhost/replica:0/task:0/device:GPU:2"], 3),
        (["GPU:1", "GPU:0"], 1),  # each replica takes the GPU of its number
        (["GPU:0", "CPU:1"], 1),
        (["cpu:0", "cpu:0"], 2),
        (["GPU:0"], 1),
    ):
        assert replica_processes._count(devices) == count, devices
