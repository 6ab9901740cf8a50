"""Regularizers against their formulas in float64, with gradients, names and errors."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import tapegrad as tf
import tapegrad_strict as strict
from tapegrad.core.backend.registry import register_backend, unregister_backend
from tapegrad.keras import regularizers

pytestmark = pytest.mark.filterwarnings("ignore:You are comparing a array_api_strict dtype")

X = np.random.default_rng(0).normal(size=(4, 3))
STEP = 1e-6


def mean_cosine(vectors):
    """The mean of |cos| of the angle between two of the vectors."""
    cosines = [
        abs(a @ b) / np.sqrt((a @ a) * (b @ b)) for a, b in itertools.combinations(vectors, 2)
    ]
    return np.mean(cosines)


# Test id -> (regularizer, formula).
FORMULAS = {
    "l1": (regularizers.L1(), lambda x: 0.01 * np.abs(x).sum()),
    "l1 of 0.3": (regularizers.L1(0.3), lambda x: 0.3 * np.abs(x).sum()),
    "l2": (regularizers.L2(), lambda x: 0.01 * (x**2).sum()),
    "l2 of 0.3": (regularizers.L2(0.3), lambda x: 0.3 * (x**2).sum()),
    "l1 of both": (regularizers.L1L2(l1=0.3), lambda x: 0.3 * np.abs(x).sum()),
    "l2 of both": (regularizers.L1L2(l2=0.2), lambda x: 0.2 * (x**2).sum()),
    "both": (
        regularizers.L1L2(0.3, 0.2),
        lambda x: 0.3 * np.abs(x).sum() + 0.2 * (x**2).sum(),
    ),
    "rows": (regularizers.OrthogonalRegularizer(), lambda x: 0.01 * mean_cosine(x)),
    "columns": (
        regularizers.OrthogonalRegularizer(2.0, mode="columns"),
        lambda x: 2 * mean_cosine(x.T),
    ),
}
every_row = pytest.mark.parametrize("row", FORMULAS)


def value_and_gradient(function, x):
    with tf.GradientTape() as tape:
        tape.watch(x)
        penalty = function(x)
    return penalty, tape.gradient(penalty, x)


def central_difference(formula, x):
    gradient = np.zeros_like(x)
    for place in np.ndindex(x.shape):
        up, down = x.copy(), x.copy()
        up[place] += STEP
        down[place] -= STEP
        gradient[place] = (formula(up) - formula(down)) / (2 * STEP)
    return gradient


@pytest.fixture
def strict_device():
    register_backend(strict.StrictBackend())
    yield "strict:0"
    unregister_backend("strict")


@every_row
def test_the_penalty_is_that_of_the_formula(row):
    regularizer, formula = FORMULAS[row]

    penalty = regularizer(tf.constant(X))

    assert penalty.shape == ()
    np.testing.assert_allclose(float(penalty), formula(X), rtol=1e-12)


@every_row
def test_gradients_are_central_differences_of_the_formula(row):
    regularizer, formula = FORMULAS[row]

    _, gradient = value_and_gradient(regularizer, tf.constant(X))

    wanted = central_difference(formula, X)
    np.testing.assert_allclose(gradient.numpy(), wanted, rtol=1e-5, atol=1e-8)


@every_row
def test_a_recorded_function_gives_the_same_as_an_eager_call(row):
    regularizer, formula = FORMULAS[row]
    recorded = tf.function(lambda x: value_and_gradient(regularizer, x))
    other = X[::-1] ** 3

    recorded(tf.constant(X))
    penalty, gradient = recorded(tf.constant(other))

    _, wanted = value_and_gradient(regularizer, tf.constant(other))
    np.testing.assert_allclose(float(penalty), formula(other), rtol=1e-12)
    np.testing.assert_allclose(gradient.numpy(), wanted.numpy(), rtol=1e-12, atol=1e-14)


@every_row
def test_penalty_and_gradient_stay_on_the_device(row, strict_device):
    regularizer, formula = FORMULAS[row]
    with tf.device(strict_device):
        x = tf.constant(X)
        with strict.forbidding_reads():
            penalty, gradient = value_and_gradient(regularizer, x)

    _, wanted = value_and_gradient(regularizer, tf.constant(X))
    assert (penalty.device, gradient.device) == (strict_device, strict_device)
    np.testing.assert_allclose(penalty.numpy(), formula(X), rtol=1e-12)
    np.testing.assert_allclose(gradient.numpy(), wanted.numpy(), rtol=1e-12, atol=1e-14)


@every_row
def test_a_variable_is_taken_and_its_dtype_kept(row):
    regularizer, formula = FORMULAS[row]

    penalty = regularizer(tf.Variable(X, dtype="float32"))

    assert penalty.dtype == "float32"
    np.testing.assert_allclose(float(penalty), formula(X), rtol=1e-5)


def test_without_factors_there_is_no_penalty():
    penalty = regularizers.L1L2()(tf.constant(X))

    assert (float(penalty), penalty.dtype) == (0.0, "float64")


@pytest.mark.parametrize("mode", ["rows", "columns"])
def test_orthogonal_vectors_have_no_penalty(mode):
    q, _ = np.linalg.qr(X.T[:, :3])

    penalty = regularizers.OrthogonalRegularizer(1.0, mode)(tf.constant(3 * q))

    np.testing.assert_allclose(float(penalty), 0, atol=1e-14)


def test_a_single_vector_is_orthogonal_to_nothing():
    penalty = regularizers.OrthogonalRegularizer()(tf.constant(X[:1]))

    assert float(penalty) == 0


def test_a_vector_of_zeros_has_a_gradient():
    x = tf.constant([[0.0, 0.0], [3.0, 4.0]])

    penalty, gradient = value_and_gradient(regularizers.OrthogonalRegularizer(), x)

    assert float(penalty) == 0
    assert np.isfinite(gradient.numpy()).all()


@pytest.mark.parametrize("value", [-0.1, float("inf"), float("nan"), "much"])
@pytest.mark.parametrize(
    ("cls", "name"),
    [
        (regularizers.L1, "l1"),
        (regularizers.L2, "l2"),
        (regularizers.L1L2, "l2"),
        (regularizers.OrthogonalRegularizer, "factor"),
    ],
)
def test_a_factor_that_is_no_finite_number_from_zero_on_is_refused(cls, name, value):
    with pytest.raises(ValueError, match=rf"{name} must be a finite number of 0 or more\. Got"):
        cls(**{name: value})


def test_none_stands_for_the_default_factor():
    assert regularizers.L1(None).l1 == 0.01
    assert regularizers.L2(None).l2 == 0.01
    assert (regularizers.L1L2(None, 0.5).l1, regularizers.L1L2(0.5, None).l2) == (0.0, 0.0)


def test_an_unknown_mode_is_refused():
    with pytest.raises(ValueError, match=r"mode must be 'rows' or 'columns'\. Got 'planes'"):
        regularizers.OrthogonalRegularizer(mode="planes")


def test_orthogonality_is_for_matrices():
    with pytest.raises(ValueError, match=r"takes a matrix\. Got shape \(2, 2, 2\)"):
        regularizers.OrthogonalRegularizer()(tf.ones((2, 2, 2)))


@pytest.mark.parametrize(
    ("name", "cls"),
    [
        ("l1", regularizers.L1),
        ("L1", regularizers.L1),
        ("l2", regularizers.L2),
        ("l1_l2", regularizers.L1L2),
        ("l1l2", regularizers.L1L2),
        ("L1L2", regularizers.L1L2),
        ("orthogonal_regularizer", regularizers.OrthogonalRegularizer),
        ("OrthogonalRegularizer", regularizers.OrthogonalRegularizer),
    ],
)
def test_names_stand_for_regularizers_with_their_defaults(name, cls):
    found = regularizers.get(name)

    assert type(found) is cls
    assert found.get_config() == cls().get_config()


@every_row
def test_what_serialize_writes_leads_back(row):
    regularizer, _ = FORMULAS[row]
    config = regularizers.serialize(regularizer)

    for again in (regularizers.deserialize(config), regularizers.get(config)):
        assert type(again) is type(regularizer)
        assert again.get_config() == regularizer.get_config()


def test_lower_case_names_are_the_classes():
    assert regularizers.l1 is regularizers.L1
    assert regularizers.l2 is regularizers.L2
    assert regularizers.l1_l2 is regularizers.L1L2
    assert regularizers.orthogonal_regularizer is regularizers.OrthogonalRegularizer


def test_none_and_functions_are_taken_as_they_are():
    assert regularizers.get(None) is None
    assert regularizers.get(tf.reduce_sum) is tf.reduce_sum


def test_an_unknown_name_is_refused():
    with pytest.raises(ValueError, match=r"no regularizer 'l3'.*Known: l1, l1_l2, l2"):
        regularizers.get("l3")


class Total(regularizers.Regularizer):
    def __call__(self, x):
        return tf.reduce_sum(x)


def test_a_regularizer_of_the_user_comes_back_from_its_configuration():
    config = regularizers.serialize(Total())

    again = regularizers.deserialize(config, custom_objects={"Total": Total})

    assert isinstance(again, Total)
