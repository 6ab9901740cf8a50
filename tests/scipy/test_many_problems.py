"""Solvers of many problems at once: inside vmap, in recorded functions and by `batched`."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.optimize as reference
from scipy.integrate import solve_ivp as solve_one

import tapegrad as tf
from tapegrad.errors import ArgumentError, ShapeError
from tapegrad.scipy import integrate, optimize

RNG = np.random.default_rng(3)
X = np.linspace(0.0, 4.0, 20)
TRUE = RNG.uniform(0.5, 2.0, (5, 3))
Y = TRUE[:, :1] * np.exp(-TRUE[:, 1:2] * X) + TRUE[:, 2:] + 0.02 * RNG.normal(size=(5, 20))
TIGHT = {"ftol": 1e-15, "xtol": 1e-15, "gtol": 1e-13}


def decay(x, a, b, c):
    return a * tf.exp(-b * x) + c


def fit(y):
    return optimize.curve_fit(decay, X, y, [1.0, 1.0, 0.0], **TIGHT)


def central(f, x, place, step=1e-5):
    ahead, behind = x.copy(), x.copy()
    ahead[place] += step
    behind[place] -= step
    return (float(f(tf.constant(ahead))) - float(f(tf.constant(behind)))) / (2 * step)


def test_fits_agree_with_scipy():
    best, covariance = optimize.batched.curve_fit(decay, X, Y, [1.0, 1.0, 0.0], **TIGHT)
    for i, y in enumerate(Y):
        wanted = reference.curve_fit(
            lambda x, a, b, c: a * np.exp(-b * x) + c, X, y, [1.0, 1.0, 0.0], xtol=1e-14, ftol=1e-14
        )
        np.testing.assert_allclose(best[i], wanted[0], rtol=1e-6)
        np.testing.assert_allclose(covariance[i], wanted[1], rtol=1e-4)


def test_weights_and_rows_of_xdata():
    sigma = RNG.uniform(0.5, 2.0, Y.shape)
    shifted = X + np.arange(5.0)[:, None] / 50
    found = optimize.batched.curve_fit(
        decay, shifted, Y, np.ones((5, 3)), sigma, absolute_sigma=True, **TIGHT
    )
    for i in range(5):
        best, covariance = reference.curve_fit(
            lambda x, a, b, c: a * np.exp(-b * x) + c,
            shifted[i], Y[i], np.ones(3), sigma[i], absolute_sigma=True, xtol=1e-14, ftol=1e-14,
        )  # fmt: skip
        np.testing.assert_allclose(found[0][i], best, rtol=1e-6)
        np.testing.assert_allclose(found[1][i], covariance, rtol=1e-4)


def test_gradients_of_fits():
    def loss(y):
        return tf.reduce_sum(tf.vmap(fit)(y)[0] ** 2)

    given = tf.constant(Y)
    with tf.GradientTape() as tape:
        tape.watch(given)
        value = tf.function(loss)(given)
    gradient = tape.gradient(value, given)
    for place in ((0, 3), (4, 17)):
        assert float(gradient[place]) == pytest.approx(central(loss, Y, place), rel=1e-5)
    inside = tf.vmap(tf.grad(lambda y: tf.reduce_sum(fit(y)[0] ** 2)))(given)
    np.testing.assert_allclose(inside, gradient, rtol=1e-7)


def test_second_derivatives_of_fits():
    def loss(y):
        return tf.reduce_sum(tf.vmap(fit)(y)[0] ** 2)

    along = tf.constant(np.ones_like(Y))
    found = float(tf.hvp(loss, tf.constant(Y), along)[2, 5])
    slope = tf.grad(loss)
    step = 1e-5
    wanted = (slope(tf.constant(Y + step))[2, 5] - slope(tf.constant(Y - step))[2, 5]) / (2 * step)
    assert found == pytest.approx(float(wanted), rel=1e-4)


def test_one_bad_problem_leaves_the_others_alone():
    bad = Y.copy()
    bad[1, 0] = np.nan
    best, covariance, facts, status = optimize.batched.curve_fit(
        decay, X, bad, [1.0, 1.0, 0.0], full_output=True
    )
    good = optimize.batched.curve_fit(decay, X, Y, [1.0, 1.0, 0.0])[0]
    assert np.isnan(best[1]).all()
    assert np.isinf(covariance[1]).all()
    assert int(status[1]) == -1
    assert int(facts["nfev"][1]) == 1
    rest = [0, 2, 3, 4]
    np.testing.assert_array_equal(best.numpy()[rest], good.numpy()[rest])


def test_bounds_and_losses():
    bounds, guess = ([0.0, 0.0, 0.0], [1.2, 9.0, 9.0]), np.ones((5, 3))

    def misfit(p, y):
        return decay(X, p[0], p[1], p[2]) - y

    found = optimize.batched.least_squares(
        misfit, guess, [Y], bounds=bounds, loss="soft_l1", f_scale=0.05
    )
    for i, y in enumerate(Y):
        wanted = reference.least_squares(
            lambda p, y=y: p[0] * np.exp(-p[1] * X) + p[2] - y,
            [1.0, 1.0, 1.0], bounds=bounds, loss="soft_l1", f_scale=0.05,
        )  # fmt: skip
        assert float(found.cost[i]) == pytest.approx(wanted.cost, rel=1e-6)
        np.testing.assert_allclose(found.x[i], wanted.x, atol=2e-4)
    assert set(found.active_mask.numpy().ravel().tolist()) == {0, 1}


def rosenbrock(x, a):
    return tf.reduce_sum(10.0 * (x[1:] - x[:-1] ** 2) ** 2 + (a - x[:-1]) ** 2)


@pytest.mark.parametrize("method", ["BFGS", "L-BFGS-B", "Newton-CG"])
def test_minima(method):
    starts, a = RNG.uniform(-0.5, 1.5, (6, 3)), np.linspace(0.6, 1.2, 6)
    found = tf.vmap(lambda x, a: optimize.minimize(rosenbrock, x, a, method))(starts, a)
    assert found.success.numpy().all()
    for i in range(6):
        alone = optimize.minimize(rosenbrock, starts[i], tf.constant(a[i]), "BFGS", tol=1e-9)
        np.testing.assert_allclose(found.x[i], alone.x, atol=1e-3)
        assert float(found.fun[i]) == pytest.approx(alone.fun, abs=1e-6)
    assert len(set(found.nit.numpy().tolist())) > 1


BOX = [(-0.2, 0.8), (None, 0.5), (0.1, None)]


def test_minima_within_bounds():
    starts, a = RNG.uniform(-2.0, 2.0, (6, 3)), np.linspace(0.6, 1.2, 6)
    found = optimize.batched.minimize(
        rosenbrock, starts, [a], bounds=BOX, tol=1e-10, options={"gtol": 1e-7}
    )
    assert found.success.numpy().all()
    for i in range(6):

        def on_host(x, a=a[i]):
            return np.sum(10.0 * (x[1:] - x[:-1] ** 2) ** 2 + (a - x[:-1]) ** 2)

        wanted = reference.minimize(
            on_host, starts[i], method="L-BFGS-B", bounds=BOX, tol=1e-14, options={"gtol": 1e-9}
        )
        assert float(found.fun[i]) == pytest.approx(wanted.fun, rel=1e-6, abs=1e-9)
        np.testing.assert_allclose(found.x[i], wanted.x, atol=1e-4)


def test_derivatives_of_minima_within_bounds():
    def minimum(a):
        options = {"gtol": 1e-9, "ftol": 0.0}
        start = np.array([0.5, 0.2, 0.2])
        return optimize.minimize(rosenbrock, start, a, bounds=BOX, options=options).x

    a = tf.constant(np.array([0.6, 0.75]))
    slopes = tf.vmap(tf.jacobian(minimum))(a)
    for one, slope in zip(a, slopes, strict=True):
        wanted = (minimum(one + 1e-4) - minimum(one - 1e-4)) / 2e-4
        np.testing.assert_allclose(slope, wanted, atol=2e-5)
        assert float(slope[1]) == 0.0  # held by its bound


def test_gradients_of_minima_in_a_recorded_function():
    @tf.function
    def minimum(a):
        return optimize.minimize(rosenbrock, [1.0, 1.0, 1.0], a, tol=1e-9).x

    a = tf.constant(0.9, tf.float64)
    slope = tf.jacobian(minimum)(a)
    wanted = (minimum(a + 1e-5) - minimum(a - 1e-5)) / 2e-5
    np.testing.assert_allclose(slope, wanted, rtol=1e-4)


def test_roots_and_problems_without_one():
    def equations(x, a):
        return tf.stack([x[0] * x[1] - a, x[0] - x[1]])

    a = tf.constant([4.0, 9.0, -1.0], tf.float64)
    with tf.GradientTape() as tape:
        tape.watch(a)
        found = optimize.batched.root(equations, np.ones((3, 2)), [a])
        total = tf.reduce_sum(found.x[:2])
    assert found.success.numpy().tolist() == [True, True, False]
    np.testing.assert_allclose(found.x[:2], [[2.0, 2.0], [3.0, 3.0]], rtol=1e-8)
    np.testing.assert_allclose(tape.gradient(total, a)[:2], [1 / 2, 1 / 3], rtol=1e-6)


def test_nested_vmaps_are_one_iteration():
    grid = tf.constant(np.arange(1.0, 7.0).reshape(2, 3))
    one = tf.vmap(tf.vmap(lambda a: optimize.root(lambda x: x * x - a, [1.0]).x[0]))
    np.testing.assert_allclose(one(grid), np.sqrt(grid.numpy()), rtol=1e-10)


def lotka(t, y, k):
    return tf.stack([k[0] * y[0] - y[0] * y[1], y[0] * y[1] - k[1] * y[1]])


RATES, STATES = RNG.uniform(0.5, 1.5, (3, 2)), RNG.uniform(0.5, 2.0, (3, 2))


@pytest.mark.parametrize("method", ["RK23", "RK45", "DOP853", "Radau"])
def test_trajectories_agree_with_scipy(method):
    times = [0.0, 0.5, 2.0]
    found = integrate.batched.solve_ivp(
        lotka, (0.0, 2.0), STATES, method, times, [RATES], rtol=1e-7, atol=1e-9
    )
    assert found.success.numpy().all()
    assert tuple(found.y.shape) == (3, 2, 3)
    for i, (y0, k) in enumerate(zip(STATES, RATES, strict=True)):
        wanted = solve_one(
            lambda t, y, k=k: [k[0] * y[0] - y[0] * y[1], y[0] * y[1] - k[1] * y[1]],
            (0.0, 2.0), y0, "DOP853", times, rtol=1e-11, atol=1e-12,
        )  # fmt: skip
        np.testing.assert_allclose(found.y[i], wanted.y, rtol=3e-6)


@pytest.mark.parametrize("method", ["RK45", "Radau"])
def test_gradients_of_trajectories(method):
    times = tf.constant([0.0, 0.4, 1.0], tf.float64)

    def loss(k, t=times):
        def one(y, k):
            options = {"rtol": 1e-8, "atol": 1e-10}
            return integrate.solve_ivp(lotka, (0.0, 1.0), y, method, t, args=(k,), **options).y

        return tf.reduce_sum(tf.vmap(one)(tf.constant(STATES), k) ** 2)

    k = tf.constant(RATES)
    gradient = tf.grad(loss)(k)
    assert float(gradient[1, 0]) == pytest.approx(central(loss, RATES, (1, 0)), rel=1e-6)
    if method == "RK45":
        by_time = tf.grad(lambda t: loss(k, t))(times)
        assert float(by_time[2]) == pytest.approx(
            central(lambda t: loss(k, t), times.numpy(), 2), rel=1e-6
        )
        with tf.GradientTape() as tape:
            tape.watch(k)
            value = tf.function(loss)(k)
        np.testing.assert_allclose(tape.gradient(value, k), gradient, rtol=1e-9)


def test_stiff_trajectories():
    def oscillator(t, y, mu):
        return tf.stack([y[1], mu * (1.0 - y[0] ** 2) * y[1] - y[0]])

    mu = np.array([1.0, 100.0, 1000.0])
    found = integrate.batched.solve_ivp(
        oscillator, (0.0, 1.0), np.tile([2.0, 0.0], (3, 1)), "Radau", args=[mu], rtol=1e-6
    )
    for i in range(3):
        wanted = solve_one(
            lambda t, y, m=mu[i]: [y[1], m * (1 - y[0] ** 2) * y[1] - y[0]],
            (0.0, 1.0), [2.0, 0.0], "Radau", rtol=1e-9, atol=1e-11,
        )  # fmt: skip
        np.testing.assert_allclose(found.y[i, :, -1], wanted.y[:, -1], rtol=1e-5)
    assert int(found.nfev[2]) < 2000


def test_a_trajectory_that_explodes_is_marked():
    def square(t, y):
        return y * y

    found = integrate.batched.solve_ivp(square, (0.0, 2.0), [[0.25], [1.0]], rtol=1e-6)
    assert found.status.numpy().tolist() == [0, -1]
    assert np.isnan(found.y[1, 0, -1])
    assert float(found.y[0, 0, -1]) == pytest.approx(0.5, rel=1e-5)


def test_errors_are_sentences():
    with pytest.raises(ArgumentError, match="supports the methods BFGS"):
        optimize.batched.minimize(rosenbrock, np.ones((2, 2)), 1.0, "CG", in_axes=None)
    with pytest.raises(ArgumentError, match="supports no callback"):
        tf.vmap(lambda x: optimize.minimize(rosenbrock, x, 1.0, callback=print).x)(tf.ones([2, 2]))
    with pytest.raises(ArgumentError, match="hybr and lm"):
        tf.vmap(lambda x: optimize.root(lambda x: x, x, method="krylov").x)(tf.ones([2, 2]))
    with pytest.raises(ShapeError, match="one row of ydata per problem"):
        optimize.batched.curve_fit(decay, X, Y[0])
    with pytest.raises(ShapeError, match="same number of problems"):
        optimize.batched.minimize(rosenbrock, np.ones((2, 2)), [np.ones(3)])
    with pytest.raises(ArgumentError, match="in_axes of root"):
        optimize.batched.root(lambda x, a: x - a, np.ones((2, 2)), [1.0], in_axes=[0, 0])
    with pytest.raises(ArgumentError, match="t_eval must lie within"):
        integrate.batched.solve_ivp(lotka, (0.0, 1.0), STATES, t_eval=[0.0, 2.0], args=[RATES])
