"""Calls of layers and metrics that change no variable."""

from __future__ import annotations

import numpy as np
import pytest

import tapegrad as tf
from tapegrad import keras
from tapegrad.errors import ArgumentError, ShapeError

X = np.random.default_rng(0).normal(size=(8, 3)).astype("float32")


def model():
    made = keras.Sequential(
        [
            keras.Input((3,)),
            keras.layers.Dense(2, kernel_regularizer="l2"),
            keras.layers.BatchNormalization(),
        ]
    )
    made(X, training=True)
    return made


def test_a_layer_computes_with_the_given_values_and_keeps_its_own():
    one, other = model(), model()
    before = one.get_weights()
    trained = [v.numpy() for v in other.trainable_variables]
    moving = [v.numpy() for v in other.non_trainable_variables]

    outputs, after = one.stateless_call(trained, moving, X, training=True)

    np.testing.assert_array_equal(outputs.numpy(), other(X, training=True).numpy())
    for value, variable in zip(after, other.non_trainable_variables, strict=True):
        np.testing.assert_allclose(value.numpy(), variable.numpy(), rtol=1e-6)
    assert any((a.numpy() != b).any() for a, b in zip(after, moving))
    for now, then in zip(one.get_weights(), before, strict=True):
        np.testing.assert_array_equal(now, then)


def test_losses_are_those_of_the_given_values():
    layer = model()
    zeros = [np.zeros(v.shape, "float32") for v in layer.trainable_variables]

    _, _, losses = layer.stateless_call(zeros, layer.non_trainable_variables, X, return_losses=True)

    assert [float(loss) for loss in losses] == [0.0]
    assert float(layer.losses[0]) > 0.0


def test_an_error_in_the_call_leaves_the_values():
    layer = model()
    before = layer.get_weights()
    values = [v.numpy() + 1 for v in layer.trainable_variables]

    with pytest.raises(ShapeError):
        layer.stateless_call(values, layer.non_trainable_variables, X[:, :2])

    for now, then in zip(layer.get_weights(), before, strict=True):
        np.testing.assert_array_equal(now, then)


def test_wrong_values_are_refused():
    layer = model()
    with pytest.raises(ShapeError, match=r"4 trainable variables\. Got 1 values"):
        layer.stateless_call([1.0], [], X)
    with pytest.raises(ArgumentError, match="has no variables yet"):
        keras.layers.Dense(2).stateless_call([], [], X)
    values = [tf.constant(v.numpy()) for v in layer.trainable_variables]
    with tf.GradientTape() as tape:
        tape.watch(values)
        with pytest.raises(ArgumentError, match="does not pass gradients to them"):
            layer.stateless_call(values, layer.non_trainable_variables, X)


def test_a_metric_counts_in_values():
    metric = keras.metrics.MeanSquaredError()
    metric.update_state([0.0], [5.0])

    start = metric.stateless_reset_state()
    once = metric.stateless_update_state(start, [0.0], [1.0])
    twice = metric.stateless_update_state(once, [0.0], [3.0])

    assert [float(metric.stateless_result(v)) for v in (once, twice)] == [1.0, 5.0]
    assert float(metric.result()) == 25.0
    with pytest.raises(ShapeError, match=r"2 metric variables\. Got 0 values"):
        metric.stateless_result([])


def test_the_scope_of_keras_names_these_methods():
    with pytest.raises(AttributeError, match="Layers and models have stateless_call"):
        _ = keras.StatelessScope
