"""Gradients of a function belong to their variables, in whatever order it reads them."""

import numpy as np

import tapegrad as tf


def test_variables_that_are_read_in_another_order_than_they_were_made():
    first, second = tf.Variable(np.ones((2, 3), "float32")), tf.Variable(np.ones(3, "float32"))

    @tf.function
    def line(x):
        bias = second.value()
        return x @ first.value() + bias

    x = tf.constant([[1.0, 2.0]])
    for _ in range(2):
        with tf.GradientTape() as tape:
            y = tf.reduce_sum(line(x))
        found = tape.gradient(y, [first, second])

        assert found[0].tolist() == [[1.0] * 3, [2.0] * 3]
        assert found[1].tolist() == [1.0] * 3
