"""Long sums in half precision are rounded once, in values and gradients."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import tapegrad as tf
import tapegrad.numpy as tnp
from tapegrad.core.primitive.primitive import PRIMITIVES

LENGTH = 3000
RNG = np.random.default_rng(0)
X = RNG.normal(0.3, 0.5, (4, LENGTH))
IDS = RNG.integers(0, 5, LENGTH)
LIMITS = {"bfloat16": 0.06, "float16": 0.01}
"""Relative to the largest. Where 8 is rounded to bfloat16, its exponential is off by up to 3 %, and
gradients have two of those. A sum that is rounded at every step stops growing at 256 addends."""


def columns(x: Any) -> Any:
    return tf.transpose(x)


FUNCTIONS = {
    "sum": lambda x: tf.reduce_sum(x, -1),
    "mean": lambda x: tf.reduce_mean(x, -1),
    "variance": lambda x: tf.math.reduce_variance(x, -1),
    "norm": lambda x: tf.norm(x, axis=-1),
    "norm of ord 1": lambda x: tf.norm(x, ord=1, axis=-1),
    "log-sum-exp": lambda x: tf.reduce_logsumexp(x, -1),
    "running sum": lambda x: tf.cumsum(x, -1),
    "running sum before": lambda x: tf.cumsum(x, -1, exclusive=True, reverse=True),
    "running log-sum-exp": lambda x: tf.math.cumulative_logsumexp(x, -1),
    "logaddexp.reduce": lambda x: np.logaddexp.reduce(x, -1),
    "matrix product": lambda x: tf.matmul(x, x, transpose_b=True),
    "einsum": lambda x: tf.einsum("ij,kj->ik", x, x),
    "vecdot": lambda x: tnp.vecdot(x, x),
    "cov": lambda x: tnp.cov(x),
    "trapezoid": lambda x: tnp.trapezoid(x, axis=-1),
    "convolve": lambda x: tnp.convolve(x[0], x[1][:500], "valid"),
    "softmax": lambda x: tf.nn.softmax(x),
    "log_softmax": lambda x: tf.nn.log_softmax(x),
    "cross entropy": lambda x: tf.nn.softmax_cross_entropy_with_logits(tf.nn.softmax(x), x),
    "cross entropy of labels": lambda x: tf.nn.sparse_softmax_cross_entropy_with_logits(
        np.arange(4), x
    ),
    "layer_norm": lambda x: tf.nn.layer_norm(
        x, tf.ones(LENGTH, x.dtype), tf.zeros(LENGTH, x.dtype)
    ),
    "l2_normalize": lambda x: tf.math.l2_normalize(x, -1),
    "segment_sum": lambda x: tf.math.segment_sum(columns(x), np.sort(IDS)),
    "unsorted_segment_sum": lambda x: tf.math.unsorted_segment_sum(columns(x), IDS, 5),
    "scattered": lambda x: tf.tensor_scatter_nd_add(
        tf.zeros((5, 4), x.dtype), IDS[:, None], columns(x)
    ),
    "gathered": lambda x: tf.gather(x[:, :5], IDS, axis=1),
    "taken along": lambda x: tnp.take_along_axis(x[:, :5], np.tile(IDS, (4, 1)), axis=1),
    "repeated": lambda x: tf.repeat(x[:, :2], 1000, axis=1),
    "broadcast": lambda x: x[:, :1] * tf.ones((1, LENGTH), x.dtype),
    "avg_pool": lambda x: tf.nn.avg_pool1d(columns(x)[None], 1000, 500, "VALID"),
    "conv1d": lambda x: tf.nn.conv1d(
        columns(x)[None], tf.cast(tf.fill((500, 4, 2), 0.1), x.dtype), 500, "VALID"
    ),
}


def value_and_gradient(function: Any, x: Any, t: Any, recorded: bool) -> list[Any]:
    def both(x: Any) -> Any:
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = function(x)
        return y, tape.gradient(y, x, output_gradients=None if t is None else tf.cast(t, y.dtype))

    found = (tf.function(both) if recorded else both)(tf.constant(x))
    return [value.numpy().astype("float64") for value in found]


@pytest.mark.parametrize("recorded", [False, True], ids=["eager", "function"])
@pytest.mark.parametrize("dtype", [ml_dtypes.bfloat16, np.float16], ids=["bfloat16", "float16"])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_half_precision_is_nearly_as_good_as_its_last_rounding(name, dtype, recorded):
    function, x = FUNCTIONS[name], X.astype(dtype)
    exact = x.astype("float64")
    shape = value_and_gradient(function, exact, None, False)[0].shape
    t = RNG.normal(0.2, 0.3, shape).astype(dtype).astype("float64")

    found = value_and_gradient(function, x, t, recorded)

    for got, want in zip(found, value_and_gradient(function, exact, t, False), strict=True):
        error = np.abs(got - want).max() / np.abs(want).max()
        assert error < LIMITS[np.dtype(dtype).name]


def test_the_gradient_of_gelu_is_in_half_precision() -> None:
    x = tf.cast(tf.constant([-1.0, 0.5, 2.0]), tf.bfloat16)
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = tf.nn.gelu(x)
    assert tape.gradient(y, x).dtype == tf.bfloat16
    slope = PRIMITIVES["gelu_slope"].kernel(np.ndarray)(x.numpy())
    assert slope.dtype == x.numpy().dtype
    np.testing.assert_allclose(slope.astype(float), [-0.0833, 0.8675, 1.0852], atol=0.004)
