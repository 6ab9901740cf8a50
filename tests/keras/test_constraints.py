"""Constraints: projections, allowed weights that do not change, names and errors."""

from __future__ import annotations

import numpy as np
import pytest

import tapegrad as tf
import tapegrad_strict as strict
from tapegrad.core.backend.registry import register_backend, unregister_backend
from tapegrad.keras import constraints

pytestmark = pytest.mark.filterwarnings("ignore:You are comparing a array_api_strict dtype")

# Columns and rows with norms from about 0.1 to 10.
X = np.random.default_rng(0).normal(size=(5, 6)) * np.logspace(-1.5, 0.7, 6)
# What is added to norms before they are divided by.
EPSILON = 1e-7


def norms(x, axis):
    return np.sqrt((x**2).sum(axis, keepdims=True))


def with_norms(x, wanted, axis):
    return x * wanted / (norms(x, axis) + EPSILON)


# Test id -> (constraint, formula).
FORMULAS = {
    "max_norm": (
        constraints.MaxNorm(),
        lambda x: with_norms(x, np.minimum(norms(x, 0), 2), 0),
    ),
    "max_norm of rows": (
        constraints.MaxNorm(1.5, axis=1),
        lambda x: with_norms(x, np.minimum(norms(x, 1), 1.5), 1),
    ),
    "min_max_norm": (
        constraints.MinMaxNorm(),
        lambda x: with_norms(x, np.minimum(norms(x, 0), 1), 0),
    ),
    "min_max_norm of rows": (
        constraints.MinMaxNorm(0.5, 1.5, axis=-1),
        lambda x: with_norms(x, np.clip(norms(x, 1), 0.5, 1.5), 1),
    ),
    "min_max_norm half way": (
        constraints.MinMaxNorm(0.5, 1.5, rate=0.5),
        lambda x: with_norms(x, (np.clip(norms(x, 0), 0.5, 1.5) + norms(x, 0)) / 2, 0),
    ),
    "non_neg": (constraints.NonNeg(), lambda x: np.where(x > 0, x, 0)),
    "unit_norm": (constraints.UnitNorm(), lambda x: with_norms(x, 1, 0)),
    "unit_norm of all": (constraints.UnitNorm(axis=[0, 1]), lambda x: with_norms(x, 1, (0, 1))),
}
every_row = pytest.mark.parametrize("row", FORMULAS)


@pytest.fixture
def strict_device():
    register_backend(strict.StrictBackend())
    yield "strict:0"
    unregister_backend("strict")


@every_row
def test_weights_are_those_of_the_formula(row):
    constraint, formula = FORMULAS[row]

    w = constraint(tf.constant(X))

    np.testing.assert_allclose(w.numpy(), formula(X), rtol=1e-12)


@every_row
def test_a_second_time_changes_little_more_than_nothing(row):
    constraint, _ = FORMULAS[row]
    if row == "min_max_norm half way":
        constraint = constraints.MinMaxNorm(0.5, 1.5)

    once = constraint(tf.constant(X))
    twice = constraint(once)

    np.testing.assert_allclose(twice.numpy(), once.numpy(), rtol=1e-5)


@every_row
def test_weights_of_zero_stay_zero(row):
    constraint, _ = FORMULAS[row]

    w = constraint(tf.zeros((3, 2)))

    assert w.numpy().tolist() == [[0.0, 0.0]] * 3


@every_row
@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_a_variable_gives_a_tensor_of_its_dtype(row, dtype):
    constraint, formula = FORMULAS[row]
    variable = tf.Variable(X, dtype=dtype)

    w = constraint(variable)

    assert isinstance(w, tf.Tensor)
    assert w.dtype == dtype
    precision = 1e-2 if dtype == "float16" else 1e-5
    np.testing.assert_allclose(w.numpy(), formula(X), rtol=precision, atol=precision)


@every_row
def test_a_recorded_function_gives_the_same_as_an_eager_call(row):
    constraint, formula = FORMULAS[row]
    recorded = tf.function(constraint.__call__)

    recorded(tf.constant(X))
    w = recorded(tf.constant(X[::-1] ** 3))

    np.testing.assert_allclose(w.numpy(), formula(X[::-1] ** 3), rtol=1e-12)


@every_row
def test_weights_stay_on_the_device(row, strict_device):
    constraint, formula = FORMULAS[row]
    with tf.device(strict_device):
        x = tf.constant(X)
        with strict.forbidding_reads():
            w = constraint(x)

    assert w.device == strict_device
    np.testing.assert_allclose(w.numpy(), formula(X), rtol=1e-12)


def test_filters_are_limited_over_window_and_inputs():
    x = np.random.default_rng(1).normal(size=(3, 3, 4, 5))

    w = constraints.MaxNorm(1.0, axis=[0, 1, 2])(tf.constant(x))

    np.testing.assert_allclose(norms(w.numpy(), (0, 1, 2)), np.ones((1, 1, 1, 5)), rtol=1e-6)


def test_short_vectors_are_left_alone():
    x = np.array([[0.3, 0.1], [0.4, 0.2]])

    w = constraints.MaxNorm(1.0)(tf.constant(x))

    np.testing.assert_allclose(w.numpy(), x, rtol=1e-6)


@pytest.mark.parametrize("value", [-1.0, float("nan")])
def test_a_norm_below_zero_is_refused(value):
    with pytest.raises(ValueError, match=r"max_value is a norm.*0 or more\. Got"):
        constraints.MaxNorm(value)
    with pytest.raises(ValueError, match=r"min_value is a norm.*0 or more\. Got"):
        constraints.MinMaxNorm(min_value=value)


def test_an_interval_that_runs_backwards_is_refused():
    with pytest.raises(ValueError, match=r"min_value must not be above max_value\. Got 2 and 1"):
        constraints.MinMaxNorm(2, 1)


def test_an_axis_that_is_not_there_is_refused():
    with pytest.raises(ValueError, match="axis 2"):
        constraints.UnitNorm(axis=2)(tf.ones((2, 2)))


@pytest.mark.parametrize(
    ("name", "cls"),
    [
        ("max_norm", constraints.MaxNorm),
        ("MaxNorm", constraints.MaxNorm),
        ("min_max_norm", constraints.MinMaxNorm),
        ("non_neg", constraints.NonNeg),
        ("NonNeg", constraints.NonNeg),
        ("unit_norm", constraints.UnitNorm),
    ],
)
def test_names_stand_for_constraints_with_their_defaults(name, cls):
    found = constraints.get(name)

    assert type(found) is cls
    assert found.get_config() == cls().get_config()


@every_row
def test_what_serialize_writes_leads_back(row):
    constraint, _ = FORMULAS[row]
    config = constraints.serialize(constraint)

    for again in (constraints.deserialize(config), constraints.get(config)):
        assert type(again) is type(constraint)
        assert again.get_config() == constraint.get_config()


def test_lower_case_names_are_the_classes():
    assert constraints.max_norm is constraints.MaxNorm
    assert constraints.min_max_norm is constraints.MinMaxNorm
    assert constraints.non_neg is constraints.NonNeg
    assert constraints.unit_norm is constraints.UnitNorm


def test_none_and_functions_are_taken_as_they_are():
    assert constraints.get(None) is None
    assert constraints.get(tf.abs) is tf.abs


def test_an_unknown_name_is_refused():
    with pytest.raises(ValueError, match=r"no constraint 'maxnrm'\. Did you mean 'max_norm'\?"):
        constraints.get("maxnrm")


class Halved(constraints.Constraint):
    def __call__(self, w):
        return w / 2


def test_a_constraint_of_the_user_comes_back_from_its_configuration():
    config = constraints.serialize(Halved())

    again = constraints.deserialize(config, custom_objects={"Halved": Halved})

    assert isinstance(again, Halved)


def test_a_constraint_without_arguments_takes_none():
    with pytest.raises(TypeError, match="positional argument"):
        constraints.NonNeg(5)
