"""Arguments that programs for earlier versions of Keras pass."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

import tapegrad as tf
from tapegrad import keras
from tapegrad.keras import layers

X = np.random.default_rng(0).normal(size=(4, 5, 3)).astype("float32")


def test_optimizers_take_the_rate_as_lr() -> None:
    optimizer = keras.optimizers.SGD(lr=0.5)
    w = tf.Variable(3.0)

    optimizer.apply_gradients([(tf.constant(2.0), w)])

    assert float(w) == 2.0
    config = optimizer.get_config()
    assert config["learning_rate"] == 0.5
    assert "lr" not in config


def test_the_decay_of_rates_is_ignored_with_a_warning() -> None:
    with pytest.warns(UserWarning, match="decay is ignored"):
        optimizer = keras.optimizers.Adam(learning_rate=0.25, decay=1e-6)
    assert float(optimizer.learning_rate) == 0.25


@pytest.mark.parametrize(
    ("layer", "shape"),
    [
        (lambda: layers.Dense(2, input_dim=3), (None, 3)),
        (lambda: layers.Dense(2, input_shape=3), (None, 3)),
        (lambda: layers.LSTM(2, input_dim=3, input_length=5), (None, 5, 3)),
        (lambda: layers.GRU(2, input_dim=3, implementation=2), (None, None, 3)),
        (lambda: layers.Dense(2, input_shape=[3], batch_size=4), (4, 3)),
        (lambda: layers.Embedding(7, 2, input_length=5, input_shape=(5,)), (None, 5)),
    ],
)
def test_first_layers_give_the_shape_of_inputs(layer: Any, shape: Any) -> None:
    assert keras.Sequential([layer()]).input_shape == shape


def test_an_input_of_one_dimension_may_be_a_number() -> None:
    assert keras.Input(shape=3).shape == keras.Input(3).shape == (None, 3)


class Twice(layers.Dense):
    """A layer that creates weights after those of its base class."""

    def build(self, input_shape: Any) -> None:
        super().build(input_shape)
        self.factor = self.add_weight((), initializer="ones", name="factor")

    def call(self, inputs: Any) -> Any:
        return super().call(inputs) * self.factor


def test_layers_take_their_first_weights() -> None:
    kernel, bias = np.arange(6.0).reshape(3, 2), np.array([1.0, -1.0])
    given = layers.Dense(2, weights=[kernel, bias])
    twice = Twice(2, weights=[kernel, bias, 2.0])

    wanted = X @ kernel + bias
    np.testing.assert_allclose(given(X), wanted, rtol=1e-5)
    np.testing.assert_allclose(twice(X), 2 * wanted, rtol=1e-5)
    assert "weights" not in json.loads(json.dumps(given.get_config()))
    again = layers.Dense.from_config(given.get_config())
    assert again(X).shape == (4, 5, 2)


def test_arguments_that_no_layer_takes_are_refused() -> None:
    with pytest.raises(ValueError, match="Dense does not take the argument 'wieghts'"):
        layers.Dense(2, wieghts=[])


def test_names_in_the_scope_of_a_module() -> None:
    class Scaled(tf.Module):
        @tf.Module.with_name_scope
        def __call__(self, x: Any) -> Any:
            with self.name_scope as name:
                return name, x * 2

    assert Scaled(name="scaled")(3) == ("scaled/", 6)


def test_seeds_may_be_whole_floats() -> None:
    tf.random.set_seed(2.0)
    first = float(tf.random.normal([]))
    tf.random.set_seed(2)
    assert float(tf.random.normal([])) == first
    with pytest.raises(TypeError, match="whole number"):
        tf.random.set_seed(2.5)
