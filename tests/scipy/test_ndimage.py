from __future__ import annotations

import warnings

import numpy as np
import pytest
import scipy.ndimage as reference

import tapegrad as tf
from tapegrad.errors import ArgumentError, ArgumentTypeError, ShapeError
from tapegrad.scipy import ndimage
from tapegrad.scipy.ndimage.boundaries import MODES
from tapegrad.testing.sample import Sample, normal, uniform
from tests.scipy.on_devices import check_on_cpu, check_on_strict_device

IMAGE = np.random.default_rng(0).normal(size=(23, 21))
PLACES = np.concatenate(
    [
        np.random.default_rng(1).uniform(-40, 60, size=(2, 60)),
        np.random.default_rng(2).integers(-40, 60, size=(2, 30)),
        np.random.default_rng(3).uniform(-2, 22, size=(2, 30)),
    ],
    axis=1,
)
MATRIX = np.array([[0.9, 0.3], [-0.2, 1.1]])

each_mode = pytest.mark.parametrize("mode", MODES)
each_order = pytest.mark.parametrize("order", range(6))
each_constant = pytest.mark.parametrize("cval", [0.0, 1.5])


def compare(name, *args, **options):
    """The function of this name gives what SciPy's gives, in value, shape and dtype."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        wanted = getattr(reference, name)(*args, **options)
        found = getattr(ndimage, name)(*args, **options)

    assert found.dtype.name == wanted.dtype.name
    np.testing.assert_allclose(found.numpy(), wanted, rtol=1e-12, atol=1e-12)


@each_mode
@each_order
@pytest.mark.parametrize("prefilter", [True, False])
def test_map_coordinates(order, mode, prefilter):
    compare("map_coordinates", IMAGE, PLACES, order=order, mode=mode, cval=1.7, prefilter=prefilter)


@each_mode
@each_order
def test_shift(order, mode):
    compare("shift", IMAGE, (1.3, -30.7), order=order, mode=mode, cval=1.7)


@each_mode
@each_order
@pytest.mark.parametrize("grid_mode", [False, True])
@pytest.mark.parametrize("factor", [2, 0.37, (1.5, 1.1)])
def test_zoom(order, mode, factor, grid_mode):
    compare("zoom", IMAGE, factor, order=order, mode=mode, cval=1.7, grid_mode=grid_mode)


@each_mode
@each_order
@pytest.mark.parametrize("angle", [0, 90, 180, 33.3, -200])
def test_rotate(order, mode, angle):
    for reshape in (True, False):
        compare("rotate", IMAGE, angle, order=order, mode=mode, cval=1.7, reshape=reshape)


def test_rotate_in_a_plane_of_a_volume():
    volume = np.random.default_rng(0).normal(size=(5, 20, 18))

    compare("rotate", volume, 25.0, axes=(2, 1))
    compare("rotate", volume, 25.0, axes=(0, 2), order=1)


@each_mode
@each_order
@pytest.mark.parametrize(
    ("matrix", "offset"),
    [
        (MATRIX, (1.0, -2.0)),
        (MATRIX, 0.5),
        (np.array([[0.9, 0.3, 2.0], [-0.2, 1.1, -3.0], [0.0, 0.0, 1.0]]), 0.0),
        (np.array([[0.9, 0.3, 2.0], [-0.2, 1.1, -3.0]]), 0.0),
        (np.array([0.7, 1.3]), (0.3, -0.2)),
    ],
    ids=["matrix", "one-offset", "homogeneous", "wide", "diagonal"],
)
def test_affine_transform(order, mode, matrix, offset):
    compare(
        "affine_transform", IMAGE, matrix, offset, output_shape=(15, 25), order=order, mode=mode
    )


@each_mode
@pytest.mark.parametrize("order", range(2, 6))
@pytest.mark.parametrize("length", [20, 600], ids=["by-matrix", "by-convolution"])
def test_spline_filters(order, mode, length):
    lines = np.random.default_rng(0).normal(size=(length, 20))

    compare("spline_filter1d", lines, order, 0, mode=mode)
    compare("spline_filter", lines, order, mode=mode)


@pytest.mark.parametrize("order", range(2, 6))
@pytest.mark.parametrize("mode", ["mirror", "reflect", "grid-wrap"])
def test_splines_pass_through_the_pixels_of_short_images(order, mode):
    pixels = np.array([1.0, -2.0, 0.5])

    found = ndimage.map_coordinates(pixels, [[0.0, 1.0, 2.0]], order=order, mode=mode)

    np.testing.assert_allclose(found.numpy(), pixels, rtol=1e-13)


IMAGES = {
    "square": np.random.default_rng(0).normal(size=(9, 7)),
    "long": np.random.default_rng(0).normal(size=(3, 600)),
    "complex": np.random.default_rng(0).normal(size=(4, 5, 6)) * (1 + 2j),
    "whole": np.random.default_rng(0).integers(0, 200, size=(5, 6)),
    "thin": np.random.default_rng(0).normal(size=(1, 5)),
}
each_image = pytest.mark.parametrize("image", IMAGES.values(), ids=list(IMAGES))


@each_image
@each_mode
@each_constant
@pytest.mark.parametrize("name", ["correlate1d", "convolve1d"])
def test_filters_along_one_axis(name, image, mode, cval):
    for weights in ([2.0], [1.0, 2.0, 3.0], [1.0, 2.0, 3.0, 4.0], np.arange(13) - 3.5):
        for origin in (0,) if len(weights) == 1 else (0, -1):
            for axis in (0, -1):
                compare(name, image, weights, axis, mode=mode, cval=cval, origin=origin)


@each_image
@each_mode
@each_constant
@pytest.mark.parametrize("name", ["correlate", "convolve"])
def test_filters_along_all_axes(name, image, mode, cval):
    random = np.random.default_rng(4)
    rest = (3,) * (image.ndim - 2)
    for weights in (random.normal(size=(3, 3, *rest)), random.normal(size=(2, 4, *rest))):
        compare(name, image, weights, mode=mode, cval=cval)
        compare(name, image, weights, mode=mode, cval=cval, origin=-1)


@each_image
@each_mode
@each_constant
def test_named_filters(image, mode, cval):
    options = {"mode": mode, "cval": cval}
    for order in range(5):
        compare("gaussian_filter1d", image, 1.3, order=order, **options)
    sigmas, orders = (1.3, 0.4, 0.5)[: image.ndim], (0, 1, 2)[: image.ndim]
    compare("gaussian_filter", image, sigmas, order=orders, **options)
    compare("gaussian_filter", image, 1.3, axes=(1,), radius=2, **options)
    compare("uniform_filter", image, 3, **options)
    compare("uniform_filter", image, 4, origin=1, **options)
    compare("uniform_filter1d", image, 2, axis=0, **options)
    compare("sobel", image, axis=0, **options)
    compare("prewitt", image, **options)
    compare("laplace", image, **options)


CROSS = np.array([[0, 1, 0], [1, 1, 1]])


@each_mode
@each_constant
@pytest.mark.parametrize("image", [IMAGES["square"], IMAGES["whole"]], ids=["square", "whole"])
def test_filters_by_order(image, mode, cval):
    options = {"mode": mode, "cval": cval}
    for window in ({"size": 3}, {"size": (2, 3), "origin": -1}, {"footprint": CROSS}):
        for name in ("maximum_filter", "minimum_filter", "median_filter"):
            compare(name, image, **window, **options)
        compare("rank_filter", image, -2, **window, **options)
        compare("percentile_filter", image, 30, **window, **options)
    compare("maximum_filter1d", image, 4, axis=0, **options)
    compare("minimum_filter1d", image, 3, origin=1, **options)
    compare("median_filter", image, 3, axes=(1,), **options)


@each_mode
@each_constant
def test_filters_of_two_steps(mode, cval):
    for name in ("gaussian_laplace", "gaussian_gradient_magnitude"):
        compare(name, IMAGES["square"], 1.0, mode=mode, cval=cval)


def test_a_mode_for_each_axis():
    compare("gaussian_filter", IMAGES["square"], 1.0, mode=["wrap", "nearest"])
    compare("laplace", IMAGES["square"], mode=["wrap", "nearest"])


def test_windows_with_four_axes():
    random = np.random.default_rng(0)

    compare("correlate", random.normal(size=(3, 4, 3, 2)), random.normal(size=(2, 3, 2, 1)))


@pytest.mark.parametrize("name", ["correlate1d", "convolve1d"])
def test_complex_weights(name):
    weights = np.array([1, 2j, -1 + 1j])

    compare(name, IMAGES["square"], weights)
    compare(name, IMAGES["complex"], weights)


def test_whole_pixels_are_rounded_and_kept_in_range():
    pixels = np.random.default_rng(0).integers(0, 256, size=(22, 21)).astype(np.uint8)

    compare("zoom", pixels, 1.71, order=3)
    compare("map_coordinates", pixels, PLACES, order=5)


def test_float32_stays_float32_and_output_chooses_another():
    pixels = IMAGE.astype(np.float32)

    assert ndimage.zoom(pixels, 2).dtype == tf.float32
    assert ndimage.map_coordinates(pixels, PLACES, output=np.float64).dtype == tf.float64
    assert ndimage.spline_filter(pixels).dtype == tf.float64
    np.testing.assert_allclose(
        ndimage.zoom(pixels, 2).numpy(), reference.zoom(pixels, 2), rtol=2e-5, atol=1e-5
    )


SAMPLES = [
    *[
        Sample(
            f"map_coordinates-{order}-{mode}",
            lambda x, c, order=order, mode=mode: ndimage.map_coordinates(
                x, c, order=order, mode=mode, cval=0.7
            ),
            [normal(6, 5), uniform(-9.1, 14.1, 2, 7)],
            # Beyond order 3 the second slope is smooth too, but order 1 has none at all.
            order=2 if order > 2 else 1,
        )
        for order, mode in [
            (1, "constant"),
            (1, "reflect"),
            (2, "mirror"),
            (3, "constant"),
            (3, "grid-constant"),
            (3, "nearest"),
            (3, "wrap"),
            (4, "reflect"),
            (5, "grid-wrap"),
        ]
    ],
    Sample(
        "affine_transform",
        lambda x, m, o: ndimage.affine_transform(x, m, o, order=3, mode="mirror"),
        [normal(5, 4), normal(2, 2), normal(2)],
    ),
    Sample(
        "affine_transform-diagonal",
        lambda x, m, o: ndimage.affine_transform(x, m, o, order=3, mode="reflect"),
        [normal(5, 4), uniform(0.5, 1.5, 2), normal(2)],
    ),
    Sample(
        "shift",
        lambda x, s: ndimage.shift(x, s, order=3, mode="grid-wrap"),
        [normal(5, 4), normal(2)],
    ),
    Sample("zoom", lambda x: ndimage.zoom(x, 1.7), [normal(4, 5)]),
    Sample(
        "rotate",
        lambda x, a: ndimage.rotate(x, a, reshape=False, mode="mirror"),
        [normal(5, 4), uniform(10.0, 70.0)],
    ),
    Sample("spline_filter1d", lambda x: ndimage.spline_filter1d(x, output=x.dtype), [normal(4, 5)]),
    Sample(
        "correlate1d",
        lambda x, w: ndimage.correlate1d(x, w, axis=0, mode="mirror"),
        [normal(5, 4), normal(4)],
    ),
    Sample(
        "correlate1d-constant",
        lambda x, w, c: ndimage.correlate1d(x, w, axis=0, mode="constant", cval=c),
        [normal(5, 4), normal(4), normal()],
    ),
    Sample(
        "convolve", lambda x, w: ndimage.convolve(x, w, mode="wrap"), [normal(5, 4), normal(3, 2)]
    ),
    Sample(
        "gaussian_filter1d",
        lambda x, s: ndimage.gaussian_filter1d(x, s, order=1, radius=3),
        [normal(5, 4), uniform(0.7, 1.5)],
    ),
    Sample("sobel", lambda x: ndimage.sobel(x), [normal(4, 5)]),
    Sample("maximum_filter", lambda x: ndimage.maximum_filter(x, 3), [normal(4, 5)]),
    Sample("median_filter", lambda x: ndimage.median_filter(x, footprint=CROSS), [normal(4, 5)]),
]


@pytest.mark.parametrize("sample", SAMPLES, ids=repr)
def test_derivatives_batches_and_recordings(sample):
    check_on_cpu(sample)


@pytest.mark.filterwarnings("ignore:You are comparing a array_api_strict dtype")
@pytest.mark.parametrize("sample", SAMPLES[5:7] + SAMPLES[9:], ids=repr)
def test_nothing_is_read_back_from_a_device(sample):
    check_on_strict_device(sample)


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda: ndimage.zoom(IMAGE, 2, order=6), ArgumentError, "order from 0 to 5. Got 6"),
        (lambda: ndimage.zoom(IMAGE, 2, mode="edge"), ArgumentError, "Got 'edge'"),
        (lambda: ndimage.zoom(IMAGE, (2, 2, 2)), ArgumentError, "per axis, 2 in total. Got 3"),
        (lambda: ndimage.map_coordinates(IMAGE, [[0.0]]), ShapeError, "one row for each axis"),
        (lambda: ndimage.affine_transform(IMAGE, np.eye(4)), ShapeError, "Got \\(4, 4\\)"),
        (lambda: ndimage.rotate(IMAGE, 3, axes=(0,)), ArgumentError, "needs two axes"),
        (lambda: ndimage.rotate(IMAGE, 3, axes=(0, 0)), ArgumentError, "distinct axes"),
        (lambda: ndimage.correlate1d(IMAGE, np.eye(2)), ShapeError, "weights along one axis"),
        (
            lambda: ndimage.correlate1d(IMAGE, [1, 2], origin=3),
            ArgumentError,
            "origin from -1 to 0",
        ),
        (lambda: ndimage.correlate(IMAGE, [1.0, 2.0]), ShapeError, "weights with as many axes"),
        (lambda: ndimage.sobel(IMAGE, output=np.zeros(3)), ShapeError, "the shape of the result"),
        (
            lambda: ndimage.sobel(IMAGE * 1j, output=np.zeros(IMAGE.shape)),
            ArgumentTypeError,
            "a complex dtype",
        ),
        (lambda: ndimage.gaussian_filter1d(IMAGE, 1, order=-1), ArgumentError, "integer order"),
        (lambda: ndimage.gaussian_filter1d(IMAGE, 1, radius=-1), ArgumentError, "integer radius"),
        (lambda: ndimage.median_filter(IMAGE), ArgumentError, "size or footprint"),
        (lambda: ndimage.median_filter(IMAGE, footprint=[1]), ShapeError, "with as many axes"),
        (lambda: ndimage.rank_filter(IMAGE, 9, 3), ArgumentError, "Got 9"),
        (lambda: ndimage.percentile_filter(IMAGE, 101, 3), ArgumentError, "Got 101"),
        (lambda: ndimage.uniform_filter1d(IMAGE, 0), ArgumentError, "size of at least 1"),
    ],
)
def test_what_does_not_fit_is_refused_with_a_sentence(call, error, words):
    with pytest.raises(error, match=words):
        call()
