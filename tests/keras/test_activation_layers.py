"""Activation layers against NumPy formulas in float64, their gradients, shapes and errors."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import special

import tapegrad as tf
import tapegrad_strict as strict
from tapegrad.core.backend.registry import register_backend, unregister_backend
from tapegrad.keras.layers.activation_layers import ELU, LeakyReLU, PReLU, ReLU, Softmax
from tapegrad.keras.layers.input_layer import Input
from tapegrad.keras.models import Model

pytestmark = pytest.mark.filterwarnings("ignore:You are comparing a array_api_strict dtype")

# No number is nearer to a corner (0, 0.4, 1.5) than the step of a central difference.
X = np.array(
    [
        [[-2.0, -0.7, 0.2], [0.9, 1.3, 2.6]],
        [[1.7, -0.1, 0.3], [-1.1, 0.6, 3.0]],
    ]
)


def capped(x):
    return np.where(x > 0.4, np.minimum(x, 1.5), 0.3 * (x - 0.4))


CASES = {
    "relu": (lambda **o: ReLU(**o), lambda x: np.maximum(x, 0)),
    "relu with a top": (lambda **o: ReLU(1.5, **o), lambda x: np.clip(x, 0, 1.5)),
    "relu with a slope": (
        lambda **o: ReLU(negative_slope=0.2, **o),
        lambda x: np.where(x > 0, x, 0.2 * x),
    ),
    "relu with a threshold": (
        lambda **o: ReLU(threshold=0.4, **o),
        lambda x: np.where(x > 0.4, x, 0),
    ),
    "relu with everything": (lambda **o: ReLU(1.5, 0.3, 0.4, **o), capped),
    "leaky relu": (lambda **o: LeakyReLU(**o), lambda x: np.where(x > 0, x, 0.3 * x)),
    "elu": (lambda **o: ELU(**o), lambda x: np.where(x > 0, x, np.expm1(x))),
    "elu of alpha 2": (lambda **o: ELU(2.0, **o), lambda x: np.where(x > 0, x, 2 * np.expm1(x))),
    "prelu": (lambda **o: PReLU(**o), lambda x: np.maximum(x, 0)),
    "softmax": (lambda **o: Softmax(**o), lambda x: special.softmax(x, -1)),
    "softmax of rows": (lambda **o: Softmax(1, **o), lambda x: special.softmax(x, 1)),
    "softmax of matrices": (
        lambda **o: Softmax([1, 2], **o),
        lambda x: special.softmax(x, (1, 2)),
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_values_are_those_of_the_formula(case):
    make, formula = CASES[case]

    y = make(dtype="float64")(tf.constant(X))

    np.testing.assert_allclose(y.numpy(), formula(X), rtol=1e-14)


@pytest.mark.parametrize("case", CASES)
def test_gradients_agree_with_differences(case):
    layer = CASES[case][0](dtype="float64")

    analytic, numeric = tf.test.compute_gradient(layer, [tf.constant(X)], delta=1e-5)

    assert tf.test.max_error(analytic, numeric) < 1e-9


@pytest.mark.parametrize("case", CASES)
def test_a_function_gives_what_eager_calls_give(case):
    layer = CASES[case][0](dtype="float64")

    eager, compiled = layer(tf.constant(X)), tf.function(layer)(tf.constant(X))

    np.testing.assert_allclose(compiled.numpy(), eager.numpy(), rtol=1e-14)


@pytest.mark.parametrize("case", CASES)
def test_shapes_are_known_before_there_are_values(case):
    x = Input((2, 3))

    model = Model(x, CASES[case][0]()(x))

    assert model.output_shape == (None, 2, 3)
    assert model(tf.zeros([5, 2, 3])).shape == (5, 2, 3)


@pytest.mark.parametrize("case", [case for case in CASES if case != "prelu"])
def test_sizes_may_be_unknown(case):
    assert CASES[case][0]().compute_output_shape((None, None, 3)) == (None, None, 3)


@pytest.mark.parametrize("case", CASES)
def test_a_layer_is_made_again_from_its_configuration(case):
    layer = CASES[case][0](name="bend", dtype="float64")

    twin = type(layer).from_config(layer.get_config())

    assert twin.get_config() == layer.get_config()
    expected = layer(tf.constant(X)).numpy()
    np.testing.assert_array_equal(twin(tf.constant(X)).numpy(), expected)


@pytest.mark.parametrize("case", CASES)
def test_work_stays_on_a_device(case):
    register_backend(strict.StrictBackend())
    try:
        with tf.device("strict:0"), strict.forbidding_reads():
            layer, x = CASES[case][0](), tf.constant(X.astype("float32"))
            with tf.GradientTape() as tape:
                tape.watch(x)
                loss = tf.reduce_sum(layer(x) ** 2)

            assert tape.gradient(loss, x).device == "strict:0"
    finally:
        unregister_backend("strict")


def test_masks_pass_through():
    mask = tf.constant([[True, False]])

    assert ReLU().compute_mask(None, mask) is mask


# PReLU


@pytest.mark.parametrize(
    ("shared_axes", "shape"), [(None, (2, 3)), (1, (1, 3)), ([1], (1, 3)), ([1, 2], (1, 1))]
)
def test_slopes_are_shared_along_the_axes_that_were_asked_for(shared_axes, shape):
    layer = PReLU(shared_axes=shared_axes, dtype="float64")
    layer(tf.constant(X))
    slopes = np.random.default_rng(0).normal(size=shape)
    layer.set_weights([slopes])

    y = layer(tf.constant(X))

    np.testing.assert_allclose(y.numpy(), np.where(X > 0, X, slopes * X), rtol=1e-14)


def test_the_gradient_of_a_slope_is_the_sum_of_the_negative_numbers_it_met():
    layer = PReLU(shared_axes=[1], dtype="float64")
    layer(tf.constant(X))

    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(layer(tf.constant(X)))
    gradient = tape.gradient(loss, layer.alpha)

    np.testing.assert_allclose(gradient.numpy(), [np.minimum(X, 0).sum((0, 1))], rtol=1e-14)


def test_slopes_take_an_initializer_a_regularizer_and_a_constraint():
    layer = PReLU("ones", "l2", "non_neg")

    layer(tf.zeros([2, 3]))

    assert layer.alpha.numpy().tolist() == [1.0, 1.0, 1.0]
    assert float(layer.losses[0]) == pytest.approx(0.03)
    assert layer.alpha.constraint is layer.alpha_constraint


def test_slopes_are_shared_along_sizes_that_are_not_known():
    x = Input((None, 3))

    model = Model(x, PReLU(shared_axes=[1])(x))

    assert model.output_shape == (None, None, 3)
    assert model(tf.zeros([2, 7, 3])).shape == (2, 7, 3)


# Softmax with a mask

MASKS = {
    "of truth values": np.array([[[1, 0, 1], [1, 1, 0]], [[0, 1, 0], [1, 1, 1]]], bool),
    "of numbers": np.array([[[1.0, 0.2, 1.0], [0.9, 1.0, 0.0]], [[0.0, 1.0, 0.0], [1, 1, 1]]]),
    "that stretches": np.array([True, False, True]),
}


@pytest.mark.parametrize("axis", [-1, 1, [1, 2]])
@pytest.mark.parametrize("kind", MASKS)
def test_softmax_leaves_masked_places_out(kind, axis):
    mask = MASKS[kind]
    kept = np.broadcast_to(mask > 0.5, X.shape)
    powers = np.where(kept, np.exp(X), 0)
    axes = tuple(axis) if isinstance(axis, list) else axis
    total = powers.sum(axes, keepdims=True)

    y = Softmax(axis, dtype="float64")(tf.constant(X), mask=tf.constant(mask))

    expected = np.divide(powers, total, out=np.zeros_like(X), where=total > 0)
    np.testing.assert_allclose(y.numpy(), expected, rtol=1e-14)


def test_gradients_of_a_masked_softmax_agree_with_differences():
    mask, layer = tf.constant(MASKS["of truth values"]), Softmax(dtype="float64")

    analytic, numeric = tf.test.compute_gradient(
        lambda x: layer(x, mask=mask), [tf.constant(X)], delta=1e-5
    )

    assert tf.test.max_error(analytic, numeric) < 1e-9


@pytest.mark.parametrize("dtype", ["float32", "mixed_float16"])
def test_a_row_that_is_masked_as_a_whole_becomes_zeros(dtype):
    y = Softmax(dtype=dtype)(tf.ones([2, 3]), mask=tf.constant([[False] * 3, [True] * 3]))

    np.testing.assert_allclose(y.numpy(), [[0, 0, 0], [1 / 3] * 3], rtol=1e-3)


# Errors


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: ReLU(max_value=-1.0), "ReLU takes a max_value of 0 or more. Got -1.0"),
        (lambda: ReLU(negative_slope=None), "takes a negative_slope of 0 or more. Got None"),
        (lambda: ReLU(threshold=-1.0), "takes a threshold of 0 or more"),
        (lambda: LeakyReLU(-0.1), "LeakyReLU takes a negative_slope of 0 or more"),
        (lambda: PReLU(shared_axes=[3], name="p")(tf.zeros([2, 3])), "'p' .*axes from 1 to 1 for"),
        (lambda: PReLU()(Input((None, 3))), "weights need known sizes"),
        (lambda: Softmax(3)(tf.zeros([2, 3])), "axis 3"),
    ],
)
def test_arguments_that_do_not_fit_are_explained(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_slopes_refuse_examples_of_another_shape():
    layer = PReLU(name="bend")
    layer(tf.zeros([2, 3]))

    with pytest.raises(ValueError, match=r"'bend' \(PReLU\) .* Got inputs of shape \(2, 4\)"):
        layer(tf.zeros([2, 4]))


@pytest.mark.parametrize("shape", [(2,), (1, 1, 2, 3)])
def test_softmax_refuses_a_mask_that_does_not_broadcast(shape):
    with pytest.raises(ValueError, match=r"takes a mask that broadcasts .* Got a mask of shape \("):
        Softmax()(tf.zeros([2, 2, 3]), mask=tf.zeros(shape, "bool"))
