"""Tapes inside a function, with output gradients that were computed outside of it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tapegrad as tf

X = np.array([[1.2, 0.5], [0.3, 2.0]])
SEED = tf.constant(np.arange(4.0).reshape(2, 2))

FUNCTIONS = {
    "matmul": lambda x: tf.matmul(x, tf.exp(x)),
    "softmax": tf.nn.softmax,
    "where": lambda x: tf.where(x > 1.0, x, x * x),
    "maximum": lambda x: tf.maximum(x, x * x),
    "gather": lambda x: tf.gather(x, [1, 0]),
    "slices": lambda x: tf.concat([x[:1], x[1:] * x[:1]], 0),
    "sort": tf.sort,
    "checkpoint": tf.recompute_grad(lambda x: x[0] * x + x[1]),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_seed_that_is_a_constant_of_the_function(name: str) -> None:
    def gradient(x: Any) -> Any:
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = FUNCTIONS[name](x)
        return tape.gradient(y, x, SEED)

    recorded = tf.function(gradient)
    for x in (tf.constant(X), tf.constant(X.T + 0.1)):
        np.testing.assert_allclose(recorded(x).numpy(), gradient(x).numpy(), rtol=1e-12)


def test_targets_of_which_one_is_made_outside_of_the_inputs() -> None:
    weights = tf.constant([2.0, 3.0])

    def gradient(x: Any) -> Any:
        with tf.GradientTape() as tape:
            tape.watch([x, weights])
            z = weights[:1] * weights[1:]  # known when the function is recorded
            y = x[:1] * weights[1:]
        return tape.gradient([z, y], [x, weights])

    recorded = tf.function(gradient)
    for value in (5.0, 7.0):
        of_x, of_weights = recorded(tf.constant([value, 1.0]))

        assert of_x.numpy().tolist() == [3.0, 0.0]
        assert of_weights.numpy().tolist() == [3.0, 2.0 + value]
