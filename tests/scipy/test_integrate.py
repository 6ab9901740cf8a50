"""Differential equations and quadrature against SciPy and closed forms, with their gradients."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.integrate

import tapegrad as tf
from tapegrad.scipy import integrate
from tests.scipy.test_stats_gradients import check

TIMES = np.array([0.0, 0.3, 1.0, 1.7])
Y0 = np.array([1.0, 0.4])
RATES = np.array([1.2, 0.7])


def predator(y, t, rates):
    """Lotka and Volterra's hunters and prey, with seasons."""
    prey, hunter = y[0], y[1]
    season = 1 + 0.3 * np.sin(t)
    return tf.stack([prey * (rates[0] * season - hunter), hunter * (prey - rates[1])])


def predator_on_host(y, t, rates):
    season = 1 + 0.3 * np.sin(t)
    return [y[0] * (rates[0] * season - y[1]), y[1] * (y[0] - rates[1])]


def time_first(t, y, rates):
    return predator(y, t, rates)


def test_odeint_follows_scipys():
    found = integrate.odeint(predator, Y0, TIMES, (RATES,)).numpy()
    wanted = scipy.integrate.odeint(predator_on_host, Y0, TIMES, (RATES,), rtol=1e-11, atol=1e-11)

    np.testing.assert_allclose(found, wanted, rtol=2e-7)


def test_time_may_come_first_and_run_backwards():
    found = integrate.odeint(lambda t, y: t * y, 1.0, [1.0, 0.5, -1.0], tfirst=True).numpy()

    np.testing.assert_allclose(found, np.exp([0.0, -0.375, 0.0]), rtol=1e-7)


def test_states_of_any_shape_and_single_times():
    matrix = np.arange(6.0).reshape(2, 3)
    found = integrate.odeint(lambda y, t: -y, matrix, [0.0, 1.0]).numpy()

    np.testing.assert_allclose(found[1], matrix * np.exp(-1), rtol=1e-7)
    assert integrate.odeint(lambda y, t: -y, matrix, [2.0]).shape == (1, 2, 3)


def test_slopes_by_the_start_the_parameters_and_the_times():
    weights = np.random.default_rng(0).normal(size=(4, 2))

    def loss(y0, rates, times):
        y = integrate.odeint(predator, y0, times, (rates,), rtol=1e-10, atol=1e-10)
        return tf.reduce_sum(weights * y)

    check(loss, {"y0": Y0, "rates": RATES, "times": TIMES}, ["y0", "rates", "times"])


def test_second_derivatives_go_through_the_adjoint():
    def slope(rates):
        with tf.GradientTape() as tape:
            tape.watch(rates)
            y = integrate.odeint(predator, Y0, TIMES[:2], (rates,), rtol=1e-10, atol=1e-10)
            loss = tf.reduce_sum(y * y)
        return tape.gradient(loss, rates) * np.array([1.0, 2.0])

    check(slope, {"rates": RATES}, ["rates"])


def test_variables_that_the_field_reads_get_gradients():
    rate = tf.Variable(0.5, dtype=tf.float64)
    with tf.GradientTape() as tape:
        y = integrate.odeint(lambda y, t: rate * y, 2.0, [0.0, 1.5])[1]

    assert float(tape.gradient(y, rate)) == pytest.approx(3.0 * np.exp(0.75), rel=1e-6)


def test_parameters_without_a_derivative_pass_through():
    def field(y, t, power, name):
        assert name == "decay"
        return -(y**power)

    start = tf.constant(1.0, tf.float64)
    with tf.GradientTape() as tape:
        tape.watch(start)
        y = integrate.odeint(field, start, [0.0, 1.0], (2, "decay"))[1]

    assert float(y) == pytest.approx(0.5, rel=1e-7)
    assert float(tape.gradient(y, start)) == pytest.approx(0.25, rel=1e-6)


def test_solve_ivp_takes_scipys_steps():
    ours = integrate.solve_ivp(lambda t, y: -0.5 * y, (0.0, 10.0), [2.0, 4.0, 8.0])
    theirs = scipy.integrate.solve_ivp(lambda t, y: -0.5 * y, (0.0, 10.0), [2.0, 4.0, 8.0])

    np.testing.assert_allclose(ours.t.numpy(), theirs.t, rtol=1e-12)
    np.testing.assert_allclose(ours.y.numpy(), theirs.y, rtol=1e-10)
    assert (ours.nfev, ours.success, ours.status) == (theirs.nfev, True, 0)


@pytest.mark.parametrize("t_eval", [[0.0, 1.0, 2.0], [0.5, 1.5], [2.0]])
def test_solve_ivp_at_given_times(t_eval):
    exact = {"rtol": 1e-9, "atol": 1e-9}
    found = integrate.solve_ivp(time_first, (0, 2), Y0, t_eval=t_eval, args=(RATES,), **exact)
    wanted = scipy.integrate.odeint(predator_on_host, Y0, [0, *t_eval], (RATES,), rtol=1e-11)[1:]

    np.testing.assert_allclose(found.y.numpy(), wanted.T, rtol=1e-6)
    np.testing.assert_array_equal(found.t.numpy(), t_eval)


def test_slopes_of_solve_ivp():
    def last(y0, rates):
        exact = {"rtol": 1e-10, "atol": 1e-10}
        return integrate.solve_ivp(time_first, (0, 1), y0, args=(rates,), **exact).y[:, -1]

    check(last, {"y0": Y0, "rates": RATES}, ["y0", "rates"])


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: integrate.solve_ivp(lambda t, y: y, (0, 1), [1.0], "VODE"), "one of RK23, RK45"),
        (lambda: integrate.solve_ivp(lambda t, y: y, (0, 1), [1.0], t_eval=[2.0]), "within t_span"),
        (
            lambda: integrate.odeint(lambda y, t: y, [1.0], [0.0, 1.0, 0.5]),
            "must be increasing or decreasing",
        ),
        (lambda: integrate.odeint(lambda y, t: y[0], [1.0], [0.0, 1.0]), "the shape of the state"),
        (lambda: integrate.odeint(lambda y, t: y, [1.0], [[0.0]]), "a vector of times"),
        (lambda: integrate.odeint(lambda y, t: y * y, 1.0, [0.0, 2.0]), "too small at t"),
        (lambda: integrate.simpson([1.0]), "at least 2 samples"),
        (lambda: integrate.simpson([1.0, 2.0, 3.0], [1.0]), "as many points x as samples"),
        (lambda: integrate.romb([1.0, 2.0, 3.0, 4.0]), "2\\^k \\+ 1 samples"),
        (lambda: integrate.newton_cotes([1, 2]), "must go from 0 to 1"),
        (lambda: integrate.cumulative_simpson([1.0] * 4, x=[1.0]), "as many points"),
        (lambda: integrate.trapezoid([1.0, 2.0], [1.0]), "as many points x as samples"),
    ],
)
@pytest.mark.filterwarnings("ignore:overflow")
def test_wrong_arguments_are_named(call, words):
    with pytest.raises(ValueError, match=words):
        call()


Y = np.random.default_rng(1).normal(size=(5, 3))
X = np.array([0.0, 0.5, 0.7, 1.5, 2.0])


@pytest.mark.parametrize("options", [{"axis": 0}, {"axis": 0, "dx": 0.3}, {"x": X, "axis": 0}])
@pytest.mark.parametrize(
    "name", ["trapezoid", "cumulative_trapezoid", "simpson", "cumulative_simpson"]
)
def test_integrals_of_samples(name, options):
    ours = getattr(integrate, name)
    wanted = getattr(scipy.integrate, name)(Y, **options)

    np.testing.assert_allclose(ours(Y, **options).numpy(), wanted, rtol=1e-12)
    rest = {k: v for k, v in options.items() if k != "x"}
    values = {"y": Y, **({"x": X} if "x" in options else {})}
    check(lambda y, **points: ours(y, **points, **rest), values, list(values))


def test_a_cumulative_integral_may_begin_with_zero():
    wanted = scipy.integrate.cumulative_trapezoid(Y, initial=0)

    np.testing.assert_allclose(integrate.cumulative_trapezoid(Y, initial=0).numpy(), wanted)


@pytest.mark.parametrize("count", [2, 3, 4, 5, 8])
@pytest.mark.parametrize("name", ["simpson", "cumulative_simpson"])
def test_parabolas_through_any_number_of_samples(name, count):
    y = np.random.default_rng(2).normal(size=(3, count))
    x = np.cumsum(1.0 + Y.reshape(-1)[:count] ** 2)
    ours, theirs = getattr(integrate, name), getattr(scipy.integrate, name)

    np.testing.assert_allclose(ours(y, x=x).numpy(), theirs(y, x=x), rtol=1e-12)
    np.testing.assert_allclose(ours(y, dx=0.3).numpy(), theirs(y, dx=0.3), rtol=1e-12)
    if name == "cumulative_simpson":
        found = ours(y, x=x, initial=0.5).numpy()
        np.testing.assert_allclose(found, theirs(y, x=x, initial=0.5), rtol=1e-12)


def test_rombergs_extrapolation():
    y = np.random.default_rng(3).normal(size=(9, 2))

    found = integrate.romb(y, 0.25, axis=0).numpy()
    np.testing.assert_allclose(found, scipy.integrate.romb(y, 0.25, axis=0), rtol=1e-12)
    check(lambda y: integrate.romb(y, axis=0), {"y": y}, ["y"])


@pytest.mark.parametrize("order", [1, 2, 3, 4, 8, np.array([0.0, 0.5, 3.0, 4.2, 4.0])])
def test_newton_and_cotes_weights(order):
    weights, factor = integrate.newton_cotes(order)
    wanted, wanted_factor = scipy.integrate.newton_cotes(order, 1 if np.ndim(order) == 0 else 0)

    np.testing.assert_allclose(weights.numpy(), wanted, rtol=1e-10)
    assert factor == pytest.approx(wanted_factor, rel=1e-7)


def test_gauss_quadrature():
    def area(a, b):
        return integrate.fixed_quad(tf.exp, a, b, n=8)[0]

    a, b = np.array(0.3), np.array(1.9)
    assert float(area(a, b)) == pytest.approx(np.exp(1.9) - np.exp(0.3), rel=1e-12)
    check(area, {"a": a, "b": b}, ["a", "b"])
