"""Regularization layers: distributions, identity outside training, seeds, errors."""

from __future__ import annotations

import numpy as np
import pytest

import tapegrad as tf
import tapegrad_strict as strict
from tapegrad.core.backend.registry import register_backend, unregister_backend
from tapegrad.keras.layers.core import Dense, Embedding
from tapegrad.keras.layers.input_layer import Input
from tapegrad.keras.layers.regularization import (
    ActivityRegularization,
    AlphaDropout,
    Dropout,
    GaussianDropout,
    GaussianNoise,
    SpatialDropout1D,
    SpatialDropout2D,
    SpatialDropout3D,
    SpectralNormalization,
)
from tapegrad.keras.models import Model, Sequential

pytestmark = pytest.mark.filterwarnings("ignore:You are comparing a array_api_strict dtype")

X = np.random.default_rng(0).normal(size=(5, 4))
MANY = 40_000

# Class, first argument, and a shape that it takes.
RANDOM = {
    "Dropout": (Dropout, 0.25, (6, 4)),
    "SpatialDropout1D": (SpatialDropout1D, 0.25, (6, 3, 4)),
    "SpatialDropout2D": (SpatialDropout2D, 0.25, (6, 3, 2, 4)),
    "SpatialDropout3D": (SpatialDropout3D, 0.25, (6, 3, 2, 2, 4)),
    "GaussianNoise": (GaussianNoise, 0.5, (6, 4)),
    "GaussianDropout": (GaussianDropout, 0.25, (6, 4)),
    "AlphaDropout": (AlphaDropout, 0.25, (6, 4)),
}


def made(kind, **options):
    """Return a layer of a kind and numbers for it, none of which is 0."""
    cls, first, shape = RANDOM[kind]
    x = np.random.default_rng(1).uniform(1.0, 2.0, size=shape)
    return cls(first, dtype="float64", **options), tf.constant(x)


@pytest.fixture(autouse=True)
def one_global_seed():
    tf.random.set_seed(5)


# What all of them share


@pytest.mark.parametrize("options", [{}, {"training": False}])
@pytest.mark.parametrize("kind", RANDOM)
def test_outside_training_the_input_and_its_mask_are_returned(kind, options):
    layer, x = made(kind)

    assert layer(x, **options) is x
    assert layer.compute_mask(x, x) is x


@pytest.mark.parametrize("kind", RANDOM)
def test_a_rate_of_zero_changes_nothing(kind):
    _, x = made(kind)
    layer = RANDOM[kind][0](0.0, dtype="float64")

    assert layer(x, training=True) is x


@pytest.mark.parametrize("kind", RANDOM)
def test_a_seed_fixes_the_numbers_of_a_layer_and_each_call_draws_new_ones(kind):
    (one, x), (other, _) = made(kind, seed=3), made(kind, seed=3)

    first, second = one(x, training=True).numpy(), one(x, training=True).numpy()
    tf.random.uniform([4])  # a draw from the global generator is no draw from the layer's

    np.testing.assert_array_equal(first, other(x, training=True).numpy())
    np.testing.assert_array_equal(second, other(x, training=True).numpy())
    assert not np.array_equal(first, second)


@pytest.mark.parametrize("kind", RANDOM)
def test_without_a_seed_the_global_seed_fixes_the_numbers(kind):
    layer, x = made(kind)

    tf.random.set_seed(11)
    first = layer(x, training=True).numpy()
    tf.random.set_seed(11)

    np.testing.assert_array_equal(layer(x, training=True).numpy(), first)


@pytest.mark.parametrize("kind", RANDOM)
def test_a_function_draws_the_numbers_that_eager_calls_draw(kind):
    (eager, x), (layer, _) = made(kind, seed=3), made(kind, seed=3)
    call = tf.function(lambda x: layer(x, training=True))

    for _ in range(3):
        expected = eager(x, training=True).numpy()
        np.testing.assert_allclose(call(x).numpy(), expected, rtol=1e-14)


@pytest.mark.parametrize("kind", RANDOM)
def test_the_gradient_uses_the_numbers_of_the_forward_pass(kind):
    layer, x = made(kind, seed=3)
    start = layer.seed_generator.state.numpy()

    def f(x):
        layer.seed_generator.reset(start)
        return layer(x, training=True)

    analytic, numeric = tf.test.compute_gradient(f, [x[:2]], delta=1e-5)

    assert tf.test.max_error(analytic, numeric) < 1e-8


@pytest.mark.parametrize("kind", RANDOM)
def test_shapes_are_known_before_there_are_values(kind):
    shape = RANDOM[kind][2][1:]
    x = Input((None, *shape[1:]))

    model = Model(x, made(kind)[0](x))

    assert model.output_shape == (None, None, *shape[1:])
    assert model(tf.ones([2, *shape]), training=True).shape == (2, *shape)


@pytest.mark.parametrize("kind", RANDOM)
def test_a_layer_is_made_again_from_its_configuration(kind):
    layer, x = made(kind, seed=7, name="noise")

    twin = type(layer).from_config(layer.get_config())

    assert twin.get_config() == layer.get_config()
    np.testing.assert_array_equal(twin(x, training=True), layer(x, training=True))


@pytest.mark.parametrize("kind", RANDOM)
def test_drawing_on_a_device_reads_nothing_on_the_host(kind):
    register_backend(strict.StrictBackend())
    try:
        with tf.device("strict:0"):
            layer = RANDOM[kind][0](0.25, seed=1)
            x = tf.constant(np.ones(RANDOM[kind][2], "float32"))
            with strict.forbidding_reads(), tf.GradientTape() as tape:
                tape.watch(x)
                loss = tf.reduce_sum(layer(x, training=True))
            gradient = tape.gradient(loss, x)

        assert gradient.device == "strict:0"
    finally:
        unregister_backend("strict")


def test_a_model_passes_training_on_to_its_dropout():
    model = Sequential([Dropout(0.5, seed=1)])
    x = tf.ones([100])

    assert set(model(x, training=True).numpy().tolist()) == {0.0, 2.0}
    assert set(model(x).numpy().tolist()) == {1.0}


# Distributions


@pytest.mark.parametrize("rate", [0.1, 0.5, 0.9])
def test_dropout_drops_the_share_that_was_asked_for_and_scales_the_rest(rate):
    x = np.random.default_rng(2).uniform(1.0, 2.0, size=MANY)

    y = Dropout(rate, seed=1, dtype="float64")(tf.constant(x), training=True).numpy()

    kept = y != 0
    spread = np.sqrt(rate * (1 - rate) / MANY)
    assert np.mean(~kept) == pytest.approx(rate, abs=5 * spread)
    np.testing.assert_allclose(y[kept], x[kept] / (1 - rate), rtol=1e-12)


def test_a_dropout_of_everything_gives_zeros_and_no_gradient():
    x = tf.constant(X)

    with tf.GradientTape() as tape:
        tape.watch(x)
        y = Dropout(1.0)(x, training=True)

    assert not y.numpy().any()
    assert not tape.gradient(y, x, unconnected_gradients="zero").numpy().any()


@pytest.mark.parametrize("kind", ["Dropout", "AlphaDropout"])
@pytest.mark.parametrize("noise_shape", [(None, 1), (1, 4), [None, None]])
def test_elements_that_share_noise_fall_together(kind, noise_shape):
    layer = RANDOM[kind][0](0.5, noise_shape=noise_shape, seed=2)

    y = layer(tf.ones([64, 4]), training=True).numpy()

    for axis, size in enumerate(noise_shape):
        if size == 1:
            assert (y == y.take([0], axis)).all()
    assert len(np.unique(y)) == 2


@pytest.mark.parametrize("options", [{}, {"data_format": "channels_first"}])
@pytest.mark.parametrize("cls", [SpatialDropout1D, SpatialDropout2D, SpatialDropout3D])
def test_spatial_dropout_drops_whole_channels(cls, options):
    first = bool(options) and cls is not SpatialDropout1D
    sizes = (3,) * cls.spatial
    x = tf.ones([8, 16, *sizes] if first else [8, *sizes, 16])

    y = cls(0.5, seed=1, **(options if first else {}))(x, training=True).numpy()

    channels = y.reshape(8, 16, -1) if first else y.reshape(8, -1, 16).swapaxes(1, 2)
    assert (channels == channels[..., :1]).all()
    assert 0.25 < np.mean(channels == 0) < 0.75


@pytest.mark.parametrize(
    ("layer", "mean", "deviation"),
    [
        (GaussianNoise(0.3, seed=1, dtype="float64"), 3.0, 0.3),
        (GaussianDropout(0.2, seed=1, dtype="float64"), 3.0, 3 * np.sqrt(0.2 / 0.8)),
    ],
)
def test_gaussian_layers_keep_the_mean_and_have_the_deviation_asked_for(layer, mean, deviation):
    y = layer(tf.fill([MANY], mean), training=True).numpy()

    assert y.mean() == pytest.approx(mean, abs=5 * deviation / np.sqrt(MANY))
    assert y.std() == pytest.approx(deviation, rel=0.02)


def test_alpha_dropout_keeps_mean_and_variance():
    x = np.random.default_rng(3).normal(size=MANY)
    x = (x - x.mean()) / x.std()

    y = AlphaDropout(0.3, seed=1, dtype="float64")(tf.constant(x), training=True).numpy()

    assert y.mean() == pytest.approx(0, abs=0.03)
    assert y.std() == pytest.approx(1, abs=0.03)


def test_alpha_dropout_sends_dropped_numbers_to_the_floor_of_selu():
    x = np.random.default_rng(3).normal(size=200)
    floor, rate = float(tf.nn.selu(tf.constant(-100.0, "float64"))), 0.3

    y = AlphaDropout(rate, seed=1, dtype="float64")(tf.constant(x), training=True).numpy()

    a = 1 / np.sqrt((1 - rate) * (1 + rate * floor**2))
    b = -a * floor * rate
    is_kept = np.isclose(y, a * x + b, rtol=1e-12)
    assert 0.5 < is_kept.mean() < 0.9
    np.testing.assert_allclose(y[~is_kept], a * floor + b, rtol=1e-12)


# Penalties


def test_activity_regularization_adds_a_penalty_by_example_and_returns_its_input():
    layer = ActivityRegularization(l1=0.1, l2=0.2, dtype="float64")

    y = layer(tf.constant(X))

    expected = (0.1 * np.abs(X).sum() + 0.2 * (X**2).sum()) / 5
    np.testing.assert_array_equal(y.numpy(), X)
    assert float(layer.losses[0]) == pytest.approx(expected, rel=1e-12)


def test_activity_regularization_is_made_again_from_its_configuration():
    layer = ActivityRegularization(l1=0.1, l2=0.2)

    twin = ActivityRegularization.from_config(layer.get_config())

    assert twin.get_config() == layer.get_config()


# Spectral normalisation


def test_the_kernel_is_divided_by_its_largest_singular_value():
    layer = SpectralNormalization(Dense(3, dtype="float64"), power_iterations=30)
    layer.build((None, 4))
    layer.built = True
    kernel = np.array([[4.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.5, 1.0], [3.0, 0.0, 0.0]])
    layer.layer.kernel.assign(kernel)

    y = layer(tf.constant(X), training=True)

    # The first column stands at right angles to the others and is by far the longest.
    np.testing.assert_allclose(layer.layer.kernel.numpy(), kernel / 5, rtol=1e-12)
    np.testing.assert_allclose(y.numpy(), X @ kernel / 5, rtol=1e-12)


def test_weights_have_the_order_of_keras():
    layer = SpectralNormalization(Dense(3))
    layer(np.ones((2, 4), "float32"))

    names = [variable.name.removesuffix(":0") for variable in layer.weights]
    assert names == ["kernel", "vector_u", "bias"]


def test_outside_training_the_kernel_stays():
    layer = SpectralNormalization(Dense(3))
    layer.build((None, 4))
    kernel = layer.layer.kernel.numpy()

    layer(tf.ones([2, 4]), training=False)

    np.testing.assert_array_equal(layer.layer.kernel.numpy(), kernel)


def test_a_kernel_of_zeros_stays_zero():
    layer = SpectralNormalization(Dense(3, kernel_initializer="zeros"))
    layer.build((None, 4))
    u = layer.vector_u.numpy()

    layer(tf.ones([2, 4]), training=True)

    assert not layer.layer.kernel.numpy().any()
    np.testing.assert_array_equal(layer.vector_u.numpy(), u)


def test_the_gradient_of_a_spectrally_normalised_layer_is_that_of_the_kernel_it_used():
    layer = SpectralNormalization(Dense(3, dtype="float64"))
    x = tf.constant(X)

    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(layer(x, training=True) ** 2)
    gradient = tape.gradient(loss, layer.layer.kernel)

    kernel = layer.layer.kernel.numpy()
    np.testing.assert_allclose(gradient.numpy(), 2 * X.T @ (X @ kernel), rtol=1e-9)


def test_embeddings_are_normalised_and_their_mask_goes_on():
    layer = SpectralNormalization(Embedding(5, 2, mask_zero=True), power_iterations=40)
    numbers = tf.constant([[0, 1, 4]])

    y = layer(numbers, training=True)

    assert y.shape == (1, 3, 2)
    assert np.linalg.norm(layer.layer.embeddings.numpy(), 2) == pytest.approx(1.0, rel=1e-5)
    assert layer.compute_mask(numbers, None).numpy().tolist() == [[False, True, True]]


def test_spectral_normalisation_is_made_again_from_its_configuration():
    layer = SpectralNormalization(Dense(3, activation="relu"), power_iterations=2)

    twin = SpectralNormalization.from_config(layer.get_config())

    assert twin.get_config() == layer.get_config()
    assert (twin.layer.units, twin.power_iterations) == (3, 2)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: SpectralNormalization(3), "takes a layer. Got int"),
        (lambda: SpectralNormalization(Dense(2), 0), "power_iterations must be a positive"),
        (lambda: SpectralNormalization(Dropout(0.5))(tf.ones([2, 3])), "with a kernel"),
    ],
)
def test_spectral_normalisation_says_what_it_cannot_wrap(make, message):
    with pytest.raises((TypeError, ValueError), match=message):
        make()


# Errors


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Dropout(1.5), "Dropout takes a rate of at least 0 up to 1. Got 1.5"),
        (lambda: Dropout(-0.1), "Got -0.1"),
        (lambda: SpatialDropout2D(2), "SpatialDropout2D takes a rate"),
        (lambda: GaussianDropout(1.0), "at least 0 and below 1"),
        (lambda: AlphaDropout(1.0), "at least 0 and below 1"),
        (lambda: GaussianNoise(-1.0), "takes a stddev of 0 or more"),
        (lambda: Dropout(0.5, noise_shape=(0, 1)), "noise_shape takes positive sizes"),
        (lambda: AlphaDropout(0.5, noise_shape="x"), "noise_shape takes positive sizes"),
        (lambda: SpatialDropout2D(0.5, "last"), "data_format"),
        (lambda: ActivityRegularization(l1=-1.0), "l1 must be a finite number"),
    ],
)
def test_arguments_that_do_not_fit_are_explained(make, message):
    with pytest.raises(ValueError, match=message):
        make()


@pytest.mark.parametrize("kind", ["Dropout", "AlphaDropout"])
@pytest.mark.parametrize("noise_shape", [(3, 1), (1,), (None, 1, 1)])
def test_noise_that_does_not_broadcast_to_the_input_is_refused(kind, noise_shape):
    layer = RANDOM[kind][0](0.5, noise_shape=noise_shape, name="noise")

    with pytest.raises(ValueError, match=r"'noise' .* noise_shape .* input of shape \(6, 4\)"):
        layer(tf.ones([6, 4]), training=True)


@pytest.mark.parametrize("kind", ["SpatialDropout1D", "SpatialDropout2D", "SpatialDropout3D"])
def test_spatial_dropout_refuses_inputs_of_another_rank(kind):
    layer = RANDOM[kind][0](0.5, name="drop")

    with pytest.raises(ValueError, match=r"'drop' .* dimensions, the batch first"):
        layer(tf.ones([6, 4]))
