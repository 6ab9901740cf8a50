"""Checkpoints of dataset positions."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import tapegrad as tf
from tapegrad.errors import ArgumentError
from tapegrad.keras.saving import TensorFile, save_weights


def test_a_checkpoint_holds_the_position_in_a_shuffled_dataset(tmp_path: Path) -> None:
    dataset = tf.data.Dataset.range(20).shuffle(20, seed=3).batch(4)
    reading = dataset.iterator()
    for _ in range(2):
        next(reading)
    path = tf.train.Checkpoint(data=reading).write(str(tmp_path / "ckpt"))
    expected = [element.numpy().tolist() for element in reading]
    other = dataset.iterator()
    next(other)

    tf.train.Checkpoint(data=other).read(path).assert_consumed()

    assert [element.numpy().tolist() for element in other] == expected
    assert len(expected) == 3


class Whole:
    """A checkpoint with all that it can hold, and what that is like now."""

    def __init__(self, size: int = 12, momentum: float = 0.9) -> None:
        self.w = tf.Variable([1.0, 2.0])
        self.optimizer = tf.optimizers.SGD(0.1, momentum=momentum, use_ema=True)
        self.dataset = tf.data.Dataset.range(size).shuffle(size, seed=3).repeat(2).batch(4)
        self.checkpoint = tf.train.Checkpoint(
            a=1, data=self.dataset.iterator(), note=["x"], w=self.w, optimizer=self.optimizer
        )

    def step(self) -> None:
        next(self.checkpoint.data)
        self.checkpoint.a += 1
        self.optimizer.apply_gradients([(self.w * 1.0, self.w)])

    def look(self) -> object:
        variables = [self.w, *self.optimizer.variables, tf.random.get_global_generator().state]
        return (
            [(variable.name, variable.numpy().tolist()) for variable in variables],
            (self.checkpoint.a, list(self.checkpoint.note), self.checkpoint.data.state()),
            next(self.dataset.iterator()).numpy().tolist(),
        )


DAMAGE = {
    "another pipeline": (
        ("values", "data", "step"),
        "map",
        "with the step 'map', but this dataset",
    ),
    "another pipeline below": (("values", "data", "input", "input", "step"), "zip", "step 'zip'"),
    "no position": (
        ("values", "data", "input", "input", "taken"),
        -1,
        "'taken' must be an integer >= 0. Got -1",
    ),
    "a long way": (("values", "data", "input", "input", "taken"), 99, "beyond the last element"),
    "values in a list": (("values",), [], "is damaged: AttributeError"),
    "optimizers by number": (("optimizers",), 3, "is damaged: TypeError"),
    "no labels": (("optimizers", "optimizer"), {"known": ["w"]}, "is damaged: KeyError"),
    "labels of lists": (("optimizers", "optimizer", "known"), [["w"]], "is damaged: TypeError"),
}


@pytest.mark.parametrize("name", DAMAGE)
@pytest.mark.parametrize("steps", [0, 2], ids=["new", "at work"])
def test_a_checkpoint_that_is_refused_changes_nothing(
    name: str, steps: int, tmp_path: Path
) -> None:
    place, value, words = DAMAGE[name]
    saved = Whole()
    saved.step()
    path = saved.checkpoint.write(str(tmp_path / "ckpt"))
    with TensorFile(f"{path}.safetensors") as file:
        arrays = {name: tf.Variable(file[name]) for name in file}
        state = json.loads(file.metadata["tapegrad.checkpoint"])
    holder = state
    for key in place[:-1]:
        holder = holder[key]
    holder[place[-1]] = value
    save_weights(arrays, f"{path}.safetensors", {"tapegrad.checkpoint": json.dumps(state)})
    expected, whole = Whole(), Whole()
    for _ in range(steps):
        expected.step()
        whole.step()

    with pytest.raises(ArgumentError, match=words):
        whole.checkpoint.read(path)

    assert whole.look() == expected.look()


def test_slots_of_another_shape_are_refused_and_the_optimizer_stays_new(tmp_path: Path) -> None:
    saved = Whole()
    saved.step()
    path = saved.checkpoint.write(str(tmp_path / "ckpt"))
    with TensorFile(f"{path}.safetensors") as file:
        arrays = {name: tf.Variable(file[name]) for name in file}
        metadata = file.metadata
    arrays["optimizer/~slots/w/momentum"] = tf.Variable([1.0])
    save_weights(arrays, f"{path}.safetensors", metadata)
    whole = Whole()

    with pytest.raises(ArgumentError, match=r"momentum' is float32\[2\] here and float32\[1\]"):
        whole.checkpoint.read(path)

    assert whole.look() == Whole().look()


def test_an_optimizer_around_another_leaves_it_new_too_when_it_is_refused(tmp_path: Path) -> None:
    def make() -> tuple[tf.Variable, tf.keras.optimizers.LossScaleOptimizer]:
        return tf.Variable([1.0]), tf.keras.optimizers.LossScaleOptimizer(
            tf.keras.optimizers.Adam(0.1)
        )

    w, optimizer = make()
    optimizer.build([w])
    path = tf.train.Checkpoint(a=w, it=tf.data.Dataset.range(3).iterator(), o=optimizer).write(
        str(tmp_path / "ckpt")
    )
    w, optimizer = make()
    count = len(optimizer.inner_optimizer.variables)
    other = tf.train.Checkpoint(a=w, it=tf.data.Dataset.range(3).batch(2).iterator(), o=optimizer)

    with pytest.raises(ArgumentError, match="with the step 'range', but this dataset has 'batch'"):
        other.read(path)

    assert len(optimizer.inner_optimizer.variables) == count
    assert not optimizer.built


def test_a_state_too_deep_for_json_is_refused(tmp_path: Path) -> None:
    path = str(tmp_path / "ckpt")
    save_weights({}, f"{path}.safetensors", {"tapegrad.checkpoint": "[" * 200_000})

    with pytest.raises(ArgumentError, match="is damaged: RecursionError"):
        tf.train.Checkpoint().read(path)
