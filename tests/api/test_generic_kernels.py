"""NumPy's kernels and the generic ones, run on the strict stand-in, agree."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

import tapegrad as tf
import tapegrad_strict as strict
from tapegrad.core.backend.registry import register_backend, unregister_backend

# Tensor.dtype looks a dtype up among NumPy's first and asks the backend when it is not there.
pytestmark = pytest.mark.filterwarnings("ignore:You are comparing a array_api_strict dtype")


@pytest.fixture(params=["cpu", "strict:0"], autouse=True)
def place(request: pytest.FixtureRequest) -> Iterator[None]:
    register_backend(strict.StrictBackend())
    with tf.device(request.param):
        yield
    unregister_backend("strict")


AVERAGES = {
    "avg_pool": lambda x: tf.nn.avg_pool(x, 2, 1, "VALID"),
    "avg_pool1d": lambda x: tf.nn.avg_pool1d(x, 2, 1, "SAME"),
    "pool": lambda x: tf.nn.pool(x, [2], "AVG"),
}


@pytest.mark.parametrize("dtype", ["int32", "uint8", "bool"])
@pytest.mark.parametrize("average", AVERAGES.values(), ids=AVERAGES)
def test_averages_of_integers_are_refused_as_in_tensorflow(average, dtype):
    x = tf.constant(np.ones((1, 4, 1), dtype))

    with pytest.raises(tf.errors.DTypeError, match=rf"floating-point tensor. Got {dtype}; cast"):
        average(x)


def test_the_maximum_of_integers_is_taken():
    x = tf.constant(np.array([3, -5, -7, -2]).reshape(1, 4, 1))

    y = tf.nn.max_pool1d(x, 2, 1, "SAME")

    assert y.numpy().ravel().tolist() == [3, -5, -2, -2]


def test_a_window_in_the_padding_alone_has_the_average_0_and_gives_no_gradient():
    x = tf.constant(np.array([4.0, 8.0]).reshape(1, 2, 1))
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = tf.nn.avg_pool1d(x, 2, 2, [[0, 0], [2, 3], [0, 0]])

    assert y.numpy().ravel().tolist() == [0.0, 6.0, 0.0]
    assert tape.gradient(y, x).numpy().ravel().tolist() == [0.5, 0.5]


PADDED = {
    "before": ([2], [2, 0], 1),
    "after": ([2], [0, 2], 1),
    "around, dilated": ([2], [1, 3], 3),
}


@pytest.mark.parametrize(("window", "pads", "dilation"), PADDED.values(), ids=PADDED)
def test_a_window_in_the_padding_alone_has_no_maximum(window, pads, dilation):
    x = tf.ones([1, 2, 1])

    with pytest.raises(tf.errors.ShapeError, match="needs a data element in every window"):
        tf.nn.pool(x, window, "MAX", padding=[[0, 0], pads, [0, 0]], dilations=[dilation])


@pytest.mark.parametrize("shape", [(2, 0), (0, 2), (0,)], ids=repr)
@pytest.mark.parametrize("function", [tf.nn.softmax, tf.nn.log_softmax])
def test_softmax_of_nothing_is_nothing_and_so_is_its_gradient(function, shape):
    x = tf.zeros(shape)
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = function(x)
    gradient = tape.gradient(y, x)

    assert (y.shape, y.dtype) == (shape, "float32")
    assert (gradient.shape, gradient.dtype) == (shape, "float32")
