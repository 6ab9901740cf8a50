"""Differentiation of functions: grad, vjp, jvp, jacobian, hessian, hvp, checkpoint."""

from __future__ import annotations

import numpy as np
import pytest

import tapegrad as tf


@pytest.fixture
def x():
    return tf.constant([1.0, 2.0])


def cubes(x):
    return tf.reduce_sum(x * x * x)


@pytest.mark.parametrize("kind", [list, np.array, tf.constant, tf.Variable])
def test_grad_takes_anything_that_can_be_a_tensor(kind):
    assert tf.grad(cubes)(kind([1.0, 2.0])).tolist() == [3.0, 12.0]


def test_value_and_grad_gives_both(x):
    value, gradient = tf.value_and_grad(cubes)(x)

    assert (float(value), gradient.numpy().tolist()) == (9.0, [3.0, 12.0])


@pytest.mark.parametrize(("argnums", "expected"), [(0, 5.0), (1, 3.0), (-1, 3.0)])
def test_grad_by_another_argument(argnums, expected):
    assert float(tf.grad(lambda a, b: a * b, argnums)(3.0, 5.0)) == expected


def test_grad_by_several_arguments():
    gradients = tf.grad(lambda a, b: a * b, (1, 0))(3.0, 5.0)

    assert [float(g) for g in gradients] == [3.0, 5.0]


def test_an_argument_number_out_of_range_is_told():
    with pytest.raises(ValueError, match="argnums=2 is out of range for 1 arguments"):
        tf.grad(cubes, 2)(1.0)


def test_grad_by_a_structure():
    gradients = tf.grad(lambda p: p["a"] * p["b"][0])(
        {"a": tf.constant(2.0), "b": [tf.constant(3.0)]}
    )

    assert (float(gradients["a"]), float(gradients["b"][0])) == (3.0, 2.0)


def test_grad_passes_auxiliary_values_on():
    gradient, extra = tf.grad(lambda x: (x * x, "extra"), has_aux=True)(3.0)

    assert (float(gradient), extra) == (6.0, "extra")


def test_value_and_grad_passes_auxiliary_values_on():
    (value, extra), gradient = tf.value_and_grad(lambda x: (x * x, "extra"), has_aux=True)(3.0)

    assert (float(value), extra, float(gradient)) == (9.0, "extra", 6.0)


def test_grad_of_an_argument_that_is_not_used_is_zero(x):
    assert tf.grad(lambda x: tf.constant(1.0))(x).numpy().tolist() == [0.0, 0.0]


@pytest.mark.parametrize("order", [1, 2, 3, 4])
def test_grad_nests(order):
    function = lambda x: x * x * x * x  # noqa: E731
    for _ in range(order):
        function = tf.grad(function)

    assert float(function(2.0)) == [32.0, 48.0, 48.0, 24.0][order - 1]


def test_nested_grads_by_different_variables_are_not_confused():
    inner = lambda x: tf.grad(lambda y: x * y)(1.0)  # noqa: E731

    assert float(tf.grad(lambda x: x * inner(x))(3.0)) == 6.0


def test_an_argument_that_is_also_captured_is_two_sources(x):
    assert tf.grad(lambda y: tf.reduce_sum(x * y))(x).numpy().tolist() == [1.0, 2.0]


def test_grad_of_several_outputs_is_refused(x):
    with pytest.raises(ValueError, match=r"scalar.*shape \(2,\); use jacobian or vjp"):
        tf.grad(lambda x: x * x)(x)


def test_grad_of_something_else_is_refused(x):
    with pytest.raises(TypeError, match="must return a scalar tensor"):
        tf.grad(lambda x: "text")(x)


@pytest.mark.parametrize("transform", [tf.grad, tf.value_and_grad, tf.jacobian])
def test_an_integer_argument_is_refused(transform):
    with pytest.raises(TypeError, match=r"int32; write 3.0 for 3"):
        transform(lambda x: x * 2.0)(3)


def test_grad_by_a_variable_that_is_not_trainable():
    v = tf.Variable(3.0, trainable=False)

    assert float(tf.grad(lambda v: v * v)(v)) == 6.0


def test_vjp_leaves_integer_arguments_alone(x):
    _, pullback = tf.vjp(lambda x, n: x * tf.cast(n, "float32"), x, tf.constant([2, 3]))

    of_x, of_n = pullback([1.0, 1.0])

    assert of_x.numpy().tolist() == [2.0, 3.0]
    assert of_n is None


def test_grad_keeps_the_name():
    assert tf.grad(cubes).__name__ == "cubes"


def test_keywords_are_passed_on():
    assert float(tf.grad(lambda x, factor: x * factor)(1.0, factor=5.0)) == 5.0


def test_an_outer_tape_sees_through_grad():
    w = tf.Variable(2.0)
    with tf.GradientTape() as tape:
        y = tf.grad(lambda x: x * x * w)(3.0)

    assert float(tape.gradient(y, w)) == 6.0


def test_vjp_gives_the_value_and_a_pullback(x):
    value, pullback = tf.vjp(lambda x: x * x, x)

    assert value.numpy().tolist() == [1.0, 4.0]
    assert pullback(tf.constant([1.0, 10.0])).numpy().tolist() == [2.0, 40.0]


def test_the_pullback_can_be_called_again(x):
    _, pullback = tf.vjp(lambda x: x * x, x)
    pullback([1.0, 1.0])

    assert pullback([0.0, 1.0]).numpy().tolist() == [0.0, 4.0]


def test_vjp_of_several_arguments_and_outputs():
    _, pullback = tf.vjp(lambda a, b: (a * b, a), tf.constant(2.0), tf.constant(3.0))

    assert [float(g) for g in pullback((1.0, 10.0))] == [13.0, 2.0]


def test_jvp_gives_the_value_and_the_derivative_along_the_tangent(x):
    value, tangent = tf.jvp(lambda x: x * x, [x], [[1.0, 10.0]])

    assert value.numpy().tolist() == [1.0, 4.0]
    assert tangent.numpy().tolist() == [2.0, 40.0]


def test_jvp_of_a_constant_function_is_zero(x):
    assert tf.jvp(lambda x: tf.constant(1.0), [x], [x])[1].numpy() == 0.0


def test_jvp_needs_lists(x):
    with pytest.raises(TypeError, match="lists or tuples"):
        tf.jvp(cubes, x, x)


@pytest.mark.parametrize("mode", ["forward", "reverse", None])
@pytest.mark.parametrize("chunk_size", [None, 1, 3])
def test_jacobian_in_every_mode(mode, chunk_size):
    w = tf.constant(np.arange(6.0).reshape(3, 2))
    x = tf.constant(np.array([1.0, 2.0]))
    jacobian = tf.jacobian(lambda x: tf.linalg.matvec(w, x), mode=mode, chunk_size=chunk_size)(x)

    assert jacobian.numpy().tolist() == w.numpy().tolist()


@pytest.mark.parametrize(("size_in", "size_out"), [(1, 20), (20, 1), (3, 3)])
def test_the_mode_that_is_chosen_does_not_change_the_result(size_in, size_out):
    w = tf.constant(np.arange(1.0, 1.0 + size_in * size_out).reshape(size_out, size_in))
    x = tf.constant(np.ones(size_in))

    assert tf.jacobian(lambda x: tf.linalg.matvec(w, x))(x).numpy().tolist() == w.numpy().tolist()


@pytest.mark.parametrize("mode", ["forward", "reverse", None])
def test_jacobian_by_a_structure(mode):
    jacobian = tf.jacobian(lambda p: p["a"] * p["b"], mode=mode)(
        {"a": tf.constant([1.0, 2.0]), "b": tf.constant(3.0)}
    )

    assert jacobian["a"].numpy().tolist() == [[3.0, 0.0], [0.0, 3.0]]
    assert jacobian["b"].numpy().tolist() == [1.0, 2.0]


@pytest.mark.parametrize("mode", ["forward", "reverse", None])
def test_jacobian_by_several_arguments(mode):
    f = lambda a, scale, b: scale * a * tf.reduce_sum(b)  # noqa: E731
    jacobian = tf.jacobian(f, argnums=(2, 0), mode=mode)

    with tf.device("cpu"):  # a derivative on a GPU stays there
        by_b, by_a = jacobian(tf.constant([1.0, 2.0]), 2.0, np.array([3.0], "float32"))

    assert isinstance(by_b, np.ndarray)
    assert by_b.tolist() == [[2.0], [4.0]]
    assert by_a.numpy().tolist() == [[6.0, 0.0], [0.0, 6.0]]


@pytest.mark.parametrize("mode", ["forward", "reverse"])
def test_jacobian_by_several_arguments_of_each_example(mode):
    jacobian = tf.jacobian(lambda a, b: a * a * b, argnums=(0, 1), mode=mode)
    a, b = tf.constant([[1.0, 2.0]]), tf.constant([3.0])

    by_a, by_b = tf.vmap(jacobian)(a, b)

    assert by_a.numpy().tolist() == [[[6.0, 0.0], [0.0, 12.0]]]
    assert by_b.numpy().tolist() == [[1.0, 4.0]]


@pytest.mark.parametrize("mode", ["forward", "reverse"])
@pytest.mark.parametrize(("size_in", "size_out"), [(0, 3), (3, 0)])
def test_jacobians_of_nothing_are_empty(mode, size_in, size_out):
    w = tf.constant(np.ones((size_out, size_in)))
    x = tf.constant(np.ones(size_in))

    jacobian = tf.jacobian(lambda x: tf.linalg.matvec(w, x), mode=mode)(x)

    assert jacobian.shape == (size_out, size_in)


@pytest.mark.parametrize("mode", ["forward", "reverse"])
def test_the_jacobian_by_a_variable(mode):
    jacobian = tf.jacobian(lambda v: v * v, mode=mode)(tf.Variable([1.0, 2.0]))

    assert jacobian.numpy().tolist() == [[2.0, 0.0], [0.0, 4.0]]


@pytest.mark.parametrize("mode", ["forward", "reverse"])
def test_hessians_by_both_orders_of_modes(x, mode):
    assert tf.jacobian(tf.grad(cubes), mode=mode)(x).numpy().tolist() == [[6.0, 0.0], [0.0, 12.0]]


def test_an_unknown_mode_is_told():
    with pytest.raises(ValueError, match=r"'forward', 'reverse' or None. Got 'sideways'"):
        tf.jacobian(cubes, mode="sideways")


@pytest.mark.parametrize("chunk_size", [None, 1])
def test_hessian(x, chunk_size):
    assert tf.hessian(cubes, chunk_size=chunk_size)(x).numpy().tolist() == [[6.0, 0.0], [0.0, 12.0]]


def test_hessian_of_a_matrix_argument():
    hessian = tf.hessian(lambda w: tf.reduce_sum(w * w))(tf.constant(np.ones((2, 3))))

    assert hessian.shape == (2, 3, 2, 3)
    assert hessian.numpy().reshape(6, 6).tolist() == (2 * np.eye(6)).tolist()


def test_hvp_is_the_hessian_times_a_vector(x):
    assert tf.hvp(cubes, x, [1.0, 10.0]).numpy().tolist() == [6.0, 120.0]


def test_checkpoint_gives_the_same_gradient(x):
    assert tf.grad(tf.checkpoint(cubes))(x).numpy().tolist() == [3.0, 12.0]
