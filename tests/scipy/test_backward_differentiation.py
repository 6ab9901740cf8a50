"""solve_ivp by backward differentiation formulas: alone, in vmap and for many trajectories."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.integrate

import tapegrad as tf
import tapegrad.numpy
from tapegrad.scipy import integrate

RATES = np.array([0.03, 0.05])
TIMES = [1.0, 30.0]
START = [1.0, 0.0, 0.0]


def reaction(t, y, rate):
    slow, fast = rate * y[0] - 1e4 * y[1] * y[2], 3e7 * y[1] ** 2
    return tf.stack([-slow, slow - fast, fast])


def reaction_on_host(t, y, rate):
    slow, fast = rate * y[0] - 1e4 * y[1] * y[2], 3e7 * y[1] ** 2
    return [-slow, slow - fast, fast]


def by_radau(rate, times=TIMES):
    exact = {"rtol": 1e-10, "atol": 1e-14}
    return scipy.integrate.solve_ivp(
        reaction_on_host, (0, times[-1]), START, "Radau", times, args=(rate,), **exact
    ).y


def test_the_steps_are_those_of_scipy():
    exact = {"rtol": 1e-6, "atol": 1e-10}
    found = integrate.solve_ivp(reaction, (0, 10), START, "BDF", args=(0.04,), **exact)
    wanted = scipy.integrate.solve_ivp(
        reaction_on_host, (0, 10), START, "BDF", args=(0.04,), **exact
    )
    np.testing.assert_allclose(found.t.numpy(), wanted.t, rtol=1e-3)
    np.testing.assert_allclose(found.y.numpy(), wanted.y, rtol=1e-6)
    assert found.nfev == wanted.nfev
    assert found.njev == wanted.njev


def test_backwards_in_time_with_requested_times():
    times = [2.5, 1.0, 0.0]
    found = integrate.solve_ivp(
        lambda t, y: -y, (3.0, 0.0), [1.0, 2.0], "BDF", times, rtol=1e-8, atol=1e-11
    )
    wanted = np.exp(3.0 - np.array(times)) * np.array([[1.0], [2.0]])
    np.testing.assert_allclose(found.y.numpy(), wanted, rtol=2e-6)


def test_events_and_dense_output():
    def falls(t, y):
        return y[0] - 0.25

    falls.terminal = True
    found = integrate.solve_ivp(
        lambda t, y: -50.0 * (y - tapegrad.numpy.cos(t)), (0, 4), [0.5], "BDF",
        dense_output=True, events=falls, rtol=1e-7, atol=1e-9,
    )  # fmt: skip
    wanted = scipy.integrate.solve_ivp(
        lambda t, y: -50.0 * (y - np.cos(t)), (0, 4), [0.5], "Radau",
        dense_output=True, events=falls, rtol=1e-10, atol=1e-12,
    )  # fmt: skip
    assert found.status == 1
    assert float(found.t_events[0][0]) == pytest.approx(wanted.t_events[0][0], rel=1e-6)
    np.testing.assert_allclose(found.sol([0.3, 1.1]), wanted.sol([0.3, 1.1]), rtol=1e-6)


def relaxed(t, y, rate):
    return -rate * (y - tapegrad.numpy.cos(t))


def state_at_one(rate):
    """The slow solution of `relaxed`; the fast part has died out."""
    return (rate * rate * np.cos(1) + rate * np.sin(1)) / (rate * rate + 1)


def test_first_and_second_derivatives():
    def last(rate):
        start = tf.ones([1], "float64")
        return integrate.solve_ivp(
            relaxed, (0, 1), start, "BDF", args=(rate,), rtol=1e-8, atol=1e-12
        ).y[0, -1]

    rate = tf.constant(2000.0, "float64")
    slope = tf.grad(last)
    assert float(last(rate)) == pytest.approx(state_at_one(2000.0), rel=1e-8)
    wanted = (state_at_one(2001.0) - state_at_one(1999.0)) / 2
    assert float(slope(rate)) == pytest.approx(wanted, rel=1e-4)
    bend = state_at_one(2010.0) - 2 * state_at_one(2000.0) + state_at_one(1990.0)
    assert float(tf.grad(slope)(rate)) == pytest.approx(bend / 100, rel=1e-2)


def test_many_trajectories_agree_with_scipy():
    def one(rate):
        found = integrate.solve_ivp(
            reaction, (0.0, TIMES[-1]), START, "BDF", TIMES, args=(rate,), rtol=1e-5, atol=1e-9
        )
        return found.y, found.success

    states, success = tf.vmap(one)(tf.constant(RATES))
    assert success.numpy().all()
    for y, rate in zip(states.numpy(), RATES, strict=True):
        np.testing.assert_allclose(y, by_radau(rate), rtol=2e-4)


def test_derivatives_of_many_trajectories():
    def last(rate):
        start = tf.ones([1], "float64")
        return integrate.solve_ivp(
            relaxed, (0.0, 1.0), start, "BDF", [0.5, 1.0], args=(rate,), rtol=1e-6, atol=1e-9
        ).y[0, -1]

    rates = np.array([500.0, 2000.0])
    slope = tf.vmap(tf.grad(last))(tf.constant(rates))
    wanted = (state_at_one(rates + 1) - state_at_one(rates - 1)) / 2
    np.testing.assert_allclose(slope, wanted, rtol=1e-4)
    bend = tf.vmap(tf.grad(tf.grad(last)))(tf.constant(rates))
    second = state_at_one(rates + 5) - 2 * state_at_one(rates) + state_at_one(rates - 5)
    np.testing.assert_allclose(bend, second / 25, rtol=1e-2)


def test_a_trajectory_that_grows_without_bound_leaves_the_others_alone():
    def square(t, y):
        return y * y

    starts = [[0.5], [1.0], [-1.0]]
    found = integrate.batched.solve_ivp(square, (0.0, 1.5), starts, "BDF", rtol=1e-4, atol=1e-6)
    assert found.status.numpy().tolist() == [0, -1, 0]
    assert np.isnan(found.y.numpy()[1, 0, -1])
    np.testing.assert_allclose(found.y.numpy()[[0, 2], 0, -1], [2.0, -0.4], rtol=1e-2)
