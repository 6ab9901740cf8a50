"""Normalization layers: values against NumPy, gradients, moving averages, shapes, errors."""

from __future__ import annotations

import numpy as np
import pytest

import tapegrad as tf
import tapegrad_strict as strict
from tapegrad.core.backend.registry import register_backend, unregister_backend
from tapegrad.keras.layers.core import Masking
from tapegrad.keras.layers.input_layer import Input
from tapegrad.keras.layers.normalization import (
    BatchNormalization,
    GroupNormalization,
    LayerNormalization,
    RMSNormalization,
    UnitNormalization,
)
from tapegrad.keras.models import Model, Sequential

pytestmark = pytest.mark.filterwarnings("ignore:You are comparing a array_api_strict dtype")

X = np.random.default_rng(0).normal(2.0, 3.0, size=(3, 2, 5, 4))
KINDS = {
    "batch": BatchNormalization,
    "layer": LayerNormalization,
    "group": lambda **options: GroupNormalization(2, **options),
    "rms": RMSNormalization,
    "unit": UnitNormalization,
}


def built(layer, x=X):
    """Build a layer, give it weights that all differ, and return it."""
    rng = np.random.default_rng(1)
    layer.build(x.shape)
    layer.built = True
    layer.set_weights([rng.uniform(0.5, 2.0, size=w.shape) for w in layer.get_weights()])
    return layer


def standardized(x, axes, epsilon=1e-3):
    mean, variance = x.mean(axes, keepdims=True), x.var(axes, keepdims=True)
    return (x - mean) / np.sqrt(variance + epsilon)


def stretching(value, axes, rank=4):
    """Reshape numbers along `axes` so that they broadcast to an array of `rank` dimensions."""
    shape = [1] * rank
    for axis, size in zip(axes, value.shape):
        shape[axis] = size
    return value.reshape(shape)


# Batch normalisation


@pytest.mark.parametrize("axis", [-1, 1, 2])
def test_a_batch_is_normalised_by_its_own_moments_in_training(axis):
    layer = built(BatchNormalization(axis=axis, dtype="float64"))
    gamma, beta, *_ = [stretching(w, [axis % 4]) for w in layer.get_weights()]
    others = tuple(k for k in range(4) if k != axis % 4)

    y = layer(tf.constant(X), training=True)

    np.testing.assert_allclose(y.numpy(), standardized(X, others) * gamma + beta, rtol=1e-12)


@pytest.mark.parametrize("training", [False, None])
@pytest.mark.parametrize("axis", [-1, 1])
def test_outside_training_a_batch_is_normalised_by_the_moving_averages(axis, training):
    layer = built(BatchNormalization(axis=axis, epsilon=0.1, dtype="float64"))
    gamma, beta, mean, variance = [stretching(w, [axis % 4]) for w in layer.get_weights()]

    y = layer(tf.constant(X), training=training)

    expected = (X - mean) / np.sqrt(variance + 0.1) * gamma + beta
    np.testing.assert_allclose(y.numpy(), expected, rtol=1e-12)
    np.testing.assert_array_equal(layer.moving_mean.numpy(), mean.ravel())


def test_moving_averages_move_towards_the_moments_of_the_batch():
    layer = built(BatchNormalization(momentum=0.9, dtype="float64"))
    _, _, mean, variance = layer.get_weights()

    layer(tf.constant(X), training=True)

    expected_mean = 0.9 * mean + 0.1 * X.mean((0, 1, 2))
    expected_variance = 0.9 * variance + 0.1 * X.var((0, 1, 2))
    np.testing.assert_allclose(layer.moving_mean.numpy(), expected_mean, rtol=1e-12)
    np.testing.assert_allclose(layer.moving_variance.numpy(), expected_variance, rtol=1e-12)


def test_moving_averages_move_at_each_call_of_a_function():
    layer = BatchNormalization(momentum=0.5, dtype="float64")
    step = tf.function(lambda x: layer(x, training=True))

    for _ in range(3):
        step(tf.constant(X))

    expected = (1 - 0.5**3) * X.mean((0, 1, 2))
    np.testing.assert_allclose(layer.moving_mean.numpy(), expected, rtol=1e-12)


def test_a_frozen_batch_normalisation_uses_its_moving_averages_and_leaves_them():
    layer = built(BatchNormalization(dtype="float64"))
    before = layer.get_weights()
    layer.trainable = False

    y = layer(tf.constant(X), training=True)

    np.testing.assert_array_equal(y.numpy(), layer(tf.constant(X), training=False).numpy())
    assert all(np.array_equal(old, new) for old, new in zip(before, layer.get_weights()))


def test_only_gamma_and_beta_are_trained():
    layer = built(BatchNormalization())

    assert layer.trainable_variables == [layer.gamma, layer.beta]
    assert layer.non_trainable_variables == [layer.moving_mean, layer.moving_variance]


@pytest.mark.parametrize("options", [{"center": False}, {"scale": False}])
def test_gamma_or_beta_can_be_left_out(options):
    layer = BatchNormalization(dtype="float64", **options)

    y = layer(tf.constant(X), training=True)

    assert len(layer.trainable_variables) == 1
    np.testing.assert_allclose(y.numpy(), standardized(X, (0, 1, 2)), rtol=1e-12)


def masked_case():
    x = X[:, 0]
    mask = np.array([[1, 1, 0, 1, 0], [1, 0, 0, 0, 0], [0, 0, 0, 0, 0]], bool)
    return x, mask


def test_masked_steps_do_not_count_for_the_moments():
    x, mask = masked_case()
    layer = BatchNormalization(momentum=0.5, dtype="float64")
    x_with_rubbish = np.where(mask[..., None], x, np.nan)

    layer(tf.constant(x_with_rubbish), training=True, mask=tf.constant(mask))
    y = layer(tf.constant(x), training=True, mask=tf.constant(mask)).numpy()

    kept = x[mask]
    mean, variance = kept.mean(0), kept.var(0)
    np.testing.assert_allclose(y, (x - mean) / np.sqrt(variance + 1e-3), rtol=1e-12)
    np.testing.assert_allclose(layer.moving_mean.numpy(), 0.75 * mean, rtol=1e-12)


def test_a_batch_with_all_steps_masked_stays_finite():
    y = BatchNormalization()(tf.constant(X[0]), training=True, mask=tf.zeros([2, 5], "bool"))

    assert np.isfinite(y.numpy()).all()


def test_a_mask_reaches_batch_normalisation_through_a_model():
    x, mask = masked_case()
    layer = BatchNormalization()
    model = Sequential([Masking(0.0), layer])

    model(tf.constant(x * mask[..., None]), training=True)

    np.testing.assert_allclose(layer.moving_mean.numpy(), 0.01 * x[mask].mean(0), rtol=1e-5)


def test_a_mask_of_another_shape_is_refused():
    layer = BatchNormalization(name="norm")

    with pytest.raises(ValueError, match=r"'norm' .* takes a mask of shape \(3, 2, 5\)"):
        layer(tf.constant(X), training=True, mask=tf.zeros([3, 2], "bool"))


@pytest.mark.parametrize("is_masked", [False, True])
@pytest.mark.parametrize("training", [True, False])
def test_gradients_of_batch_normalisation_agree_with_differences(training, is_masked):
    x, mask = masked_case()
    layer = built(BatchNormalization(dtype="float64"), x)
    options = {"mask": tf.constant(mask)} if is_masked else {}
    gamma, beta = layer.gamma.value(), layer.beta.value()

    def f(x, gamma, beta):
        layer.__dict__.update(gamma=gamma, beta=beta)
        return layer(x, training=training, **options)

    # In training the result does not depend on the moving averages that each call changes.
    analytic, numeric = tf.test.compute_gradient(f, [tf.constant(x), gamma, beta], delta=1e-5)

    assert tf.test.max_error(analytic, numeric) < 1e-7


# Other normalisations


@pytest.mark.parametrize("axis", [-1, 1, [1, 3], [-2, -1], (3, 1)])
def test_layer_normalisation_normalises_over_the_axes_of_each_example(axis):
    axes = tuple(sorted(a % 4 for a in np.atleast_1d(axis)))
    layer = built(LayerNormalization(axis=axis, dtype="float64"))
    gamma, beta = [stretching(w, axes) for w in layer.get_weights()]

    y = layer(tf.constant(X))

    expected = standardized(X, axes) * gamma + beta
    np.testing.assert_allclose(y.numpy(), expected, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize(("axis", "groups"), [(-1, 2), (-1, 4), (-1, -1), (2, 5), (2, 1), (1, -1)])
def test_group_normalisation_normalises_groups_of_channels(axis, groups):
    layer = built(GroupNormalization(groups, axis=axis, dtype="float64"))
    gamma, beta = layer.get_weights()
    last = np.moveaxis(X, axis, -1)
    count = last.shape[-1] if groups == -1 else groups
    parts = last.reshape(*last.shape[:-1], count, -1)

    y = layer(tf.constant(X))

    expected = standardized(parts, (1, 2, 4)).reshape(last.shape) * gamma + beta
    np.testing.assert_allclose(y.numpy(), np.moveaxis(expected, -1, axis), rtol=1e-11)


@pytest.mark.parametrize("axis", [-1, [2, 3]])
def test_rms_normalisation_divides_by_the_root_of_the_mean_square(axis):
    axes = tuple(a % 4 for a in np.atleast_1d(axis))
    layer = built(RMSNormalization(axis=axis, dtype="float64"))
    scale = stretching(layer.scale.numpy(), axes)

    y = layer(tf.constant(X))

    expected = X / np.sqrt((X**2).mean(axes, keepdims=True) + 1e-6) * scale
    np.testing.assert_allclose(y.numpy(), expected, rtol=1e-12)


@pytest.mark.parametrize("axis", [-1, [1, 2]])
def test_unit_normalisation_makes_norms_one(axis):
    axes = tuple(a % 4 for a in np.atleast_1d(axis))

    y = UnitNormalization(axis=axis, dtype="float64")(tf.constant(X))

    np.testing.assert_allclose(y.numpy(), X / np.sqrt((X**2).sum(axes, keepdims=True)), rtol=1e-12)


@pytest.mark.parametrize("dtype", ["float64", "float32", "mixed_float16"])
def test_unit_normalisation_leaves_zeros(dtype):
    y = UnitNormalization(dtype=dtype)(tf.zeros([2, 3]))

    assert not y.numpy().any()


@pytest.mark.parametrize("kind", ["layer", "group", "rms", "unit"])
def test_gradients_agree_with_differences(kind):
    layer = KINDS[kind](dtype="float64")
    x = X[:2, :, :2]

    analytic, numeric = tf.test.compute_gradient(layer, [tf.constant(x)], delta=1e-5)

    assert tf.test.max_error(analytic, numeric) < 1e-7


@pytest.mark.parametrize("kind", ["layer", "group", "rms"])
def test_gradients_of_weights_agree_with_differences(kind):
    layer = built(KINDS[kind](dtype="float64"))
    weight = layer.trainable_variables[0]
    c = np.random.default_rng(2).normal(size=X.shape)

    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(layer(tf.constant(X)) * c)
    gradient = tape.gradient(loss, weight).numpy()

    start, step = weight.numpy(), 1e-5
    for k in range(start.size):
        ends = []
        for sign in (1, -1):
            weight.assign(start + sign * step * (np.arange(start.size) == k))
            ends.append(float(tf.reduce_sum(layer(tf.constant(X)) * c)))
        assert gradient[k] == pytest.approx((ends[0] - ends[1]) / (2 * step), abs=1e-6)


# All kinds


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("kind", KINDS)
def test_a_function_gives_what_eager_calls_give(kind, training):
    layer = built(KINDS[kind](dtype="float64"))
    call = tf.function(lambda x: layer(x, training=training))

    eager = layer(tf.constant(X), training=training).numpy()

    np.testing.assert_allclose(call(tf.constant(X)).numpy(), eager, rtol=1e-12)


@pytest.mark.parametrize("kind", KINDS)
def test_shapes_are_known_before_there_are_values(kind):
    x = Input((None, 5, 4))

    model = Model(x, KINDS[kind]()(x))

    assert model.output_shape == (None, None, 5, 4)
    assert model(tf.constant(X.astype("float32"))).shape == (3, 2, 5, 4)


@pytest.mark.parametrize("kind", KINDS)
def test_a_layer_is_made_again_from_its_configuration(kind):
    layer = KINDS[kind](axis=-1, name="norm", dtype="float64")

    config = layer.get_config()
    twin = type(layer).from_config(config)

    assert twin.get_config() == config
    assert (twin.name, config["axis"]) == ("norm", -1)


def test_regularizers_and_constraints_of_gamma_are_kept():
    layer = LayerNormalization(gamma_regularizer="l2", gamma_constraint="non_neg")

    layer(tf.ones([2, 3]))

    assert float(layer.losses[0]) == pytest.approx(0.03)
    assert layer.gamma.constraint is layer.gamma_constraint


@pytest.mark.parametrize("kind", KINDS)
def test_half_precision_is_normalised_in_float32(kind):
    # Squares of these overflow float16.
    x = (200 * X).astype("float16")
    layer = KINDS[kind](dtype="mixed_float16")

    y = layer(tf.constant(x), training=True)

    reference = KINDS[kind](dtype="float64")(tf.constant(x.astype("float64")), training=True)
    assert y.dtype == "float16"
    np.testing.assert_allclose(y.numpy(), reference.numpy(), rtol=2e-3, atol=2e-3)
    assert all(variable.dtype == "float32" for variable in layer.variables)


def test_gradients_of_weights_in_mixed_precision_are_in_float32():
    layer = BatchNormalization(dtype="mixed_float16")

    with tf.GradientTape() as tape:
        y = layer(tf.constant(X), training=True)
    gradients = tape.gradient(y, layer.trainable_variables)

    assert [g.dtype.name for g in gradients] == ["float32", "float32"]


@pytest.mark.parametrize("kind", KINDS)
def test_training_on_a_device_reads_nothing_on_the_host(kind):
    register_backend(strict.StrictBackend())
    try:
        with tf.device("strict:0"), strict.forbidding_reads():
            layer = KINDS[kind]()
            x = tf.constant(X.astype("float32"))
            with tf.GradientTape() as tape:
                tape.watch(x)
                loss = tf.reduce_sum(layer(x, training=True) ** 2)
            gradients = tape.gradient(loss, [x, *layer.trainable_variables])

        assert {g.device for g in gradients} == {"strict:0"}
    finally:
        unregister_backend("strict")


@pytest.mark.parametrize("kind", ["batch", "layer", "group", "rms"])
def test_an_input_of_other_sizes_is_refused(kind):
    layer = KINDS[kind](name="norm")
    layer(tf.zeros([2, 6]))

    with pytest.raises(
        ValueError, match=r"'norm' .* was built for .* \(6,\) .* Got shape \(2, 4\)"
    ):
        layer(tf.zeros([2, 4]))


@pytest.mark.parametrize("kind", KINDS)
def test_an_axis_that_is_not_there_is_refused(kind):
    with pytest.raises(ValueError, match=r"'norm' .* got axis 4 for a tensor of 3 dimensions"):
        KINDS[kind](axis=4, name="norm")(tf.zeros([2, 3, 4]))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: BatchNormalization()(tf.zeros([3])), "at least 2 dimensions"),
        (lambda: BatchNormalization([1, 2]), "takes one axis, the channel axis"),
        (lambda: BatchNormalization(renorm=True), "takes renorm=False"),
        (lambda: LayerNormalization(axis=None), "takes an axis, or a list of axes"),
        (lambda: RMSNormalization(axis="last"), "takes an axis, or a list of axes"),
        (lambda: GroupNormalization(0), "positive number of groups"),
        (lambda: GroupNormalization(3)(tf.zeros([2, 4])), "divisible by its 3 groups"),
        (lambda: LayerNormalization()(Input((None,))), "weights need known sizes"),
        (lambda: LayerNormalization(rms_scaling=True), "does not take the argument 'rms_scaling'"),
    ],
)
def test_arguments_that_do_not_fit_are_explained(make, message):
    with pytest.raises((TypeError, ValueError), match=message):
        make()


@pytest.mark.parametrize("policy", ["float32", "mixed_bfloat16"])
@pytest.mark.parametrize("kind", ["LayerNormalization", "RMSNormalization"])
def test_over_no_axis_each_number_is_normalised_alone(kind, policy):
    layer = getattr(tf.keras.layers, kind)(axis=[], epsilon=0.25, dtype=policy)
    x = np.float32([[0.0, 0.5, -0.5]])

    expected = x * 0 if kind == "LayerNormalization" else x / np.sqrt(x**2 + 0.25)
    np.testing.assert_allclose(layer(x).numpy().astype("float32"), expected, rtol=1e-2)
