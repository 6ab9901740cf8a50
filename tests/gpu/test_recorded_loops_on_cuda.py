"""Loops of many rounds on a GPU: graphs of some rounds compute what the CPU computes."""

import numpy as np
import pytest

import tapegrad as tf
from tapegrad_cupy.graphs import rounds

rng = np.random.default_rng(3)


def results(device, length, backwards):
    """Return a loss and its gradients by a recorded function, at its first and later calls."""
    with tf.device(device):
        weights = tf.Variable(0.3 * np.eye(3) + 0.1)
        x, h = (tf.constant(array) for array in ARRAYS[length])

        @tf.function
        def step(x, h):
            with tf.GradientTape() as tape:
                tape.watch([x, h])
                states = tf.scan(
                    lambda state, y: tf.tanh(state @ weights + y), x, h, reverse=backwards
                )
                loss = tf.reduce_sum(states[::3] ** 2)
            return loss, *tape.gradient(loss, [x, h, weights])

        return [[value.numpy() for value in step(x, h)] for _ in range(4)]


ARRAYS = {
    length: (rng.standard_normal((length, 2, 3)), rng.standard_normal((2, 3)))
    for length in (200, 1000, 1024)
}


@pytest.mark.parametrize("backwards", [False, True])
@pytest.mark.parametrize("length", [200, 1000, 1024])
def test_scan_and_its_gradients_are_those_of_the_cpu(length, backwards):
    (expected, *_), found = results("cpu", length, backwards), results("cuda", length, backwards)
    for call in found:
        for one, other in zip(call, expected, strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-10, atol=1e-12)


def test_a_long_loop_launches_few_graphs(monkeypatch):
    launches = []
    launched = rounds.Captured.__call__

    def count(self, *args):
        launches.append(self)
        return launched(self, *args)

    monkeypatch.setattr(rounds.Captured, "__call__", count)
    with tf.device("cuda"):
        x = tf.constant(rng.standard_normal((6400, 1, 4)))
        weights = tf.constant(0.9 * np.eye(4))
        total = tf.function(lambda x: tf.foldl(lambda state, y: state @ weights + tf.sin(y), x))
        total(x)
        launches.clear()
        total(x)
    assert 100 <= len(launches) <= 104


def test_while_loops_run_until_their_condition_is_false():
    def halve(x):
        return tf.while_loop(
            lambda n, y: tf.reduce_sum(y * y) > 1e-3, lambda n, y: (n + 1, y * 0.5), (0, x)
        )

    function = tf.function(halve)
    for scale in (1.0, 1e3, 0.0):
        value = scale * np.ones(4)
        with tf.device("cuda"):
            found = [one.numpy() for one in function(tf.constant(value))]
        with tf.device("cpu"):
            expected = [tf.convert_to_tensor(one).numpy() for one in halve(tf.constant(value))]
        np.testing.assert_allclose(found[1], expected[1], rtol=1e-12)
        assert found[0] == expected[0]
