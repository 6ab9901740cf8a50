"""Minima of known functions, found as SciPy finds them."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.optimize

import tapegrad as tf
from tapegrad.scipy import optimize
from tapegrad.scipy.optimize.line_search import Trial, search

METHODS = ["BFGS", "L-BFGS-B", "CG", "Newton-CG", "TNC", "trust-ncg", "trust-krylov"]
SECOND_ORDER = ("Newton-CG", "trust-ncg", "trust-krylov")


def rosenbrock(x):
    return tf.reduce_sum(100.0 * (x[1:] - x[:-1] ** 2) ** 2 + (1.0 - x[:-1]) ** 2)


def beale(x, shift=0.0):
    a, b = x[0] - shift, x[1]
    return (1.5 - a + a * b) ** 2 + (2.25 - a + a * b**2) ** 2 + (2.625 - a + a * b**3) ** 2


def himmelblau(x):
    return (x[0] ** 2 + x[1] - 11.0) ** 2 + (x[0] + x[1] ** 2 - 7.0) ** 2


def theirs(method, size):
    derivatives = {} if method == "Nelder-Mead" else {"jac": scipy.optimize.rosen_der}
    if method in SECOND_ORDER:
        derivatives["hess"] = scipy.optimize.rosen_hess
    start = np.full(size, -0.5)
    return scipy.optimize.minimize(scipy.optimize.rosen, start, method=method, **derivatives)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("size", [2, 5, 10])
def test_the_valley_of_rosenbrock(method, size):
    found = optimize.minimize(rosenbrock, np.full(size, -0.5), method=method)

    assert found.success
    assert found.fun < 1e-7
    assert float(rosenbrock(found.x)) == pytest.approx(found.fun)
    # As good as SciPy's methods, in evaluations too; TNC counts differently and gives up early.
    if method != "TNC":
        assert found.nfev < 2 * theirs(method, size).nfev
    np.testing.assert_allclose(
        found.jac.numpy(), scipy.optimize.rosen_der(found.x.numpy()), atol=1e-9
    )


@pytest.mark.parametrize("size", [2, 5, 10])
def test_the_simplex_takes_scipys_steps(size):
    # In ten dimensions last digits, which differ between processors, decide about late steps.
    most = 100 if size == 10 else 2000
    # No two coordinates alike: corners with equal values would be put in order by them, too.
    start, method = np.linspace(-0.5, 0.7, size), "Nelder-Mead"
    found = optimize.minimize(rosenbrock, start, method=method, options={"maxiter": most})
    wanted = scipy.optimize.minimize(
        # Of which the first, in SciPy's count, is the start.
        scipy.optimize.rosen, start, method=method, options={"maxiter": most + 1}
    )  # fmt: skip

    assert (found.success, found.nfev) == (wanted.success, wanted.nfev)
    np.testing.assert_allclose(found.x.numpy(), wanted.x, rtol=1e-9)
    corners, values = found.final_simplex
    np.testing.assert_allclose(corners.numpy(), wanted.final_simplex[0], rtol=1e-9)
    np.testing.assert_allclose(values.numpy(), wanted.final_simplex[1], rtol=1e-9)


@pytest.mark.parametrize("size", [2, 5, 10])
def test_the_trust_region_takes_scipys_steps(size):
    found = optimize.minimize(rosenbrock, np.full(size, -0.5), method="trust-ncg")
    wanted = theirs("trust-ncg", size)

    assert (found.nit, found.nfev) == (wanted.nit, wanted.nfev)
    np.testing.assert_allclose(found.x.numpy(), wanted.x, rtol=1e-7)


@pytest.mark.parametrize("method", [*METHODS, "Nelder-Mead"])
def test_himmelblaus_valleys(method):
    found = optimize.minimize(himmelblau, [1.0, 1.0], method=method)

    valleys = np.array(
        [[3, 2], [-2.805118, 3.131312], [-3.779310, -3.283186], [3.584428, -1.848126]]
    )
    assert found.success
    assert np.abs(valleys - found.x.numpy()).max(axis=1).min() < 1e-4


@pytest.mark.parametrize("method", METHODS)
def test_arguments_and_callbacks(method):
    seen = []
    found = optimize.minimize(
        beale, [1.0, 1.0], args=(0.5,), method=method, callback=lambda x: seen.append(x.numpy())
    )

    np.testing.assert_allclose(found.x.numpy(), [3.5, 0.5], atol=1e-3)
    assert len(seen) == found.nit
    np.testing.assert_array_equal(seen[-1], found.x.numpy())


@pytest.mark.parametrize("method", [*METHODS, "Nelder-Mead"])
def test_a_callback_may_ask_for_the_result_and_stop(method):
    values = []

    def callback(intermediate_result):
        values.append(intermediate_result.fun)
        if len(values) == 3:
            raise StopIteration

    found = optimize.minimize(rosenbrock, [-1.0, 2.0], method=method, callback=callback)

    assert (found.nit, found.status, found.success) == (3, 99, False)
    assert "callback" in found.message
    assert values == sorted(values, reverse=True)


def logistic(weights, features, labels):
    scores = tf.linalg.matvec(features, weights)
    losses = tf.math.softplus(scores) - labels * scores
    return tf.reduce_mean(losses) + 0.01 * tf.reduce_sum(weights**2)


def logistic_on_host(weights, features, labels):
    scores = features @ weights
    return np.mean(np.logaddexp(0, scores) - labels * scores) + 0.01 * np.sum(weights**2)


@pytest.mark.parametrize("method", METHODS)
def test_logistic_regression(method):
    random = np.random.default_rng(0)
    features = random.normal(size=(40, 4))
    labels = (features @ [1.0, -2.0, 0.5, 0.0] + random.normal(size=40) > 0).astype(float)

    found = optimize.minimize(logistic, np.zeros(4), (features, labels), method, tol=1e-8)
    wanted = scipy.optimize.minimize(
        logistic_on_host, np.zeros(4), (features, labels), "BFGS", tol=1e-9
    )

    np.testing.assert_allclose(found.x.numpy(), wanted.x, atol=2e-5)


BOXES = {
    "pairs": [(-1, 0.5), (0.3, 2), (None, None), (0, 0.4)],
    "far": [(None, None), (0, None), (-3, 3), (-5, 5)],
    "object": optimize.Bounds([-1, -1, -1, -1], 0.8),
    "one-sided": [(1.5, None), (None, None), (None, None), (None, 1.0)],
}


@pytest.mark.parametrize("bounds", BOXES.values(), ids=BOXES)
@pytest.mark.parametrize("method", [None, "L-BFGS-B", "TNC", "SLSQP"])
def test_bounds(method, bounds):
    start = np.full(4, 0.35)
    found = optimize.minimize(rosenbrock, start, method=method, bounds=bounds, tol=1e-9)
    own = scipy.optimize.Bounds(bounds.lb, bounds.ub) if hasattr(bounds, "lb") else bounds
    wanted = scipy.optimize.minimize(
        scipy.optimize.rosen,
        np.clip(start, 1.5 if bounds is BOXES["one-sided"] else None, None),
        jac=scipy.optimize.rosen_der,
        method="L-BFGS-B",
        bounds=own,
        options={"ftol": 1e-15, "gtol": 1e-10},
    )

    assert found.success
    np.testing.assert_allclose(found.x.numpy(), wanted.x, atol=1e-5)


def test_the_simplex_stays_within_bounds():
    bounds = BOXES["pairs"]
    found = optimize.minimize(rosenbrock, np.full(4, 0.35), method="nelder-mead", bounds=bounds)
    wanted = scipy.optimize.minimize(
        scipy.optimize.rosen, np.full(4, 0.35), method="nelder-mead", bounds=bounds
    )

    np.testing.assert_allclose(found.x.numpy(), wanted.x, rtol=1e-9)


def test_a_bowl_whose_minimum_lies_outside_of_its_box():
    matrix = np.array([[3.0, 1.0], [1.0, 2.0]])

    def bowl(x):
        return 0.5 * tf.reduce_sum(x * tf.linalg.matvec(matrix, x)) - 4.0 * x[0]

    found = optimize.minimize(bowl, [0.0, 0.0], bounds=[(None, 1.0), (-0.2, None)])

    # The second variable is held at -0.2, where the first would go to 1.4, beyond its bound.
    np.testing.assert_allclose(found.x.numpy(), [1.0, -0.2], atol=1e-12)


WEIGHTS = np.array([1.0, 2.0, 3.0])


@pytest.mark.parametrize(
    ("ours", "wanted"),
    [
        ({"type": "eq", "fun": lambda x: tf.reduce_sum(x) - 1.0}, [6 / 11, 3 / 11, 2 / 11]),
        ({"type": "ineq", "fun": lambda x: x[0] - 0.5}, [0.5, 0.0, 0.0]),
        ({"type": "ineq", "fun": lambda x: x[0] + 0.5}, [0.0, 0.0, 0.0]),
        ({"type": "ineq", "fun": lambda x, a: x - a, "args": (0.25,)}, [0.25] * 3),
        (optimize.LinearConstraint([[1, 1, 1], [1, -1, 0]], [1, 0], [1, 0]), [0.4, 0.4, 0.2]),
        (optimize.LinearConstraint([1, 1, 1], 1.0), [6 / 11, 3 / 11, 2 / 11]),
        (
            optimize.NonlinearConstraint(lambda x: tf.stack([x[0] ** 2, x[2]]), [0.25, -1], [9, 1]),
            [0.5, 0.0, 0.0],
        ),
    ],
    ids=["equal", "at-least", "not-needed", "vector", "linear", "line", "nonlinear"],
)
def test_constraints(ours, wanted):
    found = optimize.minimize(
        lambda x: tf.reduce_sum(WEIGHTS * x**2), np.ones(3), constraints=ours, tol=1e-9
    )

    assert found.success
    np.testing.assert_allclose(found.x.numpy(), wanted, atol=1e-6)


def test_constraints_and_bounds_together_as_slsqp_finds_it():
    # The example of SciPy's documentation: five constraints, one of them needed.
    constraints = [
        {"type": "ineq", "fun": lambda x: x[0] - 2 * x[1] + 2},
        {"type": "ineq", "fun": lambda x: -x[0] - 2 * x[1] + 6},
        {"type": "ineq", "fun": lambda x: -x[0] + 2 * x[1] + 2},
    ]
    found = optimize.minimize(
        lambda x: (x[0] - 1) ** 2 + (x[1] - 2.5) ** 2,
        [2.0, 0.0],
        bounds=[(0, None), (0, None)],
        constraints=constraints,
        tol=1e-9,
    )

    np.testing.assert_allclose(found.x.numpy(), [1.4, 1.7], atol=1e-7)


def test_a_known_problem_with_curved_constraints():
    # Number 71 of Hock and Schittkowski's collection.
    found = optimize.minimize(
        lambda x: x[0] * x[3] * (x[0] + x[1] + x[2]) + x[2],
        [1.0, 5.0, 5.0, 1.0],
        bounds=[(1, 5)] * 4,
        constraints=[
            {"type": "ineq", "fun": lambda x: x[0] * x[1] * x[2] * x[3] - 25.0},
            {"type": "eq", "fun": lambda x: tf.reduce_sum(x**2) - 40.0},
        ],
        tol=1e-8,
    )

    assert found.success
    assert found.fun == pytest.approx(17.0140173, abs=1e-6)
    np.testing.assert_allclose(found.x.numpy(), [1.0, 4.742999, 3.821151, 1.379408], atol=1e-5)


def test_constraints_that_contradict_each_other_are_told():
    found = optimize.minimize(
        lambda x: x[0] ** 2,
        [0.0],
        constraints=[
            {"type": "ineq", "fun": lambda x: x[0] - 1.0},
            {"type": "ineq", "fun": lambda x: -x[0] - 1.0},
        ],
        options={"maxiter": 8},
    )

    assert not found.success
    assert "constraints" in found.message


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
@pytest.mark.parametrize("method", ["BFGS", "trust-ncg"])
def test_gradients_by_hand(method, jac):
    def fun(x):
        value = tf.reduce_sum((x - 1) ** 2)
        return (value, 2 * (x - 1)) if jac is True else value

    np.testing.assert_allclose(
        optimize.minimize(fun, [5.0, 3.0], jac=jac, method=method).x.numpy(), [1, 1], atol=1e-6
    )


@pytest.mark.parametrize(
    "curvature",
    [{"hess": lambda x: 2 * np.eye(2)}, {"hessp": lambda x, p: 2 * p}],
    ids=["matrix", "product"],
)
@pytest.mark.parametrize("method", SECOND_ORDER)
def test_hessians_by_hand(method, curvature):
    found = optimize.minimize(
        lambda x: tf.reduce_sum((x - 1) ** 2), [5.0, 3.0], method=method, **curvature
    )

    np.testing.assert_allclose(found.x.numpy(), [1, 1], atol=1e-6)
    assert found.nhev > 0


def test_the_end_is_told():
    few = optimize.minimize(rosenbrock, [-1.0, 2.0], options={"maxiter": 3})
    strict = optimize.minimize(rosenbrock, [-1.0, 2.0], tol=1e-12)

    assert (few.status, few.success, few.nit) == (1, False, 3)
    assert "maximum number of iterations" in few.message
    assert float(tf.reduce_max(tf.abs(strict.jac))) < 1e-6
    assert few["nit"] == few.nit
    with pytest.raises(AttributeError, match=r"no field 'nonsense'\. It has x, fun"):
        _ = few.nonsense


def test_values_that_are_not_finite_are_stepped_back_from():
    def barrier(x):
        return tf.where(x > 0, x - tf.math.log(tf.maximum(x, 1e-30)), np.inf)

    found = optimize.minimize(barrier, 8.0)

    assert float(found.x) == pytest.approx(1.0, abs=1e-4)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"method": "Powel"}, "method must be one of Nelder-Mead, CG, BFGS"),
        ({"options": {"disp": True}}, "BFGS accepts the options gtol, maxiter"),
        ({"jac": "2-point"}, "jac must be None, True or a function"),
        ({"hess": "2-point"}, "hess must be None or a function"),
        ({"method": "CG", "bounds": [(0, 1), (0, 1)]}, "CG does not support bounds"),
        ({"method": "TNC", "constraints": {"type": "eq", "fun": abs}}, "TNC does not support con"),
        ({"bounds": [(0, 1)]}, "must be 2 pairs"),
        ({"bounds": [(0, 1), (3, 1)]}, "Got 3.0 and 1.0 for variable 1"),
        ({"bounds": optimize.Bounds([0, 0, 0], 1)}, "Bounds of 2 variables"),
        ({"constraints": {"type": "le", "fun": abs}}, "'eq' or 'ineq'"),
        ({"constraints": [3]}, "Got int"),
        ({"constraints": optimize.LinearConstraint([1, 1], 2, 1)}, "must not exceed the upper"),
        (
            {"method": "Nelder-Mead", "options": {"initial_simplex": [[1.0, 2.0]]}},
            "initial_simplex must have shape",
        ),
    ],
)
def test_wrong_options_are_named(options, words):
    with pytest.raises(ValueError, match=words):
        optimize.minimize(rosenbrock, [0.0, 0.0], **options)


def test_a_function_of_several_values_is_refused():
    with pytest.raises(ValueError, match="must return one number"):
        optimize.minimize(lambda x: x, [0.0, 0.0])


@pytest.mark.parametrize("first", [1e-3, 0.5, 1.0, 50.0])
def test_the_line_search_keeps_wolfes_conditions(first):
    def at(step):
        return Trial(step, np.cos(step) - 0.1 * step, -np.sin(step) - 0.1)

    start = at(0.0)
    found = search(at, start, at(first))

    assert found.value <= start.value + 1e-4 * found.step * start.slope
    assert abs(found.slope) <= 0.9 * abs(start.slope)
