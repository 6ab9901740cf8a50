"""Image layers against SciPy and formulas: values, randomness, shapes, dtypes, errors."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import ndimage

import tapegrad as tf
from tapegrad.keras import Sequential
from tapegrad.keras.layers import (
    Dense,
    Flatten,
    Input,
    RandomBrightness,
    RandomContrast,
    RandomFlip,
    RandomRotation,
    RandomTranslation,
    RandomZoom,
    Resizing,
)
from tapegrad.keras.models import Model, load_model
from tests.keras.layer_checks import check_nothing_is_read_on_the_host

pytestmark = pytest.mark.filterwarnings("ignore:You are comparing a array_api_strict dtype")

X = np.random.default_rng(0).uniform(10.0, 240.0, size=(4, 5, 6, 3))

RANDOM = {
    "RandomRotation": lambda **o: RandomRotation(0.2, seed=2, **o),
    "RandomRotation nearest": lambda **o: RandomRotation(
        (0.1, 0.3), "constant", "nearest", seed=2, fill_value=7.0, **o
    ),
    "RandomZoom": lambda **o: RandomZoom(0.3, 0.4, "wrap", seed=2, **o),
    "RandomZoom alike": lambda **o: RandomZoom((-0.4, 0.3), fill_mode="nearest", seed=2, **o),
    "RandomTranslation": lambda **o: RandomTranslation(
        0.3, (-0.2, 0.5), "constant", seed=2, fill_value=0.5, **o
    ),
    "RandomContrast": lambda **o: RandomContrast(0.4, seed=2, **o),
    "RandomBrightness": lambda **o: RandomBrightness((-0.1, 0.3), seed=2, **o),
}
RESIZING = {
    "Resizing": lambda **o: Resizing(4, 7, **o),
    "Resizing nearest": lambda **o: Resizing(7, 4, "nearest", **o),
    "Resizing bicubic": lambda **o: Resizing(3, 9, "bicubic", antialias=True, **o),
    "Resizing of the middle": lambda **o: Resizing(2, 6, crop_to_aspect_ratio=True, **o),
    "Resizing with a frame": lambda **o: Resizing(
        8, 3, pad_to_aspect_ratio=True, fill_value=9.0, **o
    ),
}
LAYERS = {**RANDOM, **RESIZING}


def called(layer, x, **options):
    """What a layer makes of a NumPy array, in training unless said otherwise."""
    return layer(tf.constant(x), **{"training": True, **options}).numpy()


# What all of them share


@pytest.mark.parametrize("kind", LAYERS)
def test_a_function_gives_what_eager_calls_give(kind):
    one, other = LAYERS[kind](dtype="float64"), LAYERS[kind](dtype="float64")
    call = tf.function(lambda x: other(x, training=True))

    for _ in range(3):
        np.testing.assert_allclose(call(tf.constant(X)).numpy(), called(one, X), rtol=1e-11)


@pytest.mark.parametrize("kind", LAYERS)
def test_gradients_agree_with_differences(kind):
    layer, x = LAYERS[kind](dtype="float64"), X[:2, :4, :4, :2]

    def f(x):
        if layer.seed is not None:
            layer.seed_generator.reset_from_seed(4)
        return layer(x, training=True)

    analytic, numeric = tf.test.compute_gradient(f, [tf.constant(x)], delta=1e-3)

    assert np.any(numeric[0])
    assert tf.test.max_error(analytic, numeric) < 1e-8


@pytest.mark.parametrize("kind", LAYERS)
def test_work_on_a_device_reads_nothing_on_the_host(kind):
    check_nothing_is_read_on_the_host(LAYERS[kind], X.astype("float32"))


@pytest.mark.parametrize("kind", LAYERS)
def test_shapes_are_known_before_there_are_values(kind):
    x = Input((5, None, 3))

    model = Model(x, LAYERS[kind]()(x))

    y = model(tf.constant(X.astype("float32")), training=True)
    assert model.output_shape == ((None, 5, None, 3) if kind in RANDOM else (None, *y.shape[1:]))
    assert all(n is None or n == m for n, m in zip(model.output_shape, y.shape))


@pytest.mark.parametrize("kind", LAYERS)
def test_a_layer_is_made_again_from_its_configuration(kind):
    layer = LAYERS[kind](name="prepare", dtype="float64")

    twin = type(layer).from_config(layer.get_config())

    assert twin.get_config() == layer.get_config()
    np.testing.assert_array_equal(called(twin, X), called(layer, X))


@pytest.mark.parametrize("kind", LAYERS)
def test_channels_may_come_first(kind):
    one, other = (LAYERS[kind](dtype="float64", data_format=f) for f in (None, "channels_first"))
    first = np.ascontiguousarray(np.moveaxis(X, -1, 1))

    expected = np.moveaxis(called(one, X), -1, 1)

    np.testing.assert_allclose(called(other, first), expected, rtol=1e-12)
    assert other.compute_output_shape(first.shape) == expected.shape


@pytest.mark.parametrize("kind", LAYERS)
def test_a_single_image_needs_no_batch(kind):
    one, other = LAYERS[kind](dtype="float64"), LAYERS[kind](dtype="float64")

    single, batch = called(one, X[0]), called(other, X[:1])

    np.testing.assert_allclose(single, batch[0], rtol=1e-12)
    assert one.compute_output_shape(X.shape[1:]) == single.shape


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("kind", LAYERS)
def test_half_precision_only_rounds_images(kind, dtype):
    half, single = LAYERS[kind](dtype=f"mixed_{dtype}"), LAYERS[kind](dtype="float32")
    x = tf.constant(np.floor(X).astype("float32"))  # which bfloat16 holds as well

    y = half(x, training=True)

    assert y.dtype == dtype
    step = 0.125 if dtype == "float16" else 1.0  # between numbers below 256
    expected = single(x, training=True).numpy()
    np.testing.assert_allclose(tf.cast(y, "float32").numpy(), expected, rtol=0, atol=2 * step)


@pytest.mark.parametrize("kind", RANDOM)
def test_whole_numbers_become_the_dtype_of_the_layer(kind):
    x = np.floor(X).astype("uint8")

    y = LAYERS[kind](dtype="float64")(tf.constant(x), training=True)

    assert y.dtype == "float64"
    np.testing.assert_array_equal(y.numpy(), called(LAYERS[kind](dtype="float64"), np.floor(X)))


# What layers that draw share


@pytest.mark.parametrize("kind", RANDOM)
def test_outside_training_images_stay_as_they_are(kind):
    layer = RANDOM[kind](dtype="float64")

    np.testing.assert_array_equal(called(layer, X, training=False), X)


@pytest.mark.parametrize("kind", RANDOM)
def test_without_a_word_on_training_images_are_changed(kind):
    assert np.abs(RANDOM[kind](dtype="float64")(tf.constant(X)).numpy() - X).max() > 0.1


@pytest.mark.parametrize("kind", RANDOM)
def test_a_seed_decides_what_is_drawn(kind):
    one, other = RANDOM[kind](dtype="float64"), RANDOM[kind](dtype="float64")

    first, second = called(one, X), called(one, X)

    np.testing.assert_array_equal(called(other, X), first)
    assert np.abs(second - first).max() > 0.1


@pytest.mark.parametrize("kind", RANDOM)
def test_images_of_a_batch_are_changed_in_different_ways(kind):
    y = called(RANDOM[kind](dtype="float64"), X[:1].repeat(3, 0))

    assert min(np.abs(y[i] - y[j]).max() for i, j in [(0, 1), (0, 2), (1, 2)]) > 0.1


@pytest.mark.parametrize("kind", RANDOM)
def test_layers_that_draw_work_in_models_that_train_and_are_saved(kind, tmp_path):
    x = (X / 255).astype("float32")
    model = Sequential([Input((5, 6, 3)), RANDOM[kind](), Flatten(), Dense(1)])
    model.compile("sgd", "mse")

    model.fit(x, np.zeros((4, 1), "float32"), epochs=1, verbose=0)
    model.save(tmp_path / "model.keras")
    loaded = load_model(tmp_path / "model.keras")

    kernel, bias = model.layers[-1].get_weights()
    expected = x.reshape(4, -1) @ kernel + bias  # nothing is drawn outside training
    np.testing.assert_allclose(loaded.predict(x, verbose=0), expected, rtol=1e-4, atol=1e-4)
    assert loaded.layers[0].get_config() == {**model.layers[0].get_config(), "dtype": "float32"}


@pytest.mark.parametrize("kind", LAYERS)
def test_datasets_are_mapped(kind):
    layer, twin = LAYERS[kind](dtype="float64"), LAYERS[kind](dtype="float64")

    batches = list(tf.data.Dataset.from_tensor_slices(X).batch(2).map(layer))

    for k, batch in enumerate(batches):
        expected = called(twin, X[2 * k : 2 * k + 2])
        np.testing.assert_allclose(batch.numpy(), expected, rtol=1e-12)


# Geometry

# Keras' word for what lies beyond the edge, and SciPy's.
EDGES = {
    "reflect": "reflect",
    "wrap": "grid-wrap",
    "constant": "grid-constant",
    "nearest": "nearest",
}
ORDERS = {"nearest": 0, "bilinear": 1}


def moved(image, matrix, shift, fill_mode, interpolation, fill_value):
    """Take each pixel from `matrix` times its place, seen from the centre, plus `shift`."""
    centre = (np.array(image.shape[:2]) - 1) / 2
    offset = centre - matrix @ centre + shift
    options = {"order": ORDERS[interpolation], "mode": EDGES[fill_mode], "cval": fill_value}
    channels = [
        ndimage.affine_transform(image[..., k], matrix, offset, **options)
        for k in range(image.shape[-1])
    ]
    return np.stack(channels, axis=-1)


def turning(turns):
    """The matrix from the place of a pixel (row, column) to the place from which it comes."""
    angle = 2 * math.pi * turns
    return np.array([[math.cos(angle), math.sin(angle)], [-math.sin(angle), math.cos(angle)]])


# Layers without a choice in what they draw, and what they do.
CERTAIN = {
    "turn": (lambda *o, **k: RandomRotation((0.11, 0.11), *o, **k), turning(0.11), (0, 0)),
    "turn back": (lambda *o, **k: RandomRotation((-0.4, -0.4), *o, **k), turning(-0.4), (0, 0)),
    "zoom out": (
        lambda *o, **k: RandomZoom((0.9, 0.9), (0.37, 0.37), *o, **k),
        np.diag([1.9, 1.37]),
        (0, 0),
    ),
    "zoom in": (
        lambda *o, **k: RandomZoom((-0.45, -0.45), None, *o, **k),
        np.diag([0.55, 0.55]),
        (0, 0),
    ),
    "move": (
        lambda *o, **k: RandomTranslation((0.13, 0.13), (-0.71, -0.71), *o, **k),
        np.eye(2),
        (-0.13 * 5, 0.71 * 6),
    ),
}


@pytest.mark.parametrize("interpolation", ORDERS)
@pytest.mark.parametrize("fill_mode", EDGES)
@pytest.mark.parametrize("kind", CERTAIN)
def test_pixels_come_from_where_scipy_takes_them(kind, fill_mode, interpolation):
    make, matrix, shift = CERTAIN[kind]
    layer = make(fill_mode, interpolation, fill_value=17.0, dtype="float64")

    y = called(layer, X)

    expected = [moved(image, matrix, shift, fill_mode, interpolation, 17.0) for image in X]
    np.testing.assert_allclose(y, expected, rtol=1e-9)


def test_far_beyond_the_edge_images_repeat_and_are_mirrored():
    x = np.arange(1.0, 4.0).reshape(1, 3, 1)

    y = {mode: called(RandomTranslation(0.0, (1.0, 1.0), mode), x).ravel() for mode in EDGES}

    # One width to the right: what was just before the image stands in it.
    assert y["wrap"].tolist() == [1.0, 2.0, 3.0]
    assert y["reflect"].tolist() == [3.0, 2.0, 1.0]
    assert y["nearest"].tolist() == [1.0, 1.0, 1.0]
    assert y["constant"].tolist() == [0.0, 0.0, 0.0]


@pytest.mark.parametrize("interpolation", ORDERS)
@pytest.mark.parametrize("size", [1, 4, 5])
@pytest.mark.parametrize("quarters", [-2, -1, 0, 1, 2, 3, 4])
def test_quarters_of_a_turn_only_move_pixels(quarters, size, interpolation):
    x = np.random.default_rng(1).random((2, size, size, 3))
    layer = RandomRotation(
        (quarters / 4, quarters / 4), interpolation=interpolation, dtype="float64"
    )

    y = called(layer, x)

    np.testing.assert_allclose(y, np.rot90(x, quarters, (1, 2)), rtol=1e-12)


def test_images_are_turned_against_the_clock():
    x = np.zeros((5, 5, 1), "float32")
    x[2, 4] = 1.0  # at three o'clock

    y = called(RandomRotation((0.25, 0.25)), x)

    assert np.unravel_index(y.argmax(), y.shape) == (0, 2, 0)  # at twelve


def test_zooming_out_and_in_by_hand():
    x = np.arange(25.0).reshape(5, 5, 1)

    out = called(RandomZoom((0.5, 0.5), (0.5, 0.5), "constant", dtype="float64"), x)[..., 0]
    near = called(RandomZoom((-0.5, -0.5), dtype="float64"), x)[..., 0]

    # Rows and columns -1, 0.5, 2, 3.5 and 5 of the image; 1, 1.5, 2, 2.5 and 3.
    inner = 5 * np.array([[0.5], [2.0], [3.5]]) + np.array([0.5, 2.0, 3.5])
    np.testing.assert_allclose(out, np.pad(inner, 1), rtol=1e-12)
    steps = np.arange(1.0, 3.5, 0.5)
    np.testing.assert_allclose(near, 5 * steps[:, None] + steps, rtol=1e-12)


@pytest.mark.parametrize("interpolation", ORDERS)
def test_images_are_moved_down_and_to_the_right_by_whole_pixels(interpolation):
    layer = RandomTranslation((0.4, 0.4), (0.5, 0.5), "wrap", interpolation, dtype="float64")
    up = RandomTranslation((-0.4, -0.4), (-0.5, -0.5), "wrap", interpolation, dtype="float64")

    np.testing.assert_allclose(called(layer, X), np.roll(X, (2, 3), (1, 2)), rtol=1e-12)
    np.testing.assert_allclose(called(up, X), np.roll(X, (-2, -3), (1, 2)), rtol=1e-12)


# Ramps show what was drawn: along rows and columns they change by 1 from pixel to pixel.
DOWN, ACROSS = np.mgrid[:9.0, :9.0]
RAMPS = np.stack([DOWN, ACROSS], axis=-1)[None].repeat(400, 0)


def spread(drawn, low, high):
    """Whether numbers are spread over a range evenly, as far as 400 can tell."""
    shares = np.sort((drawn - low) / (high - low))
    steps = (np.arange(len(drawn)) + 0.5) / len(drawn)
    return shares.min() >= -1e-9 and shares.max() <= 1 + 1e-9 and abs(shares - steps).max() < 0.1


def test_turns_are_spread_between_the_bounds():
    y = called(RandomRotation((-0.1, 0.2), seed=5, dtype="float64"), RAMPS)

    # How the row from which a pixel comes changes to the right: by the sine of the angle.
    turns = np.arcsin(y[:, 4, 5, 0] - y[:, 4, 4, 0]) / (2 * math.pi)
    assert spread(turns, -0.1, 0.2)


def test_a_single_factor_goes_both_ways():
    y = called(RandomRotation(0.2, seed=5, dtype="float64"), RAMPS)

    turns = np.arcsin(y[:, 4, 5, 0] - y[:, 4, 4, 0]) / (2 * math.pi)
    assert spread(turns, -0.2, 0.2)


@pytest.mark.parametrize("width_factor", [None, (-0.6, -0.2)])
def test_zooms_are_spread_between_the_bounds(width_factor):
    y = called(RandomZoom(0.5, width_factor, seed=5, dtype="float64"), RAMPS)

    down, across = y[:, 5, 4, 0] - y[:, 4, 4, 0], y[:, 4, 5, 1] - y[:, 4, 4, 1]
    assert spread(down, 0.5, 1.5)
    if width_factor is None:
        np.testing.assert_allclose(across, down, rtol=1e-12)
    else:
        assert spread(across, 0.4, 0.8)
        assert abs(np.corrcoef(down, across)[0, 1]) < 0.2


def test_shifts_are_spread_between_the_bounds():
    y = called(RandomTranslation((-0.2, 0.3), 0.4, seed=5, dtype="float64"), RAMPS)

    down, across = 4 - y[:, 4, 4, 0], 4 - y[:, 4, 4, 1]
    assert spread(down, -0.2 * 9, 0.3 * 9)
    assert spread(across, -0.4 * 9, 0.4 * 9)
    assert abs(np.corrcoef(down, across)[0, 1]) < 0.2


# Colours


@pytest.mark.parametrize("factor", [0.5, (0.1, 0.7), (0.2, 1.5)])
def test_contrasts_are_spread_around_the_means_of_channels(factor):
    x = np.random.default_rng(3).normal(100.0, 1.0, size=(400, 3, 4, 2))
    layer = RandomContrast(factor, seed=5, dtype="float64")

    y = called(layer, x)

    mean = x.mean((1, 2), keepdims=True)
    drawn = (y - mean) / (x - mean)
    np.testing.assert_allclose(drawn, drawn[:, :1, :1, :1] + 0 * x, rtol=1e-6)
    lower, upper = factor if isinstance(factor, tuple) else (factor, factor)
    assert spread(drawn[:, 0, 0, 0], 1 - lower, 1 + upper)


def test_values_that_leave_their_range_are_cut_off():
    x = np.array([0.0, 0.5, 1.0]).reshape(1, 3, 1)

    y = called(RandomContrast((0.0, 1.0), (0, 1), seed=1, dtype="float64"), x)
    wide = called(RandomContrast((0.0, 1.0), (2, -2), seed=1, dtype="float64"), x)

    assert y.ravel().tolist() == [0.0, 0.5, 1.0]
    assert wide.min() < -0.01
    assert wide.max() > 1.01


@pytest.mark.parametrize("value_range", [(0, 255), (0.0, 1.0), (-1, 1)])
def test_brightness_is_a_part_of_the_range(value_range):
    low, high = value_range
    x = np.full((400, 2, 2, 3), (low + high) / 2)

    y = called(RandomBrightness(0.3, value_range, seed=5, dtype="float64"), x)

    assert np.array_equal(y, y[:, :1, :1, :1] + 0 * x)
    assert spread((y - x)[:, 0, 0, 0] / (high - low), -0.3, 0.3)


def test_brightness_ends_at_the_ends_of_the_range():
    assert set(called(RandomBrightness((1.0, 1.0)), X).ravel()) == {255.0}
    assert set(called(RandomBrightness((-1.0, -1.0)), X).ravel()) == {0.0}


# Resizing


def keys(distance):
    d = abs(distance)
    if d < 1:
        return 1.5 * d**3 - 2.5 * d**2 + 1
    return -0.5 * d**3 + 2.5 * d**2 - 4 * d + 2 if d < 2 else 0.0


def lanczos(radius):
    def kernel(distance):
        if distance == 0:
            return 1.0
        t = math.pi * distance
        is_near = abs(distance) < radius
        return radius * math.sin(t) * math.sin(t / radius) / t**2 if is_near else 0.0

    return kernel


KERNELS = {
    "bilinear": lambda d: max(0.0, 1 - abs(d)),
    "bicubic": keys,
    "lanczos3": lanczos(3),
    "lanczos5": lanczos(5),
}


def line(values, wanted, kernel, antialias):
    """Another length for a row of numbers, one new number after the other."""
    size, found = len(values), []
    for k in range(wanted):
        place = (k + 0.5) * size / wanted - 0.5
        width = max(size / wanted, 1.0) if antialias else 1.0
        weights = [kernel((place - j) / width) for j in range(size)]
        found.append(sum(w * v for w, v in zip(weights, values)) / sum(weights))
    return found


@pytest.mark.parametrize("antialias", [False, True])
@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("size", [(5, 6), (3, 11), (12, 2), (1, 1)])
def test_resizing_is_an_interpolation_along_both_axes(size, kernel, antialias):
    layer = Resizing(*size, kernel, antialias=antialias, dtype="float64")

    y = called(layer, X, training=False)

    options = (KERNELS[kernel], antialias)
    tall = np.apply_along_axis(lambda v: line(v, size[0], *options), 1, X)
    wide = np.apply_along_axis(lambda v: line(v, size[1], *options), 2, tall)
    np.testing.assert_allclose(y, wide, rtol=1e-10)


def test_a_kernel_against_aliasing_by_hand():
    x = np.random.default_rng(4).random(8)

    y = called(Resizing(1, 4, antialias=True, dtype="float64"), x.reshape(1, 8, 1)).ravel()

    np.testing.assert_allclose(y[1], (x[1] + 3 * x[2] + 3 * x[3] + x[4]) / 8, rtol=1e-12)
    np.testing.assert_allclose(y[0], (3 * x[0] + 3 * x[1] + x[2]) / 7, rtol=1e-12)


@pytest.mark.parametrize("size", [(5, 6), (10, 12), (3, 4), (7, 1)])
@pytest.mark.parametrize("dtype", ["float64", "uint8", "int32"])
def test_the_nearest_pixel_is_that_in_which_the_middle_of_a_new_one_lies(size, dtype):
    x = (X if dtype == "float64" else np.floor(X) * (1 if dtype == "uint8" else 65_537)).astype(
        dtype
    )
    rows, columns = (
        [math.floor((k + 0.5) * old / new) for k in range(new)] for old, new in zip((5, 6), size)
    )

    y = called(Resizing(*size, "nearest", dtype="float64"), x)

    assert y.dtype == dtype
    np.testing.assert_array_equal(y, x[:, rows][:, :, columns])


# Wanted sizes, and the middle of 5 by 6 pixels that has their proportions.
MIDDLES = {(10, 10): (slice(0, 5), slice(0, 5)), (7, 3): (slice(0, 5), slice(2, 4)),
           (2, 6): (slice(1, 3), slice(0, 6))}  # fmt: skip


@pytest.mark.parametrize("kernel", ["nearest", "bilinear", "bicubic"])
@pytest.mark.parametrize("size", MIDDLES)
def test_the_middle_in_the_right_proportions_is_stretched(size, kernel):
    one = Resizing(*size, kernel, crop_to_aspect_ratio=True, dtype="float64")
    other = Resizing(*size, kernel, dtype="float64")

    expected = called(other, X[:, *MIDDLES[size]])

    np.testing.assert_allclose(called(one, X), expected, rtol=1e-12)


# Wanted sizes, and what is added on both sides of the height and of the width.
FRAMES = {(10, 10): (0, 0), (7, 7): (0, 0), (8, 3): (5, 0), (3, 9): (0, 4), (6, 7): (0, 0)}


@pytest.mark.parametrize("kernel", ["nearest", "bilinear", "bicubic"])
@pytest.mark.parametrize("size", FRAMES)
def test_a_frame_gives_the_right_proportions(size, kernel):
    one = Resizing(*size, kernel, pad_to_aspect_ratio=True, fill_value=9.5, dtype="float64")
    other = Resizing(*size, kernel, dtype="float64")
    down, across = FRAMES[size]

    framed = np.pad(X, [(0, 0), (down,) * 2, (across,) * 2, (0, 0)], constant_values=9.5)

    np.testing.assert_allclose(called(one, X), called(other, framed), rtol=1e-12)


@pytest.mark.parametrize("dtype", ["uint8", "int16"])
@pytest.mark.parametrize("kernel", ["bilinear", "bicubic", "lanczos3"])
def test_whole_numbers_are_rounded_and_stay_in_the_range_of_their_dtype(kernel, dtype):
    limits = np.iinfo(dtype)
    x = np.where(np.arange(8) % 4 < 2, limits.min, limits.max).astype(dtype).reshape(1, 8, 1)
    exact = called(Resizing(1, 20, kernel, dtype="float64"), x.astype("float64"))

    y = called(Resizing(1, 20, kernel), x)

    assert y.dtype == dtype
    assert (kernel == "bilinear") == (limits.min <= exact.min())
    np.testing.assert_allclose(y, np.clip(exact, limits.min, limits.max), atol=0.51)


# Errors


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: RandomRotation(2.0), "RandomRotation takes a factor from -1 to 1.* Got 2.0"),
        (lambda: RandomRotation((0.1, 0.2, 0.3)), r"or a pair \(lower, upper\)"),
        (lambda: RandomRotation("much"), "takes a factor from -1 to 1"),
        (lambda: RandomRotation(0.1, "mirror"), "fill_mode must be one of reflect, wrap, .*'mir"),
        (lambda: RandomRotation(0.1, interpolation="bicubic"), "'nearest' or 'bilinear'. Got 'bic"),
        (lambda: RandomRotation(0.1, name="r")(tf.zeros([2, 3])), r"'r' .* 3 dimensions.* \(2, 3"),
        (lambda: RandomZoom((0.5, 1.5)), "RandomZoom takes a factor from -1 to 1"),
        (lambda: RandomZoom(0.5, (-2.0, 0.0)), "RandomZoom takes a factor from -1 to 1"),
        (lambda: RandomTranslation(0.5), "RandomTranslation takes a factor .* Got None"),
        (lambda: RandomTranslation(0.5, 1.1), "RandomTranslation takes a factor from -1 to 1"),
        (lambda: RandomContrast(-0.1), "RandomContrast takes a factor from 0 to 1.* Got -0.1"),
        (lambda: RandomContrast(0.1, 255), "takes a value_range of two numbers. Got 255"),
        (lambda: RandomBrightness(0.1, (0, 1, 2)), "takes a value_range of two numbers"),
        (lambda: RandomBrightness([-1.5, 0.0]), "RandomBrightness takes a factor from -1 to 1"),
        (lambda: RandomFlip(data_format="NCHW"), "data_format"),
        (lambda: Resizing(0, 2), "Resizing takes a height .* Got 0"),
        (lambda: Resizing(2, 2, "area"), "interpolation .* nearest, bilinear, bicubic, .* 'area'"),
        (lambda: Resizing(2, 2, fill_mode="reflect"), "fill_mode must be 'constant'"),
        (lambda: Resizing(2, 2, "bilinear", True, True), "Got both as True"),
    ],
)
def test_what_does_not_fit_is_explained(make, message):
    with pytest.raises(ValueError, match=message):
        make()
