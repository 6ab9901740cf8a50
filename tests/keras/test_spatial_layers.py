"""Padding, cropping and upsampling against NumPy's pad, slices, repeat and interpolation."""

from __future__ import annotations

import json

import numpy as np
import pytest
from scipy import ndimage

import tapegrad as tf
import tapegrad_strict as strict
from tapegrad.core.backend.registry import register_backend, unregister_backend
from tapegrad.errors import ArgumentError, ShapeError
from tapegrad.keras.layers.input_layer import Input
from tapegrad.keras.layers.spatial import (
    Cropping1D,
    Cropping2D,
    Cropping3D,
    UpSampling1D,
    UpSampling2D,
    UpSampling3D,
    ZeroPadding1D,
    ZeroPadding2D,
    ZeroPadding3D,
)
from tapegrad.keras.models import Model
from tests.keras.layer_checks import check_function_equals_eager, slope_and_rise

pytestmark = pytest.mark.filterwarnings("ignore:You are comparing a array_api_strict dtype")

SHAPES = {1: (2, 7, 3), 2: (2, 5, 6, 3), 3: (1, 4, 5, 6, 2)}

# A layer, its first argument, and the same as a pair or a factor per dimension.
PADDED = [
    (ZeroPadding1D, 1, ((1, 1),)),
    (ZeroPadding1D, (2, 0), ((2, 0),)),
    (ZeroPadding2D, 2, ((2, 2), (2, 2))),
    (ZeroPadding2D, (1, 3), ((1, 1), (3, 3))),
    (ZeroPadding2D, ((1, 0), (2, 3)), ((1, 0), (2, 3))),
    (ZeroPadding3D, (1, 0, 2), ((1, 1), (0, 0), (2, 2))),
    (ZeroPadding3D, ((1, 2), (0, 1), (3, 0)), ((1, 2), (0, 1), (3, 0))),
]
CROPPED = [
    (Cropping1D, 1, ((1, 1),)),
    (Cropping1D, (2, 0), ((2, 0),)),
    (Cropping2D, 2, ((2, 2), (2, 2))),
    (Cropping2D, (0, 1), ((0, 0), (1, 1))),
    (Cropping2D, ((1, 0), (2, 3)), ((1, 0), (2, 3))),
    (Cropping3D, (1, 0, 2), ((1, 1), (0, 0), (2, 2))),
    (Cropping3D, ((1, 2), (0, 1), (3, 0)), ((1, 2), (0, 1), (3, 0))),
]
REPEATED = [
    (UpSampling1D, 3, (3,)),
    (UpSampling2D, 2, (2, 2)),
    (UpSampling2D, (1, 3), (1, 3)),
    (UpSampling3D, (3, 1, 2), (3, 1, 2)),
]
INTERPOLATIONS = ["bilinear", "bicubic", "lanczos3", "lanczos5"]
ROWS = [(kind, {}, len(per)) for kind, _, per in [*PADDED[::2], *REPEATED]]
ROWS += [(kind, {"cropping": given}, len(per)) for kind, given, per in CROPPED]
ROWS += [(UpSampling2D, {"size": (2, 3), "interpolation": word}, 2) for word in INTERPOLATIONS]
IDS = [f"{row[0].__name__}-{number}" for number, row in enumerate(ROWS)]


@pytest.fixture
def strict_device():
    register_backend(strict.StrictBackend())
    yield "strict:0"
    unregister_backend("strict")


def data_of(rank, seed=0):
    return np.random.default_rng(seed).normal(size=SHAPES[rank])


@pytest.mark.parametrize(("kind", "padding", "pairs"), PADDED)
def test_zero_padding_is_numpys_pad(kind, padding, pairs):
    x = data_of(len(pairs))

    y = kind(padding, dtype="float64")(x).numpy()

    np.testing.assert_array_equal(y, np.pad(x, [(0, 0), *pairs, (0, 0)]))


@pytest.mark.parametrize(("kind", "cropping", "pairs"), CROPPED)
def test_cropping_undoes_padding(kind, cropping, pairs):
    inside = data_of(len(pairs))
    x = np.pad(inside, [(0, 0), *pairs, (0, 0)], constant_values=7.0)

    y = kind(cropping, dtype="float64")(x).numpy()

    np.testing.assert_array_equal(y, inside)


@pytest.mark.parametrize(("kind", "size", "factors"), REPEATED)
def test_upsampling_repeats_along_each_dimension(kind, size, factors):
    x = data_of(len(factors))

    y = kind(size, dtype="float64")(x).numpy()

    expected = x
    for axis, factor in enumerate(factors, 1):
        expected = np.repeat(expected, factor, axis)
    np.testing.assert_array_equal(y, expected)


def test_bilinear_upsampling_is_linear_between_the_middles_of_pixels():
    x = data_of(2)
    rows, columns = ((np.arange(n * f) + 0.5) / f - 0.5 for n, f in ((5, 2), (6, 3)))
    places = np.meshgrid(rows, columns, indexing="ij")

    y = UpSampling2D((2, 3), interpolation="bilinear", dtype="float64")(x).numpy()

    for example in range(2):
        for channel in range(3):
            expected = ndimage.map_coordinates(
                x[example, :, :, channel], places, order=1, mode="nearest"
            )
            np.testing.assert_allclose(y[example, :, :, channel], expected, rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize(("interpolation", "degree"), [("bilinear", 1), ("bicubic", 2)])
def test_polynomials_are_continued_exactly_away_from_the_border(interpolation, degree):
    x = (np.arange(12.0) - 4.0) ** degree
    places = (np.arange(36) + 0.5) / 3 - 0.5
    layer = UpSampling2D((3, 1), interpolation=interpolation, dtype="float64")

    y = layer(x.reshape(1, 12, 1, 1)).numpy().ravel()

    np.testing.assert_allclose(y[6:-6], (places[6:-6] - 4.0) ** degree, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("radius", [3, 5])
def test_lanczos_weighs_neighbours_by_a_windowed_sinc(radius):
    layer = UpSampling2D((2, 1), interpolation=f"lanczos{radius}", dtype="float64")
    x = data_of(1)[:1, :, :1]
    expected = []
    for place in (np.arange(14) + 0.5) / 2 - 0.5:
        near = [k for k in range(7) if abs(place - k) < radius]
        angles = np.pi * (place - np.array(near))
        weights = radius * np.sin(angles) * np.sin(angles / radius) / angles**2
        expected.append(weights @ x[0, near, 0] / weights.sum())

    y = layer(x.reshape(1, 7, 1, 1)).numpy().ravel()

    np.testing.assert_allclose(y, expected, rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize("interpolation", ["nearest", *INTERPOLATIONS])
def test_constant_images_stay_constant(interpolation):
    layer = UpSampling2D(4, interpolation=interpolation.upper(), dtype="float64")

    y = layer(np.full((1, 3, 2, 2), 5.0)).numpy()

    np.testing.assert_allclose(y, np.full((1, 12, 8, 2), 5.0), rtol=1e-14)


@pytest.mark.parametrize(
    ("kind", "arguments", "rank"),
    [row for row in ROWS if row[0] not in (UpSampling1D, Cropping1D)],
)
def test_channels_first_gives_the_same_numbers_in_another_order(kind, arguments, rank):
    x = data_of(rank)
    last = kind(**arguments, dtype="float64")
    first = kind(**arguments, data_format="channels_first", dtype="float64")
    moved = np.moveaxis(x, -1, 1)

    y = first(moved).numpy()

    np.testing.assert_allclose(np.moveaxis(y, 1, -1), last(x).numpy(), rtol=1e-13, atol=1e-13)
    assert y.shape == tuple(first.compute_output_shape(moved.shape))


@pytest.mark.parametrize(("kind", "arguments", "rank"), ROWS, ids=IDS)
def test_gradients_are_the_transpose(kind, arguments, rank):
    layer, x = kind(**arguments, dtype="float64"), data_of(rank)
    step = np.random.default_rng(2).normal(size=x.shape)

    slope, rise = slope_and_rise(layer, x, step)

    # These layers are linear, so that a difference over any distance is exact.
    assert slope == pytest.approx(rise, rel=1e-10)


@pytest.mark.parametrize(("kind", "arguments", "rank"), ROWS, ids=IDS)
def test_a_function_computes_what_eager_calls_do(kind, arguments, rank):
    check_function_equals_eager(kind(**arguments, dtype="float64"), tf.constant(data_of(rank)))


@pytest.mark.parametrize(("kind", "arguments", "rank"), ROWS, ids=IDS)
def test_a_model_knows_the_shape_of_the_output(kind, arguments, rank):
    x = np.zeros(SHAPES[rank], "float32")
    known, unknown = Input(x.shape[1:]), Input((*(None,) * rank, x.shape[-1]))
    layer = kind(**arguments)

    model, free = Model(known, layer(known)), Model(unknown, layer(unknown))

    y = model(x)
    assert model.output_shape == (None, *y.shape[1:])
    assert free.output_shape == (None, *(None,) * rank, y.shape[-1])
    assert free(x).shape == y.shape


@pytest.mark.parametrize(("kind", "arguments", "rank"), ROWS, ids=IDS)
def test_a_configuration_makes_the_same_layer(kind, arguments, rank):
    layer = kind(**arguments, dtype="float64", name="one")

    config = json.loads(json.dumps(layer.get_config()))
    other = kind.from_config(config)

    assert json.loads(json.dumps(other.get_config())) == config
    assert (other.name, other.dtype) == ("one", "float64")
    x = data_of(rank)
    np.testing.assert_array_equal(other(x).numpy(), layer(x).numpy())


@pytest.mark.parametrize(("kind", "arguments", "rank"), ROWS, ids=IDS)
def test_values_and_gradients_stay_on_the_device(kind, arguments, rank, strict_device):
    with tf.device(strict_device):
        layer, x = kind(**arguments), tf.random.normal(SHAPES[rank])
        with strict.forbidding_reads(), tf.GradientTape() as tape:
            tape.watch(x)
            y = layer(x)
        gradient = tape.gradient(y, x)

    assert (y.device, gradient.device) == (strict_device, strict_device)


def test_what_is_not_a_float_is_padded_and_repeated_as_it_is():
    x = tf.constant([[[1], [2]]])

    assert UpSampling1D(2)(x).numpy().ravel().tolist() == [1, 1, 2, 2]
    assert ZeroPadding1D(1)(x).numpy().ravel().tolist() == [0, 1, 2, 0]


def test_layers_keep_their_arguments_in_the_form_of_keras():
    assert ZeroPadding1D().padding == (1, 1)
    assert ZeroPadding2D().padding == ((1, 1), (1, 1))
    assert Cropping1D(2).cropping == (2, 2)
    assert Cropping2D().cropping == ((0, 0), (0, 0))
    assert UpSampling1D().size == 2
    assert UpSampling3D().size == (2, 2, 2)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: ZeroPadding1D(-1), "ZeroPadding1D takes padding as an integer of 0 or more"),
        (lambda: ZeroPadding2D((1, 2, 3)), r"or 2 pairs \(before, after\). Got \(1, 2, 3\)"),
        (lambda: ZeroPadding2D(((1, 2), (1, -2))), "pairs .* Got"),
        (
            lambda: Cropping1D((1, 2, 3)),
            r"Cropping1D .* or a pair \(before, after\). Got \(1, 2, 3\)",
        ),
        (lambda: Cropping3D("1"), "3 pairs .* Got '1'"),
        (lambda: UpSampling1D(0), "size as an integer of 1 or more. Got 0"),
        (lambda: UpSampling2D((2, 0)), r"size .* or 2 of them. Got \(2, 0\)"),
        (lambda: UpSampling2D(2, "NCHW"), "'channels_last' or 'channels_first'. Got 'NCHW'"),
        (lambda: UpSampling2D(2, interpolation="area"), "nearest, bilinear, .* Got 'area'"),
    ],
)
def test_arguments_that_make_no_sense_are_refused(make, words):
    with pytest.raises(ArgumentError, match=words):
        make()


@pytest.mark.parametrize(("kind", "arguments", "rank"), ROWS, ids=IDS)
def test_an_input_that_does_not_fit_is_named_with_its_layer(kind, arguments, rank):
    layer = kind(**arguments, name="it")

    with pytest.raises(ShapeError, match=rf"'it' \({kind.__name__}\) takes inputs of {rank + 2} d"):
        layer(tf.zeros(SHAPES[rank][1:]))
    with pytest.raises(ShapeError, match=rf"'it' \({kind.__name__}\) takes inputs of {rank + 2} d"):
        layer.compute_output_shape((None, *SHAPES[rank]))


def test_cropping_must_leave_something():
    layer = Cropping2D(((0, 0), (2, 3)), name="it")

    with pytest.raises(ShapeError, match=r"'it' \(Cropping2D\) crops \(2, 3\) along axis 2"):
        layer(tf.zeros([1, 4, 5, 1]))
    with pytest.raises(ShapeError, match="leaves no element of an input of shape"):
        layer(Input((None, 4, 1)))
