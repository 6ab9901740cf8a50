"""Roots, minima of one number and fits against SciPy's and closed forms."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.optimize

import tapegrad as tf
from tapegrad.scipy import optimize


def powell(x):
    """Two equations whose scales lie far apart."""
    return tf.stack([1e4 * x[0] * x[1] - 1.0, tf.exp(-x[0]) + tf.exp(-x[1]) - 1.0001])


def broyden(x):
    """Tridiagonal equations, as many as there are unknowns."""
    zero = tf.zeros_like(x[:1])
    left, right = tf.concat([zero, x[:-1]], 0), tf.concat([x[1:], zero], 0)
    return (3.0 - 2.0 * x) * x - left - 2.0 * right + 1.0


def broyden_on_host(x):
    left, right = np.concatenate([[0], x[:-1]]), np.concatenate([x[1:], [0]])
    return (3 - 2 * x) * x - left - 2 * right + 1


@pytest.mark.parametrize("method", ["hybr", "lm", "krylov", "broyden1"])
def test_systems_of_equations(method):
    found = optimize.root(broyden, np.full(8, -1.0), method=method)
    wanted = scipy.optimize.root(broyden_on_host, np.full(8, -1.0), tol=1e-12)

    assert found.success
    assert found.status == 1
    np.testing.assert_allclose(found.x.numpy(), wanted.x, atol=1e-8)
    np.testing.assert_allclose(found.fun.numpy(), np.zeros(8), atol=1e-8)


def test_badly_scaled_equations():
    found = optimize.root(powell, [0.0, 1.0])

    assert found.success
    np.testing.assert_allclose(found.x.numpy(), [1.098159e-5, 9.106146], rtol=1e-5)


def test_a_jacobian_by_hand_and_points_of_any_shape():
    targets = np.array([[1.0, 4.0], [9.0, 16.0]])
    found = optimize.root(
        lambda x: x * x - targets,
        np.full((2, 2), 3.0),
        jac=lambda x: tf.linalg.diag(tf.reshape(2 * x, (-1,))),
    )

    np.testing.assert_allclose(found.x.numpy(), np.sqrt(targets), rtol=1e-8)


@pytest.mark.parametrize("method", ["hybr", "krylov", "broyden1"])
def test_a_system_without_a_root_is_told(method):
    found = optimize.root(lambda x: x * x + 1.0, [0.7], method=method)

    assert not found.success
    assert "not a root" in found.message or "maximum number" in found.message


def test_fsolve_returns_or_raises():
    np.testing.assert_allclose(optimize.fsolve(lambda x: x**3 - 8.0, [1.0]).numpy(), [2.0])
    x, facts, status, message = optimize.fsolve(lambda x: x - 1.0, [0.0], full_output=True)
    assert (float(x[0]), status, message) == (1.0, 1, "Found a root within the tolerances.")
    assert facts["nfev"] > 0
    with pytest.raises(RuntimeError, match="fsolve found no root"):
        optimize.fsolve(lambda x: x * x + 1.0, [0.7])


SINGLE = [
    (lambda x, m: x**3 - x - 1.0, 1.0, 2.0),
    (lambda x, m: m.exp(x) - 3.0 * x**2, 0.0, 2.0),
    (lambda x, m: m.cos(x) - x, 0.0, 1.5),
    (lambda x, m: x**9, -1.0, 4.0),
    (lambda x, m: m.tanh(20.0 * (x - 0.3)), -2.0, 5.0),
]


@pytest.mark.parametrize(("function", "a", "b"), SINGLE)
@pytest.mark.parametrize("method", ["brentq", "bisect"])
def test_roots_within_brackets(method, function, a, b):
    found = optimize.root_scalar(lambda x: function(x, tf), method=method, bracket=[a, b])
    wanted = scipy.optimize.root_scalar(lambda x: function(x, np), method=method, bracket=[a, b])

    # Halving alone takes so many rounds for a root of order nine that SciPy gives up as well.
    assert found.converged == wanted.converged
    assert float(found.root) == pytest.approx(wanted.root, abs=1e-11)
    assert abs(found.function_calls - wanted.function_calls) <= 2


@pytest.mark.parametrize("method", ["newton", "halley", "secant"])
def test_roots_from_a_start_on(method):
    found = optimize.root_scalar(lambda x: tf.cos(x) - x, method=method, x0=0.5)

    assert (found.converged, found.method) == (True, method)
    assert float(found.root) == pytest.approx(0.7390851332151607, abs=1e-12)


def test_newton_takes_arrays_and_derivatives_by_hand():
    cubes = np.array([1.0, 8.0, 27.0])
    found = optimize.newton(lambda x, c: x**3 - c, np.full(3, 2.5), args=(cubes,))
    by_hand = optimize.newton(
        lambda x: x**3 - 8.0, 3.0, fprime=lambda x: 3 * x**2, fprime2=lambda x: 6 * x
    )
    secant, report = optimize.newton(lambda x: x**3 - 8.0, 3.0, x1=2.9, full_output=True)

    np.testing.assert_allclose(found.numpy(), [1.0, 2.0, 3.0], rtol=1e-12)
    assert float(by_hand) == pytest.approx(2.0, rel=1e-12)
    assert float(secant) == pytest.approx(2.0, rel=1e-10)
    assert (report.method, report.converged) == ("secant", True)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: optimize.brentq(lambda x: x * x + 1.0, -1, 1), "opposite sign"),
        (lambda: optimize.root_scalar(lambda x: x, method="brentq"), r"needs bracket=\[a, b\]"),
        (lambda: optimize.root_scalar(lambda x: x), "needs a starting point x0"),
        (lambda: optimize.root_scalar(lambda x: x, method="riders", x0=1.0), "Got 'riders'"),
        (lambda: optimize.root(lambda x: x, [1.0], method="df-same"), "hybr, lm, broyden1"),
        (lambda: optimize.root(lambda x: x[:1], [1.0, 2.0]), "Got 1 equations and 2 unknowns"),
        (lambda: optimize.root(lambda x: x, [1.0], options={"eps": 1}), "accepts the options xtol"),
        (lambda: optimize.root(lambda x: x, [1.0], callback=print), "does not support callback"),
        (lambda: optimize.root(lambda x: x, [1.0], jac="exact"), "Got 'exact'"),
        (lambda: optimize.minimize_scalar(abs, method="powell"), "brent, golden, bounded"),
        (lambda: optimize.minimize_scalar(abs, method="bounded"), "method='bounded' needs bounds"),
        (lambda: optimize.minimize_scalar(abs, bounds=(2, 1)), "must not exceed"),
        (lambda: optimize.minimize_scalar(abs, bracket=(1, 2, 3)), "lowest value in the middle"),
        (lambda: optimize.minimize_scalar(abs, bracket=(1,)), "two or three"),
        (lambda: optimize.minimize_scalar(lambda x: -x), "keeps falling"),
        (lambda: optimize.minimize_scalar(abs, options={"disp": 1}), "accepts the options xtol"),
        (lambda: optimize.least_squares(lambda x: x, [1.0], method="svd"), "trf, dogbox, lm"),
        (lambda: optimize.least_squares(lambda x: x, [1.0], loss="l1"), "Got 'l1'"),
        (lambda: optimize.least_squares(lambda x: x, [[1.0]]), "a scalar or vector x0"),
        (lambda: optimize.least_squares(lambda x: x, [1.0], bounds=(1, 2, 3)), "must be a pair"),
        (lambda: optimize.curve_fit(lambda x, *p: x, [1.0], [1.0]), "Pass p0"),
        (lambda: optimize.curve_fit(lambda x, a: a * x, [1.0], [np.nan]), "finite data"),
    ],
)
def test_wrong_arguments_are_named(call, words):
    with pytest.raises(ValueError, match=words):
        call()


def test_a_search_that_runs_out_of_rounds_is_told():
    with pytest.raises(RuntimeError, match="found no root in 3 iterations"):
        optimize.bisect(lambda x: x - 0.3, 0.0, 1.0, maxiter=3)
    _, report = optimize.bisect(
        lambda x: x - 0.3, 0.0, 1.0, maxiter=3, full_output=True, disp=False
    )
    assert (report.converged, report.iterations) == (False, 3)


VALLEYS = [
    (lambda x, m: (x - 2.0) ** 2 * (x + 1.0), (1.0, 2.5)),
    (lambda x, m: m.cosh(x - 0.7) + 0.1 * x, (0.0, 1.0)),
    (lambda x, m: m.sin(x), (3.0, 4.0)),
    (lambda x, m: (x - 1e3) ** 2, (0.0, 1.0)),
]


@pytest.mark.parametrize(("function", "bracket"), VALLEYS)
@pytest.mark.parametrize("method", ["brent", "golden"])
def test_minima_of_one_number(method, function, bracket):
    found = optimize.minimize_scalar(lambda x: function(x, tf), bracket=bracket, method=method)
    wanted = scipy.optimize.minimize_scalar(
        lambda x: function(x, np), bracket=bracket, method=method
    )

    assert found.success
    assert float(found.x) == pytest.approx(wanted.x, rel=1e-7)
    assert found.fun == pytest.approx(wanted.fun, abs=1e-9)
    assert found.nfev <= 2 * wanted.nfev


@pytest.mark.parametrize("bounds", [(1.0, 5.0), (4.0, 6.0), (-2.0, 1.0)])
def test_minima_between_bounds(bounds):
    found = optimize.minimize_scalar(tf.sin, bounds=bounds)
    wanted = scipy.optimize.minimize_scalar(np.sin, bounds=bounds, method="bounded")

    assert float(found.x) == pytest.approx(wanted.x, abs=1e-5)


TIMES = np.linspace(0.0, 3.0, 25)
NOISE = np.random.default_rng(4).normal(size=25)
DATA = 2.5 * np.exp(-1.3 * TIMES) + 0.5 + 0.05 * NOISE


def decay(t, a, b, c):
    return a * tf.exp(-b * t) + c


def decay_on_host(t, a, b, c):
    return a * np.exp(-b * t) + c


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"sigma": 0.1 + 0.02 * TIMES},
        {"sigma": 0.1 + 0.02 * TIMES, "absolute_sigma": True},
        {"sigma": 0.01 * (np.eye(25) + 0.3 * np.eye(25, k=1) + 0.3 * np.eye(25, k=-1))},
        {"p0": [3.0, 1.0, 0.0]},
        {"bounds": ([0, 0, 0], [2.0, 5.0, 3.0])},
    ],
    ids=["plain", "errors", "absolute", "covariance", "start", "bounds"],
)
def test_curves_are_fitted_as_scipy_fits_them(options):
    best, covariance = optimize.curve_fit(decay, TIMES, DATA, ftol=1e-13, **options)
    wanted, wanted_covariance = scipy.optimize.curve_fit(
        decay_on_host, TIMES, DATA, ftol=1e-13, xtol=1e-13, **options
    )

    np.testing.assert_allclose(best.numpy(), wanted, rtol=2e-5)
    np.testing.assert_allclose(covariance.numpy(), wanted_covariance, rtol=2e-3)


@pytest.mark.parametrize("loss", ["linear", "soft_l1", "huber", "cauchy", "arctan"])
def test_losses_that_tame_outliers(loss):
    data = DATA.copy()
    data[[3, 11]] += 4.0
    options = {"loss": loss, "f_scale": 0.1, "xtol": 1e-12, "ftol": 1e-12, "gtol": 1e-10}
    start = [2.0, 1.0, 0.3]

    found = optimize.least_squares(
        lambda p: decay(TIMES, p[0], p[1], p[2]) - data, start, **options
    )
    wanted = scipy.optimize.least_squares(
        lambda p: decay_on_host(TIMES, *p) - data, start, **options
    )

    assert found.cost == pytest.approx(wanted.cost, rel=1e-7)
    np.testing.assert_allclose(found.x.numpy(), wanted.x, rtol=1e-4)


def test_least_squares_within_bounds_tells_which_hold():
    def valley(x):
        return tf.stack([10 * (x[1] - x[0] ** 2), 1 - x[0]])

    found = optimize.least_squares(valley, [2.0, 2.0], bounds=([-np.inf, 1.5], np.inf))
    wanted = scipy.optimize.least_squares(
        lambda x: np.array([10 * (x[1] - x[0] ** 2), 1 - x[0]]),
        [2.0, 2.0],
        bounds=([-np.inf, 1.5], np.inf),
    )

    np.testing.assert_allclose(found.x.numpy(), wanted.x, rtol=1e-6)
    assert found.active_mask.numpy().tolist() == [0, -1]
    assert (found.success, found.status > 0) == (True, True)
    np.testing.assert_allclose(found.jac.numpy(), wanted.jac, rtol=1e-5)


def test_a_fit_that_is_cut_short_is_told():
    found = optimize.least_squares(lambda x: x**3 - 1.0, [30.0], max_nfev=2)

    assert (found.status, found.success) == (0, False)
    with pytest.raises(RuntimeError, match="curve_fit found no parameters"):
        optimize.curve_fit(decay, TIMES, DATA, p0=[30.0, 5.0, 9.0], max_nfev=2)
