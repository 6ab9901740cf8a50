"""Derivatives by NumPy arrays are NumPy arrays, except where something records them."""

import numpy as np
import pytest

import tapegrad as tf


def cubes(x):
    return tf.reduce_sum(x**3)


POINT = np.array([1.0, 2.0])


@pytest.fixture(autouse=True)
def on_the_host():
    """A derivative on a GPU stays there."""
    with tf.device("cpu"):
        yield


@pytest.mark.parametrize(
    ("derivative", "expected"),
    [
        (tf.grad(cubes), [3.0, 12.0]),
        (lambda x: tf.value_and_grad(cubes)(x)[1], [3.0, 12.0]),
        (tf.jacobian(lambda x: x**3), [[3.0, 0.0], [0.0, 12.0]]),
        (tf.jacobian(lambda x: x**3, mode="forward"), [[3.0, 0.0], [0.0, 12.0]]),
        (tf.hessian(cubes), [[6.0, 0.0], [0.0, 12.0]]),
        (lambda x: tf.hvp(cubes, x, x), [6.0, 24.0]),
        (lambda x: tf.vjp(lambda x: x**3, x)[1](x), [3.0, 24.0]),
    ],
    ids=["grad", "value_and_grad", "jacobian", "forward", "hessian", "hvp", "vjp"],
)
def test_a_derivative_by_a_numpy_array_is_one(derivative, expected):
    found = derivative(POINT)

    assert isinstance(found, np.ndarray)
    assert found.dtype == np.float64
    assert found.tolist() == expected
    assert isinstance(derivative(tf.constant(POINT)), tf.Tensor)


def test_each_leaf_of_a_structure_has_the_type_of_its_argument():
    found = tf.grad(lambda p: tf.reduce_sum(p["a"] * p["b"]))({"a": POINT, "b": tf.constant(POINT)})

    assert isinstance(found["a"], np.ndarray)
    assert isinstance(found["b"], tf.Tensor)


def test_each_of_several_arguments_counts():
    by_array, by_tensor = tf.grad(lambda a, b: tf.reduce_sum(a * b), (0, 1))(
        POINT, tf.constant(POINT)
    )

    assert isinstance(by_array, np.ndarray)
    assert isinstance(by_tensor, tf.Tensor)


def test_a_jacobian_of_several_outputs_by_several_leaves():
    found = tf.jacobian(lambda p: [p["a"] * p["b"], p["a"]])({"a": POINT, "b": tf.constant(POINT)})

    assert [isinstance(part["a"], np.ndarray) for part in found] == [True, True]
    assert all(isinstance(part["b"], tf.Tensor) for part in found)


def test_a_tape_around_records_the_gradient():
    w = tf.Variable([2.0, 3.0], dtype="float64")
    with tf.GradientTape() as tape:
        slope = tf.grad(lambda x: tf.reduce_sum(w * x**2))(POINT)
        total = tf.reduce_sum(slope)

    assert tape.gradient(total, w).numpy().tolist() == [2.0, 4.0]


def test_a_recorded_function_records_the_gradient():
    @tf.function
    def slope(w):
        return tf.grad(lambda x: tf.reduce_sum(w * x**2))(POINT)

    first, second = (
        slope(tf.constant([1.0, 1.0], "float64")),
        slope(tf.constant([2.0, 2.0], "float64")),
    )

    assert (first.numpy().tolist(), second.numpy().tolist()) == ([2.0, 4.0], [4.0, 8.0])


def test_vmap_maps_the_gradient():
    found = tf.vmap(lambda w: tf.grad(lambda x: tf.reduce_sum(w * x))(POINT))(
        tf.eye(2, dtype="float64")
    )

    assert found.numpy().tolist() == [[1.0, 0.0], [0.0, 1.0]]


def test_rows_that_were_gathered_are_one_array():
    found = tf.grad(lambda table: tf.reduce_sum(tf.gather(table, [1, 1])))(POINT)

    assert isinstance(found, np.ndarray)
    assert found.tolist() == [0.0, 2.0]
