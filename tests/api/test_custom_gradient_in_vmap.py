"""custom_gradient inside and around vmap."""

from __future__ import annotations

import pytest

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


@tf.custom_gradient
def product(x, w):
    """Opens a tape for its gradient; in vmap it may share either input."""

    def gradient(upstream):
        with tf.GradientTape() as tape:
            tape.watch([x, w])
            y = x * x * w
        return tape.gradient(y, [x, w], upstream)

    return x * x * w, gradient


def test_C2_a_tape_in_the_gradient_of_a_function_inside_vmap():
    xs, w = tf.constant([1.0, 2.0, 3.0]), tf.constant(2.0)
    tape, y = record(lambda xs, w: tf.vmap(lambda x: product(x, w))(xs), xs, w)

    of_xs, of_w = tape.gradient(y, [xs, w])

    assert of_xs.numpy().tolist() == [4.0, 8.0, 12.0]
    assert float(of_w) == 14.0


def test_C2_a_tape_in_the_gradient_inside_two_vmaps():
    rows, columns = tf.constant([1.0, 2.0]), tf.constant([3.0, 4.0, 5.0])
    with tf.GradientTape() as tape:
        tape.watch([rows, columns])
        y = tf.vmap(lambda x: tf.vmap(lambda w: product(x, w))(columns))(rows)
    of_rows, of_columns = tape.gradient(y, [rows, columns])

    assert of_rows.numpy().tolist() == [24.0, 48.0]
    assert of_columns.numpy().tolist() == [5.0, 5.0, 5.0]


def test_F10_forward_mode_around_and_inside_vmap():
    xs, w = tf.constant([1.0, 2.0, 3.0]), tf.constant(2.0)
    with tf.autodiff.ForwardAccumulator(xs, tf.ones_like(xs)) as around:
        y = tf.vmap(lambda x: product(x, w))(xs)

    def inside(x):
        with tf.autodiff.ForwardAccumulator(x, tf.ones_like(x)) as accumulator:
            y = product(x, w)
        return accumulator.jvp(y)

    assert around.jvp(y).numpy().tolist() == [4.0, 8.0, 12.0]
    assert tf.vmap(inside)(xs).numpy().tolist() == [4.0, 8.0, 12.0]


def test_C2_a_function_inside_vmap_that_captures_the_example():
    xs, w = tf.constant([1.0, 2.0, 3.0]), tf.constant(2.0)

    def captures(x):
        return tf.custom_gradient(lambda w: (x * w, lambda upstream: upstream * x))(w)

    tape, y = record(lambda xs, w: tf.vmap(captures)(xs), xs, w)

    assert float(tape.gradient(y, w)) == 6.0


def test_C10_recompute_grad_with_a_shared_input_inside_vmap():
    xs, w = tf.constant([1.0, 2.0, 3.0]), tf.constant(2.0)
    again = tf.recompute_grad(lambda x, w: x * x * w)

    tape, y = record(lambda xs, w: tf.vmap(lambda x: again(x, w))(xs), xs, w)
    of_xs, of_w = tape.gradient(y, [xs, w])
    inside = tf.vmap(tf.grad(again, argnums=(0, 1)), in_axes=(0, None))(xs, w)

    assert (of_xs.numpy().tolist(), float(of_w)) == ([4.0, 8.0, 12.0], 14.0)
    assert [part.numpy().tolist() for part in inside] == [[4.0, 8.0, 12.0], [1.0, 4.0, 9.0]]


@pytest.mark.parametrize("by_upstream", [False, True])
def test_C2_a_tape_over_an_upstream_gradient_with_rows(by_upstream):
    """The upstream gradient is a batch of rows, what else is watched is not."""

    @tf.custom_gradient
    def cube(x):
        def gradient(upstream):
            with tf.GradientTape() as tape:
                tape.watch([x, upstream])
                y = x * x * x * upstream * upstream
            of_x, of_upstream = tape.gradient(y, [x, upstream])
            return of_upstream * 1.5 / x if by_upstream else of_x / upstream

        return x * x * x, gradient

    x = tf.constant([1.0, 2.0])
    with tf.GradientTape(persistent=True) as tape:
        tape.watch(x)
        y = cube(x)
    seeds = tf.constant([[1.0, 10.0], [100.0, 1000.0]])
    rows = tf.vmap(lambda seed: tape.gradient(y, x, seed))(seeds)

    assert rows.numpy().tolist() == [[3.0, 120.0], [300.0, 12000.0]]


def test_C2_an_upstream_gradient_without_axes_is_a_tensor():
    @tf.custom_gradient
    def square(x):
        def gradient(upstream):
            assert type(upstream) is tf.Tensor
            return 2.0 * upstream * x

        return x * x, gradient

    x = tf.constant([1.0, 2.0], dtype="float64")
    tape, y = record(lambda x: tf.reduce_sum(tf.stack([square(part) for part in x])), x)

    assert tape.gradient(y, x).numpy().tolist() == [2.0, 4.0]
