"""Combinations of small arrays on CUDA against NumPy in double precision."""

from __future__ import annotations

import numpy as np
import pytest

import tapegrad as tf
import tapegrad.numpy as tnp

cupy = pytest.importorskip("cupy")


def pull(x, mass):
    apart = x[None, :, :] - x[:, None, :]
    distance = tnp.sqrt(tnp.sum(apart**2, axis=-1) + 0.01)
    return tnp.sum(mass[None, :, None] * apart / distance[:, :, None] ** 3, axis=1)


def instance_norm(x, gain, bias):
    mean, variance = tf.nn.moments(x, axes=[1, 2], keepdims=True)
    return (x - mean) / tf.sqrt(variance + 1e-3) * gain + bias


def with_gradients(function):
    def step(*given):
        with tf.GradientTape() as tape:
            tape.watch(list(given))
            y = function(*given)
            total = tf.reduce_sum(tf.sin(y))
        return [y, *tape.gradient(total, list(given))]

    return step


def check(function, *arrays, precision):
    step = with_gradients(function)
    with tf.device("CPU:0"):
        wanted = [one.numpy() for one in step(*[tf.constant(a, "float64") for a in arrays])]
    with tf.device("GPU:0"):
        given = [tf.constant(a, "float32") for a in arrays]
        compiled = tf.function(step)
        for _ in range(3):
            found = [one.numpy() for one in compiled(*given)]
    for one, other in zip(found, wanted, strict=True):
        assert np.abs(one - other).max() <= precision * np.abs(other).max()


@pytest.mark.parametrize("count", [64, 777, 2500])
def test_forces_of_all_pairs_and_their_gradients(count):
    rng = np.random.default_rng(count)
    check(pull, rng.normal(size=(count, 3)), rng.uniform(1, 2, count) / count, precision=2e-5)


def test_an_instance_norm_by_hand_and_its_gradients():
    rng = np.random.default_rng(0)
    shapes = ((6, 40, 33, 24), (24,), (24,))
    check(instance_norm, *[rng.normal(size=shape) for shape in shapes], precision=1e-4)
