"""Preprocessing layers: values against NumPy, randomness, shapes and errors."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import ndimage

import tapegrad as tf
from tapegrad.keras.layers import (
    CategoryEncoding,
    CenterCrop,
    Input,
    Normalization,
    RandomCrop,
    RandomFlip,
    Rescaling,
)
from tapegrad.keras.models import Model
from tests.keras.layer_checks import check_nothing_is_read_on_the_host

pytestmark = pytest.mark.filterwarnings("ignore:You are comparing a array_api_strict dtype")

X = np.random.default_rng(0).normal(1.0, 2.0, size=(4, 5, 6, 3))

LAYERS = {
    "Rescaling": lambda **o: Rescaling(0.5, offset=[1.0, 2.0, 3.0], **o),
    "RandomFlip": lambda **o: RandomFlip(seed=2, **o),
    "RandomCrop": lambda **o: RandomCrop(2, 3, seed=2, **o),
    "CenterCrop": lambda **o: CenterCrop(2, 3, **o),
    "CenterCrop of small images": lambda **o: CenterCrop(7, 4, **o),
    "Normalization": lambda **o: Normalization(mean=[0.0, 1.0, 2.0], variance=[1.0, 4.0, 9.0], **o),
    "Normalization to learn": lambda **o: Normalization(axis=(1, 3), **o),
}


# What all of them share


@pytest.mark.parametrize("kind", LAYERS)
def test_a_function_gives_what_eager_calls_give(kind):
    one, other = LAYERS[kind](dtype="float64"), LAYERS[kind](dtype="float64")
    call = tf.function(lambda x: other(x, training=True))

    for _ in range(3):
        expected = one(tf.constant(X), training=True).numpy()
        np.testing.assert_allclose(call(tf.constant(X)).numpy(), expected, rtol=1e-12)


@pytest.mark.parametrize("kind", LAYERS)
def test_shapes_are_known_before_there_are_values(kind):
    x = Input((5, None, 3))

    model = Model(x, LAYERS[kind]()(x))

    y = model(tf.constant(X.astype("float32")), training=True)
    assert model.output_shape[0] is None
    assert all(n is None or n == m for n, m in zip(model.output_shape, y.shape))
    assert (model.output_shape[2] is None) == ("Crop" not in kind)


@pytest.mark.parametrize("kind", LAYERS)
def test_a_layer_is_made_again_from_its_configuration(kind):
    layer = LAYERS[kind](name="prepare", dtype="float64")

    twin = type(layer).from_config(layer.get_config())

    assert twin.get_config() == layer.get_config()
    expected = layer(tf.constant(X), training=True).numpy()
    np.testing.assert_array_equal(twin(tf.constant(X), training=True).numpy(), expected)


@pytest.mark.parametrize("kind", LAYERS)
def test_gradients_agree_with_differences(kind):
    layer = LAYERS[kind](dtype="float64")
    x = X[:1, :4, :4]
    layer(tf.constant(x))

    def f(x):
        if getattr(layer, "seed", None) is not None:
            layer.seed_generator.reset_from_seed(4)
        return layer(x, training=True)

    analytic, numeric = tf.test.compute_gradient(f, [tf.constant(x)], delta=1e-4)

    assert tf.test.max_error(analytic, numeric) < 1e-9


@pytest.mark.parametrize("kind", LAYERS)
def test_work_on_a_device_reads_nothing_on_the_host(kind):
    check_nothing_is_read_on_the_host(LAYERS[kind], X.astype("float32"))


@pytest.mark.parametrize("kind", LAYERS)
def test_whole_numbers_become_the_dtype_of_the_layer(kind):
    x = tf.constant(np.arange(X.size, dtype="uint8").reshape(X.shape))

    assert LAYERS[kind](dtype="float64")(x, training=True).dtype == "float64"


# Rescaling


def test_rescaling_multiplies_and_adds():
    scale = np.array([1.0, 2.0, 4.0])

    y = Rescaling(scale, offset=0.5, dtype="float64")(tf.constant(X))

    np.testing.assert_allclose(y.numpy(), X * scale + 0.5, rtol=1e-15)


def test_arrays_are_lists_in_configurations():
    config = Rescaling(np.array([1.0, 2.0]), np.float64(3.0)).get_config()

    assert (config["scale"], config["offset"]) == ([1.0, 2.0], 3.0)


# Images


def images(data_format):
    """A batch of images, and the axes of their height and width."""
    if data_format == "channels_first":
        return np.ascontiguousarray(np.moveaxis(X, -1, 1)), (2, 3)
    return X, (1, 2)


@pytest.mark.parametrize("data_format", [None, "channels_first"])
@pytest.mark.parametrize("mode", ["horizontal", "vertical", "horizontal_and_vertical"])
def test_each_image_is_mirrored_or_not(mode, data_format):
    x, (down, across) = images(data_format)
    layer = RandomFlip(mode, seed=1, data_format=data_format, dtype="float64")
    ways = {"horizontal": [(across,)], "vertical": [(down,)]}
    allowed = [(), *ways.get(mode, [(down,), (across,), (down, across)])]

    seen = set()
    for _ in range(12):
        y = layer(tf.constant(x)).numpy()
        for k in range(len(x)):
            seen.add(next(a for a in allowed if np.array_equal(y[k], np.flip(x, a)[k])))

    assert seen == set(allowed)


def test_about_half_of_the_images_are_mirrored():
    x = np.arange(2.0).reshape(1, 1, 2, 1).repeat(10_000, 0)

    y = RandomFlip("horizontal", seed=1)(tf.constant(x)).numpy()

    assert y[:, 0, 0, 0].mean() == pytest.approx(0.5, abs=0.025)


def test_outside_training_images_are_not_mirrored():
    y = RandomFlip(dtype="float64")(tf.constant(X), training=False)

    np.testing.assert_array_equal(y.numpy(), X)


@pytest.mark.parametrize("data_format", [None, "channels_first"])
def test_a_batch_is_cut_at_one_random_place(data_format):
    x, axes = images(data_format)
    layer = RandomCrop(4, 5, seed=1, data_format=data_format, dtype="float64")

    seen = set()
    for _ in range(30):
        y = layer(tf.constant(x)).numpy()
        for i, j in np.ndindex(2, 2):
            part = x.take(range(i, i + 4), axes[0]).take(range(j, j + 5), axes[1])
            if np.array_equal(y, part):
                seen.add((i, j))

    assert seen == {(0, 0), (0, 1), (1, 0), (1, 1)}


@pytest.mark.parametrize("data_format", [None, "channels_first"])
@pytest.mark.parametrize(("height", "width"), [(2, 3), (5, 6), (3, 2), (1, 1)])
def test_the_middle_is_cut_out(height, width, data_format):
    x, (down, across) = images(data_format)
    top, left = (5 - height) // 2, (6 - width) // 2

    y = CenterCrop(height, width, data_format, dtype="float64")(tf.constant(x))

    part = x.take(range(top, top + height), down).take(range(left, left + width), across)
    np.testing.assert_array_equal(y.numpy(), part)


def stretched(image, height, width):
    """Interpolate linearly between the centres of pixels, with SciPy."""
    rows = (np.arange(height) + 0.5) * image.shape[0] / height - 0.5
    columns = (np.arange(width) + 0.5) * image.shape[1] / width - 0.5
    places = np.meshgrid(rows, columns, indexing="ij")
    channels = np.moveaxis(image, -1, 0)
    found = [ndimage.map_coordinates(c, places, order=1, mode="nearest") for c in channels]
    return np.stack(found, axis=-1)


# Wanted sizes, and the middle part of 5 by 6 pixels that has their proportions.
SMALL = {(10, 10): (slice(0, 5), slice(0, 5)), (7, 3): (slice(0, 5), slice(2, 4))}


@pytest.mark.parametrize("layer", [CenterCrop, RandomCrop])
@pytest.mark.parametrize("size", SMALL)
def test_images_that_are_too_small_are_cut_to_proportion_and_stretched(size, layer):
    y = layer(*size, dtype="float64")(tf.constant(X))

    part = X[:, *SMALL[size]]
    expected = [stretched(image, *size) for image in part]
    np.testing.assert_allclose(y.numpy(), expected, rtol=1e-12, atol=1e-14)


def test_outside_training_a_random_crop_shrinks_the_middle():
    y = RandomCrop(2, 3, dtype="float64")(tf.constant(X[:, :4]), training=False)

    # Each new pixel stands in the middle of four old ones.
    expected = X[:, :4].reshape(4, 2, 2, 3, 2, 3).mean((2, 4))
    np.testing.assert_allclose(y.numpy(), expected, rtol=1e-12)


@pytest.mark.parametrize("kind", ["RandomFlip", "RandomCrop", "CenterCrop"])
def test_a_single_image_needs_no_batch(kind):
    one, other = LAYERS[kind](dtype="float64"), LAYERS[kind](dtype="float64")

    single, batch = one(tf.constant(X[0])), other(tf.constant(X[:1]))

    np.testing.assert_array_equal(single.numpy(), batch[0].numpy())
    assert one.compute_output_shape(X.shape[1:]) == single.shape


# Normalization


@pytest.mark.parametrize("axis", [-1, 1, (1, 3), None])
def test_learned_moments_bring_data_to_mean_zero_and_variance_one(axis):
    kept = () if axis is None else tuple(a % 4 for a in np.atleast_1d(axis))
    others = tuple(k for k in range(4) if k not in kept)
    layer = Normalization(axis=axis, dtype="float64")

    layer.adapt(X)
    y = layer(tf.constant(X))

    mean, variance = X.mean(others, keepdims=True), X.var(others, keepdims=True)
    np.testing.assert_allclose(y.numpy(), (X - mean) / np.sqrt(variance), rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(layer.mean.numpy(), mean, rtol=1e-12)
    np.testing.assert_allclose(layer.variance.numpy(), variance, rtol=1e-12)


@pytest.mark.parametrize(
    "batches",
    [
        lambda: [X[:1], X[1:]],
        lambda: iter([X[:3], X[3:]]),
        lambda: [(X[:2], "label"), (X[2:], "label")],
        lambda: tf.constant(X),
    ],
)
def test_moments_are_learned_from_batches_as_from_all_at_once(batches):
    layer = Normalization(dtype="float64")

    layer.adapt(batches())

    mean, variance, count = layer.get_weights()
    np.testing.assert_allclose(mean, X.mean((0, 1, 2)), rtol=1e-12)
    np.testing.assert_allclose(variance, X.var((0, 1, 2)), rtol=1e-12)
    assert count == X.size // 3


def test_learning_again_forgets_what_was_learned_before():
    layer = Normalization(dtype="float64")

    layer.adapt(X + 100)
    layer.adapt(X)

    np.testing.assert_allclose(layer.adapt_mean.numpy(), X.mean((0, 1, 2)), rtol=1e-12)


@pytest.mark.parametrize(
    "data",
    [
        lambda x: x,
        lambda x: tf.constant(x),
        lambda x: tf.data.Dataset.from_tensor_slices(x).batch(4),
        lambda x: tf.data.Dataset.from_tensor_slices(x),
    ],
)
@pytest.mark.parametrize("shape", [None, (), (1,)])
def test_a_batch_of_numbers_has_one_mean(data, shape, tmp_path):
    x = X.ravel()[:10]
    layer = Normalization(dtype="float64")
    if shape is not None:
        layer(tf.keras.Input(shape))

    layer.adapt(data(x))

    rows = x[3:] if shape != (1,) else x[3:, None]
    np.testing.assert_allclose(layer(rows).numpy(), (rows - x.mean()) / x.std(), rtol=1e-9)
    model = tf.keras.Sequential([layer])
    model(rows)
    model.save(tmp_path / "model.keras")
    same = tf.keras.models.load_model(tmp_path / "model.keras")
    np.testing.assert_array_equal(same(rows).numpy(), layer(rows).numpy())


def test_the_elements_of_a_dataset_with_a_fixed_length_are_rows():
    rows = X.reshape(-1, 3)
    layer = Normalization(dtype="float64")

    layer.adapt(tf.data.Dataset.from_tensor_slices(rows))

    np.testing.assert_allclose(layer.mean.numpy().ravel(), rows.mean(0), rtol=1e-9)
    np.testing.assert_allclose(layer.variance.numpy().ravel(), rows.var(0), rtol=1e-9)


def test_the_inverse_undoes_normalization():
    there, back = Normalization(dtype="float64"), Normalization(invert=True, dtype="float64")
    there.adapt(X)
    back.adapt(X)

    np.testing.assert_allclose(back(there(tf.constant(X))).numpy(), X, rtol=1e-12)


@pytest.mark.parametrize(("mean", "variance"), [(3.0, 4.0), ([1.0, 2.0, 3.0], [4.0, 9.0, 0.0])])
def test_given_moments_are_used(mean, variance):
    y = Normalization(mean=mean, variance=variance, dtype="float64")(tf.constant(X))

    expected = (X - mean) / np.maximum(np.sqrt(variance), 1e-7)
    np.testing.assert_allclose(y.numpy(), expected, rtol=1e-12)


def test_large_means_are_subtracted_before_the_result_becomes_half_precision():
    layer = Normalization(mean=[60_000.0], variance=[1.0], dtype="mixed_float16")

    y = layer(tf.constant(np.array([[60_003]], "int32")))

    assert (y.numpy().item(), y.dtype.name) == (3.0, "float16")


# CategoryEncoding

NUMBERS = np.array([[0, 2, 2], [3, 1, 0]])


def test_one_hot_makes_a_row_of_each_number():
    y = CategoryEncoding(4, "one_hot")(tf.constant(NUMBERS))

    np.testing.assert_array_equal(y.numpy(), np.eye(4)[NUMBERS])


@pytest.mark.parametrize("shape", [(6,), (6, 1), (2, 3, 1)])
def test_one_hot_takes_a_last_axis_of_one_away(shape):
    numbers = NUMBERS.reshape(shape)
    layer = CategoryEncoding(4, "one_hot")

    y = layer(tf.constant(numbers))

    rows = np.eye(4)[numbers if len(shape) == 1 else numbers[..., 0]]
    np.testing.assert_array_equal(y.numpy(), rows)
    assert layer.compute_output_shape(shape) == rows.shape


@pytest.mark.parametrize("shape", [(2, 3), (6,), (1, 2, 3)])
def test_multi_hot_and_count_gather_the_last_axis(shape):
    numbers = NUMBERS.reshape(shape)
    counts = np.eye(4)[numbers].sum(-2)

    many, count = CategoryEncoding(4)(numbers), CategoryEncoding(4, "count")(numbers)

    np.testing.assert_array_equal(many.numpy(), counts > 0)
    np.testing.assert_array_equal(count.numpy(), counts)
    assert CategoryEncoding(4).compute_output_shape(shape) == counts.shape


def test_counts_can_be_weighted():
    weights = np.random.default_rng(1).random((2, 3))

    y = CategoryEncoding(4, "count", dtype="float64")(NUMBERS, count_weights=weights)

    np.testing.assert_allclose(y.numpy(), (np.eye(4)[NUMBERS] * weights[..., None]).sum(1))


@pytest.mark.parametrize("mode", ["one_hot", "multi_hot", "count"])
def test_encodings_work_in_models_functions_and_from_configurations(mode):
    layer = CategoryEncoding(4, mode)
    x = Input((None,), dtype="int32")

    model = Model(x, layer(x))
    twin = CategoryEncoding.from_config(layer.get_config())
    y = tf.function(twin)(tf.constant(NUMBERS))

    assert model.output_shape[-1] == 4
    np.testing.assert_array_equal(y.numpy(), model(tf.constant(NUMBERS)).numpy())


# Errors


def adapted(data, **options):
    Normalization(name="n", **options).adapt(data)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: RandomFlip("sideways"), "mode must be 'horizontal', 'vertical' or .* 'sideways'"),
        (lambda: RandomFlip(name="f")(tf.zeros([2, 3])), r"'f' .* 3 dimensions.* \(2, 3\)"),
        (lambda: CenterCrop(0, 2), "CenterCrop takes a height .* Got 0"),
        (lambda: RandomCrop(2, 2, data_format="NCHW"), "data_format"),
        (lambda: Normalization(mean=1.0), "a mean and a variance of the same shape"),
        (lambda: Normalization(mean=[1.0, 2.0], variance=[1.0]), "of the same shape"),
        (lambda: LAYERS["Normalization"]()(tf.zeros([2, 4])), "does not broadcast"),
        (lambda: Normalization(axis=3)(tf.zeros([2, 4])), "got axis 3"),
        (lambda: adapted(X, mean=1.0, variance=1.0), "was created with mean"),
        (lambda: adapted([]), "at least one batch of data. Got none"),
        (lambda: adapted([X, X[..., :2]]), r"'n' .* sizes \(3,\) along axis .* Got shape"),
        (lambda: CategoryEncoding(), "num_tokens .* Got None"),
        (lambda: CategoryEncoding(3, "binary_hot"), "output_mode must be"),
        (lambda: CategoryEncoding(3, sparse=True), "Use sparse=False"),
        (
            lambda: CategoryEncoding(3)(NUMBERS, count_weights=NUMBERS),
            "needs output_mode='count'",
        ),
    ],
)
def test_what_does_not_fit_is_explained(make, message):
    with pytest.raises(ValueError, match=message):
        make()
