"""SciPy's own optimizers with gradients, Jacobians and Hessians of tapegrad."""

import numpy as np
import pytest
from scipy import optimize

import tapegrad as tf

START = np.array([1.3, 0.7, 0.8])


@pytest.fixture(autouse=True)
def on_the_host():
    """SciPy's optimizers take no values on a GPU."""
    with tf.device("cpu"):
        yield


def rosenbrock(x):
    return tf.reduce_sum(100.0 * (x[1:] - x[:-1] ** 2) ** 2 + (1.0 - x[:-1]) ** 2)


def residuals(x):
    return tf.stack([10.0 * (x[1] - x[0] ** 2), 1.0 - x[0]])


FIRST = ["L-BFGS-B", "SLSQP", "BFGS", "CG", "TNC"]
SECOND = ["Newton-CG", "trust-ncg", "trust-exact", "trust-krylov"]


@pytest.mark.parametrize("method", [*FIRST, *SECOND])
def test_minimize_takes_our_derivatives_and_returns_numpy_arrays(method):
    hessian = {"hess": tf.hessian(rosenbrock)} if method in SECOND else {}

    found = optimize.minimize(rosenbrock, START, method=method, jac=tf.grad(rosenbrock), **hessian)

    assert type(found.x) is np.ndarray
    assert isinstance(found.jac, np.ndarray)
    np.testing.assert_allclose(found.x, np.ones(3), atol=1e-3)


def test_minimize_takes_the_value_and_the_gradient_together():
    found = optimize.minimize(tf.value_and_grad(rosenbrock), START, method="L-BFGS-B", jac=True)

    np.testing.assert_allclose(found.x, np.ones(3), atol=1e-4)


def test_minimize_takes_products_with_the_hessian():
    found = optimize.minimize(
        rosenbrock,
        START,
        method="Newton-CG",
        jac=tf.grad(rosenbrock),
        hessp=lambda x, v: tf.hvp(rosenbrock, x, v),
    )

    np.testing.assert_allclose(found.x, np.ones(3), atol=1e-4)


def test_a_constraint_takes_our_gradient():
    def excess(x):
        return tf.reduce_sum(x) - 1.0

    constraint = {"type": "eq", "fun": excess, "jac": tf.grad(excess)}
    found = optimize.minimize(
        lambda x: tf.reduce_sum(x**2),
        np.array([2.0, 0.0]),
        method="SLSQP",
        jac=tf.grad(lambda x: tf.reduce_sum(x**2)),
        constraints=[constraint],
    )

    np.testing.assert_allclose(found.x, [0.5, 0.5], atol=1e-9)


@pytest.mark.parametrize("method", ["trf", "dogbox", "lm"])
def test_least_squares_takes_our_jacobian(method):
    found = optimize.least_squares(
        residuals, np.array([2.0, 2.0]), jac=tf.jacobian(residuals), method=method
    )

    assert type(found.x) is np.ndarray
    assert isinstance(found.jac, np.ndarray)
    np.testing.assert_allclose(found.x, [1.0, 1.0], atol=1e-6)


@pytest.mark.parametrize("method", ["hybr", "lm"])
def test_root_takes_our_jacobian(method):
    found = optimize.root(residuals, [1.2, 1.1], jac=tf.jacobian(residuals), method=method)

    np.testing.assert_allclose(found.x, [1.0, 1.0], atol=1e-8)


def test_the_root_of_a_function_of_one_number_is_a_number_of_numpy():
    def cubic(x):
        return x**3 - 2.0

    found = optimize.root_scalar(cubic, x0=1.0, fprime=tf.grad(cubic)).root

    assert isinstance(found, np.floating)
    assert abs(found - 2.0 ** (1 / 3)) < 1e-12


def test_gradients_by_numpy_arrays_are_numpy_arrays_that_know_numpy() -> None:
    x = np.array([1.0, -2.0])

    gradient = tf.grad(lambda x: tf.reduce_sum(x**3))(x)

    assert isinstance(gradient, np.ndarray)
    np.testing.assert_array_equal(gradient, 3 * x**2)
    assert type(gradient.numpy()) is np.ndarray
    assert type(gradient + 1.0) is np.ndarray
    assert type(np.sum(gradient)) is np.float64
    assert repr(gradient) == "array([ 3., 12.])"
