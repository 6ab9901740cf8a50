"""Methods whose search SciPy runs: solutions, derivatives and refusals."""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np
import pytest

import tapegrad as tf
import tapegrad.numpy as tnp
from tapegrad.errors import ArgumentError
from tapegrad.scipy import integrate, optimize
from tapegrad.scipy.optimize import scipy_searches

scipy_optimize = pytest.importorskip("scipy.optimize")

WEIGHTS = np.array([1.0, 2.0, 3.0])
CENTRE = np.array([2.0, 1.0, 3.0])
START = [0.5, 0.5, 0.5]


def cost(x: Any, c: Any) -> Any:
    return tnp.sum((x - c) ** 2) + 0.1 * tnp.sum(x**4)


def minimum(c: Any, method: str, **options: Any) -> Any:
    return optimize.minimize(cost, START, (c,), method=method, **options)


def slope_of(method: str, **options: Any) -> np.ndarray:
    """Return the gradient of a weighted sum of the minimum."""
    c = tf.constant(CENTRE)
    with tf.GradientTape() as tape:
        tape.watch(c)
        found = tnp.sum(minimum(c, method, **options).x * WEIGHTS)
    return np.asarray(tape.gradient(found, c))


def differences(**options: Any) -> np.ndarray:
    """Return the same by differences of minima that SciPy finds with NumPy."""

    def hosted(x: np.ndarray, c: np.ndarray) -> float:
        return float(np.sum((x - c) ** 2) + 0.1 * np.sum(x**4))

    def value(c: np.ndarray) -> float:
        found = scipy_optimize.minimize(
            hosted, START, (c,), method="SLSQP", options={"ftol": 1e-14}, **options
        )
        return float(np.sum(found.x * WEIGHTS))

    steps = 1e-3 * np.eye(3)
    return np.array([(value(CENTRE + step) - value(CENTRE - step)) / 2e-3 for step in steps])


@pytest.mark.parametrize("method", ["Powell", "trust-exact", "dogleg", "trust-constr", "COBYQA"])
def test_minima_have_implicit_derivatives(method: str) -> None:
    options = {"options": {"xtol": 1e-10}} if method == "Powell" else {"tol": 1e-8}
    x = minimum(CENTRE, method, **options).x.numpy()

    np.testing.assert_allclose(2.0 * (x - CENTRE) + 0.4 * x**3, np.zeros(3), atol=1e-4)
    expected = WEIGHTS * 2.0 / (2.0 + 1.2 * x**2)
    np.testing.assert_allclose(slope_of(method, **options), expected, rtol=1e-4)


@pytest.mark.parametrize("method", ["trust-constr", "COBYLA", "COBYQA"])
@pytest.mark.parametrize("kind", ["equal", "within"])
def test_derivatives_within_bounds_and_constraints(method: str, kind: str) -> None:
    bounds = [(-1.0, 2.0), (-1.0, 0.2), (None, None)]
    if kind == "equal":
        constraints: Any = [
            {"type": "eq", "fun": lambda x: x[0] + x[1] - 1.0},
            {"type": "ineq", "fun": lambda x: 1.0 - x[2] ** 2},
        ]
        theirs = constraints
    else:
        ends = (lambda x: x[0] * x[2], -np.inf, 0.5)
        constraints = optimize.NonlinearConstraint(*ends)
        theirs = scipy_optimize.NonlinearConstraint(*ends)

    slope = slope_of(method, bounds=bounds, constraints=constraints, tol=1e-9)

    expected = differences(bounds=bounds, constraints=theirs)
    np.testing.assert_allclose(slope, expected, atol=1e-3)


def test_scipy_gets_exact_gradients_and_hessians(monkeypatch: pytest.MonkeyPatch) -> None:
    given: dict[str, Any] = {}
    plain = scipy_optimize.minimize

    def noted(fun: Any, x0: Any, **options: Any) -> Any:
        given.update(options)
        return plain(fun, x0, **options)

    monkeypatch.setattr(scipy_optimize, "minimize", noted)
    minimum([2.0, 1.0, 3.0], "trust-exact")
    point = np.array([0.3, -0.2, 0.4])

    gradient = 2.0 * (point - [2.0, 1.0, 3.0]) + 0.4 * point**3
    np.testing.assert_allclose(given["jac"](point), gradient, rtol=1e-14)
    np.testing.assert_allclose(given["hess"](point), np.diag(2.0 + 1.2 * point**2), rtol=1e-14)


def test_given_hessians_are_used_and_callbacks_may_stop() -> None:
    points: list[Any] = []

    def stop(x: Any) -> None:
        points.append(x)
        if len(points) == 2:
            raise StopIteration

    def hessian(x: Any, c: Any) -> Any:
        return np.diag(2.0 + 1.2 * x.numpy() ** 2)

    found = minimum([2.0, 1.0, 3.0], "trust-exact", hess=hessian, callback=stop)

    assert len(points) == 2
    assert isinstance(points[0], tf.Tensor)
    assert not found.success


def system(x: Any, a: Any) -> Any:
    bent = 0.5 * (x[0] - x[1]) ** 3
    return tnp.stack([x[0] + bent - a, x[1] - bent])


@pytest.mark.parametrize("method", ["broyden2", "anderson", "diagbroyden", "df-sane"])
def test_roots_have_implicit_derivatives(method: str) -> None:
    a, expected = tf.constant(1.0, "float64"), {}
    for name in (method, "hybr"):
        with tf.GradientTape() as tape:
            tape.watch(a)
            x = optimize.root(system, [0.0, 0.0], a, method=name, tol=1e-9).x
        expected[name] = x.numpy(), tape.gradient(x, a).numpy()

    for ours, reference in zip(expected[method], expected["hybr"], strict=True):
        np.testing.assert_allclose(ours, reference, rtol=1e-6)


def test_a_search_that_finds_no_root_says_so() -> None:
    found = optimize.root(lambda x: x * x + 1.0, [0.3], method="df-sane", options={"maxfev": 50})

    assert not found.success


@pytest.mark.parametrize("method", scipy_searches.BRACKETING)
def test_roots_between_two_points(method: str) -> None:
    c = tf.constant(2.0, "float64")
    with tf.GradientTape() as tape:
        tape.watch(c)
        root = optimize.root_scalar(lambda x, c: x**3 - c, c, method, bracket=[0.0, 2.0]).root

    np.testing.assert_allclose(float(root), 2.0 ** (1 / 3), rtol=1e-10)
    np.testing.assert_allclose(float(tape.gradient(root, c)), 2.0 ** (-2 / 3) / 3, rtol=1e-8)


def test_without_scipy_the_remedy_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> Any:
        raise ImportError(name)

    monkeypatch.setattr(importlib, "import_module", missing)
    with pytest.raises(ArgumentError, match=r"Powell is SciPy's\. Install SciPy"):
        minimum([0.0, 0.0, 0.0], "Powell")


def test_methods_of_scipy_do_not_run_for_many_problems() -> None:
    with pytest.raises(ArgumentError, match="Inside vmap or a recorded function, minimize"):
        tf.vmap(lambda c: minimum(c, "Powell").x)(tf.ones([2, 3], "float64"))
    with pytest.raises(ArgumentError, match="Inside vmap or a recorded function, root"):
        tf.vmap(lambda a: optimize.root(system, [0.0, 0.0], a, method="anderson").x)(tf.ones([2]))


def test_options_that_say_how_scipy_computes_are_ignored() -> None:
    def misfit(x: Any) -> Any:
        return tnp.stack([10.0 * (x[1] - x[0] ** 2), 1.0 - x[0]])

    options: dict[str, Any] = {"x_scale": "jac", "jac": "3-point", "tr_solver": "exact"}
    found = optimize.least_squares(misfit, [2.0, 2.0], method="dogbox", verbose=0, **options)
    np.testing.assert_allclose(found.x, [1.0, 1.0], rtol=1e-8)


def test_points_with_nan_are_left_out_of_a_fit() -> None:
    x = np.linspace(0.0, 1.0, 12)
    y, sigma = 2.0 * np.exp(-1.5 * x) + 0.01 * np.cos(9 * x), np.linspace(0.1, 0.3, 12)
    y[3] = np.nan

    def decay(x: Any, a: Any, b: Any) -> Any:
        return a * tnp.exp(-b * x)

    def hosted(x: Any, a: float, b: float) -> Any:
        return a * np.exp(-b * x)

    for errors in (None, sigma, np.diag(sigma**2) + 0.001):
        ours = optimize.curve_fit(decay, x, y, sigma=errors, nan_policy="omit")
        theirs = scipy_optimize.curve_fit(hosted, x, y, sigma=errors, nan_policy="omit")
        for found, expected in zip(ours, theirs, strict=True):
            np.testing.assert_allclose(found, expected, rtol=1e-5)


@pytest.mark.parametrize("method", ["LSODA", "RK45", "Radau"])
def test_methods_of_solve_ivp_may_be_classes_of_scipy(method: str) -> None:
    integrators = pytest.importorskip("scipy.integrate")

    def circle(t: Any, y: Any) -> Any:
        return tnp.stack([-y[1], y[0]])

    by_class = integrate.solve_ivp(
        circle, (0.0, 1.0), [1.0, 0.0], getattr(integrators, method), rtol=1e-8, atol=1e-10
    )
    expected = [np.cos(1.0), np.sin(1.0)]
    np.testing.assert_allclose(by_class.y[:, -1], expected, rtol=1e-5)
    with_jacobian = integrate.solve_ivp(
        circle, (0.0, 1.0), [1.0, 0.0], method, rtol=1e-8, atol=1e-10, jac=[[0, -1], [1, 0]]
    )
    np.testing.assert_allclose(with_jacobian.y[:, -1], expected, rtol=1e-5)
