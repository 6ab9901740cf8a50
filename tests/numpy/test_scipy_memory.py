"""SciPy's own functions read and write the memory of tensors, and no other."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
import scipy.linalg
import scipy.ndimage
import scipy.signal

import tapegrad as tf
import tapegrad.numpy
from tapegrad.errors import ArgumentError

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
def test_filters_write_into_a_tensor(name: str, input_is_tensor: bool) -> None:
    want = np.zeros_like(IMAGE)
    FILTERS[name](IMAGE, want)
    out = tf.constant(np.full_like(IMAGE, 7.0))
    before = out + 0.0
    FILTERS[name](tf.constant(IMAGE) if input_is_tensor else IMAGE, out)
    np.testing.assert_array_equal(out.numpy(), want)
    np.testing.assert_array_equal(before.numpy(), np.full_like(IMAGE, 7.0))


def test_results_in_views_reach_their_base_and_other_views() -> None:
    stack = tf.constant(np.zeros((2, 4, 3)))
    turned, first = stack.transpose(0, 2, 1), stack[0]
    want = scipy.ndimage.gaussian_filter(IMAGE, 1.0)
    for _ in range(2):
        scipy.ndimage.gaussian_filter(IMAGE, 1.0, output=turned[1])
        np.testing.assert_array_equal(stack[1].numpy(), want.T)
        stack[...] = 0.0
    scipy.ndimage.zoom(IMAGE.T, 1, output=first)
    np.testing.assert_array_equal(stack[0].numpy(), IMAGE.T)
    np.testing.assert_array_equal(turned[0].numpy(), IMAGE)


def test_saved_values_do_not_change_with_an_output() -> None:
    out, factor = tf.constant(np.ones_like(IMAGE)), tf.constant(np.array(2.0))
    with tf.GradientTape() as tape:
        tape.watch(factor)
        total = tf.reduce_sum(out * factor)
        scipy.ndimage.gaussian_filter(IMAGE, 1.0, output=out)
        after = tf.reduce_sum(out * factor)
        slope = tape.gradient(total + after, factor)
    assert float(slope) == pytest.approx(IMAGE.size + out.numpy().sum())


def test_outputs_that_cannot_be_written_are_refused() -> None:
    spread = tapegrad.numpy.broadcast_to(tf.constant(np.zeros(4)), (3, 4))
    real = tf.constant(np.zeros((3, 4), complex)).real
    variable = tf.Variable(np.zeros((3, 4)))
    for out, words in ((spread, "read-only"), (real, "real part"), (variable, "v.assign(result)")):
        with pytest.raises(ArgumentError, match=re.escape(words)):
            scipy.ndimage.zoom(IMAGE, 1, output=out)
    followed = tf.constant(np.zeros((3, 4)))
    with tf.GradientTape() as tape:
        tape.watch(followed)
        with pytest.raises(ArgumentError, match="a tape follows it"):
            scipy.ndimage.sobel(IMAGE, output=followed)
    assert not np.asarray(followed).any()
    with pytest.raises(ValueError, match="read-only"):
        np.asarray(followed)[0] = 1.0


def test_compiled_code_may_write_to_its_copy() -> None:
    sections, signal = scipy.signal.butter(4, 0.2, output="sos"), np.cos(np.arange(30.0))
    want = scipy.signal.sosfilt(sections, signal)
    coefficients, values = tf.Variable(sections), tf.constant(signal)
    found = scipy.signal.sosfilt(tf.constant(sections), values)
    np.testing.assert_array_equal(np.asarray(found), want)
    np.testing.assert_array_equal(np.asarray(scipy.signal.sosfilt(coefficients, values)), want)
    level = scipy.signal.detrend(values, overwrite_data=True)
    np.testing.assert_allclose(np.asarray(level), scipy.signal.detrend(signal))
    np.testing.assert_array_equal(values.numpy(), signal)


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
