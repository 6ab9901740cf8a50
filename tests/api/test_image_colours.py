"""tf.image: colours, adjustments, random changes and dtypes of pixels."""

from __future__ import annotations

import colorsys

import numpy as np
import pytest

import tapegrad as tf

X = np.random.default_rng(0).uniform(size=(2, 4, 5, 3)).astype("float32")
BYTES = (X * 255).astype("uint8")
RANDOM = {
    "flip_left_right": (),
    "flip_up_down": (),
    "brightness": (0.3,),
    "contrast": (0.2, 1.8),
    "hue": (0.4,),
    "saturation": (0.2, 1.8),
    "crop": ((2, 3, 2, 3),),
}


def by_colour(function, x):
    return np.apply_along_axis(lambda c: np.array(function(*c)), -1, x)


def test_hsv_agrees_with_colorsys_and_goes_both_ways():
    hsv = tf.image.rgb_to_hsv(X)

    np.testing.assert_allclose(hsv.numpy(), by_colour(colorsys.rgb_to_hsv, X), atol=1e-6)
    np.testing.assert_allclose(tf.image.hsv_to_rgb(hsv).numpy(), X, atol=1e-6)


def test_grey_and_black_have_neither_hue_nor_nan_gradients():
    x = tf.Variable([[0.5, 0.5, 0.5], [0.0, 0.0, 0.0]])
    with tf.GradientTape() as tape:
        y = tf.image.rgb_to_hsv(x)

    assert y.numpy().tolist() == [[0.0, 0.0, 0.5], [0.0, 0.0, 0.0]]
    assert np.isfinite(tape.gradient(y, x).numpy()).all()


# One number of TensorFlow's matrix to YIQ has four digits only.
@pytest.mark.parametrize(("space", "error"), [("yiq", 1e-4), ("yuv", 2e-6)])
def test_colour_spaces_go_both_ways(space, error):
    there = getattr(tf.image, f"rgb_to_{space}")(X)
    back = getattr(tf.image, f"{space}_to_rgb")(there)

    grey = there.numpy()[..., 0]
    np.testing.assert_allclose(grey, X @ np.array([0.299, 0.587, 0.114]), rtol=1e-5)
    np.testing.assert_allclose(back.numpy(), X, atol=error)


def test_bytes_stay_bytes():
    grey = tf.image.rgb_to_grayscale(BYTES)

    assert grey.dtype == tf.uint8
    want = BYTES.astype("float64") @ [0.2989, 0.587, 0.114]
    assert np.abs(grey.numpy()[..., 0] - want).max() <= 1
    assert tf.image.adjust_brightness(BYTES, 0.5).numpy().max() == 255
    assert tf.image.adjust_hue(BYTES, 0.0).dtype == tf.uint8
    np.testing.assert_array_equal(tf.image.adjust_contrast(BYTES, 1.0).numpy(), BYTES)


@pytest.mark.parametrize(
    ("old", "new", "values", "want"),
    [
        ("uint8", "float32", [0, 51, 255], [0.0, 0.2, 1.0]),
        ("float32", "uint8", [0.0, 0.2, 1.0], [0, 51, 255]),
        ("float32", "uint16", [0.0, 1.0], [0, 65535]),
        ("uint8", "uint16", [0, 1, 255], [0, 256, 65280]),
        ("uint16", "uint8", [0, 255, 256, 65535], [0, 0, 1, 255]),
        ("uint8", "int8", [0, 2, 255], [0, 1, 127]),
        ("float32", "float64", [0.5], [0.5]),
        ("uint8", "uint8", [7], [7]),
    ],
)
def test_dtypes_are_converted_with_their_range(old, new, values, want):
    y = tf.image.convert_image_dtype(np.array(values, old), new)

    assert y.dtype.name == new
    np.testing.assert_allclose(y.numpy(), want, rtol=1e-6)


def test_saturation_of_a_conversion_clips():
    y = tf.image.convert_image_dtype([-1.0, 2.0], "uint8", saturate=True)

    assert y.numpy().tolist() == [0, 255]


def test_adjustments_follow_their_definitions():
    def turned(r, g, b):
        h, s, v = colorsys.rgb_to_hsv(r, g, b)
        return colorsys.hsv_to_rgb((h - 0.25) % 1.0, s, v)

    means = X.mean((1, 2), keepdims=True)
    found = tf.image.adjust_contrast(X, 0.5).numpy()
    np.testing.assert_allclose(found, (X - means) * 0.5 + means, rtol=1e-5)
    found = tf.image.adjust_hue(X, -0.25).numpy()
    np.testing.assert_allclose(found, by_colour(turned, X), atol=1e-5)
    np.testing.assert_allclose(tf.image.adjust_gamma(X, 2, 3).numpy(), 3 * X**2, rtol=1e-5)
    grey = tf.image.adjust_saturation(X, 0.0).numpy()
    np.testing.assert_allclose(grey, np.repeat(X.max(-1, keepdims=True), 3, -1), rtol=1e-6)


def test_standardized_images_have_mean_zero_and_variance_one():
    y = tf.image.per_image_standardization(BYTES)

    assert y.dtype == tf.float32
    np.testing.assert_allclose(y.numpy().mean((1, 2, 3)), 0.0, atol=1e-5)
    np.testing.assert_allclose(y.numpy().std((1, 2, 3)), 1.0, rtol=1e-5)
    assert tf.image.per_image_standardization(np.ones((3, 3, 1))).numpy().tolist() == (
        np.zeros((3, 3, 1)).tolist()
    )


@pytest.mark.parametrize("name", RANDOM)
def test_a_seed_determines_random_changes(name):
    change = getattr(tf.image, f"random_{name}")
    stateless = getattr(tf.image, f"stateless_random_{name}")
    draws = []
    for _ in range(2):
        tf.random.set_seed(3)
        draws.append([change(X, *RANDOM[name], seed=5).numpy() for _ in range(6)])

    np.testing.assert_array_equal(draws[0], draws[1])
    assert any((draw != draws[0][0]).any() for draw in draws[0])
    pairs = [stateless(X, *RANDOM[name], seed=(k, 7)).numpy() for k in range(6)]
    again = [stateless(X, *RANDOM[name], seed=(k, 7)).numpy() for k in range(6)]
    np.testing.assert_array_equal(pairs, again)
    assert any((draw != pairs[0]).any() for draw in pairs)


def test_each_image_of_a_batch_is_flipped_on_its_own():
    x = np.broadcast_to(np.arange(2.0).reshape(1, 1, 2, 1), (400, 1, 2, 1))

    first = tf.image.random_flip_left_right(x, seed=1).numpy()[:, 0, 0, 0]

    assert set(first) == {0.0, 1.0}
    assert 140 < first.sum() < 260


def test_random_numbers_stay_in_their_range():
    x = np.full((1, 1, 1), 0.5, "float32")

    found = [float(tf.image.random_brightness(x, 0.25)[0, 0, 0]) - 0.5 for _ in range(60)]

    assert -0.25 <= min(found) < -0.1
    assert 0.1 < max(found) <= 0.25


def test_random_crops_are_parts_of_the_image():
    x = np.arange(30.0).reshape(5, 6, 1)
    parts = np.lib.stride_tricks.sliding_window_view(x, (2, 3, 1)).reshape(-1, 6).tolist()

    found = [tf.image.random_crop(x, (2, 3, 1)).numpy().ravel().tolist() for _ in range(80)]

    assert all(part in parts for part in found)
    assert len({tuple(part) for part in found}) > 10


def test_random_changes_are_drawn_again_in_each_call_of_a_recorded_function():
    @tf.function
    def change(x):
        return tf.image.random_crop(tf.image.random_brightness(x, 0.2), (2, 2, 2, 3))

    draws = [change(tf.constant(X)).numpy() for _ in range(5)]

    assert all(draw.shape == (2, 2, 2, 3) for draw in draws)
    assert any((draw != draws[0]).any() for draw in draws[1:])


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: tf.image.adjust_hue(X, 2.0), "delta from -1 to 1"),
        (lambda: tf.image.adjust_gamma(X, -1.0), "gamma of at least 0"),
        (lambda: tf.image.random_hue(X, 0.7), "max_delta from 0 to 0.5"),
        (lambda: tf.image.random_brightness(X, -0.7), "max_delta of at least 0"),
        (lambda: tf.image.random_contrast(X, 0.5, 0.5), "0 <= lower < upper"),
        (lambda: tf.image.rgb_to_hsv(BYTES), "floating-point"),
        (lambda: tf.image.rgb_to_hsv(X[..., :2]), "3 channels"),
        (lambda: tf.image.grayscale_to_rgb(X), "1 channel along"),
        (lambda: tf.image.convert_image_dtype(X, "complex64"), "integer and floating-point"),
        (lambda: tf.image.rot90(X.astype("complex64")), "real numbers"),
    ],
)
def test_wrong_arguments_are_refused_in_sentences(call, words):
    with pytest.raises(ValueError, match=words):
        call()


@pytest.mark.parametrize("name", ["extract_glimpse", "generate_bounding_box_proposals"])
def test_names_that_are_not_offered_say_what_to_do(name):
    with pytest.raises(AttributeError, match=f"does not offer '{name}'. Use crop_and_resize"):
        getattr(tf.image, name)
    with pytest.raises(AttributeError, match="no attribute 'bogus'"):
        tf.image.bogus  # noqa: B018
