"""tf.test.compute_gradient."""

from __future__ import annotations

import numpy as np
import pytest

import tapegrad as tf
import tapegrad_strict as strict
from tapegrad.core.backend.registry import register_backend, unregister_backend

X = tf.constant([1.0, 2.0, 3.0], "float64")


def test_N4_the_jacobians_of_all_arguments_are_returned():
    def f(x, w):
        return tf.linalg.matvec(w, x)

    w = tf.constant([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]], "float64")

    analytic, numeric = tf.test.compute_gradient(f, [X, w])

    assert isinstance(analytic, tuple)
    assert [a.shape for a in analytic] == [n.shape for n in numeric] == [(2, 3), (2, 6)]
    assert analytic[0].tolist() == w.numpy().tolist()
    assert tf.test.max_error(analytic, numeric) < 1e-9


def test_N4_a_wrong_gradient_is_noticed():
    @tf.custom_gradient
    def wrong(x):
        return x * x, lambda upstream: upstream * x

    assert tf.test.max_error(*tf.test.compute_gradient(wrong, [X])) > 0.9


def test_N4_complex_numbers_count_as_two_reals():
    z = tf.constant([1 + 2j, -1j])

    analytic, numeric = tf.test.compute_gradient(tf.square, [z])

    assert analytic[0].shape == (4, 4)
    assert tf.test.max_error(analytic, numeric) < 1e-9
    # d(z^2)/dz = 2z as a matrix on (Re, Im): [[Re, -Im], [Im, Re]].
    assert analytic[0][:2, :2].tolist() == [[2.0, -4.0], [4.0, 2.0]]


@pytest.mark.parametrize(
    ("f", "x"),
    [
        (tf.math.real, tf.constant([1 + 2j])),
        (tf.abs, tf.constant([1 + 2j])),
        (lambda x: tf.complex(x, 2.0 * x), X),
    ],
    ids=["real", "abs", "complex"],
)
def test_N4_functions_between_real_and_complex(f, x):
    assert tf.test.max_error(*tf.test.compute_gradient(f, [x])) < 1e-6


def test_N4_the_step_can_be_chosen():
    _, coarse = tf.test.compute_gradient(lambda x: x**3.0, [X], delta=0.5)
    _, fine = tf.test.compute_gradient(lambda x: x**3.0, [X], delta=1e-4)

    exact = np.diag(3 * X.numpy() ** 2)
    assert np.abs(coarse[0] - exact).max() > 0.2
    assert np.abs(fine[0] - exact).max() < 1e-6


def test_N4_an_unconnected_argument_has_a_zero_jacobian():
    analytic, numeric = tf.test.compute_gradient(lambda x, y: x * 2.0, [X, X])

    assert not analytic[1].any()
    assert not numeric[1].any()


def test_N4_rows_of_a_sparse_gradient_are_dense():
    analytic, numeric = tf.test.compute_gradient(lambda x: tf.gather(x, [0, 2, 0]), [X])

    assert analytic[0].tolist() == [[1, 0, 0], [0, 0, 1], [1, 0, 0]]
    assert tf.test.max_error(analytic, numeric) < 1e-9


def test_N4_empty_tensors_have_empty_jacobians():
    analytic, numeric = tf.test.compute_gradient(lambda x: x * 2.0, [tf.zeros([0], "float64")])

    assert (analytic[0].shape, numeric[0].shape) == ((0, 0), (0, 0))
    assert tf.test.max_error(analytic, numeric) == 0.0


def test_N4_numpy_arrays_are_accepted():
    analytic, numeric = tf.test.compute_gradient(tf.sin, [np.array([0.5, 1.0])])

    assert tf.test.max_error(analytic, numeric) < 1e-6


def test_N4_the_arguments_must_be_a_list():
    with pytest.raises(ValueError, match=r"takes a list or tuple of arguments\. Got Tensor"):
        tf.test.compute_gradient(tf.sin, X)


def test_N4_integers_have_no_gradient():
    with pytest.raises(TypeError, match=r"Argument 1 must have a floating dtype\. Got int32"):
        tf.test.compute_gradient(lambda x, n: x, [X, tf.constant([1, 2])])


@pytest.mark.filterwarnings("ignore:You are comparing a array_api_strict dtype")
def test_N4_it_works_on_another_device():
    register_backend(strict.StrictBackend())
    try:
        with tf.device("strict:0"):
            x = tf.constant([1.0, 2.0], "float64")
            error = tf.test.max_error(*tf.test.compute_gradient(tf.sin, [x]))
    finally:
        unregister_backend("strict")

    assert error < 1e-6
