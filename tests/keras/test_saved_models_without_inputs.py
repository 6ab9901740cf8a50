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


def test_a_model_that_was_never_called_is_saved_with_its_variables_alone(tmp_path: Path) -> None:
    with pytest.warns(UserWarning, match="without a function, because it has never been called"):
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
