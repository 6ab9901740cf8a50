"""tf.image: resizing, crops, patches and flips against loops, closed forms and SciPy."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import ndimage

import tapegrad as tf

X = np.random.default_rng(0).uniform(0.0, 255.0, size=(2, 6, 7, 3)).astype("float32")
METHODS = [value for name, value in vars(tf.image.ResizeMethod).items() if name.isupper()]


@pytest.mark.parametrize("antialias", [False, True])
@pytest.mark.parametrize("method", METHODS)
def test_uniform_images_stay_uniform(method, antialias):
    x = np.full((5, 9, 2), 3.25, "float32")

    y = tf.image.resize(x, (8, 4), method, antialias=antialias)

    np.testing.assert_allclose(y.numpy(), np.full((8, 4, 2), 3.25), rtol=1e-6)


@pytest.mark.parametrize("method", ["bilinear", "bicubic", "area", "nearest"])
def test_dtypes_are_those_of_tensorflow(method):
    x = X.astype("uint8")
    kept = method == "nearest"

    assert tf.image.resize(x, (3, 3), method).dtype == (tf.uint8 if kept else tf.float32)
    assert tf.image.resize(X.astype("float16"), (3, 3), method).dtype == (
        tf.float16 if kept else tf.float32
    )
    assert tf.image.resize(x, (6, 7), method).dtype == tf.uint8  # nothing to do


def test_bicubic_reproduces_quadratics_inside():
    x = (np.arange(12.0) ** 2).reshape(1, 12, 1)
    centres = (np.arange(30) + 0.5) * 12 / 30 - 0.5

    y = tf.image.resize(x, (1, 30), "bicubic").numpy().ravel()

    inside = (centres > 1) & (centres < 10)
    assert y.dtype == np.float64
    np.testing.assert_allclose(y[inside], centres[inside] ** 2, rtol=1e-12)


def test_bilinear_agrees_with_interpolation_at_pixel_centres():
    y = tf.image.resize(X[0], (11, 5)).numpy()

    rows = np.clip((np.arange(11) + 0.5) * 6 / 11 - 0.5, 0, 5)
    columns = np.clip((np.arange(5) + 0.5) * 7 / 5 - 0.5, 0, 6)
    places = np.meshgrid(rows, columns, indexing="ij")
    for k in range(3):
        want = ndimage.map_coordinates(X[0, ..., k].astype("float64"), places, order=1)
        np.testing.assert_allclose(y[..., k], want, rtol=1e-5)


def test_area_of_a_whole_factor_is_the_mean_of_blocks():
    x = X[:, :, :6]

    y = tf.image.resize(x, (2, 3), "area").numpy()

    np.testing.assert_allclose(y, x.reshape(2, 2, 3, 3, 2, 3).mean((2, 4)), rtol=1e-6)


@pytest.mark.parametrize("antialias", [False, True])
@pytest.mark.parametrize("method", ["bilinear", "bicubic", "lanczos3", "area"])
def test_long_axes_are_resampled_as_short_ones(method, antialias, monkeypatch):
    """Axes above a length are gathered; products with a matrix give the same."""
    x = np.random.default_rng(1).normal(size=(2, 700, 3))
    gathered = tf.image.resize(x, (2, 650), method, antialias=antialias)

    monkeypatch.setattr("tapegrad.ops.image.interpolation._GATHERED", 10**9)
    product = tf.image.resize(x, (2, 650), method, antialias=antialias)

    np.testing.assert_allclose(gathered.numpy(), product.numpy(), rtol=1e-12, atol=1e-12)


def test_the_aspect_ratio_is_preserved():
    x = np.zeros((30, 40, 1), "float32")

    assert tf.image.resize(x, (15, 15), preserve_aspect_ratio=True).shape == (11, 15, 1)
    assert tf.image.resize(x, (60, 1000), preserve_aspect_ratio=True).shape == (60, 80, 1)


def test_resize_with_pad_centres_the_image():
    y = tf.image.resize_with_pad(np.ones((2, 10, 10, 1), "float32"), 20, 40).numpy()

    assert y.shape == (2, 20, 40, 1)
    assert y[:, :, 10:30].min() == 1
    assert y[:, :, :10].max() == y[:, :, 30:].max() == 0


def test_the_size_may_be_a_tensor():
    assert tf.image.resize(X, tf.constant([2, 3])).shape == (2, 2, 3, 3)


def test_a_recorded_function_and_vmap_give_the_same():
    def shrink(x):
        return tf.image.resize(x, (3, 4), "bicubic", antialias=True)

    want = shrink(tf.constant(X)).numpy()

    np.testing.assert_allclose(tf.function(shrink)(tf.constant(X)).numpy(), want, rtol=1e-5)
    np.testing.assert_allclose(tf.vmap(shrink)(tf.constant(X)).numpy(), want, rtol=1e-5)


def test_the_gradient_of_bilinear_resizing_spreads_over_neighbours():
    x = tf.Variable([[[0.0], [0.0]]])
    with tf.GradientTape() as tape:
        y = tf.image.resize(x, (1, 4))

    assert tape.gradient(y, x, [[[0.0], [1.0], [0.0], [2.0]]]).numpy().ravel().tolist() == [
        0.75,
        2.25,
    ]


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: tf.image.resize(X, (2,)), "two numbers"),
        (lambda: tf.image.resize(X, (0, 3)), "two numbers >= 1"),
        (lambda: tf.image.resize(X[0, 0], (2, 2)), "takes an image of shape"),
        (lambda: tf.image.resize(X, (2, 2), "cubic"), "method must be one of"),
        (lambda: tf.image.resize(X[:, :0], (2, 2)), "with pixels"),
        (lambda: tf.image.crop_to_bounding_box(X, 5, 0, 2, 2), "cannot take 2 pixels"),
        (lambda: tf.image.crop_to_bounding_box(X, -1, 0, 2, 2), "at least 0"),
        (lambda: tf.image.pad_to_bounding_box(X, 3, 0, 8, 8), "target_height of at least 9"),
        (lambda: tf.image.central_crop(X, 1.5), "not above 1"),
        (lambda: tf.image.extract_patches(X, (1, 2, 2), 1, 1, "SAME"), "form \\(1, rows"),
        (lambda: tf.image.random_crop(X, (2, 7, 7, 3)), "cannot take 7 entries along axis 1"),
        (lambda: tf.image.random_crop(X, (2, 2)), "one number for each of the 4 axes"),
        (lambda: tf.image.crop_and_resize(X, [[0.0, 0.0, 1.0, 1.0]], [0, 1], (2, 2)), "boxes of"),
        (lambda: tf.image.flip_up_down([1.0]), "takes an image of shape"),
    ],
)
def test_wrong_arguments_are_refused_in_sentences(call, words):
    with pytest.raises(ValueError, match=words):
        call()


def test_crops_and_pads_are_slices():
    np.testing.assert_array_equal(
        tf.image.crop_to_bounding_box(X, 1, 2, 3, 4).numpy(), X[:, 1:4, 2:6]
    )
    np.testing.assert_array_equal(
        tf.image.pad_to_bounding_box(X[0], 1, 2, 9, 9).numpy(),
        np.pad(X[0], ((1, 2), (2, 0), (0, 0))),
    )
    np.testing.assert_array_equal(
        tf.image.resize_with_crop_or_pad(X, 3, 10).numpy(),
        np.pad(X[:, 1:4], ((0, 0), (0, 0), (1, 2), (0, 0))),
    )
    np.testing.assert_array_equal(tf.image.central_crop(X, 0.5).numpy(), X[:, 1:5, 1:6])
    assert tf.image.central_crop(X, 1.0).shape == X.shape


def test_offsets_may_be_tensors_in_a_recorded_function():
    @tf.function
    def crop(x, top):
        return tf.image.crop_to_bounding_box(x, top, 0, 2, 3)

    for top in (0, 2, 4):
        found = crop(tf.constant(X), tf.constant(top))
        np.testing.assert_array_equal(found.numpy(), X[:, top : top + 2, :3])


def test_flips_rotations_and_transposes_are_those_of_numpy():
    np.testing.assert_array_equal(tf.image.flip_left_right(X).numpy(), X[:, :, ::-1])
    np.testing.assert_array_equal(tf.image.flip_up_down(X).numpy(), X[:, ::-1])
    np.testing.assert_array_equal(tf.image.transpose(X).numpy(), X.transpose(0, 2, 1, 3))
    for k in range(-1, 5):
        np.testing.assert_array_equal(tf.image.rot90(X, k).numpy(), np.rot90(X, k, axes=(1, 2)))
    np.testing.assert_array_equal(tf.image.rot90(X[0]).numpy(), np.rot90(X[0]))


def test_patches_of_a_vision_transformer_are_blocks():
    x = X[:, :6, :6]

    y = tf.image.extract_patches(x, (1, 3, 3, 1), (1, 3, 3, 1), (1, 1, 1, 1), "VALID").numpy()

    assert y.shape == (2, 2, 2, 27)
    np.testing.assert_array_equal(y[1, 0, 1], x[1, :3, 3:].ravel())


def test_crop_and_resize_of_whole_images_has_their_corners():
    whole, flipped = [0.0, 0.0, 1.0, 1.0], [1.0, 0.0, 0.0, 1.0]

    y = tf.image.crop_and_resize(X, [whole, flipped], [1, 0], (6, 7)).numpy()

    np.testing.assert_allclose(y[0], X[1], rtol=1e-5)
    np.testing.assert_allclose(y[1], X[0, ::-1], rtol=1e-5)


def test_a_box_of_no_image_is_refused():
    with pytest.raises(IndexError, match="2"):
        tf.image.crop_and_resize(X, [[0.0, 0.0, 1.0, 1.0]], [2], (6, 7))
