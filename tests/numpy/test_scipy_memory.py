"""SciPy's own functions never read or write memory that is not the tensor's."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.linalg
import scipy.ndimage
import scipy.signal

import tapegrad as tf

ROW = np.arange(1.0, 6.0)
IMAGE = np.arange(12.0).reshape(3, 4)


@pytest.mark.parametrize("make", [lambda a: a, lambda a: a[::-1], lambda a: a[1:]])
@pytest.mark.parametrize("name", ["toeplitz", "hankel", "circulant", "companion", "leslie"])
def test_structured_matrices_of_tensors_are_right_or_refused(name: str, make: Any) -> None:
    values = make(ROW)
    args = (values, values[1:]) if name == "leslie" else (values,)
    want = getattr(scipy.linalg, name)(*args)
    try:
        found = getattr(scipy.linalg, name)(*(tf.constant(arg) for arg in args))
    except AttributeError as error:
        message = str(error)
    else:
        np.testing.assert_allclose(np.asarray(found), want)
        return
    assert "no strides" in message


FILTERS: dict[str, Any] = {
    "gaussian_filter": lambda x, out: scipy.ndimage.gaussian_filter(x, 1.0, output=out),
    "uniform_filter": lambda x, out: scipy.ndimage.uniform_filter(x, 3, output=out),
    "median_filter": lambda x, out: scipy.ndimage.median_filter(x, 3, output=out),
    "sobel": lambda x, out: scipy.ndimage.sobel(x, output=out),
    "shift": lambda x, out: scipy.ndimage.shift(x, 0.5, output=out),
    "convolve": lambda x, out: scipy.ndimage.convolve(x, np.ones((3, 3)), output=out),
    "correlate1d": lambda x, out: scipy.ndimage.correlate1d(x, [1.0, 2.0, 1.0], output=out),
    "spline_filter": lambda x, out: scipy.ndimage.spline_filter(x, output=out),
}


@pytest.mark.parametrize("name", FILTERS)
@pytest.mark.parametrize("input_is_tensor", [False, True])
def test_filters_write_into_a_tensor_or_refuse_it(name: str, input_is_tensor: bool) -> None:
    want = np.zeros_like(IMAGE)
    FILTERS[name](IMAGE, want)
    out = tf.constant(np.full_like(IMAGE, 7.0))
    try:
        FILTERS[name](tf.constant(IMAGE) if input_is_tensor else IMAGE, out)
    except (TypeError, ValueError, RuntimeError, AttributeError):
        np.testing.assert_array_equal(out.numpy(), np.full_like(IMAGE, 7.0))
    else:
        np.testing.assert_allclose(out.numpy(), want)


def test_the_memory_handed_out_is_a_tensor_of_its_own_or_read_only() -> None:
    x = tf.constant(ROW)
    array = np.asarray(x)
    if array.flags.writeable:
        array[0] = 100.0
    assert x.numpy()[0] == ROW[0]
    assert array.strides == (8,)


@pytest.mark.parametrize(
    "call",
    [
        lambda x: scipy.signal.oaconvolve(x, np.ones(3)),
        lambda x: scipy.signal.lfilter([1.0, 0.5], [1.0], x),
        lambda x: scipy.signal.medfilt(x, 3),
        lambda x: scipy.linalg.convolution_matrix(x, 3),
    ],
    ids=["oaconvolve", "lfilter", "medfilt", "convolution_matrix"],
)
def test_functions_of_signals_read_the_values_of_a_tensor(call: Any) -> None:
    for values in (ROW, ROW[::-1]):
        try:
            found = call(tf.constant(values))
        except AttributeError as error:
            message = str(error)
        else:
            np.testing.assert_allclose(np.asarray(found), call(values), atol=1e-12)
            continue
        assert "no strides" in message
