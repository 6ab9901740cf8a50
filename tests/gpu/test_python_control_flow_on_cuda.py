"""Python control flow on tensors in recorded functions on the GPU agrees with eager code."""

from __future__ import annotations

import numpy as np
import pytest

import tapegrad as tf


def newton(a):
    x, rounds = a, 0
    while tf.reduce_max(tf.abs(x * x - a)) > 1e-9:
        x = 0.5 * (x + a / x)
        rounds += 1
    return tf.reduce_sum(x), rounds


def piecewise(x, w):
    if tf.reduce_sum(x) > 0.0:
        y = tf.tanh(x @ w)
    else:
        y = x * 0.5
    if tf.reduce_max(y) > 0.9:
        return tf.reduce_sum(y * y)
    return tf.reduce_sum(y)


def heavy(x, w):
    y = x
    if tf.reduce_sum(x) > 0.0:
        for _ in range(4):
            y = tf.tanh(y @ w)
    return tf.reduce_sum(y)


def test_a_while_statement():
    with tf.device("cuda"):
        compiled = tf.function(newton)
        for scale in (1.0, 5.0):
            a = tf.constant(np.linspace(1.0, 4.0, 50) * scale)
            found, wanted = compiled(a), newton(a)
            np.testing.assert_allclose(float(found[0]), float(wanted[0]), rtol=1e-12)
            assert int(found[1]) == int(wanted[1])
        assert not compiled.explain().eager_calls


@pytest.mark.parametrize(("python", "size"), [(piecewise, 16), (heavy, 512)])
def test_if_statements_and_their_gradients(python, size):
    rng = np.random.default_rng(0)

    def gradient(x, w):
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = python(x, w)
        return y, tape.gradient(y, x)

    with tf.device("cuda"):
        compiled = tf.function(gradient)
        w = tf.constant(rng.normal(size=(size, size)) * 0.05)
        for sign in (1.0, -1.0, 1.0, 1.0):
            x = tf.constant(np.abs(rng.normal(size=(size, size))) * sign)
            for one, other in zip(compiled(x, w), gradient(x, w), strict=True):
                np.testing.assert_allclose(one.numpy(), other.numpy(), rtol=1e-9, atol=1e-12)
        assert not compiled.explain().eager_calls


def test_prints_in_a_loop(capsys):
    @tf.function
    def function(n):
        for i in tf.range(n):
            if i % 2 == 0:
                tf.print("even", i)
        return n

    with tf.device("cuda"):
        for count in (3, 5, 5):
            function(tf.constant(count))
            wanted = "".join(f"even {k}\n" for k in range(0, count, 2))
            assert capsys.readouterr().err == wanted
