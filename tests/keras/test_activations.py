"""Activations against NumPy and SciPy formulas in float64, and their gradients."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import special

import tapegrad as tf
import tapegrad_strict as strict
from tapegrad.core.backend.registry import register_backend, unregister_backend
from tapegrad.keras import activations
from tapegrad.keras.configured import Configured

pytestmark = pytest.mark.filterwarnings("ignore:You are comparing a array_api_strict dtype")

# No point is nearer to a corner of any function (0, ±0.5, ±1, ±3, 1.5, 2, 6) than the step of a
# central difference, and no two along an axis are equal.
X = np.array(
    [
        [-7.3, -3.4, -2.6, -1.7, -1.2, -0.8],
        [-0.55, -0.45, -0.1, 0.05, 0.3, 0.45],
        [0.7, 0.9, 1.1, 1.9, 2.2, 2.9],
        [3.3, 4.7, 5.6, 6.5, 0.2, 8.1],
    ]
)
STEP = 1e-6


def sparsemax(x, axis=-1):
    """Bisect for the level at which what is above it adds up to 1."""
    low, high = x.max(axis, keepdims=True) - 1, x.max(axis, keepdims=True)
    for _ in range(60):
        middle = (low + high) / 2
        is_low = np.maximum(x - middle, 0).sum(axis, keepdims=True) > 1
        low, high = np.where(is_low, middle, low), np.where(is_low, high, middle)
    return np.maximum(x - low, 0)


def gelu_by_tanh(x):
    return x / 2 * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))


SELU_SCALE, SELU_ALPHA = 1.0507009873554805, 1.6732632423543772

# Test id -> (name, arguments, formula).
FORMULAS = {
    "celu": ("celu", {}, lambda x: np.where(x > 0, x, np.expm1(x))),
    "celu of alpha 2": (
        "celu",
        {"alpha": 2.0},
        lambda x: np.where(x > 0, x, 2 * np.expm1(x / 2)),
    ),
    "elu": ("elu", {}, lambda x: np.where(x > 0, x, np.expm1(x))),
    "elu of alpha 2": ("elu", {"alpha": 2.0}, lambda x: np.where(x > 0, x, 2 * np.expm1(x))),
    "exponential": ("exponential", {}, np.exp),
    "gelu": ("gelu", {}, lambda x: x * special.ndtr(x)),
    "gelu by tanh": ("gelu", {"approximate": True}, gelu_by_tanh),
    "glu": ("glu", {}, lambda x: x[:, :3] * special.expit(x[:, 3:])),
    "glu of rows": ("glu", {"axis": 0}, lambda x: x[:2] * special.expit(x[2:])),
    "hard_shrink": ("hard_shrink", {}, lambda x: np.where(np.abs(x) > 0.5, x, 0)),
    "hard_shrink at 2": (
        "hard_shrink",
        {"threshold": 2.0},
        lambda x: np.where(np.abs(x) > 2, x, 0),
    ),
    "hard_sigmoid": ("hard_sigmoid", {}, lambda x: np.clip(x / 6 + 0.5, 0, 1)),
    "hard_silu": ("hard_silu", {}, lambda x: x * np.clip(x / 6 + 0.5, 0, 1)),
    "hard_swish": ("hard_swish", {}, lambda x: x * np.clip(x / 6 + 0.5, 0, 1)),
    "hard_tanh": ("hard_tanh", {}, lambda x: np.clip(x, -1, 1)),
    "leaky_relu": ("leaky_relu", {}, lambda x: np.where(x > 0, x, 0.2 * x)),
    "leaky_relu of slope 0.5": (
        "leaky_relu",
        {"negative_slope": 0.5},
        lambda x: np.where(x > 0, x, 0.5 * x),
    ),
    "linear": ("linear", {}, lambda x: x),
    "log_sigmoid": ("log_sigmoid", {}, special.log_expit),
    "log_softmax": ("log_softmax", {}, lambda x: special.log_softmax(x, -1)),
    "log_softmax of rows": ("log_softmax", {"axis": 0}, lambda x: special.log_softmax(x, 0)),
    "log_softmax of all": ("log_softmax", {"axis": (0, 1)}, lambda x: special.log_softmax(x)),
    "mish": ("mish", {}, lambda x: x * np.tanh(np.logaddexp(x, 0))),
    "relu": ("relu", {}, lambda x: np.maximum(x, 0)),
    "relu with a slope": (
        "relu",
        {"negative_slope": 0.3},
        lambda x: np.where(x > 0, x, 0.3 * x),
    ),
    "relu up to 6": ("relu", {"max_value": 6.0}, lambda x: np.clip(x, 0, 6)),
    "relu up to 2": ("relu", {"max_value": 2.0}, lambda x: np.clip(x, 0, 2)),
    "relu from 1.5": ("relu", {"threshold": 1.5}, lambda x: np.where(x > 1.5, x, 0)),
    "relu with a slope up to 2": (
        "relu",
        {"negative_slope": 0.3, "max_value": 2.0},
        lambda x: np.where(x > 0, np.minimum(x, 2), 0.3 * x),
    ),
    "relu with everything": (
        "relu",
        {"negative_slope": 0.3, "max_value": 6.0, "threshold": 1.5},
        lambda x: np.where(x > 1.5, np.minimum(x, 6), 0.3 * (x - 1.5)),
    ),
    "relu6": ("relu6", {}, lambda x: np.clip(x, 0, 6)),
    "selu": (
        "selu",
        {},
        lambda x: SELU_SCALE * np.where(x > 0, x, SELU_ALPHA * np.expm1(x)),
    ),
    "sigmoid": ("sigmoid", {}, special.expit),
    "silu": ("silu", {}, lambda x: x * special.expit(x)),
    "soft_shrink": ("soft_shrink", {}, lambda x: np.sign(x) * np.maximum(np.abs(x) - 0.5, 0)),
    "softmax": ("softmax", {}, lambda x: special.softmax(x, -1)),
    "softmax of rows": ("softmax", {"axis": 0}, lambda x: special.softmax(x, 0)),
    "softmax of all": ("softmax", {"axis": [0, 1]}, special.softmax),
    "softplus": ("softplus", {}, lambda x: np.logaddexp(x, 0)),
    "softsign": ("softsign", {}, lambda x: x / (1 + np.abs(x))),
    "sparse_plus": (
        "sparse_plus",
        {},
        lambda x: np.where(x < -1, 0, np.where(x > 1, x, (x + 1) ** 2 / 4)),
    ),
    "sparse_sigmoid": ("sparse_sigmoid", {}, lambda x: np.clip((x + 1) / 2, 0, 1)),
    "sparsemax": ("sparsemax", {}, sparsemax),
    "sparsemax of rows": ("sparsemax", {"axis": 0}, lambda x: sparsemax(x, 0)),
    "squareplus": ("squareplus", {}, lambda x: (x + np.sqrt(x**2 + 4)) / 2),
    "squareplus of b 1": ("squareplus", {"b": 1}, lambda x: (x + np.sqrt(x**2 + 1)) / 2),
    "swish": ("swish", {}, lambda x: x * special.expit(x)),
    "tanh": ("tanh", {}, np.tanh),
    "tanh_shrink": ("tanh_shrink", {}, lambda x: x - np.tanh(x)),
    "threshold": (
        "threshold",
        {"threshold": 0.5, "default_value": 7.0},
        lambda x: np.where(x > 0.5, x, 7.0),
    ),
}
every_row = pytest.mark.parametrize("row", FORMULAS)


def activation_of(row):
    name, arguments, _ = FORMULAS[row]
    function = getattr(activations, name)
    return lambda x: function(x, **arguments)


def weights_of(y):
    return np.cos(np.arange(y.size, dtype=float)).reshape(y.shape)


def central_difference(formula, x):
    """The gradient of a weighted sum of a formula's results."""
    gradient = np.zeros_like(x)
    for place in np.ndindex(x.shape):
        up, down = x.copy(), x.copy()
        up[place] += STEP
        down[place] -= STEP
        change = formula(up) - formula(down)
        gradient[place] = np.sum(weights_of(change) * change) / (2 * STEP)
    return gradient


def value_and_gradient(function, x):
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = function(x)
        loss = tf.reduce_sum(y * tf.constant(np.cos(np.arange(y.size)).reshape(tuple(y.shape))))
    return y, tape.gradient(loss, x)


@pytest.fixture
def strict_device():
    register_backend(strict.StrictBackend())
    yield "strict:0"
    unregister_backend("strict")


def test_every_activation_has_a_formula_here():
    assert {name for name, _, _ in FORMULAS.values()} == set(activations.ACTIVATIONS)


@every_row
def test_values_are_those_of_the_formula(row):
    y = activation_of(row)(tf.constant(X))

    np.testing.assert_allclose(y.numpy(), FORMULAS[row][2](X), rtol=1e-12, atol=1e-14)


@every_row
def test_gradients_are_central_differences_of_the_formula(row):
    _, gradient = value_and_gradient(activation_of(row), tf.constant(X))

    wanted = central_difference(FORMULAS[row][2], X)
    np.testing.assert_allclose(gradient.numpy(), wanted, rtol=1e-5, atol=1e-8)


@every_row
def test_a_recorded_function_gives_the_same_as_an_eager_call(row):
    recorded = tf.function(lambda x: value_and_gradient(activation_of(row), x))
    other = tf.constant(X[::-1].copy())

    recorded(tf.constant(X))
    y, gradient = recorded(other)

    # Recordings run in fused loops, whose last digits differ.
    wanted, wanted_gradient = value_and_gradient(activation_of(row), other)
    np.testing.assert_allclose(y.numpy(), wanted.numpy(), rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(gradient.numpy(), wanted_gradient.numpy(), rtol=1e-12, atol=1e-14)


@every_row
def test_values_and_gradients_stay_on_the_device(row, strict_device):
    with tf.device(strict_device):
        x = tf.constant(X)
        with strict.forbidding_reads():
            y, gradient = value_and_gradient(activation_of(row), x)

    wanted, wanted_gradient = value_and_gradient(activation_of(row), tf.constant(X))
    assert (y.device, gradient.device) == (strict_device, strict_device)
    np.testing.assert_allclose(y.numpy(), wanted.numpy(), rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(gradient.numpy(), wanted_gradient.numpy(), rtol=1e-12, atol=1e-14)


@every_row
@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_the_dtype_is_kept(row, dtype):
    x = tf.constant(X, dtype)

    y = activation_of(row)(x)

    assert y.dtype == dtype


@pytest.mark.parametrize("name", sorted(set(activations.ACTIVATIONS) - {"threshold"}))
def test_variables_and_lists_are_taken(name):
    function = getattr(activations, name)

    of_list, of_variable = function([[1.0, -2.0]]), function(tf.Variable([[1.0, -2.0]]))

    np.testing.assert_array_equal(of_list.numpy(), of_variable.numpy())


def test_relu_from_a_threshold_is_zero_at_minus_infinity():
    y = activations.relu(tf.constant([-np.inf, 1.0]), threshold=0.5)

    assert y.numpy().tolist() == [0.0, 1.0]


def test_relu_lets_nothing_through_at_the_threshold():
    y = activations.relu(tf.constant([1.5]), threshold=1.5)

    assert y.numpy().tolist() == [0.0]


def test_softmax_over_several_axes_keeps_the_others_apart():
    x = np.random.default_rng(0).normal(size=(2, 3, 4))

    y = activations.softmax(tf.constant(x), axis=(0, -1))

    np.testing.assert_allclose(y.numpy(), special.softmax(x, axis=(0, 2)), rtol=1e-12)


def test_sparsemax_of_huge_numbers_adds_up_to_one():
    y = activations.sparsemax(tf.constant([1e30, 1e30, -1e30]))

    assert y.numpy().tolist() == [0.5, 0.5, 0.0]


def test_sparsemax_gives_nothing_to_what_is_masked_out():
    y = activations.sparsemax(tf.constant([0.2, -np.inf, 0.4]))

    np.testing.assert_allclose(y.numpy(), [0.4, 0.0, 0.6], rtol=1e-6)


def test_sparsemax_of_equal_numbers_is_uniform():
    y = activations.sparsemax(tf.ones((2, 5)))

    np.testing.assert_allclose(y.numpy(), np.full((2, 5), 0.2), rtol=1e-6)


def test_glu_of_an_odd_length_is_refused():
    with pytest.raises(ValueError, match=r"glu needs an even length along axis 0\. Got 3"):
        activations.glu(tf.ones(3))


def test_an_axis_that_is_not_there_is_refused():
    with pytest.raises(ValueError, match="sparsemax got axis 2 for a tensor of 1 dimensions"):
        activations.sparsemax(tf.ones(3), axis=2)


@pytest.mark.parametrize("name", activations.ACTIVATIONS)
def test_a_name_and_what_serialize_writes_lead_back_to_the_function(name):
    function = activations.get(name)

    again = activations.deserialize(activations.serialize(function))

    assert function is getattr(activations, name)
    assert again is function


def test_no_activation_is_the_linear_one():
    assert activations.get(None) is activations.linear


def test_a_function_of_the_user_is_taken_as_it_is():
    assert activations.get(np.sin) is np.sin


def test_an_unknown_name_gets_a_hint():
    with pytest.raises(ValueError, match=r"no activation 'rellu'\. Did you mean 'relu'\?"):
        activations.get("rellu")


def test_a_number_is_no_activation():
    with pytest.raises(TypeError, match=r"activation must be a name.*Got int: 3"):
        activations.get(3)


def test_a_function_without_a_name_cannot_be_written_down():
    with pytest.raises(ValueError, match=r"this one has none.*Define it with `def`"):
        activations.serialize(lambda x: x)


class Scaled(Configured):
    def __init__(self, factor=1.0):
        self.factor = factor

    def __call__(self, x):
        return self.factor * x


def test_an_object_is_written_down_with_its_configuration():
    config = activations.serialize(Scaled(3.0))

    again = activations.deserialize(config, custom_objects={"Scaled": Scaled})

    assert config == {"class_name": "Scaled", "config": {"factor": 3.0}}
    assert again.factor == 3.0


def test_custom_objects_do_not_stay():
    activations.deserialize("mine", custom_objects={"mine": np.sin})

    with pytest.raises(ValueError, match="There is no activation 'mine'"):
        activations.get("mine")
