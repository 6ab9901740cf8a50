"""vmap, with tapes and variables inside and around it."""

from __future__ import annotations

import numpy as np
import pytest

import tapegrad as tf


@pytest.fixture
def x():
    return tf.constant([1.0, 2.0])


def cubes(x):
    return tf.reduce_sum(x * x * x)


def test_vmap_runs_a_function_of_one_example_on_many():
    a, b = np.arange(6.0).reshape(3, 2), np.ones((3, 2))

    result = tf.vmap(lambda a, b: tf.reduce_sum(a * b))(a, b)

    assert result.numpy().tolist() == a.sum(1).tolist()


def test_vmap_along_other_axes():
    a = np.arange(6.0).reshape(2, 3)

    result = tf.vmap(lambda a: a * 2.0, in_axes=1, out_axes=1)(a)

    assert result.numpy().tolist() == (2 * a).tolist()


def test_vmap_shares_arguments_without_axis(x):
    result = tf.vmap(lambda a, b: a * b, in_axes=(0, None))(x, tf.constant([10.0, 100.0]))

    assert result.numpy().tolist() == [[10.0, 100.0], [20.0, 200.0]]


def test_vmap_takes_and_gives_structures(x):
    result = tf.vmap(lambda p: {"twice": p["x"] * 2.0})({"x": x})

    assert result["twice"].numpy().tolist() == [2.0, 4.0]


def test_vmap_repeats_results_that_do_not_depend_on_the_example(x):
    assert tf.vmap(lambda a: tf.constant(7.0))(x).numpy().tolist() == [7.0, 7.0]


def test_vmap_nests(x):
    table = tf.vmap(lambda a: tf.vmap(lambda b: a * b)(x))(x)

    assert table.numpy().tolist() == [[1.0, 2.0], [2.0, 4.0]]


def test_vmap_of_grad_gives_gradients_per_example(x):
    assert tf.vmap(tf.grad(lambda x: x * x * x))(x).numpy().tolist() == [3.0, 12.0]


def test_vmap_of_vmap_of_grad():
    table = tf.constant([[1.0, 2.0], [3.0, 4.0]])

    gradients = tf.vmap(tf.vmap(tf.grad(lambda x: x * x * x)))(table)

    assert gradients.numpy().tolist() == [[3.0, 12.0], [27.0, 48.0]]


def test_grad_by_a_value_that_the_inner_examples_share(x):
    def outer(row):
        return tf.vmap(lambda b: tf.grad(lambda w: w * w * b)(row))(tf.constant([1.0, 10.0]))

    assert tf.vmap(outer)(x).numpy().tolist() == [[2.0, 20.0], [4.0, 40.0]]


def test_grad_by_a_value_that_the_outer_examples_share(x):
    def outer(a):
        return tf.vmap(lambda b: tf.grad(lambda w: w * w * a)(b))(tf.constant([1.0, 10.0]))

    assert tf.vmap(outer)(x).numpy().tolist() == [[2.0, 20.0], [4.0, 40.0]]


def test_a_variable_and_a_tape_inside_two_vmaps(x):
    v = tf.Variable(2.0)

    def inner(a, b):
        with tf.GradientTape() as tape:
            y = v * v * a * b
        return tape.gradient(y, v)

    table = tf.vmap(lambda a: tf.vmap(lambda b: inner(a, b))(tf.constant([1.0, 10.0])))(x)

    assert table.numpy().tolist() == [[4.0, 40.0], [8.0, 80.0]]


def test_output_gradients_that_examples_share(x):
    def weighted(a):
        with tf.GradientTape() as tape:
            tape.watch(a)
            y = a * a
        return tape.gradient(y, a, output_gradients=10.0)

    assert tf.vmap(weighted)(x).numpy().tolist() == [20.0, 40.0]


def test_output_gradients_per_example_on_a_tape_outside(x):
    with tf.GradientTape(persistent=True) as tape:
        tape.watch(x)
        y = x * x
    seeds = tf.constant([[1.0, 0.0], [0.0, 1.0]])

    rows = tf.vmap(lambda seed: tape.gradient(y, x, output_gradients=seed))(seeds)

    assert rows.numpy().tolist() == [[2.0, 0.0], [0.0, 4.0]]


def test_a_tape_made_outside_vmap_refuses_to_differentiate_inside(x):
    with tf.GradientTape() as tape:
        tape.watch(x)

    with pytest.raises(RuntimeError, match="made outside vmap"):
        tf.vmap(lambda a: tape.gradient(a * a, a))(x)


def test_batch_jacobian_inside_vmap_is_refused():
    def jacobian(a):
        with tf.GradientTape() as tape:
            tape.watch(a)
            y = a * a
        return tape.batch_jacobian(y, a)

    with pytest.raises(RuntimeError, match="Use jacobian"):
        tf.vmap(jacobian)(np.ones((2, 3, 4)))


def test_grad_of_vmap(x):
    gradient = tf.grad(lambda x: tf.reduce_sum(tf.vmap(lambda a: a * a)(x)))(x)

    assert gradient.numpy().tolist() == [2.0, 4.0]


@pytest.mark.parametrize("mode", ["forward", "reverse", None])
@pytest.mark.parametrize("chunk_size", [None, 1])
def test_vmap_of_jacobian(mode, chunk_size):
    points = tf.constant([[1.0, 2.0], [3.0, 4.0]])

    jacobians = tf.vmap(tf.jacobian(lambda x: x * x, mode=mode, chunk_size=chunk_size))(points)

    assert jacobians.numpy().tolist() == [[[2.0, 0.0], [0.0, 4.0]], [[6.0, 0.0], [0.0, 8.0]]]


@pytest.mark.parametrize("mode", ["forward", "reverse", None])
def test_vmap_of_vmap_of_jacobian(mode):
    points = np.arange(12.0).reshape(2, 3, 2)

    jacobians = tf.vmap(tf.vmap(tf.jacobian(lambda x: tf.concat([x * x] * 6, 0), mode=mode)))(
        points
    )

    assert jacobians.shape == (2, 3, 12, 2)
    assert jacobians.numpy()[1, 2, :2].tolist() == [[20.0, 0.0], [0.0, 22.0]]


@pytest.mark.parametrize("mode", ["forward", "reverse"])
def test_vmap_of_the_jacobian_of_a_constant(mode, x):
    assert tf.vmap(tf.jacobian(lambda x: tf.constant([1.0, 2.0]), mode=mode))(x).shape == (2, 2)


def test_a_jacobian_by_a_variable_inside_vmap(x):
    v = tf.Variable([1.0, 2.0])

    def jacobian(a):
        with tf.GradientTape() as tape:
            y = v * v * a
        return tape.jacobian(y, v)

    assert tf.vmap(jacobian)(x).numpy()[1].tolist() == [[4.0, 0.0], [0.0, 8.0]]


def test_vmap_of_hessian():
    points = tf.constant([[1.0, 2.0], [3.0, 4.0]])

    hessians = tf.vmap(tf.hessian(cubes))(points)

    assert hessians.numpy()[1].tolist() == [[18.0, 0.0], [0.0, 24.0]]


def test_vmap_of_hvp():
    points = tf.constant([[1.0, 2.0], [3.0, 4.0]])

    products = tf.vmap(lambda x: tf.hvp(cubes, x, tf.constant([1.0, 0.0])))(points)

    assert products.numpy().tolist() == [[6.0, 0.0], [18.0, 0.0]]


def test_a_value_inside_vmap_cannot_be_read(x):
    with pytest.raises(TypeError, match=r"Inside vmap.*where"):
        tf.vmap(lambda a: a * 2.0 if a > 1.0 else a)(x)


def test_different_numbers_of_examples_are_told(x):
    with pytest.raises(ValueError, match=r"different numbers of examples: \[2, 3\]"):
        tf.vmap(lambda a, b: a * b)(x, np.ones(3))


def test_the_wrong_number_of_axes_is_told(x):
    with pytest.raises(ValueError, match=r"one entry per argument: 1. Got 2"):
        tf.vmap(lambda a: a, in_axes=(0, 0))(x)


def test_no_argument_with_examples_is_told(x):
    with pytest.raises(ValueError, match="at least one argument"):
        tf.vmap(lambda a: a, in_axes=None)(x)


@pytest.fixture
def layer():
    return tf.Variable([[1.0, 2.0], [3.0, 4.0]]), tf.Variable([0.5, -0.5])


def loss_of(layer, row):
    w, b = layer
    return tf.reduce_sum(tf.tanh(tf.linalg.matvec(w, row, transpose_a=True) + b))


ROWS = np.array([[0.1, 0.2], [0.3, -0.4], [-0.5, 0.6]], "float32")


def test_per_example_gradients_of_variables_agree_with_a_loop(layer):
    def gradients(row):
        with tf.GradientTape() as tape:
            loss = loss_of(layer, row)
        return tape.gradient(loss, list(layer))

    batched = tf.vmap(gradients)(ROWS)
    looped = [gradients(tf.constant(row)) for row in ROWS]

    for k in range(2):
        expected = np.stack([one[k].numpy() for one in looped])
        np.testing.assert_allclose(batched[k].numpy(), expected, rtol=1e-5)


def test_per_example_gradients_add_up_to_the_gradient_of_the_sum(layer):
    def gradient(row):
        with tf.GradientTape() as tape:
            loss = loss_of(layer, row)
        return tape.gradient(loss, layer[0])

    with tf.GradientTape() as tape:
        total = tf.reduce_sum(tf.vmap(lambda row: loss_of(layer, row))(ROWS))

    np.testing.assert_allclose(
        tf.vmap(gradient)(ROWS).numpy().sum(0), tape.gradient(total, layer[0]).numpy(), rtol=1e-5
    )


def test_a_tape_inside_vmap_watches_the_example(x):
    def gradient(a):
        with tf.GradientTape() as tape:
            tape.watch(a)
            y = a * a * a
        return tape.gradient(y, a)

    assert tf.vmap(gradient)(x).numpy().tolist() == [3.0, 12.0]


@pytest.mark.parametrize("kind", [tf.constant, tf.Variable])
def test_a_tape_inside_vmap_differentiates_by_a_shared_value(x, kind):
    shared = kind([3.0, 5.0])

    def gradients(a):
        with tf.GradientTape() as tape:
            tape.watch([a, shared])
            y = shared * shared * a
            z = shared * 100.0  # all examples have the same
        return tape.gradient([y, z], [a, shared])

    of_a, of_shared = tf.vmap(gradients)(x)

    assert of_a.numpy().tolist() == [34.0, 34.0]
    assert of_shared.numpy().tolist() == [[106.0, 110.0], [112.0, 120.0]]


def test_a_shared_value_has_second_derivatives_per_example(x):
    shared = tf.constant([3.0, 5.0])

    def seconds(a):
        with tf.GradientTape(persistent=True) as tape:
            tape.watch(shared)
            y = tf.reduce_sum(shared * shared) * a
            rows = shared * shared * a
        vector = tf.constant([1.0, 10.0])
        return tape.hessian(y, shared), tape.hvp(y, shared, vector), tape.jacobian(rows, shared)

    hessians, products, rows = tf.vmap(seconds)(x)

    assert hessians.numpy().tolist() == [[[2.0, 0.0], [0.0, 2.0]], [[4.0, 0.0], [0.0, 4.0]]]
    assert products.numpy().tolist() == [[2.0, 20.0], [4.0, 40.0]]
    assert rows.numpy().tolist() == [[[6.0, 0.0], [0.0, 10.0]], [[12.0, 0.0], [0.0, 20.0]]]


def test_values_that_two_vmaps_one_or_none_share(x):
    shared, factors = tf.constant(3.0), tf.constant([1.0, 10.0, 100.0])

    def outer(a):
        def inner(b):
            with tf.GradientTape() as tape:
                tape.watch([shared, a, b])
                y = shared * shared * a * a * b
            return tape.gradient(y, [shared, a, b])

        return tf.vmap(inner)(factors)

    of_shared, of_a, of_b = tf.vmap(outer)(x)

    assert of_shared.numpy().tolist() == [[6.0, 60.0, 600.0], [24.0, 240.0, 2400.0]]
    assert of_a.numpy().tolist() == [[18.0, 180.0, 1800.0], [36.0, 360.0, 3600.0]]
    assert of_b.numpy().tolist() == [[9.0, 9.0, 9.0], [36.0, 36.0, 36.0]]


def test_an_outer_tape_follows_gradients_by_a_shared_value(x):
    shared = tf.constant(3.0)

    def gradient(a):
        with tf.GradientTape() as tape:
            tape.watch(shared)
            y = shared * shared * shared * a
        return tape.gradient(y, shared)

    with tf.GradientTape() as outer:
        outer.watch([x, shared])
        y = tf.vmap(gradient)(x)
    of_x, of_shared = outer.gradient(y, [x, shared])

    assert of_x.numpy().tolist() == [27.0, 27.0]
    assert float(of_shared) == 18.0 + 36.0


def test_a_variable_is_its_own_gradient_per_example(x):
    v = tf.Variable([3.0, 5.0])

    def gradient(a):
        with tf.GradientTape() as tape:
            y = v * a
        return tape.gradient([y, v], v)

    assert tf.vmap(gradient)(x).numpy().tolist() == [[2.0, 2.0], [3.0, 3.0]]


def test_gradients_by_a_shared_value_of_no_examples():
    shared = tf.constant([3.0, 5.0])

    def gradient(a):
        with tf.GradientTape() as tape:
            tape.watch(shared)
            y = shared * a
        return tape.gradient(y, shared)

    assert tf.vmap(gradient)(tf.zeros((0,))).shape == (0, 2)


def test_an_outer_tape_differentiates_per_example_gradients(layer):
    def norm_of_gradient(row):
        with tf.GradientTape() as tape:
            loss = loss_of(layer, row)
        gradient = tape.gradient(loss, layer[1])
        return tf.reduce_sum(gradient * gradient)

    with tf.GradientTape() as outer:
        y = tf.reduce_sum(tf.vmap(norm_of_gradient)(ROWS))
    batched = outer.gradient(y, layer[1])

    with tf.GradientTape() as outer:
        y = sum(norm_of_gradient(tf.constant(row)) for row in ROWS)

    np.testing.assert_allclose(batched.numpy(), outer.gradient(y, layer[1]).numpy(), rtol=1e-5)


def test_checkpoint_inside_vmap(x):
    squares = tf.vmap(tf.grad(tf.checkpoint(lambda x: x * x)))

    assert squares(x).numpy().tolist() == [2.0, 4.0]
