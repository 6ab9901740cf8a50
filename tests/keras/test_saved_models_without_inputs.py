"""Models that are saved before they know the shapes of their inputs."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import tapegrad as tf
from tapegrad import keras


class Scaled(keras.Model):
    def __init__(self) -> None:
        super().__init__()
        self.scale = tf.Variable(3.0)
        self.dense = keras.layers.Dense(2, kernel_initializer="ones")

    def call(self, x):
        return self.scale * self.dense(x)


class Held:
    """A variable of another library, such as Keras, which holds one of tapegrad."""

    def __init__(self, value: float) -> None:
        self._value = tf.Variable(value)

    def __tapegrad_variable__(self):
        return self._value


class Layer:
    """A layer of another library."""

    def __init__(self, value: float) -> None:
        self.kernel = Held(value)
        self._trainable_variables = [self.kernel]
        self.call = tf.function(lambda x: x * self.kernel._value)

    @property
    def variables(self):
        return [self.kernel]


def test_variables_that_objects_of_other_libraries_hold_are_found(tmp_path: Path) -> None:
    layer, other = Layer(3.0), Layer(0.0)
    path = tf.train.Checkpoint(layer=layer).write(str(tmp_path / "weights"))
    tf.train.Checkpoint(layer=other).restore(path)
    assert float(other.kernel._value) == 3.0

    layer.call(tf.constant(2.0))
    tf.saved_model.save(layer, tmp_path / "saved")
    loaded = tf.saved_model.load(tmp_path / "saved")
    assert (float(loaded.kernel), float(loaded.call(tf.constant(5.0)))) == (3.0, 15.0)


def test_a_model_that_was_never_called_is_saved_with_its_variables_alone(tmp_path: Path) -> None:
    with pytest.warns(UserWarning, match="is saved without a function"):
        tf.saved_model.save(Scaled(), tmp_path)
    loaded = tf.saved_model.load(tmp_path)
    assert float(loaded.scale) == 3.0
    assert (loaded.signatures, loaded.functions) == ({}, {})


def test_after_a_call_it_has_its_function(tmp_path: Path) -> None:
    model = Scaled()
    model(np.ones((2, 4), "float32"))
    tf.saved_model.save(model, tmp_path)
    loaded = tf.saved_model.load(tmp_path)
    np.testing.assert_array_equal(loaded(tf.ones([3, 4])), np.full((3, 2), 12.0))
