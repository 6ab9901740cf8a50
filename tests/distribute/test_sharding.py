"""Sharded weights, states and checkpoints against training in one process."""

from __future__ import annotations

import re

import numpy as np
import pytest

import tapegrad as tf
from tapegrad import distribute, keras
from tapegrad.errors import ArgumentError, FileFormatError
from tests.distribute.kills import kill_and_resume
from tests.distribute.processes import needs_mpi, run
from tests.seeds import LONG, SEED

CASES = [("sharding.py", 2), ("parallel.py", 2), ("memory.py", 2)]
LONG_CASES = [*CASES, ("sharding.py", 3), ("parallel.py", 4)]


@needs_mpi
@pytest.mark.parametrize(("program", "count"), LONG_CASES if LONG else [CASES[SEED % 3]])
def test_sharded_training_is_that_of_one_process(program: str, count: int) -> None:
    done = run(program, count)

    assert (done.status, done.err) == (0, "")
    lines = sorted(done.out.splitlines())
    assert [line for line in lines if "done" in line] == [f"[{r}] done {r}" for r in range(count)]
    peaks = [float(peak) for peak in re.findall(r"peak (\S+)", done.out)]
    # An eager step and a recorded one.
    assert len(peaks) == (2 * count if program == "memory.py" else 0)
    assert max(peaks, default=0.0) <= 1.1 / count  # of the memory of one process


@needs_mpi
def test_gradients_in_half_precision_lose_nothing_but_the_last_rest() -> None:
    count = 3 if LONG else 2
    done = run("compressed.py", count)

    assert (done.status, done.err) == (0, "")
    assert sorted(done.out.splitlines()) == [f"[{r}] done {r}" for r in range(count)]


@needs_mpi
def test_training_that_is_killed_resumes_to_the_same_bits() -> None:
    kills = 10 if LONG else 3

    assert kill_and_resume(kills, 6 * kills, [2, 1], SEED)["kills"] == kills


def _model() -> keras.Sequential:
    return keras.Sequential([keras.Input((3,)), keras.layers.Dense(4), keras.layers.Dense(2)])


def _state(model: keras.Sequential) -> list[np.ndarray]:
    return [weight.copy() for weight in model.get_weights()]


def test_a_checkpoint_without_its_manifest_is_absent(tmp_path) -> None:
    model = _model()
    checkpoint = distribute.ShardedCheckpoint(tmp_path, model=model, keep=2)
    for number in (1, 2, 3):
        checkpoint.save(number)
    checkpoint.wait()
    assert checkpoint.numbers() == [2, 3]

    (tmp_path / "ckpt-0000000003" / "manifest.json").unlink()
    saved = _state(model)
    model.set_weights([weight * 0 for weight in saved])

    assert checkpoint.restore() == 2
    for found, expected in zip(_state(model), saved):
        np.testing.assert_array_equal(found, expected)
    assert distribute.ShardedCheckpoint(tmp_path / "none", model=model).restore() is None


def test_a_checkpoint_that_does_not_fit_changes_nothing(tmp_path) -> None:
    checkpoint = distribute.ShardedCheckpoint(tmp_path, model=_model())
    checkpoint.save(1)
    checkpoint.wait()
    other = keras.Sequential([keras.Input((3,)), keras.layers.Dense(4), keras.layers.Dense(5)])
    before = _state(other)

    with pytest.raises(FileFormatError, match="has"):
        distribute.ShardedCheckpoint(tmp_path, model=other).restore()

    for found, expected in zip(_state(other), before):
        np.testing.assert_array_equal(found, expected)


def test_an_error_of_the_writing_thread_is_raised(tmp_path) -> None:
    (tmp_path / "file").write_text("no folder")
    checkpoint = distribute.ShardedCheckpoint(tmp_path / "file", step=tf.Variable(1))
    checkpoint.save(1)

    with pytest.raises(OSError, match="file"):
        checkpoint.wait()
    checkpoint.wait()  # it is raised once


def test_wrong_uses_are_explained() -> None:
    with pytest.raises(ArgumentError, match="fully_shard needs a model with weights"):
        distribute.fully_shard(keras.Sequential([keras.layers.Dense(2)]))
    with pytest.raises(ArgumentError, match="Lamb computes with whole gradients"):
        distribute.shard_states(keras.optimizers.Lamb())
    with pytest.raises(ArgumentError, match="use_ema must be False"):
        distribute.shard_states(keras.optimizers.SGD(use_ema=True))
    compressed = distribute.compress_gradients(keras.optimizers.SGD())
    with pytest.raises(ArgumentError, match="cannot be combined with compress_gradients"):
        distribute.shard_states(compressed)
    with pytest.raises(ArgumentError, match="already adds gradients in half precision"):
        distribute.compress_gradients(compressed)
    with pytest.raises(ArgumentError, match="cannot be combined with shard_states"):
        distribute.compress_gradients(distribute.shard_states(keras.optimizers.SGD()))
    with pytest.raises(ArgumentError, match="dtype must be 'bfloat16' or 'float16'"):
        distribute.compress_gradients(keras.optimizers.SGD(), "int8")
    with pytest.raises(ArgumentError, match="shards must be a number of parts"):
        distribute.same_bits(0).__enter__()
    with pytest.raises(ArgumentError, match="ShardedCheckpoint needs objects by name"):
        distribute.ShardedCheckpoint("folder")
    with pytest.raises(ArgumentError, match=r"shape \(2, 2\) needs 4 processes"):
        keras.distribution.DeviceMesh((2, 2), ["a", "b"])
    mesh = keras.distribution.DeviceMesh((1, 1), ["batch", "model"])
    with pytest.raises(ArgumentError, match="it has no 'rows'"):
        keras.distribution.TensorLayout(("rows",), mesh)
    layouts = keras.distribution.LayoutMap(mesh)
    layouts["kernel"], layouts["dense.*"] = (None, "model"), (None, "model")
    with pytest.raises(ArgumentError, match="matches several keys"):
        layouts["dense/kernel"]
