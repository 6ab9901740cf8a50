"""Layers that augment images against colorsys, SciPy and NumPy; dicts with labels and masks."""

from __future__ import annotations

import colorsys

import numpy as np
import pytest
from scipy import ndimage

import tapegrad as tf
from tapegrad.errors import ArgumentError
from tapegrad.keras import layers

pytestmark = pytest.mark.filterwarnings("ignore:You are comparing a array_api_strict dtype")

X = np.random.default_rng(0).integers(0, 256, (3, 5, 6, 3)).astype("float64")
LAYERS = {
    "RandomHue": lambda **o: layers.RandomHue(0.7, seed=3, **o),
    "RandomSaturation": lambda **o: layers.RandomSaturation((0.2, 0.6), seed=3, **o),
    "RandomColorDegeneration": lambda **o: layers.RandomColorDegeneration(0.8, seed=3, **o),
    "RandomGrayscale": lambda **o: layers.RandomGrayscale(0.5, seed=3, **o),
    "RandomInvert": lambda **o: layers.RandomInvert(1.0, seed=3, **o),
    "RandomPosterization": lambda **o: layers.RandomPosterization((1, 5), seed=3, **o),
    "Solarization": lambda **o: layers.Solarization(0.2, 0.7, seed=3, **o),
    "AutoContrast": lambda **o: layers.AutoContrast(**o),
    "Equalization": lambda **o: layers.Equalization(**o),
    "RandomColorJitter": lambda **o: layers.RandomColorJitter(
        (0, 255), 0.2, 0.3, (0.4, 0.6), 0.1, seed=3, **o
    ),
    "RandomSharpness": lambda **o: layers.RandomSharpness(1.0, seed=3, **o),
    "RandomGaussianBlur": lambda **o: layers.RandomGaussianBlur(1.0, (3, 5), seed=3, **o),
    "RandomErasing": lambda **o: layers.RandomErasing(seed=3, **o),
    "RandomShear": lambda **o: layers.RandomShear(0.3, 0.2, seed=3, **o),
    "RandomPerspective": lambda **o: layers.RandomPerspective(scale=0.3, seed=3, **o),
    "MixUp": lambda **o: layers.MixUp(seed=3, **o),
    "CutMix": lambda **o: layers.CutMix(seed=3, **o),
    "RandAugment": lambda **o: layers.RandAugment(seed=3, **o),
    "AugMix": lambda **o: layers.AugMix(num_chains=2, chain_depth=1, seed=3, **o),
}


def called(layer, x=X, **options):
    """The images of a layer as a NumPy array, in training unless said otherwise."""
    return layer(tf.constant(x), **{"training": True, **options}).numpy()


def by_hsv(change):
    """Change hue, saturation and value of the pixels of X by a function of colorsys' numbers."""
    colours = [colorsys.rgb_to_hsv(*pixel) for pixel in X.reshape(-1, 3) / 255]
    return np.array([colorsys.hsv_to_rgb(*change(*c)) for c in colours]).reshape(X.shape) * 255


GREY = (X @ [0.2989, 0.5870, 0.1140])[..., None]


# What all of them share


@pytest.mark.parametrize("kind", LAYERS)
def test_outside_training_and_in_other_layouts(kind):
    layer = LAYERS[kind](dtype="float64")
    if kind != "AutoContrast":
        np.testing.assert_array_equal(called(layer, training=False), X)
    y = called(LAYERS[kind](dtype="float64"))
    assert y.shape == X.shape
    assert np.isfinite(y).all()
    assert kind in ("MixUp", "CutMix") or np.abs(y - X).max() > 1.0
    first = LAYERS[kind](dtype="float64", data_format="channels_first")
    other = np.moveaxis(called(first, np.moveaxis(X, -1, 1)), 1, -1)
    if kind != "RandomErasing":  # its noise is drawn in the layout of the images
        np.testing.assert_allclose(other, y, atol=1e-9)


@pytest.mark.parametrize(
    "kind",
    ["RandomHue", "Equalization", "RandomErasing", "RandomPerspective", "RandomGaussianBlur"],
)
def test_a_function_gives_what_eager_calls_give(kind):
    one, other = LAYERS[kind](dtype="float64"), LAYERS[kind](dtype="float64")
    call = tf.function(lambda x: other(x, training=True))
    for _ in range(2):
        np.testing.assert_allclose(call(tf.constant(X)).numpy(), called(one), atol=1e-4)


@pytest.mark.parametrize("kind", ["RandomHue", "RandomErasing", "RandAugment", "RandomPerspective"])
def test_configurations_single_images_and_half_precision(kind):
    layer = type(LAYERS[kind]()).from_config(LAYERS[kind]().get_config())
    np.testing.assert_array_equal(
        called(layer, X.astype("float32")), called(LAYERS[kind](), X.astype("float32"))
    )
    assert called(layer, X[0].astype("float32")).shape == X[0].shape
    half = LAYERS[kind](dtype="mixed_float16")(tf.constant(X), training=True)
    assert half.dtype == "float16"
    assert np.isfinite(half.numpy()).all()


# Each of them


def test_hue_turns_by_half_a_circle_at_most():
    turned = by_hsv(lambda h, s, v: (h + 0.5, s, v))
    np.testing.assert_allclose(
        called(layers.RandomHue((1.0, 1.0), dtype="float64")), turned, atol=1e-3
    )
    y = called(layers.RandomHue((0.5, 0.5), seed=1, dtype="float64"))
    ways = [by_hsv(lambda h, s, v, d=d: (h + d, s, v)) for d in (0.25, -0.25)]
    for k in range(3):
        assert min(np.abs(y[k] - way[k]).max() for way in ways) < 1e-3


@pytest.mark.parametrize(("factor", "times"), [(0.0, 0.0), (0.3, 3 / 7), (0.5, 1.0), (0.75, 3.0)])
def test_saturation_is_multiplied(factor, times):
    y = called(layers.RandomSaturation((factor, factor), dtype="float64"))
    np.testing.assert_allclose(y, by_hsv(lambda h, s, v: (h, min(1, s * times), v)), atol=1e-3)


def test_grey_inverted_and_degenerate_images():
    np.testing.assert_allclose(
        called(layers.RandomGrayscale(1.0, dtype="float64")), np.broadcast_to(GREY, X.shape)
    )
    y = called(layers.RandomColorDegeneration((0.25, 0.25), dtype="float64"))
    np.testing.assert_allclose(y, 0.75 * X + 0.25 * GREY)
    inverted = called(layers.RandomInvert((1.0, 1.0), (-1, 1), dtype="float64"), X / 127.5 - 1)
    np.testing.assert_allclose(inverted, 1 - X / 127.5, atol=1e-12)


@pytest.mark.parametrize("bits", [1, 3, 8])
def test_posterization_keeps_the_highest_bits(bits):
    shift = 8 - bits
    y = called(layers.RandomPosterization((bits, bits), dtype="float64"))
    np.testing.assert_allclose(y, X.astype("uint8") >> shift << shift, atol=1e-9)


def test_solarization_and_contrast_in_other_ranges():
    y = called(layers.Solarization((0.0, 0.0), (0.4, 0.4), (0, 1), dtype="float64"), X / 255)
    np.testing.assert_allclose(y * 255, np.where(X < 102, X, 255 - X), atol=1e-9)
    flat = X.copy()
    flat[0, ..., 1] = 7.0  # this channel has no contrast to stretch
    low, high = flat.min((1, 2), keepdims=True), flat.max((1, 2), keepdims=True)
    expected = (flat - low) / np.where(high > low, high - low, 1) * 255
    expected[0, ..., 1] = 7.0
    found = called(layers.AutoContrast(dtype="float64"), flat, training=False)
    np.testing.assert_allclose(found, expected, atol=1e-9)


def test_equalization_gives_each_value_its_rank():
    y = called(layers.Equalization(dtype="float64"))
    for channel in range(3):
        values = X[..., channel].ravel()
        ranks = (values[:, None] >= values).sum(1)  # the number of values up to this one
        first = ranks.min()
        expected = np.round((ranks - first) / (values.size - first) * 255)
        np.testing.assert_allclose(y[..., channel].ravel(), expected, atol=1e-9)
    np.testing.assert_array_equal(called(layers.Equalization(), X[:, :, :, :1] * 0 + 9), 9.0)


def test_sharpness_and_blur_are_convolutions():
    window = np.array([[1, 1, 1], [1, 5, 1], [1, 1, 1]])[None, :, :, None] / 13
    smooth = ndimage.correlate(X, window, mode="constant")
    y = called(layers.RandomSharpness((0.75, 0.75), dtype="float64"))
    np.testing.assert_allclose(y, np.clip(X - 0.5 * (smooth - X), 0, 255), atol=1e-4)

    line = [np.exp(-0.5 * ((np.arange(n) - n // 2) / 0.7) ** 2) for n in (3, 5)]
    blurred = X
    for axis, weights in zip((2, 1), line):
        blurred = ndimage.correlate1d(blurred, weights / weights.sum(), axis, mode="constant")
    layer = layers.RandomGaussianBlur((1.0, 1.0), (3, 5), (0.7, 0.7), dtype="float64")
    np.testing.assert_allclose(called(layer), blurred, atol=1e-3)


def test_shear_reads_other_coordinates():
    y = called(layers.RandomShear((0.3, 0.3), (0.2, 0.2), fill_mode="constant", dtype="float64"))
    ways = []
    for sign in (1, -1):
        matrix = np.array([[1, 0.2 * sign], [0.3 * sign, 1]])
        ways.append(ndimage.affine_transform(X[0, ..., 0], matrix, order=1, mode="grid-constant"))
    assert min(np.abs(y[0, ..., 0] - way).max() for way in ways) < 1e-3


def test_erased_boxes_have_the_area_that_was_drawn():
    layer = layers.RandomErasing((1.0, 1.0), (0.25, 0.25), [1, 2, 3], seed=0)
    is_filled = called(layer, np.full((50, 40, 60, 3), 9.0)) == [1, 2, 3]
    areas = is_filled.all(-1).mean((1, 2))
    np.testing.assert_allclose(areas, 0.25, atol=0.03)
    assert len(set(np.argmax(is_filled[..., 0].any(2), 1))) > 10  # at many places


# Dicts


def test_mixed_labels_match_the_mixed_images():
    labels = np.eye(3)
    images = np.broadcast_to(labels[:, None, None], (3, 40, 40, 3)) * 1.0
    for layer in (
        layers.MixUp(1.0, seed=1, dtype="float64"),
        layers.CutMix(seed=2, dtype="float64"),
    ):
        y = layer({"images": tf.constant(images), "labels": tf.constant(labels)}, training=True)
        np.testing.assert_allclose(y["labels"], y["images"].numpy().mean((1, 2)), atol=1e-6)
        assert ((y["labels"].numpy() > 0.01).sum(1) > 1).any()


def test_masks_move_with_their_images():
    masks = np.random.default_rng(1).integers(0, 4, (6, 8, 8, 1))
    for layer in (
        layers.RandomFlip(seed=1),
        layers.RandomRotation(0.4, "constant", "nearest", seed=1),
        layers.Pipeline([layers.RandomTranslation(0.3, 0.2, interpolation="nearest", seed=1)]),
    ):
        parts = {"images": tf.constant(masks, "float32"), "segmentation_masks": tf.constant(masks)}
        y = layer(parts, training=True)
        assert y["segmentation_masks"].dtype == "int64"
        np.testing.assert_array_equal(y["segmentation_masks"], y["images"].numpy())
        assert (y["images"].numpy() != masks).any()


def test_policies_run_in_functions_and_datasets():
    layer = layers.RandAugment(num_ops=1, factor=0.3, seed=4)
    data = tf.data.Dataset.from_tensor_slices(X.astype("float32")).batch(3).map(layer)
    assert next(iter(data)).shape == X.shape
    one, other = (layers.RandAugment(num_ops=1, seed=4) for _ in range(2))
    call = tf.function(lambda x: other(x, training=True))
    x = X.astype("float32")
    np.testing.assert_allclose(call(tf.constant(x)).numpy(), called(one, x), atol=0.01)


def test_unsuitable_arguments_are_refused():
    with pytest.raises(ArgumentError, match="1 to 8 bits"):
        layers.RandomPosterization(9)
    with pytest.raises(ArgumentError, match="odd numbers"):
        layers.RandomGaussianBlur(kernel_size=4)
    with pytest.raises(ArgumentError, match="factor from 0 to 1"):
        layers.RandomHue(-0.5)
    with pytest.raises(ArgumentError, match="bounding_boxes"):
        layers.RandomFlip()(
            {"images": tf.constant(X), "bounding_boxes": tf.constant(X)}, training=True
        )
