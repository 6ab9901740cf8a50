"""`output` of the image functions: a dtype, or an array to write to."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.ndimage as reference

import tapegrad as tf
import tapegrad.numpy as tnp
from tapegrad.scipy import ndimage

IMAGE = np.random.default_rng(0).normal(size=(9, 8)) * 20
CALLS = {
    "correlate": ([[1.0, 2.0], [0.5, 3.0]],),
    "gaussian_filter": (1.5,),
    "laplace": (),
    "median_filter": (3,),
    "shift": (1.5,),
    "sobel": (),
    "uniform_filter": (3,),
    "zoom": (1,),
}


@pytest.mark.parametrize("dtype", [np.int8, np.float32, np.dtype("float64"), "uint16"])
@pytest.mark.parametrize("name", CALLS)
def test_results_have_the_dtype_of_output(name, dtype):
    image = abs(IMAGE)
    wanted = getattr(reference, name)(image, *CALLS[name], output=dtype)
    found = getattr(ndimage, name)(image, *CALLS[name], output=dtype)

    assert found.dtype.name == wanted.dtype.name
    if name != "laplace" or np.dtype(dtype).kind == "f":  # casts of negative floats differ
        np.testing.assert_allclose(found.numpy(), wanted, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("make", [np.asarray, tnp.asarray, tf.Variable])
def test_results_are_written_to_an_array(make):
    wanted = reference.sobel(IMAGE)
    place = make(np.zeros(IMAGE.shape))
    returned = ndimage.sobel(IMAGE, output=place)

    assert returned is place
    np.testing.assert_allclose(np.asarray(place), wanted, rtol=1e-12, atol=1e-12)


def test_an_image_can_be_its_own_output():
    image = tnp.asarray(IMAGE)
    ndimage.gaussian_filter(image, 1.0, output=image)
    np.testing.assert_allclose(image.numpy(), reference.gaussian_filter(IMAGE, 1.0), rtol=1e-10)


def test_gradients_pass_through_a_tensor_that_was_written_to():
    x = tnp.asarray(IMAGE)
    with tf.GradientTape() as tape:
        tape.watch(x)
        place = tnp.zeros(IMAGE.shape)
        ndimage.correlate1d(x, [1.0, 2.0, 4.0], output=place)
        total = tnp.sum(place[2] * 3.0)
    with tf.GradientTape() as direct:
        direct.watch(x)
        other = tnp.sum(ndimage.correlate1d(x, [1.0, 2.0, 4.0])[2] * 3.0)

    np.testing.assert_array_equal(
        tape.gradient(total, x).numpy(), direct.gradient(other, x).numpy()
    )


def test_complex_results_promote_a_real_output_dtype():
    with pytest.warns(UserWarning, match="is complex"):
        found = ndimage.shift(IMAGE * 1j, 1.0, output=np.float32)
    assert found.dtype == tf.complex64


@pytest.mark.parametrize("name", ["correlate", "gaussian_filter", "median_filter", "sobel"])
def test_filters_of_empty_images_are_empty(name):
    image = np.zeros((0, 3), np.float32)
    found = getattr(ndimage, name)(image, *CALLS[name])
    assert found.shape == (0, 3)
    assert found.dtype == tf.float32


def test_zoom_by_one_changes_no_bit():
    np.testing.assert_array_equal(ndimage.zoom(IMAGE, 1).numpy(), IMAGE)


UNSIGNED = np.random.default_rng(1).integers(0, 9, size=(6, 7))


@pytest.mark.parametrize("dtype", [np.uint8, np.uint32, np.int16])
@pytest.mark.parametrize(
    "name", ["prewitt", "laplace", "gaussian_laplace", "gaussian_gradient_magnitude"]
)
def test_steps_of_filters_are_stored_in_the_dtype_of_the_image(name, dtype):
    image = (UNSIGNED * 11).astype(dtype)
    options = {"sigma": 1.0} if "gaussian" in name else {}
    if np.dtype(dtype).kind == "u" and name == "gaussian_gradient_magnitude":
        return  # squares overflow in SciPy
    np.testing.assert_array_equal(
        getattr(ndimage, name)(image, **options).numpy(), getattr(reference, name)(image, **options)
    )


@pytest.mark.parametrize("origin", [0, (0, 1)])
@pytest.mark.parametrize("axes", [(0, 1), (1, 0), (2, 0), (-1, -2), np.array([2, 1])])
def test_weights_and_footprints_are_in_the_order_of_the_image(axes, origin):
    image = np.random.default_rng(2).normal(size=(5, 6, 7))
    weights = np.random.default_rng(3).normal(size=(3, 4))
    window = weights > -0.3
    options = {"origin": origin, "axes": tuple(int(k) for k in axes)}
    ours = {**options, "axes": axes}
    for name, extra in (
        ("correlate", {"weights": weights}),
        ("convolve", {"weights": weights}),
        ("maximum_filter", {"footprint": window}),
        ("minimum_filter", {"size": (3, 4)}),
        ("median_filter", {"footprint": window}),
        ("percentile_filter", {"percentile": 30, "size": (3, 4)}),
    ):
        found = getattr(ndimage, name)(image, **extra, **ours).numpy()
        wanted = getattr(reference, name)(image, **extra, **options)
        np.testing.assert_allclose(found, wanted, rtol=1e-12, atol=1e-12, err_msg=name)


@pytest.mark.parametrize(
    ("name", "args"),
    [("median_filter", (3,)), ("maximum_filter", (3,)), ("gaussian_gradient_magnitude", (1.0,))],
)
def test_complex_images_have_no_order(name, args):
    with pytest.raises(TypeError, match=r"complex|real image"):
        getattr(ndimage, name)(IMAGE * 1j, *args)
