"""custom_gradient inside and around vmap (row C2 of the semantics table)."""

from __future__ import annotations

import tapegrad as tf


def record(function, *inputs, **keywords):
    """Run a function on watched inputs; return the tape and the result."""
    with tf.GradientTape() as tape:
        tape.watch(list(inputs))
        result = function(*inputs, **keywords)
    return tape, result


@tf.custom_gradient
def constant_slope(x, w):
    return x * w, lambda upstream: (tf.constant(5.0), upstream * 7.0)


def test_C2_inside_vmap_gradients_are_per_example():
    def gradients(x):
        return tf.grad(lambda x: constant_slope(x, x), argnums=0)(x)

    assert tf.vmap(gradients)(tf.constant([1.0, 2.0])).numpy().tolist() == [12.0, 12.0]


def test_C2_around_vmap_gradients_of_shared_values_add_up():
    xs, w = tf.constant([1.0, 2.0, 3.0]), tf.constant(2.0)
    tape, y = record(lambda xs, w: tf.vmap(lambda x: constant_slope(x, w))(xs), xs, w)

    of_xs, of_w = tape.gradient(y, [xs, w])

    assert of_xs.numpy().tolist() == [5.0, 5.0, 5.0]
    assert float(of_w) == 21.0


def test_C2_a_captured_variable_inside_vmap():
    v = tf.Variable(2.0)

    @tf.custom_gradient
    def scale(x):
        return x * v, lambda upstream, variables: (upstream * 10.0, [upstream * x])

    with tf.GradientTape() as tape:
        y = tf.vmap(scale)(tf.constant([1.0, 2.0, 3.0]))

    assert float(tape.gradient(y, v)) == 6.0


def test_C2_a_captured_variable_and_a_tape_inside_vmap():
    v = tf.Variable(2.0)

    @tf.custom_gradient
    def scale(x):
        return x * v, lambda upstream, variables: (upstream * 10.0, [upstream * x])

    def gradient(x):
        with tf.GradientTape() as tape:
            y = scale(x)
        return tape.gradient(y, v)

    assert tf.vmap(gradient)(tf.constant([1.0, 2.0, 3.0])).numpy().tolist() == [1.0, 2.0, 3.0]


def test_C2_two_batches_inside_each_other():
    rows, columns = tf.constant([1.0, 2.0]), tf.constant([3.0, 4.0, 5.0])
    with tf.GradientTape() as tape:
        tape.watch([rows, columns])
        y = tf.vmap(lambda x: tf.vmap(lambda w: constant_slope(x, w))(columns))(rows)
    of_rows, of_columns = tape.gradient(y, [rows, columns])

    assert y.numpy().tolist() == [[3.0, 4.0, 5.0], [6.0, 8.0, 10.0]]
    assert of_rows.numpy().tolist() == [15.0, 15.0]
    assert of_columns.numpy().tolist() == [14.0, 14.0, 14.0]
