"""Gradients of densities, tails, quantiles and moments, in every parameter, by differences."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tapegrad as tf
from tapegrad.scipy import stats
from tests.scipy.distributions import ROWS, Row
from tests.seeds import chosen

MOVING = [row for row in ROWS if row.name != "randint"]
"""Those with parameters that are not whole numbers."""
each_row = pytest.mark.parametrize("row", MOVING, ids=lambda row: row.name)
Values = dict[str, np.ndarray[Any, Any]]


def parameters(row: Row) -> Values:
    return {name: np.array(value) for name, value in (row.shapes | row.frame).items()}


def slopes(function: Callable[..., Any], values: Values, names: list[str]) -> Values:
    """The gradients of the sum of a function of named tensors, by the tape."""
    tensors = {name: tf.constant(value) for name, value in values.items()}
    with tf.GradientTape() as tape:
        tape.watch([tensors[name] for name in names])
        y = function(**tensors)
    found = tape.gradient(y, [tensors[name] for name in names], unconnected_gradients="zero")
    return {name: gradient.numpy() for name, gradient in zip(names, found, strict=True)}


def differences(
    function: Callable[..., Any], values: Values, names: list[str], by_element: bool = False
) -> Values:
    """The same by central differences of fourth order.

    `by_element` says that the function broadcasts its arguments: one call then finds the values
    at all shifted points, which lie along a new first axis.
    """
    found = {}
    rank = max(value.ndim for value in values.values())
    for name in names:
        value, size = values[name], values[name].size
        steps = 2e-4 * np.maximum(1.0, abs(value)).ravel()
        shifts = (np.eye(size) * steps).reshape(size, *value.shape)
        points = value + np.multiply.outer([1, -1, 2, -2], shifts)
        if by_element:
            shape = (4 * size, *(1,) * (rank - value.ndim), *value.shape)
            y = _value(function, {**values, name: points.reshape(shape)})
        else:
            points = points.reshape(-1, *value.shape)
            y = np.stack([_value(function, {**values, name: point}) for point in points])
        y = y.reshape(4, size, -1)
        # Elements differ in size, so differences are taken before the sum.
        near, far = (y[0] - y[1]).sum(-1), (y[2] - y[3]).sum(-1)
        found[name] = ((8 * near - far) / (12 * steps)).reshape(value.shape)
    return found


def _value(function: Callable[..., Any], values: Values) -> np.ndarray[Any, Any]:
    return function(**{k: tf.constant(v) for k, v in values.items()}).numpy()


def check(
    function: Callable[..., Any], values: Values, names: list[str], by_element: bool = False
) -> None:
    found = slopes(function, values, names)
    wanted = differences(function, values, names, by_element)
    for name in names:
        np.testing.assert_allclose(found[name], wanted[name], rtol=1e-7, atol=1e-9, err_msg=name)


def followed(row: Row) -> list[str]:
    """The parameters in which a distribution is smooth."""
    left_out = {"loc"} if row.is_discrete else set()
    left_out |= set(row.whole)
    return [name for name in parameters(row) if name not in left_out]


@each_row
def test_slopes_of_the_log_density(row):
    method = getattr(getattr(stats, row.name), f"log{row.density}")
    values = {"x": row.standing(row.smooth), **parameters(row)}
    names = followed(row) + ([] if row.is_discrete else ["x"])

    check(lambda x, **rest: method(x, **rest), values, names, by_element=True)


@each_row
def test_slopes_of_the_density(row):
    method = getattr(getattr(stats, row.name), row.density)
    values = {"x": row.standing(row.smooth), **parameters(row)}

    check(lambda x, **rest: method(x, **rest), values, followed(row), by_element=True)


TAILS = [(row, method) for row in MOVING for method in row.tails]


@pytest.mark.parametrize(("row", "method"), TAILS, ids=lambda value: getattr(value, "name", value))
def test_slopes_of_the_tails(row, method):
    # A discrete tail jumps at whole numbers and is flat between them.
    points = row.standing(row.smooth) + (0.5 if row.is_discrete else 0.0)
    values = {"x": points, **parameters(row)}
    names = [*followed(row), *([] if row.is_discrete else ["x"])]
    function = getattr(getattr(stats, row.name), method)

    check(lambda x, **rest: _finite(function(x, **rest)), values, names, by_element=True)


def _finite(y: Any) -> Any:
    """Leave out the logarithm of nothing, which no difference can be taken of."""
    return tf.where(y == -np.inf, 0.0, y)


QUANTILES = [row for row in MOVING if "ppf" not in row.lacks and not row.is_discrete]


@pytest.mark.parametrize("row", QUANTILES, ids=lambda row: row.name)
def test_slopes_of_the_quantiles(row):
    values = {"q": np.array([0.1, 0.4, 0.9]), **parameters(row)}
    method = getattr(stats, row.name).ppf

    check(lambda q, **rest: method(q, **rest), values, ["q", *followed(row)], by_element=True)


@each_row
@pytest.mark.parametrize("method", ["mean", "var", "entropy"])
def test_slopes_of_the_moments(row, method):
    if method in row.lacks or row.name in ("cauchy", "halfcauchy", "levy"):
        return
    function = getattr(getattr(stats, row.name), method)

    check(lambda **values: function(**values), parameters(row), followed(row))


@each_row
def test_second_derivatives_of_the_log_density(row):
    method = getattr(getattr(stats, row.name), f"log{row.density}")
    values = {"x": row.standing(row.smooth), **parameters(row)}
    names = followed(row) + ([] if row.is_discrete else ["x"])

    def slope_sum(**values: Any) -> Any:
        with tf.GradientTape() as tape:
            watched = [values[name] for name in names]
            tape.watch(watched)
            rest = {name: value for name, value in values.items() if name != "x"}
            y = tf.reduce_sum(method(values["x"], **rest))
        gradients = tape.gradient(y, watched, unconnected_gradients="zero")
        # Weights, so that no two second derivatives can stand in for each other.
        return tf.add_n([(i + 1) * tf.reduce_sum(g) for i, g in enumerate(gradients)])

    check(slope_sum, values, names)


# Others for each commit: what they are made of has second derivatives in the samples.
CURVED_TAILS = chosen(TAILS, 3, lambda case: f"{case[0].name} {case[1]}")


@pytest.mark.parametrize(
    ("row", "method"), CURVED_TAILS, ids=lambda value: getattr(value, "name", value)
)
def test_second_derivatives_of_the_tails(row, method):
    function = getattr(getattr(stats, row.name), method)
    # At 0 the tails of t are a line; a discrete tail is flat between whole numbers.
    points = tuple(x for x in row.smooth if abs(x) > 1e-3 or row.name != "t")
    values = {"x": row.standing(points) + (0.5 if row.is_discrete else 0.0), **parameters(row)}
    names = [*followed(row), *([] if row.is_discrete else ["x"])]

    def slope_sum(**values: Any) -> Any:
        with tf.GradientTape() as tape:
            watched = [values[name] for name in names]
            tape.watch(watched)
            rest = {name: value for name, value in values.items() if name != "x"}
            y = _finite(function(values["x"], **rest))
        gradients = tape.gradient(y, watched, unconnected_gradients="zero")
        return tf.add_n([(i + 1) * tf.reduce_sum(g) for i, g in enumerate(gradients)])

    check(slope_sum, values, names)


@each_row
def test_nothing_flows_from_outside_the_support(row):
    if not row.outside:
        return
    dist = getattr(stats, row.name)
    values = {"x": row.standing(row.outside), **parameters(row)}

    for method in (row.density, f"log{row.density}", *row.tails):
        function = getattr(dist, method)
        names = ["x", "loc", *followed(row)]
        found = slopes(lambda x, **rest: function(x, **rest), values, names)  # noqa: B023
        if row.is_discrete and method in row.tails:
            assert all(np.isfinite(slope).all() for slope in found.values()), method
        else:
            assert all((slope == 0).all() for slope in found.values()), method


@pytest.mark.parametrize("which", ["shapes", "other"])
@each_row
def test_no_gradient_on_the_points_is_nan(row, which):
    dist = getattr(stats, row.name)
    shapes = {name: np.array(value) for name, value in getattr(row, which).items()}
    values = {"x": row.standing(row.points), **parameters(row), **shapes}

    for method in (row.density, f"log{row.density}", *row.tails):
        function = getattr(dist, method)
        names = ["x", *followed(row)]
        found = slopes(lambda x, **rest: function(x, **rest), values, names)  # noqa: B023
        assert not any(np.isnan(slope).any() for slope in found.values()), method


@each_row
def test_vmap_over_points_and_parameters(row):
    method = getattr(getattr(stats, row.name), f"log{row.density}")
    x = row.standing(row.points)
    rows = {k: np.stack([v] * len(x)) for k, v in parameters(row).items()}

    names = list(rows)
    together = tf.vmap(lambda x, *rest: method(x, **dict(zip(names, rest, strict=True))))
    one_by_one = method(x, **parameters(row))

    np.testing.assert_allclose(together(x, *rows.values()).numpy(), one_by_one.numpy(), rtol=1e-14)


@pytest.mark.usefixtures("quick_compiler")
@each_row
def test_a_recorded_function_repeats_the_call(row):
    method = getattr(getattr(stats, row.name), f"log{row.density}")
    values = {k: tf.constant(v) for k, v in parameters(row).items()}

    @tf.function
    def run(x: Any) -> Any:
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = method(x, **values)
        return y, tape.gradient(y, x)

    x = row.standing(row.smooth)
    run(tf.constant(x))
    y, slope = run(tf.constant(x))

    np.testing.assert_allclose(y.numpy(), method(x, **values).numpy(), rtol=1e-14)
    assert np.isfinite(slope.numpy()).all()


CURVED = [
    ("t", {"df": np.array([2.0, 3.5, 9.0])}, np.array([0.3, -1.0, 2.0])),
    ("beta", {"a": np.array([0.7, 2.0, 9.0]), "b": np.array([3.0, 0.4, 5.0])}, np.full(3, 0.4)),
    ("gamma", {"a": np.array([0.7, 2.0, 9.0])}, np.array([0.3, 1.0, 12.0])),
]


@pytest.mark.usefixtures("quick_compiler")
@pytest.mark.parametrize("method", ["logcdf", "ppf"])
@pytest.mark.parametrize(("name", "shapes", "x"), CURVED, ids=[row[0] for row in CURVED])
def test_every_transform_follows_the_shapes(name, shapes, x, method):
    x = np.array([0.2, 0.5, 0.8]) if method == "ppf" else x
    function = getattr(getattr(stats, name), method)
    arguments = [tf.constant(x), *(tf.constant(value) for value in shapes.values())]

    def one(*arguments: Any) -> Any:
        return function(arguments[0], *arguments[1:])

    last = len(arguments) - 1
    wanted = slopes(lambda x, **rest: function(x, **rest), {"x": x, **shapes}, list(shapes))
    wanted = wanted[list(shapes)[-1]]
    each = tf.vmap(tf.grad(one, argnums=last))(*arguments)
    tangents = [tf.zeros_like(a) for a in arguments[:-1]] + [tf.ones_like(arguments[-1])]
    forward = tf.jvp(one, arguments, tangents)[1]
    recorded = tf.function(tf.grad(lambda *a: tf.reduce_sum(one(*a)), argnums=last))
    recorded(*arguments)

    np.testing.assert_allclose(each.numpy(), wanted, rtol=1e-12)
    np.testing.assert_allclose(forward.numpy(), wanted, rtol=1e-12)
    np.testing.assert_allclose(recorded(*arguments).numpy(), wanted, rtol=1e-12)


def test_shapes_shared_by_the_examples_of_a_vmap():
    x = tf.constant([0.5, 1.0, 7.0], tf.float64)
    a = tf.constant(2.5, tf.float64)

    def total(a: Any) -> Any:
        return tf.reduce_sum(tf.vmap(lambda x: stats.gamma.cdf(x, a) + stats.t.cdf(x, a))(x))

    def together(a: Any) -> Any:
        return tf.reduce_sum(stats.gamma.cdf(x, a) + stats.t.cdf(x, a))

    for derivative in (tf.grad, tf.hessian):
        found, wanted = derivative(total)(a), derivative(together)(a)
        assert float(found) == pytest.approx(float(wanted), rel=1e-12)


@each_row
def test_no_gradient_in_float32_is_nan(row):
    dist = getattr(stats, row.name)
    for shapes in (row.shapes, row.other or row.shapes):
        named = {k: tf.constant(v, tf.float32) for k, v in (shapes | row.frame).items()}
        x = tf.constant(row.standing(row.points).astype("float32"))
        for method in (row.density, f"log{row.density}", *row.tails):
            with tf.GradientTape() as tape:
                tape.watch([x, *named.values()])
                y = getattr(dist, method)(x, **named)
            found = tape.gradient(y, [x, *named.values()], unconnected_gradients="zero")
            assert not any(np.isnan(slope.numpy()).any() for slope in found), method
