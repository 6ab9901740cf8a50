"""A zero cotangent stays zero in elementwise rules, although the slope is infinite or NaN."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
import pytest

import tapegrad as tf
from tapegrad.autodiff import accelerator
from tapegrad.core.primitive.primitive import PRIMITIVES, Primitive
from tapegrad.core.trace.expression import Expression, array_input, traced
from tapegrad.core.values.tensor import wrap
from tapegrad.ops.creation import zeros_like
from tapegrad.testing.samples import all_samples

NAN, INF = float("nan"), float("inf")


@pytest.fixture(autouse=True)
def _without_warnings() -> Iterator[None]:
    with np.errstate(all="ignore"):
        yield


@pytest.fixture(params=["engine", "plain"])
def sweep(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Sweeps with the engine, and those that TAPEGRAD_PLAIN=1 leaves."""
    if request.param == "plain":
        monkeypatch.setattr(accelerator, "_make_for_arrays", accelerator._make_plain)
    return str(request.param)


def scaled(x: Any) -> Any:
    """Divide columns by their deviations, but constant columns by nothing (StandardScaler)."""
    centred = x - tf.reduce_mean(x, axis=0)
    deviation = tf.math.reduce_std(x, axis=0)
    return tf.where(deviation == 0, centred, centred / deviation)


# A function that does not take the branch with the singular point, the point, and its gradient.
BRANCHES: dict[str, tuple[Callable[..., Any], list[Any], list[Any]]] = {
    "0 / 0": (
        lambda x, y: tf.where(x == 0, 0.0, y / x),
        [[0.0, 2.0, 0.0], [0.0, 3.0, 1.0]],
        [[0.0, -0.75, 0.0], [0.0, 0.5, 0.0]],
    ),
    "log": (lambda x: tf.where(x > 0, tf.math.log(x), 0.0), [[0.0, 2.0]], [[0.0, 0.5]]),
    "log1p": (lambda x: tf.where(x > -1, tf.math.log1p(x), 0.0), [[-1.0, 1.0]], [[0.0, 0.5]]),
    "sqrt": (lambda x: tf.where(x > 0, tf.sqrt(x), 0.0), [[0.0, 4.0, -1.0]], [[0.0, 0.25, 0.0]]),
    "rsqrt": (lambda x: tf.where(x > 0, tf.math.rsqrt(x), 0.0), [[0.0, 1.0]], [[0.0, -0.5]]),
    "reciprocal": (lambda x: tf.where(x > 0, 1 / x, 0.0), [[0.0, 2.0]], [[0.0, -0.25]]),
    "power": (lambda x: tf.where(x > 0, x**-1.5, 0.0), [[0.0, 1.0]], [[0.0, -1.5]]),
    "pow": (
        lambda x, y: tf.where(x > 0, tf.pow(x, y), 0.0),
        [[0.0, 1.0, -1.0, 0.0], [0.5, 2.0, 0.5, -1.0]],
        [[0.0, 2.0, 0.0, 0.0], [0.0, 0.0, 0.0, 0.0]],
    ),
    "exp": (lambda x: tf.where(x < 90, tf.exp(x), 0.0), [[0.0, 1000.0]], [[1.0, 0.0]]),
    "times infinity": (
        lambda x, w: tf.where(tf.math.is_inf(x), 0.0, x * w),
        [[INF, 1.0], [2.0, 3.0]],
        [[0.0, 3.0], [0.0, 1.0]],
    ),
    "times NaN": (
        lambda x, w: tf.where(tf.math.is_nan(x), 0.0, x * w),
        [[NAN, 1.0], [2.0, 3.0]],
        [[0.0, 3.0], [0.0, 1.0]],
    ),
    "tanh of NaN": (
        lambda x: tf.where(tf.math.is_nan(x), 0.0, tf.tanh(x)),
        [[NAN, 0.0]],
        [[0.0, 1.0]],
    ),
    "lgamma": (lambda x: tf.where(x > 0, tf.math.lgamma(x), 0.0), [[0.0, 2.0]], [[0.0, 0.4227843]]),
    "norm": (
        lambda x: tf.where(tf.reduce_sum(x) > 0, tf.norm(x) * tf.math.log(x), 0.0),
        [[0.0, 0.0]],
        [[0.0, 0.0]],
    ),
    "norm of NaN": (lambda x: tf.where(x > 1, tf.norm(x), 0.0), [[NAN, 1.0]], [[0.0, 0.0]]),
    "std": (lambda x: tf.where(x > 1, tf.math.reduce_std(x), 0.0), [[NAN, 1.0]], [[0.0, 0.0]]),
    "prod": (lambda x: tf.where(x > 1, tf.reduce_prod(x), 0.0), [[NAN, 0.0]], [[0.0, 0.0]]),
    "logsumexp": (
        lambda x: tf.where(x > 1, tf.reduce_logsumexp(x), 0.0),
        [[NAN, 1.0]],
        [[0.0, 0.0]],
    ),
    "slice": (lambda x, y: (y / x)[1], [[0.0, 2.0], [0.0, 3.0]], [[0.0, -0.75], [0.0, 0.5]]),
    "gather": (lambda x: tf.gather(1 / x, [1]), [[0.0, 2.0]], [[0.0, -0.25]]),
    "clip": (lambda x: tf.clip_by_value(2 / x, 0.0, 5.0), [[0.0, 2.0]], [[0.0, -0.5]]),
    "maximum": (lambda x: tf.maximum(x * -INF, 1.0), [[1.0, 2.0]], [[0.0, 0.0]]),
}


def on_a_tape(function: Callable[..., Any], operands: list[Any]) -> list[Any]:
    with tf.GradientTape() as tape:
        tape.watch(operands)
        result = function(*operands)
    return list(tape.gradient(result, operands))


def in_a_function(function: Callable[..., Any], operands: list[Any]) -> list[Any]:
    return list(tf.function(lambda *given: on_a_tape(function, list(given)))(*operands))


def of_a_function(function: Callable[..., Any], operands: list[Any]) -> list[Any]:
    return on_a_tape(tf.function(function), operands)


WAYS = {"tape": on_a_tape, "tape in function": in_a_function, "function on tape": of_a_function}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", BRANCHES)
def test_the_branch_that_is_not_taken_has_no_gradient(name: str, way: str, sweep: str) -> None:
    function, points, expected = BRANCHES[name]

    found = WAYS[way](function, [tf.constant(point) for point in points])

    for gradient, right in zip(found, expected, strict=True):
        np.testing.assert_allclose(gradient, right, rtol=1e-5)


@pytest.mark.parametrize("way", WAYS)
def test_a_scaler_of_constant_columns(way: str, sweep: str) -> None:
    x = tf.constant([[1.0, 5.0], [3.0, 5.0], [8.0, 5.0]], "float64")
    weights = tf.constant([[1.0, 2.0], [-1.0, 4.0], [0.5, 6.0]], "float64")

    (gradient,) = WAYS[way](lambda x: tf.reduce_sum(weights * scaled(x)), [x])

    # A constant column is only centred.
    np.testing.assert_allclose(gradient[:, 1], [-2.0, 0.0, 2.0], atol=1e-12)
    assert np.isfinite(gradient[:, 0]).all()
    assert abs(float(tf.reduce_sum(gradient[:, 0]))) < 1e-12


def test_each_example_of_a_batch() -> None:
    slopes = tf.grad(lambda x, y: tf.where(x == 0, 0.0, y / x), argnums=(0, 1))

    found = tf.vmap(slopes)(tf.constant([0.0, 2.0]), tf.constant([0.0, 3.0]))

    assert [gradient.numpy().tolist() for gradient in found] == [[0.0, -0.75], [0.0, 0.5]]


@pytest.mark.parametrize("name", ["0 / 0", "times infinity", "pow", "exp", "power", "sqrt"])
def test_a_function_whose_seeds_are_zero(name: str, sweep: str) -> None:
    function, points, _ = BRANCHES[name]
    operands = [tf.constant(point) for point in points]
    whole = tf.function(function)

    with tf.GradientTape() as tape:
        tape.watch(operands)
        result = tf.stack([whole(*operands), tf.ones_like(operands[0])])[1]

    for gradient in tape.gradient(result, operands):
        assert gradient.numpy().tolist() == [0.0] * len(points[0])


# Second derivatives: a zero cotangent has a derivative, the slope.

SECOND: dict[str, tuple[Callable[[Any], Any], float]] = {
    "quotient": (lambda x: x**3 / x, 2.0),
    "log": (tf.math.log, -0.25),
    "sqrt": (tf.sqrt, -0.25 * 2**-1.5),
    "reciprocal": (lambda x: 1 / x, 0.25),
    "power": (lambda x: x**1.5, 0.75 * 2**-0.5),
    "pow": (lambda x: tf.pow(x, tf.constant(1.5, "float64")), 0.75 * 2**-0.5),
    "exp of a pole": (lambda x: tf.exp(1 / x), 0.3125 * np.exp(0.5)),
}


def reverse_twice(f: Callable[[Any], Any], x: Any) -> Any:
    return tf.grad(lambda at: tf.reduce_sum(tf.grad(lambda u: tf.reduce_sum(f(u)))(at)))(x)


def forward_over_reverse(f: Callable[[Any], Any], x: Any) -> Any:
    with tf.autodiff.ForwardAccumulator(x, tf.ones_like(x)) as outer:
        with tf.GradientTape() as tape:
            tape.watch(x)
            value = tf.reduce_sum(f(x))
        gradient = tape.gradient(value, x)
    return outer.jvp(gradient)


def hessian(f: Callable[[Any], Any], x: Any) -> Any:
    matrix = tf.hessian(lambda at: tf.reduce_sum(f(at)))(x).numpy()
    assert matrix[0, 1] == matrix[1, 0] == 0
    return np.diag(matrix)


def recorded(f: Callable[[Any], Any], x: Any) -> Any:
    return tf.function(lambda at: reverse_twice(f, at))(x)


@pytest.mark.parametrize("way", [reverse_twice, forward_over_reverse, hessian, recorded])
@pytest.mark.parametrize("name", SECOND)
def test_second_derivatives_beside_a_branch_that_is_not_taken(
    name: str, way: Callable[..., Any], sweep: str
) -> None:
    function, right = SECOND[name]

    found = way(lambda x: tf.where(x > 0, function(x), 0.0), tf.constant([0.0, 2.0], "float64"))

    np.testing.assert_allclose(found, [0.0, right], rtol=1e-9, atol=0)


@pytest.mark.parametrize("way", [reverse_twice, forward_over_reverse, recorded])
def test_a_zero_cotangent_has_a_derivative(way: Callable[..., Any], sweep: str) -> None:
    # The cotangent of x / y is x / y itself, which is 0 at 0; the second derivative is 1 / y**2.
    f = lambda x: tf.where(x > -1, tf.square(x / 2) / 2, 0.0)  # noqa: E731

    found = way(f, tf.constant([0.0, 1.0], "float64"))

    np.testing.assert_allclose(found, [0.25, 0.25])


def test_third_derivatives() -> None:
    f = lambda x: tf.where(x > 0, x**4 / x, 0.0)  # noqa: E731

    third = tf.grad(tf.grad(tf.grad(f)))

    assert float(third(tf.constant(2.0, "float64"))) == pytest.approx(6.0)
    assert float(third(tf.constant(0.0, "float64"))) == 0.0


# Zeros that come from outside.


def test_seeds_with_zeros(sweep: str) -> None:
    x = tf.Variable([0.0, 2.0])
    with tf.GradientTape() as tape:
        y = 1 / x

    assert tape.gradient(y, x, output_gradients=[0.0, 1.0]).numpy().tolist() == [0.0, -0.25]


def test_rows_of_a_jacobian() -> None:
    jacobian = tf.jacobian(lambda x: x / tf.constant([0.0, 2.0]))(tf.constant([0.0, 1.0]))

    assert jacobian.numpy().tolist() == [[INF, 0.0], [0.0, 0.5]]


def elementwise_primitives() -> list[Primitive]:
    all_samples()  # loads all primitives
    found = [p for p in PRIMITIVES.values() if p.broadcasts and any(p.vjp_rules or ())]
    return [p for p in found if p.name in PARAMS or not takes_params(p)]


def takes_params(primitive: Primitive) -> bool:
    code = getattr(primitive.forward, "__code__", None)
    return code is not None and code.co_kwonlyargcount > 0


PARAMS: dict[str, dict[str, Any]] = {
    "power_number": {"exponent": 2.5},
    "clip": {"low": -1.0, "high": 2.0},
    "sinc": {"order": 0},
    "leaky_relu": {"alpha": 0.2},
    "elu": {"scale": 1.0, "alpha": 1.0, "width": 1.0},
    "silu": {"beta": 1.0},
    "silu_slope": {"beta": 1.0},
    "nan_to_num": {"nan": 0.0, "posinf": None, "neginf": None},
    "root_or_zero": {"order": 2},
}
SPECIAL = [0.0, -0.0, 0.5, 1.0, -1.0, 2.0, -3.0, 1e30, -1e30, 1e-40, 100.0, 710.0, INF, -INF, NAN]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_every_elementwise_rule_keeps_zeros_at_special_values(dtype: str, sweep: str) -> None:
    faults = []
    for primitive in elementwise_primitives():
        count = len(primitive.vjp_rules or ())
        operands = operands_of(primitive, count, np.array(SPECIAL, dtype))
        params = PARAMS.get(primitive.name, {})
        for k, rule in enumerate(primitive.vjp_rules or ()):
            if rule is None or primitive.name in NO_GRADIENT:
                continue
            with tf.GradientTape() as tape:
                tape.watch(operands[k])
                result = primitive(*operands, **params)
            try:
                found = tape.gradient(result, operands[k], zeros_like(result))
            except tf.errors.MissingRuleError:  # there is no formula for this operand
                continue
            if found is not None and not (np.asarray(found) == 0).all():
                faults.append(f"{primitive.name}, operand {k}")

    assert not faults, faults


NO_GRADIENT = ("complex", "ldexp", "polygamma")
"""Primitives of other dtypes, and one whose second operand must be positive."""


def operands_of(primitive: Primitive, count: int, values: Any) -> list[Any]:
    if count <= 2:
        grids = [g.ravel() for g in np.meshgrid(*[values] * count, indexing="ij")]
    else:
        rng = np.random.default_rng(0)
        grids = [rng.choice(values, 500) for _ in range(count)]
    if primitive.name in ("where", "keep", "live_with"):
        mask = 0 if primitive.name == "where" else 1
        grids[mask] = grids[mask] > 0
    return [tf.constant(grid) for grid in grids]


def test_rules_that_only_select_are_not_guarded() -> None:
    names = ("add", "where", "keep", "maximum", "relu", "relu6", "log", "sqrt", "xdivy", "clip")
    rules = [rule for name in names for rule in PRIMITIVES[name].vjp_rules or () if rule]

    assert [rule.function for rule in rules if not rule.keeps_zero] == [
        PRIMITIVES["xdivy"].vjp_rules[1].function  # type: ignore[index, union-attr]
    ]


def test_the_traced_pullback_of_a_product_selects() -> None:
    rule = (PRIMITIVES["multiply"].vjp_rules or ())[0]
    inputs = [array_input(i, np.dtype(np.float32)) for i in range(2)]

    (found,) = traced(lambda t, x: rule.guarded(t, (x,), {}), *inputs)  # type: ignore[union-attr]

    assert isinstance(found, Expression)
    assert repr(found).startswith("where(equal(input(0)")


def test_a_product_with_a_number_is_not_guarded() -> None:
    rule = (PRIMITIVES["multiply"].vjp_rules or ())[0]
    assert rule is not None
    t = wrap(np.zeros(2, np.float32))

    assert rule.guarded(t, (2.0,), {}).numpy().tolist() == [0.0, 0.0]
    assert np.isnan(rule(t, (INF,), {}).numpy()).all()
    assert rule.guarded(t, (INF,), {}).numpy().tolist() == [0.0, 0.0]


@pytest.mark.parametrize("order", [2, 3, 4, 5])
def test_zeros_on_the_way_do_not_end_higher_derivatives(order: int) -> None:
    # At 0 the cotangents of inner operations are 0, and their derivatives are not.
    x = tf.constant([0.0, 0.5], "float64")

    def f(x: Any) -> Any:
        small = tf.exp(-2.0 * x)
        return tf.where(x > -1.0, (1.0 - small) / (1.0 + small), 0.0)

    derivative: Any = f
    for _ in range(order):
        derivative = partial(summed_gradient, derivative)

    t = np.polynomial.Polynomial([0.0, 1.0])
    right = t
    for _ in range(order):  # d/dx p(tanh x) = p'(t) (1 - t**2)
        right = right.deriv() * (1 - t**2)
    np.testing.assert_allclose(derivative(x).numpy(), right(np.tanh(x.numpy())), atol=1e-9)


def summed_gradient(f: Callable[..., Any], x: Any) -> Any:
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = f(x)
    return tape.gradient(y, x)
