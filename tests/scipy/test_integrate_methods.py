"""The methods of solve_ivp, dense output and events against SciPy; adaptive quadrature."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.integrate

import tapegrad as tf
from tapegrad.scipy import integrate
from tests.scipy.test_integrate import RATES, Y0, predator_on_host, time_first
from tests.scipy.test_stats_gradients import check

METHODS = ["RK23", "RK45", "DOP853", "Radau"]
EXACT = {"rtol": 1e-9, "atol": 1e-9}
each_method = pytest.mark.parametrize("method", METHODS)


@pytest.mark.parametrize("method", ["RK23", "RK45", "DOP853"])
def test_explicit_methods_take_scipys_steps(method):
    ours = integrate.solve_ivp(lambda t, y: -0.5 * y * np.cos(t), (0, 10), [2.0, 4.0, 8.0], method)
    theirs = scipy.integrate.solve_ivp(
        lambda t, y: -0.5 * y * np.cos(t), (0, 10), [2.0, 4.0, 8.0], method
    )

    np.testing.assert_allclose(ours.t.numpy(), theirs.t, rtol=1e-10)
    np.testing.assert_allclose(ours.y.numpy(), theirs.y, rtol=1e-9)
    assert ours.nfev == theirs.nfev


@each_method
def test_solutions_at_given_times(method):
    t_eval = [0.5, 1.5]
    found = integrate.solve_ivp(time_first, (0, 2), Y0, method, t_eval, args=(RATES,), **EXACT)
    wanted = scipy.integrate.odeint(predator_on_host, Y0, [0, *t_eval], (RATES,), rtol=1e-12)[1:]

    np.testing.assert_allclose(found.y.numpy(), wanted.T, rtol=1e-6)


def robertson(t, y, rate):
    slow, fast = rate * y[0] - 1e4 * y[1] * y[2], 3e7 * y[1] ** 2
    return tf.stack([-slow, slow - fast, fast])


def robertson_on_host(t, y, rate):
    slow, fast = rate * y[0] - 1e4 * y[1] * y[2], 3e7 * y[1] ** 2
    return [-slow, slow - fast, fast]


def test_a_stiff_reaction():
    exact = {"rtol": 1e-6, "atol": 1e-10}
    found = integrate.solve_ivp(robertson, (0, 1e4), [1.0, 0, 0], "Radau", args=(0.04,), **exact)
    wanted = scipy.integrate.solve_ivp(
        robertson_on_host, (0, 1e4), [1.0, 0, 0], "Radau", args=(0.04,), rtol=1e-10, atol=1e-13
    )

    np.testing.assert_allclose(found.y.numpy()[:, -1], wanted.y[:, -1], rtol=1e-5)
    # An explicit method would take millions of steps.
    assert len(found.t.numpy()) < 200
    assert found.njev > 0


@each_method
def test_slopes_of_the_last_state(method):
    exact = {"rtol": 1e-8, "atol": 1e-8} if method == "RK23" else EXACT

    def last(y0, rates):
        found = integrate.solve_ivp(
            time_first, (0, 1), y0, method, t_eval=[1.0], args=(rates,), **exact
        )
        return found.y[:, -1]

    y0, rates = tf.constant(Y0), tf.constant(RATES)
    with tf.GradientTape() as tape:
        tape.watch([y0, rates])
        y = last(y0, rates)
    found = tape.gradient(y, [y0, rates])
    for slope, value, place in zip(found, (Y0, RATES), (0, 1), strict=True):
        wanted = np.zeros(2)
        for i in range(2):
            ends = []
            for sign in (1, -1):
                moved = [Y0.copy(), RATES.copy()]
                moved[place][i] += sign * 1e-4
                ends.append(
                    scipy.integrate.odeint(
                        predator_on_host, moved[0], [0, 1], (moved[1],), rtol=1e-12, atol=1e-12
                    )[-1].sum()
                )
            wanted[i] = (ends[0] - ends[1]) / 2e-4
        assert slope.shape == value.shape
        np.testing.assert_allclose(slope.numpy(), wanted, rtol=2e-6)


def test_slopes_of_a_stiff_solution_are_those_of_its_steps():
    rate = tf.constant(np.array(2000.0))
    with tf.GradientTape() as outer:
        outer.watch(rate)
        with tf.GradientTape() as inner:
            inner.watch(rate)
            y = integrate.solve_ivp(
                lambda t, y: -rate * (y - np.cos(t)), (0, 1), [1.0], "Radau", rtol=1e-8, atol=1e-12
            ).y[0, -1]
        slope = inner.gradient(y, rate)
    bend = outer.gradient(slope, rate)

    # Far from the start y = (k² cos t + k sin t) / (k² + 1).
    def exact(k):
        return (k * k * np.cos(1) + k * np.sin(1)) / (k * k + 1)

    wanted = (exact(2001.0) - exact(1999.0)) / 2
    second = exact(2010.0) - 2 * exact(2000.0) + exact(1990.0)
    assert float(y) == pytest.approx(exact(2000.0), rel=1e-8)
    assert float(slope) == pytest.approx(wanted, rel=1e-4)
    assert float(bend) == pytest.approx(second / 100, rel=1e-2)


def test_variables_that_a_stiff_field_reads_get_gradients():
    rate = tf.Variable(np.array(0.5))
    with tf.GradientTape() as tape:
        y = integrate.solve_ivp(lambda t, y: -rate * y, (0, 2), [3.0], "Radau", **EXACT).y[0, -1]

    assert float(tape.gradient(y, rate)) == pytest.approx(-6.0 * np.exp(-1.0), rel=1e-7)


@each_method
@pytest.mark.parametrize("span", [(0.0, 2.0), (2.0, 0.0)])
def test_dense_output(method, span):
    found = integrate.solve_ivp(
        time_first, span, Y0, method, dense_output=True, args=(RATES,), **EXACT
    )
    times = np.array([0.1, 0.777, 1.3, 2.0])
    wanted = scipy.integrate.solve_ivp(
        lambda t, y: predator_on_host(y, t, RATES),
        span,
        Y0,
        "DOP853",
        dense_output=True,
        rtol=1e-12,
        atol=1e-12,
    ).sol(times)

    np.testing.assert_allclose(found.sol(times).numpy(), wanted, rtol=1e-6)
    assert found.sol(0.777).shape == (2,)
    assert (found.sol.t_min, found.sol.t_max) == (0.0, 2.0)


def test_slopes_of_dense_output():
    def between(y0, rates):
        found = integrate.solve_ivp(
            time_first, (0, 1), y0, dense_output=True, args=(rates,), rtol=1e-10, atol=1e-10
        )
        return found.sol(0.45)

    check(between, {"y0": Y0, "rates": RATES}, ["y0", "rates"])


def hits_ground(t, y, g):
    return y[0]


hits_ground.terminal = True
hits_ground.direction = -1


def falling(t, y, g):
    return tf.stack([y[1], -g + 0.0 * y[1]])


def falling_on_host(t, y, g):
    return [y[1], -g]


def turns(t, y, g):
    return y[1]


@each_method
def test_events_as_scipy_finds_them(method):
    events = [hits_ground, turns, lambda t, y, g: y[0] - 10.0]
    ours = integrate.solve_ivp(
        falling, (0, 9), [8.0, 10.0], method, events=events, args=(9.81,), **EXACT
    )
    theirs = scipy.integrate.solve_ivp(
        falling_on_host, (0, 9), [8.0, 10.0], method, events=events, args=(9.81,), **EXACT
    )

    assert (ours.status, ours.success) == (theirs.status, True)
    for found, wanted in zip(ours.t_events, theirs.t_events, strict=True):
        np.testing.assert_allclose(found.numpy(), wanted, rtol=1e-8)
    for found, wanted in zip(ours.y_events, theirs.y_events, strict=True):
        np.testing.assert_allclose(found.numpy(), wanted, atol=1e-7)
    assert float(ours.t[-1]) == pytest.approx(theirs.t[-1], rel=1e-9)


def test_events_that_do_not_happen_and_times_beyond_the_end():
    found = integrate.solve_ivp(
        falling,
        (0, 9),
        [1.0, 0.0],
        t_eval=[0.1, 0.3, 5.0],
        events=[hits_ground, lambda t, y, g: y[0] - 5.0],
        args=(9.81,),
        **EXACT,
    )

    np.testing.assert_array_equal(found.t.numpy(), [0.1, 0.3])
    np.testing.assert_allclose(found.y.numpy()[0], 1.0 - 4.905 * np.array([0.01, 0.09]), rtol=1e-9)
    assert [len(t.shape) and t.shape[0] for t in found.t_events] == [1, 0]


@pytest.mark.parametrize("method", ["RK45", "Radau"])
def test_slopes_of_an_event(method):
    g = tf.constant(np.array(9.81))
    with tf.GradientTape(persistent=True) as tape:
        tape.watch(g)
        found = integrate.solve_ivp(
            falling, (0, 9), [10.0, 1.0], method, events=hits_ground, args=(g,), **EXACT
        )
        time, speed = found.t_events[0][0], found.y_events[0][0][1]

    def exact(g):
        return (1.0 + np.sqrt(1.0 + 20.0 * g)) / g

    assert float(time) == pytest.approx(exact(9.81), rel=1e-9)
    wanted = (exact(9.8101) - exact(9.8099)) / 2e-4
    assert float(tape.gradient(time, g)) == pytest.approx(wanted, rel=1e-6)
    # The speed at the ground is -sqrt(1 + 20 g).
    assert float(tape.gradient(speed, g)) == pytest.approx(-10 / np.sqrt(1 + 196.2), rel=1e-6)


def test_jacobians_go_through_the_adjoint_all_rows_at_once():
    rates = tf.constant(RATES)
    with tf.GradientTape() as tape:
        tape.watch(rates)
        y = integrate.odeint(lambda y, t, k: -k * y, [1.0, 2.0], [0.0, 1.5], (rates,))[1]

    wanted = np.diag(-1.5 * np.array([1.0, 2.0]) * np.exp(-1.5 * RATES))
    np.testing.assert_allclose(tape.jacobian(y, rates).numpy(), wanted, rtol=1e-6, atol=1e-9)


def test_events_must_be_functions():
    with pytest.raises(TypeError, match="events must be a function"):
        integrate.solve_ivp(lambda t, y: y, (0, 1), [1.0], events=[3])


AREAS = [
    (lambda x, m: m.exp(-x * x), -np.inf, np.inf),
    (lambda x, m: 1 / (1 + x * x), 0, np.inf),
    (lambda x, m: m.exp(x), -np.inf, 1.0),
    (lambda x, m: m.exp(-x), np.inf, 1.0),
    (lambda x, m: m.sqrt(x), 0, 1),
    (lambda x, m: m.sin(30 * x), 0, 5),
    (lambda x, m: m.abs(x - 0.3), 1, 0),
    (lambda x, m: 1 / (1e-4 + x * x), -1, 2),
]


@pytest.mark.parametrize(("function", "a", "b"), AREAS)
def test_areas_under_functions(function, a, b):
    found, error = integrate.quad(lambda x: function(x, tf), a, b)
    wanted = scipy.integrate.quad(lambda x: function(x, np), a, b)[0]

    assert float(found) == pytest.approx(wanted, rel=1e-8, abs=1.5e-8)
    assert error < 1e-5


def test_functions_with_several_values_and_reductions():
    rows = np.arange(3.0)
    found, _ = integrate.quad_vec(
        lambda x, k: tf.reduce_sum(tf.exp(-k * x)) * rows, 0.0, 1.0, args=rows
    )

    wanted = (1.0 + sum((1 - np.exp(-k)) / k for k in (1, 2))) * rows
    np.testing.assert_allclose(found.numpy(), wanted, rtol=1e-10)


def test_slopes_of_areas():
    def area(a, b, k):
        return integrate.quad(lambda x: tf.exp(-k * x) * tf.sqrt(x), a, b, epsabs=1e-12)[0]

    check(area, {"a": np.array(0.2), "b": np.array(1.5), "k": np.array(0.7)}, ["a", "b", "k"])


def test_slopes_of_an_area_without_end():
    def area(a, k):
        return integrate.quad(lambda x, k: tf.exp(-k * x), a, np.inf, k, epsabs=1e-12)[0]

    check(area, {"a": np.array(0.2), "k": np.array(0.7)}, ["a", "k"])
