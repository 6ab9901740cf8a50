"""Minima of known functions, found as SciPy finds them."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.optimize

import tapegrad as tf
from tapegrad.scipy import optimize
from tapegrad.scipy.optimize.line_search import Trial, search

METHODS = ["BFGS", "L-BFGS-B"]


def rosenbrock(x):
    return tf.reduce_sum(100.0 * (x[1:] - x[:-1] ** 2) ** 2 + (1.0 - x[:-1]) ** 2)


def beale(x, shift=0.0):
    a, b = x[0] - shift, x[1]
    return (1.5 - a + a * b) ** 2 + (2.25 - a + a * b**2) ** 2 + (2.625 - a + a * b**3) ** 2


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("size", [2, 5, 10])
def test_the_valley_of_rosenbrock(method, size):
    found = optimize.minimize(rosenbrock, np.full(size, -0.5), method=method)
    theirs = scipy.optimize.minimize(
        scipy.optimize.rosen, np.full(size, -0.5), jac=scipy.optimize.rosen_der, method=method
    )

    assert found.success
    assert found.fun < 1e-7
    assert float(rosenbrock(found.x)) == pytest.approx(found.fun)
    # As good as SciPy's methods, in evaluations too.
    assert found.nfev < 2 * theirs.nfev
    np.testing.assert_allclose(
        found.jac.numpy(), scipy.optimize.rosen_der(found.x.numpy()), atol=1e-9
    )


@pytest.mark.parametrize("method", METHODS)
def test_arguments_and_callbacks(method):
    seen = []
    found = optimize.minimize(
        beale, [1.0, 1.0], args=(0.5,), method=method, callback=lambda x: seen.append(x.numpy())
    )

    np.testing.assert_allclose(found.x.numpy(), [3.5, 0.5], atol=1e-3)
    assert len(seen) == found.nit
    np.testing.assert_array_equal(seen[-1], found.x.numpy())


def test_the_inverse_hessian_maps_the_last_change_to_the_last_step():
    matrix = np.array([[3.0, 1.0], [1.0, 2.0]])
    points = []

    def bowl(x):
        return 0.5 * tf.reduce_sum(x * tf.linalg.matvec(matrix, x))

    found = optimize.minimize(bowl, [4.0, -3.0], callback=lambda x: points.append(x.numpy()))

    step = points[-1] - points[-2]
    np.testing.assert_allclose(found.hess_inv.numpy() @ matrix @ step, step, rtol=1e-9)


def test_points_of_any_shape_and_dtype():
    target = np.arange(6.0).reshape(2, 3)
    found = optimize.minimize(lambda x: tf.reduce_sum((x - target) ** 2), np.zeros((2, 3)))
    single = optimize.minimize(lambda x: (x - 1.0) ** 2, tf.constant(4.0))

    np.testing.assert_allclose(found.x.numpy(), target, atol=1e-5)
    assert single.x.dtype == tf.float32
    assert float(single.x) == pytest.approx(1.0, abs=1e-4)


@pytest.mark.parametrize("jac", [True, lambda x: 2 * (x - 1)], ids=["both", "function"])
def test_gradients_by_hand(jac):
    def fun(x):
        value = tf.reduce_sum((x - 1) ** 2)
        return (value, 2 * (x - 1)) if jac is True else value

    np.testing.assert_allclose(
        optimize.minimize(fun, [5.0, 3.0], jac=jac).x.numpy(), [1, 1], atol=1e-6
    )


def test_the_end_is_told():
    few = optimize.minimize(rosenbrock, [-1.0, 2.0], options={"maxiter": 3})
    strict = optimize.minimize(rosenbrock, [-1.0, 2.0], tol=1e-12)

    assert (few.status, few.success, few.nit) == (1, False, 3)
    assert "Maximum number of iterations" in few.message
    assert float(tf.reduce_max(tf.abs(strict.jac))) < 1e-6


def test_values_that_are_not_finite_are_stepped_back_from():
    def barrier(x):
        return tf.where(x > 0, x - tf.math.log(tf.maximum(x, 1e-30)), np.inf)

    found = optimize.minimize(barrier, 8.0)

    assert float(found.x) == pytest.approx(1.0, abs=1e-4)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"method": "Powell"}, "method must be one of BFGS, L-BFGS-B"),
        ({"options": {"disp": True}}, "BFGS takes the options gtol, maxiter"),
        ({"jac": "2-point"}, "jac must be None, True or a function"),
    ],
)
def test_wrong_options_are_named(options, words):
    with pytest.raises(ValueError, match=words):
        optimize.minimize(rosenbrock, [0.0, 0.0], **options)


@pytest.mark.parametrize("first", [1e-3, 0.5, 1.0, 50.0])
def test_the_line_search_keeps_wolfes_conditions(first):
    def at(step):
        return Trial(step, np.cos(step) - 0.1 * step, -np.sin(step) - 0.1)

    start = at(0.0)
    found = search(at, start, first)

    assert found.value <= start.value + 1e-4 * found.step * start.slope
    assert abs(found.slope) <= 0.9 * abs(start.slope)
