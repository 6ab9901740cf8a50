"""Derivatives of solutions by what the function reads, against closed forms and differences."""

from __future__ import annotations

import numpy as np
import pytest

import tapegrad as tf
import tapegrad_strict as strict
from tapegrad.core.backend.registry import register_backend, unregister_backend
from tapegrad.core.values.host import guarded_by
from tapegrad.scipy import optimize
from tapegrad.scipy.optimize import implicit
from tests.scipy.test_stats_gradients import check

MATRIX = np.array([[3.0, 1.0], [1.0, 2.0]])
SIDE = np.array([1.5, 2.0])
EXACT = {"gtol": 1e-10}


def bowl(x, side):
    """A function whose minimum is MATRIX^-1 side²."""
    return 0.5 * tf.reduce_sum(x * tf.linalg.matvec(MATRIX, x)) - tf.reduce_sum(x * side**2)


def slope_and_bend(solve):
    """First and second derivatives of 2 x0 + 3 x1 by the side."""
    side = tf.constant(SIDE)
    with tf.GradientTape() as outer:
        outer.watch(side)
        with tf.GradientTape() as inner:
            inner.watch(side)
            x = solve(side)
            y = 2.0 * x[0] + 3.0 * x[1]
        slope = inner.gradient(y, side)
    return slope.numpy(), outer.jacobian(slope, side).numpy()


WEIGHTS = np.linalg.solve(MATRIX, [2.0, 3.0])


@pytest.mark.parametrize(
    "method", ["BFGS", "CG", "L-BFGS-B", "Newton-CG", "trust-ncg", "TNC", "Nelder-Mead", "SLSQP"]
)
def test_a_minimum_has_two_derivatives(method):
    def solve(side):
        return optimize.minimize(bowl, [0.0, 0.0], side, method=method).x

    slope, bend = slope_and_bend(solve)

    np.testing.assert_allclose(slope, 2 * SIDE * WEIGHTS, rtol=1e-9)
    np.testing.assert_allclose(bend, np.diag(2 * WEIGHTS), rtol=1e-9, atol=1e-12)


def test_a_minimum_at_a_bound_moves_along_it_only():
    def solve(side):
        return optimize.minimize(bowl, [0.6, 0.0], side, bounds=[(0.5, 2), (None, None)]).x

    slope, bend = slope_and_bend(solve)

    # The first variable stays at 0.5; the second is (side1² - 0.5) / 2.
    np.testing.assert_allclose(slope, [0.0, 3.0 * SIDE[1]], atol=1e-12)
    np.testing.assert_allclose(bend, [[0, 0], [0, 3.0]], atol=1e-12)


def test_a_minimum_under_constraints_follows_them():
    def solve(side):
        constraints = [
            {"type": "eq", "fun": lambda x: tf.reduce_sum(x) - side[0] * side[1]},
            {"type": "ineq", "fun": lambda x: x[0] + 10.0},
        ]
        start = [0.0, 0.0]
        return optimize.minimize(
            lambda x: tf.reduce_sum((x - side) ** 2), start, constraints=constraints, tol=1e-9
        ).x

    slope, bend = slope_and_bend(solve)

    # x = side + (side0 side1 - side0 - side1) / 2 in both places.
    a, b = SIDE
    np.testing.assert_allclose(slope, [2 + 2.5 * (b - 1), 3 + 2.5 * (a - 1)], rtol=1e-8)
    np.testing.assert_allclose(bend, [[0, 2.5], [2.5, 0]], atol=1e-8)


def test_variables_and_closures_get_gradients():
    centre = tf.Variable(np.array([1.0, -2.0]))
    scale = tf.constant(3.0, tf.float64)

    with tf.GradientTape() as tape:
        tape.watch(scale)
        x = optimize.minimize(lambda x: tf.reduce_sum((x - scale * centre) ** 2), [0.0, 0.0]).x
    by_centre, by_scale = tape.gradient(x, [centre, scale])

    np.testing.assert_allclose(by_centre.numpy(), [3.0, 3.0], rtol=1e-12)
    assert float(by_scale) == pytest.approx(-1.0, rel=1e-12)


def test_a_gradient_by_hand_that_no_tape_sees_does_no_harm():
    side = tf.constant(SIDE)
    with tf.GradientTape() as tape:
        tape.watch(side)
        x = optimize.minimize(
            bowl,
            [0.0, 0.0],
            side,
            jac=lambda x, side: tf.constant(MATRIX @ x.numpy() - side.numpy() ** 2),
        ).x
        y = 2.0 * x[0] + 3.0 * x[1]

    np.testing.assert_allclose(tape.gradient(y, side).numpy(), 2 * SIDE * WEIGHTS, rtol=1e-9)


def test_the_iterations_are_not_on_the_tape():
    calls = []

    def counted(x, side):
        calls.append(1)
        return bowl(x, side)

    side = tf.constant(SIDE)
    with tf.GradientTape() as tape:
        tape.watch(side)
        x = optimize.minimize(counted, [40.0, -30.0], side).x
    searched = len(calls)
    tape.gradient(x, side)

    assert len(calls) - searched <= 4  # Jacobians of the gradient, not the path to the minimum


def test_large_problems_are_solved_by_products_of_the_hessian(monkeypatch):
    monkeypatch.setattr(implicit, "_LARGEST_MATRIX", 1)

    slope, bend = slope_and_bend(lambda side: optimize.minimize(bowl, [0.0, 0.0], side).x)
    turned = np.array([[1.0, 2.0], [0.0, 1.0]])
    of_root, _ = slope_and_bend(
        lambda side: optimize.root(lambda x: tf.linalg.matvec(turned, x) - side**2, [1.0, 1.0]).x
    )

    np.testing.assert_allclose(slope, 2 * SIDE * WEIGHTS, rtol=1e-9)
    np.testing.assert_allclose(bend, np.diag(2 * WEIGHTS), rtol=1e-9, atol=1e-10)
    np.testing.assert_allclose(of_root, 2 * SIDE * np.linalg.solve(turned.T, [2, 3]), rtol=1e-9)


def curve(x, a):
    return tf.stack([x[0] ** 2 + x[1] ** 2 - a[0], tf.exp(x[0]) - a[1] * x[1]])


@pytest.mark.parametrize("method", ["hybr", "lm", "krylov", "broyden1"])
def test_slopes_of_roots(method):
    def solve(a):
        return optimize.root(curve, [0.5, 1.0], a, method, tol=1e-12).x

    check(solve, {"a": np.array([2.0, 1.5])}, ["a"])


def test_second_derivatives_of_a_root():
    def slope(a):
        with tf.GradientTape() as tape:
            tape.watch(a)
            x = optimize.fsolve(curve, [0.5, 1.0], a, xtol=1e-12)
            y = x[0] * x[1]
        return tape.gradient(y, a)

    check(slope, {"a": np.array([2.0, 1.5])}, ["a"])


def test_tangents_of_a_root():
    a = tf.constant(4.0, tf.float64)
    one = tf.constant(1.0, tf.float64)
    with tf.autodiff.ForwardAccumulator(a, one) as accumulator:
        x = optimize.root(lambda x: x * x - a, [1.0]).x

    assert float(accumulator.jvp(x)[0]) == pytest.approx(0.25)


@pytest.mark.parametrize("method", ["brentq", "bisect", "newton", "halley", "secant"])
def test_slopes_of_roots_of_one_number(method):
    c = tf.constant(np.array(2.0))
    place = {"bracket": [1.0, 2.0]} if method in ("brentq", "bisect") else {"x0": 1.5}
    with tf.GradientTape() as outer:
        outer.watch(c)
        with tf.GradientTape() as inner:
            inner.watch(c)
            x = optimize.root_scalar(lambda x, c: x**3 - c, c, method, **place).root
        slope = inner.gradient(x, c)
    bend = outer.gradient(slope, c)

    assert float(slope) == pytest.approx(2.0 ** (-2 / 3) / 3, rel=1e-8)
    assert float(bend) == pytest.approx(-2 / 9 * 2.0 ** (-5 / 3), rel=1e-8)


def test_slopes_of_many_roots_at_once():
    c = tf.constant(np.array([1.0, 8.0, 27.0]))
    with tf.GradientTape() as tape:
        tape.watch(c)
        x = optimize.newton(lambda x: x**3 - c, np.full(3, 2.0))

    np.testing.assert_allclose(tape.gradient(x, c).numpy(), [1 / 3, 1 / 12, 1 / 27], rtol=1e-9)


@pytest.mark.parametrize("method", ["brent", "golden", "bounded"])
def test_slopes_of_minima_of_one_number(method):
    c = tf.constant(np.array(0.7))
    place = {"bounds": (-3.0, 3.0), "tol": 1e-9} if method == "bounded" else {}
    with tf.GradientTape() as tape:
        tape.watch(c)
        x = optimize.minimize_scalar(
            lambda x, c: (x - c**2) ** 2 + 1.0, args=c, method=method, **place
        ).x

    assert float(tape.gradient(x, c)) == pytest.approx(1.4, rel=1e-9)


TIMES = np.linspace(0.0, 2.0, 7)
DATA = 2.0 * np.exp(-TIMES) + 0.1 * np.random.default_rng(3).normal(size=7)


def test_slopes_of_a_fit_by_its_data():
    def fit(times, data, width):
        exact = {"xtol": 1e-13, "ftol": None, "gtol": None}
        return optimize.curve_fit(
            lambda t, a, b: a * tf.exp(-b * t), times, data, sigma=width, **exact
        )[0]

    values = {"times": TIMES, "data": DATA, "width": 1.0 + 0.1 * TIMES}
    check(fit, values, list(values))


@pytest.mark.parametrize("loss", ["soft_l1", "cauchy"])
def test_slopes_of_a_robust_fit(loss):
    def fit(data):
        return optimize.least_squares(
            lambda p: p[0] * tf.exp(-p[1] * TIMES) - data,
            [1.0, 1.0],
            loss=loss,
            xtol=1e-13,
            ftol=None,
            gtol=None,
        ).x

    check(fit, {"data": DATA}, ["data"])


class Counter:
    def __init__(self):
        self.waits = 0

    def note(self, transfer, is_innermost):
        self.waits += transfer.waits


@pytest.mark.filterwarnings("ignore:You are comparing a array_api_strict dtype")
@pytest.mark.parametrize("method", ["BFGS", "CG", "L-BFGS-B", "Newton-CG", "TNC", "trust-ncg"])
def test_the_host_looks_once_at_each_evaluation(method):
    register_backend(strict.StrictBackend())
    counter = Counter()
    try:
        with tf.device("strict:0"), strict.forbidding_reads(), guarded_by(counter):
            found = optimize.minimize(
                lambda x: (1 - x[0]) ** 2 + 5.0 * (x[1] - x[0] ** 2) ** 2,
                tf.constant(np.array([-0.5, 0.5])),
                method=method,
            )
        assert found.x.device == "strict:0"
        np.testing.assert_allclose(found.x.numpy(), [1, 1], atol=1e-3)
    finally:
        unregister_backend("strict")

    assert counter.waits == found.nfev


@pytest.mark.filterwarnings("ignore:You are comparing a array_api_strict dtype")
def test_the_host_looks_once_at_each_step_of_a_fit():
    register_backend(strict.StrictBackend())
    counter = Counter()
    try:
        with tf.device("strict:0"), strict.forbidding_reads(), guarded_by(counter):
            found = optimize.least_squares(
                lambda x: tf.stack([1 - x[0], 3.0 * (x[1] - x[0] ** 2)]),
                tf.constant(np.array([-0.5, 0.5])),
            )
        assert found.x.device == "strict:0"
    finally:
        unregister_backend("strict")

    assert counter.waits == found.nfev
