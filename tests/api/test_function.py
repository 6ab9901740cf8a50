"""`function` does not change what tapes record."""

from __future__ import annotations

import numpy as np
import pytest

import tapegrad as tf


@pytest.mark.parametrize("decorate", [tf.function, tf.function(), tf.function(jit_compile=True)])
def test_N2_a_decorated_function_computes_what_it_computed(decorate):
    square = decorate(lambda x: x * x)

    assert float(square(tf.constant(3.0))) == 9.0


def test_N2_a_tape_around_a_function_differentiates_it():
    w = tf.Variable(2.0)
    cube = tf.function(lambda x: w * x * x * x)
    x = tf.constant(3.0)

    with tf.GradientTape() as tape:
        tape.watch(x)
        y = cube(x)

    assert [float(g) for g in tape.gradient(y, [x, w])] == [54.0, 27.0]


def test_N2_a_tape_inside_a_function_takes_variables_as_arguments():
    @tf.function
    def gradient_of(v):
        with tf.GradientTape() as tape:
            y = v * v
        return tape.gradient(y, v)

    assert [float(gradient_of(tf.Variable(x))) for x in (1.0, 5.0)] == [2.0, 10.0]


def test_N2_the_original_function_is_kept():
    def f(x):
        """Say something."""
        return x

    assert tf.function(f).python_function is f
    assert tf.function(f).__doc__ == f.__doc__


def test_what_is_no_function_is_refused():
    with pytest.raises(TypeError, match=r"function\(\) decorates a function. Got int"):
        tf.function(3)


def test_a_single_number_in_half_precision_can_be_moved_inside():
    w = tf.Variable(tf.cast(1.0, "bfloat16"))

    @tf.function
    def step():
        w.assign_add(tf.cast(0.5, "bfloat16") * w)
        return w + w

    assert [float(step()) for _ in range(3)] == [3.0, 4.5, 6.75]


def test_the_call_that_records_under_a_tape_gives_the_bits_of_later_calls():
    w = tf.Variable(np.linspace(-1, 1, 300, dtype="float32").reshape(30, 10))
    seen = tf.Variable(np.zeros(10, "float32"), trainable=False)

    @tf.function
    def loss(x):
        y = tf.nn.softmax(x @ w)
        seen.assign(seen * 0.9 + tf.reduce_mean(tf.tanh(y) ** 3, axis=0))
        return tf.reduce_sum(tf.tanh(y * 7.7) ** 3, axis=1)

    def step():
        seen.assign(np.full(10, 0.3, "float32"))
        x = tf.constant(np.sin(np.arange(600, dtype="float32")).reshape(20, 30))
        with tf.GradientTape() as tape:
            y = loss(x)
        return [value.numpy().tobytes() for value in (y, tape.gradient(y, w), seen)]

    first = step()

    assert step() == first
