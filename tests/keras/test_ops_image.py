"""keras.ops.image: Keras' signatures and data formats on tapegrad's functions of images."""

from __future__ import annotations

import re

import numpy as np
import pytest
from scipy import ndimage

import tapegrad as tf
from tapegrad.core.files.limits import limited
from tapegrad.errors import FileFormatError
from tapegrad.keras import Input, Model, layers
from tapegrad.keras.models import load_model
from tapegrad.keras.ops import image

X = np.random.default_rng(0).uniform(size=(2, 6, 8, 3)).astype("float32")
FIRST = np.moveaxis(X, -1, 1)
CALLS = {
    "resize": lambda x, **o: image.resize(x, (4, 5), **o),
    "resize-cropped": lambda x, **o: image.resize(x, (4, 4), crop_to_aspect_ratio=True, **o),
    "resize-padded": lambda x, **o: image.resize(
        x, (4, 4), "bicubic", True, pad_to_aspect_ratio=True, fill_value=0.5, **o
    ),
    "crop_images": lambda x, **o: image.crop_images(x, 1, 2, target_height=3, target_width=4, **o),
    "pad_images": lambda x, **o: image.pad_images(x, 1, 2, 3, target_width=12, **o),
    "extract_patches": lambda x, **o: image.extract_patches(x, (2, 3), 1, padding="same", **o),
    "rgb_to_grayscale": lambda x, **o: image.rgb_to_grayscale(x, **o),
    "rgb_to_hsv": lambda x, **o: image.rgb_to_hsv(x, **o),
    "hsv_to_rgb": lambda x, **o: image.hsv_to_rgb(x, **o),
    "gaussian_blur": lambda x, **o: image.gaussian_blur(x, (3, 5), (0.8, 1.5), **o),
    "sobel_edges": lambda x, **o: image.sobel_edges(x, **o)[..., 0],
    "affine_transform": lambda x, **o: image.affine_transform(
        x, [0.9, 0.2, 0.5, -0.1, 1.1, 0.3, 0.0, 0.0], fill_mode="reflect", **o
    ),
    "perspective_transform": lambda x, **o: image.perspective_transform(
        x,
        [[0.0, 0.0], [7.0, 0.0], [0.0, 5.0], [7.0, 5.0]],
        [[1.0, 0.5], [6.0, 0.0], [0.0, 5.0], [6.5, 4.0]],
        **o,
    ),
}


@pytest.mark.parametrize("name", CALLS)
def test_layouts_and_single_images_give_the_same(name):
    want = CALLS[name](X).numpy()

    first = CALLS[name](FIRST, data_format="channels_first").numpy()
    single = CALLS[name](X[1]).numpy()

    np.testing.assert_allclose(np.moveaxis(first, 1, -1), want, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(single, want[1], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", CALLS)
def test_functional_models_take_them(name):
    inputs = Input((6, 8, 3))

    model = Model(inputs, CALLS[name](inputs))

    want = CALLS[name](X).numpy()
    assert model.output.shape == (None, *want.shape[1:])
    np.testing.assert_allclose(model(X).numpy(), want, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", CALLS)
def test_models_with_them_are_saved_and_loaded(name, tmp_path):
    inputs = Input((6, 8, 3))
    model = Model(inputs, CALLS[name](inputs))

    model.save(tmp_path / "model.keras")
    loaded = load_model(tmp_path / "model.keras")

    np.testing.assert_array_equal(loaded(X).numpy(), model(X).numpy())


def test_noise_moves_pixels_smoothly_and_the_same_in_all_channels():
    x = np.broadcast_to(np.arange(24.0)[:, None, None], (24, 24, 2))
    calm = image.elastic_transform(x, alpha=0.0, seed=1)
    moved = [image.elastic_transform(x, 4.0, 3.0, seed=k).numpy() for k in (1, 1, 2)]
    first = image.elastic_transform(
        np.moveaxis(x, -1, 0), 4.0, 3.0, seed=1, data_format="channels_first"
    )

    np.testing.assert_allclose(calm, x)
    np.testing.assert_array_equal(moved[0], moved[1])
    np.testing.assert_array_equal(moved[0], np.moveaxis(first.numpy(), 0, -1))
    np.testing.assert_array_equal(moved[0][..., 0], moved[0][..., 1])
    shift = (moved[0] - x)[6:18, 6:18, 0]  # where nothing is reflected
    assert 0.1 < np.abs(shift).mean() < 4
    assert np.abs(np.diff(shift, axis=1)).max() < np.ptp(shift)
    assert not np.allclose(moved[0], moved[2])


@pytest.mark.parametrize("method", ["linear", "cubic", "lanczos3"])
def test_scaling_by_one_and_whole_shifts_move_pixels(method):
    x = X.astype("float64")
    found = image.scale_and_translate(x, (2, 6, 5, 3), [1.0, 1.0], [2.0, -3.0], [1, 2], method)

    np.testing.assert_allclose(found[:, 2:], x[:, :4, 3:], atol=1e-7)
    np.testing.assert_array_equal(found[:, :2], 0.0)


def test_scaling_agrees_with_resize_and_has_gradients_of_scales():
    x = X.astype("float64")
    sizes = (2, 12, 4, 3)
    found = image.scale_and_translate(x, sizes, [2.0, 0.5], [0.0, 0.0], [1, 2], "linear")
    np.testing.assert_allclose(found, image.resize(x, (12, 4), antialias=True), rtol=1e-6)

    def total(scale):
        y = image.scale_and_translate(x, sizes, scale, [0.15, 0.2], [1, 2], "cubic", False)
        return tf.reduce_sum(y * y)

    scale, step = np.array([1.9, 0.52]), np.array([1e-6, -1e-6])
    slope = np.sum(tf.grad(total)(tf.constant(scale)).numpy() * step)
    assert slope == pytest.approx(float(total(scale + step) - total(scale - step)) / 2, rel=1e-5)


@pytest.mark.parametrize("form", ["channels_last", "channels_first"])
def test_patches_of_volumes_are_windows(form):
    x = np.random.default_rng(2).normal(size=(2, 5, 6, 4, 3))
    given = x if form == "channels_last" else np.moveaxis(x, -1, 1)

    found = image.extract_patches_3d(given, (2, 3, 2), (1, 2, 1), data_format=form).numpy()

    windows = np.lib.stride_tricks.sliding_window_view(x, (2, 3, 2), axis=(1, 2, 3))[:, :, ::2]
    expected = windows.transpose(0, 1, 2, 3, 5, 6, 7, 4).reshape(*windows.shape[:4], -1)
    found = found if form == "channels_last" else np.moveaxis(found, 1, -1)
    np.testing.assert_allclose(found, expected)
    np.testing.assert_allclose(image.extract_patches_3d(x[0], 2).shape, (2, 3, 2, 24))


def test_similarity_is_that_of_tf_image():
    x, y = np.random.default_rng(3).uniform(size=(2, 2, 12, 12, 3))

    found = image.ssim(x, y, filter_size=5)
    first = image.ssim(*np.moveaxis([x, y], -1, 2), filter_size=5, data_format="channels_first")

    np.testing.assert_allclose(found, tf.image.ssim(x, y, 1.0, filter_size=5))
    np.testing.assert_allclose(first, found)
    np.testing.assert_allclose(image.ssim(x[0], x[0]), 1.0)


@pytest.mark.parametrize(
    ("call", "least"),
    [
        (lambda x: image.resize(x, (10**6, 10**5)), 3 * 10**11),
        (lambda x: image.pad_images(x, 10**6, 0, 0, target_width=10**5), 3 * 10**11),
        (lambda x: image.extract_patches(x, 10**4, padding="same"), 3 * 10**9),
        (lambda x: image.extract_patches(x, 2, 1, 10**5, "same"), 3 * 10**10),
        (lambda x: image.gaussian_blur(x, (10**9, 1)), 3 * 10**9),
        (lambda x: image.resize(x, (10**8, 1), pad_to_aspect_ratio=True), 3 * 10**9),
    ],
)
def test_a_file_cannot_ask_for_huge_images(call, least):
    """The call is estimated before anything is computed."""
    with limited("This file", [100]), pytest.raises(FileFormatError, match="elements are") as info:
        call(Input((6, 8, 3)))

    found = re.search(r"of shape \[(\d+)\]", str(info.value))
    assert int(found[1]) >= least


@pytest.mark.parametrize("options", [{}, {"crop_to_aspect_ratio": True, "antialias": True}])
def test_resize_agrees_with_the_layer(options):
    x = (X * 255).astype("uint8")

    found = image.resize(x, (3, 5), "bicubic", **options)

    assert found.dtype == tf.uint8
    layer = layers.Resizing(3, 5, "bicubic", **options)
    np.testing.assert_array_equal(found.numpy(), layer(x).numpy())


@pytest.mark.parametrize("mode", ["constant", "nearest", "wrap", "mirror", "reflect"])
@pytest.mark.parametrize("order", [0, 1])
def test_map_coordinates_agrees_with_scipy(order, mode):
    x = X[0, ..., 0].astype("float64")
    places = np.random.default_rng(1).uniform(-9.0, 15.0, size=(2, 40))
    there = {"constant": "grid-constant", "wrap": "grid-wrap"}.get(mode, mode)
    want = ndimage.map_coordinates(x, places, order=order, mode=there, cval=0.25)

    found = image.map_coordinates(x, places, order, mode, 0.25)

    np.testing.assert_allclose(found.numpy(), want, atol=1e-12)


def test_map_coordinates_in_three_dimensions_and_of_integers():
    x = np.random.default_rng(2).integers(0, 99, size=(3, 4, 5))
    places = np.random.default_rng(3).uniform(0.0, 2.0, size=(3, 2, 7))

    found = image.map_coordinates(x, places, 1)

    want = ndimage.map_coordinates(x.astype("float64"), places, order=1)
    assert found.dtype == tf.int64
    np.testing.assert_array_equal(found.numpy(), np.round(want))


def test_affine_transforms_read_at_transformed_places():
    a = np.array([[0.9, 0.2, 0.5, -0.1, 1.1, 0.3, 0.0, 0.0], [1.0, 0, 2.0, 0, 1.0, -1.0, 0, 0]])
    y, x = np.meshgrid(np.arange(6), np.arange(8), indexing="ij")

    found = image.affine_transform(X.astype("float64"), a).numpy()

    for k in (0, 1):
        places = (a[k, 3] * x + a[k, 4] * y + a[k, 5], a[k, 0] * x + a[k, 1] * y + a[k, 2])
        want = ndimage.map_coordinates(
            X[k, ..., 1].astype("f8"), places, order=1, mode="grid-constant"
        )
        np.testing.assert_allclose(found[k, ..., 1], want, atol=1e-12)


def test_a_perspective_moves_the_four_points():
    start = [[1.0, 1.0], [5.0, 0.0], [0.0, 4.0], [6.0, 5.0]]
    end = [[2.0, 0.0], [7.0, 1.0], [1.0, 5.0], [5.0, 4.0]]

    found = image.perspective_transform(X.astype("float64"), start, end).numpy()

    for (x, y), (to_x, to_y) in zip(np.int64(start), np.int64(end), strict=True):
        np.testing.assert_allclose(found[:, to_y, to_x], X[:, y, x], atol=1e-6)


def test_blur_agrees_with_scipy():
    found = image.gaussian_blur(X[0].astype("float64"), (5, 3), (1.2, 0.7)).numpy()

    want = ndimage.gaussian_filter(
        X[0].astype("f8"), (1.2, 0.7), mode="constant", radius=(2, 1), axes=(0, 1)
    )
    np.testing.assert_allclose(found, want, atol=1e-12)


def test_transforms_have_gradients_in_image_and_coordinates():
    def total(x, a):
        return tf.reduce_sum(tf.sin(image.affine_transform(x, a)))

    x, a = X[:1].astype("float64"), np.array([0.9, 0.2, 0.53, -0.1, 1.1, 0.31, 0.01, 0.02])
    theory, numbers = tf.test.compute_gradient(total, [tf.constant(x), tf.constant(a)], delta=1e-6)

    for one, other in zip(theory, numbers, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: image.resize(X, (2, 2), "area"), "interpolation must be one of"),
        (lambda: image.resize(X, (2, 2, 2)), "needs a size"),
        (lambda: image.resize(X, (2, 2), data_format="NHWC"), "data_format must be"),
        (lambda: image.pad_images(X, 1, 1), "exactly two of top_padding"),
        (lambda: image.crop_images(X, 5, 0, 5, 0), "cannot take"),
        (lambda: image.affine_transform(X, [1.0, 2.0]), "transform of 8 numbers"),
        (lambda: image.map_coordinates(X, [[0.0]], 1), "one array of coordinates"),
        (lambda: image.map_coordinates(X, [[0.0]] * 4, 3), "order must be 0 or 1"),
        (lambda: image.gaussian_blur(X, (3, 3), (0.0, 1.0)), "above 0"),
    ],
)
def test_wrong_arguments_are_refused_in_sentences(call, words):
    with pytest.raises(ValueError, match=words):
        call()
