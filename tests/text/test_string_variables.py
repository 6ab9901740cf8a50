"""Variables of text."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tapegrad as tf


def test_a_variable_of_text_is_read_and_assigned() -> None:
    animal = tf.Variable("Elephant", tf.string)
    words = tf.Variable(["a", "bc"], name="words", dtype=tf.string)

    assert (animal.dtype, animal.shape, words.shape) == (tf.string, (), (2,))
    assert (animal.name, words.name) == ("Variable:0", "words:0")
    assert animal.numpy() == b"Elephant"
    assert animal.assign("Mouse").numpy() == animal.value().numpy() == b"Mouse"
    assert tf.strings.length(words).numpy().tolist() == [1, 2]
    before = words.read_value()
    words.assign(["x", "y"])
    assert (before.tolist(), words.numpy().tolist()) == ([b"a", b"bc"], [b"x", b"y"])
    joined = tf.concat([words, ["z"]], 0)
    assert joined.numpy().tolist() == [b"x", b"y", b"z"]
    assert repr(animal) == "<tapegrad.Variable 'Variable:0' shape=(), dtype=string, numpy=b'Mouse'>"


def test_another_shape_is_refused() -> None:
    with pytest.raises(ValueError, match=r"expects shape \(2,\). Got \(3,\)"):
        tf.Variable(["a", "b"]).assign(["a", "b", "c"])


def test_arrays_of_text_are_copied() -> None:
    array = np.array([b"a", b"b"], object)
    words = tf.Variable(array)
    array[0] = b"c"
    words.numpy()[1] = b"d"
    assert words.numpy().tolist() == [b"a", b"b"]


def test_recorded_functions_read_the_present_text() -> None:
    name = tf.Variable("first")
    count = tf.Variable(0)

    @tf.function
    def greet() -> tf.Tensor:
        count.assign_add(1)
        return tf.strings.join([name, "!"])

    with pytest.warns(UserWarning, match="runs eagerly"):
        assert greet().numpy() == b"first!"
    name.assign("second")
    assert greet().numpy() == b"second!"
    assert int(count) == 2


def test_recorded_functions_assign_text() -> None:
    name = tf.Variable("")

    @tf.function
    def rename(x: tf.Tensor) -> tf.Tensor:
        name.assign("large" if x.shape[0] > 2 else "small")
        return x * 2

    with pytest.warns(UserWarning, match="runs eagerly"):
        rename(tf.zeros(2))
    assert name.numpy() == b"small"
    name.assign("other")
    rename(tf.zeros(2))
    assert name.numpy() == b"small"


def test_checkpoints_hold_texts(tmp_path: Path) -> None:
    def holder(*texts: Any) -> Any:
        module = tf.Module()
        module.name_of_it, module.words = [tf.Variable(text, tf.string) for text in texts]
        return module

    kept = holder("Elephant", [[b"\xff\x00", "é"]])
    path = tf.train.Checkpoint(kept, note=tf.Variable("first")).save(str(tmp_path / "ckpt"))
    other, note = holder("", [["", ""]]), tf.Variable("")

    tf.train.Checkpoint(other, note=note).restore(path).assert_consumed()

    assert (other.name_of_it.numpy(), note.numpy()) == (b"Elephant", b"first")
    assert other.words.numpy().tolist() == [[b"\xff\x00", "é".encode()]]
    with pytest.raises(ValueError, match=r"shape \(1, 3\)"):
        tf.train.Checkpoint(holder("", [["", "", ""]]), note=note).restore(path)
