"""Searches and integrations with everything on a device that refuses silent copies to the host."""

from __future__ import annotations

import numpy as np
import pytest

import tapegrad as tf
import tapegrad_strict as strict
from tapegrad.core.backend.registry import register_backend, unregister_backend
from tapegrad.scipy import integrate, optimize, sparse

pytestmark = pytest.mark.filterwarnings("ignore:You are comparing a array_api_strict dtype")


@pytest.fixture(autouse=True)
def on_a_device():
    register_backend(strict.StrictBackend())
    try:
        with tf.device("strict:0"), strict.forbidding_reads():
            yield
    finally:
        unregister_backend("strict")


def near(found, wanted, rtol=1e-5, atol=1e-5):
    assert found.device == "strict:0"
    np.testing.assert_allclose(found.numpy(), wanted, rtol=rtol, atol=atol)


def valley(x):
    return (1.0 - x[0]) ** 2 + 5.0 * (x[1] - x[0] ** 2) ** 2


@pytest.mark.parametrize("method", ["Nelder-Mead", "L-BFGS-B", "TNC", "SLSQP"])
def test_minima_within_bounds(method):
    found = optimize.minimize(valley, [0.1, 0.1], method=method, bounds=[(0, 0.5), (None, None)])

    near(found.x, [0.5, 0.25], atol=1e-3)


def test_minima_under_constraints_and_their_derivatives():
    c = tf.constant(np.array(1.5))
    with tf.GradientTape() as tape:
        tape.watch(c)
        found = optimize.minimize(
            lambda x: tf.reduce_sum(x**2),
            [1.0, 0.0],
            constraints={"type": "eq", "fun": lambda x: tf.reduce_sum(x) - c},
            tol=1e-9,
        )

    near(found.x, [0.75, 0.75])
    near(tape.gradient(found.x, c), 1.0)


@pytest.mark.parametrize("method", ["hybr", "krylov", "broyden1"])
def test_roots_and_their_derivatives(method):
    c = tf.constant(np.array([4.0, 9.0]))
    with tf.GradientTape() as tape:
        tape.watch(c)
        found = optimize.root(lambda x: x * x - c, [1.5, 2.5], method=method)

    near(found.x, [2.0, 3.0])
    near(tape.gradient(found.x, c), [0.25, 1 / 6])


def test_roots_and_minima_of_one_number():
    near(optimize.brentq(lambda x: x**3 - 2.0, 0.0, 2.0), 2 ** (1 / 3))
    near(optimize.newton(lambda x: x**2 - 2.0, [1.0, -1.0]), [2**0.5, -(2**0.5)])
    near(optimize.minimize_scalar(lambda x: (x - 2.0) ** 2).x, 2.0)


def test_a_fit():
    times = np.linspace(0.0, 2.0, 9)
    best, covariance = optimize.curve_fit(
        lambda t, a, b: a * tf.exp(-b * t), times, 2.5 * np.exp(-1.3 * times), [2.0, 1.0]
    )

    near(best, [2.5, 1.3])
    assert covariance.device == "strict:0"


@pytest.mark.parametrize("method", ["RK23", "RK45", "DOP853", "Radau"])
def test_differential_equations(method):
    rate = tf.constant(np.array(0.5))
    with tf.GradientTape() as tape:
        tape.watch(rate)
        found = integrate.solve_ivp(
            lambda t, y, rate: -rate * y,
            (0, 2),
            [1.0, 2.0],
            method,
            dense_output=True,
            events=lambda t, y, rate: y[0] - 0.5,
            args=(rate,),
            rtol=1e-6,
            atol=1e-8,
        )
        last = found.y[0, -1]

    near(last, np.exp(-1.0))
    near(tape.gradient(last, rate), -2 * np.exp(-1.0), rtol=1e-4)
    near(found.sol(1.0), np.exp(-0.5) * np.array([1.0, 2.0]))
    near(found.t_events[0], [2 * np.log(2.0)])


def test_integrals():
    near(integrate.quad(lambda x: tf.exp(-x), 0.0, np.inf)[0], 1.0)
    near(integrate.simpson(tf.constant(np.arange(4.0)) ** 2), 9.0)
    near(integrate.cumulative_simpson(tf.constant(np.arange(4.0)) ** 2), [1 / 3, 8 / 3, 9.0])
    near(integrate.romb(tf.constant(np.arange(5.0)) ** 2), 64 / 3)


def test_sparse_eigenvalues_and_solutions():
    lines = [np.full(39, -1.0), 2.0 + 0.01 * np.arange(40), np.full(39, -1.0)]
    A = sparse.diags_array(lines, offsets=[-1, 0, 1])
    dense = np.diag(lines[1]) + np.diag(lines[0], -1) + np.diag(lines[2], 1)
    wanted = np.linalg.eigvalsh(dense)

    near(sparse.linalg.eigsh(A, 2, "LA")[0], wanted[-2:])
    near(sparse.linalg.svds(A, 2)[1], wanted[-2:])
    near(sparse.linalg.spsolve(A, np.ones(40)), np.linalg.solve(dense, np.ones(40)))
    near(sparse.linalg.minres(A, np.ones(40), rtol=1e-12)[0], np.linalg.solve(dense, np.ones(40)))
    near(sparse.linalg.expm_multiply(A * 0.0, np.ones(40)), np.ones(40))
