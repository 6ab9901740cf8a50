"""Cumulative functions on the GPU against NumPy."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import pytest

import tapegrad as tf
from tapegrad.ops.reduction.cumulative import cummax, cummin
from tapegrad.ops.reduction.recurrence import recurrence_p

pytest.importorskip("cupy")

SHAPES = [(1, 0), (1, 1), (3, 33), (1000, 20), (7, 1000), (2, 100_003), (5, 300, 11), (40, 2, 70)]


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("exclusive", [False, True])
@pytest.mark.parametrize("dtype", ["float64", "int32", "complex128", "uint8", "float16"])
@pytest.mark.parametrize("shape", SHAPES)
def test_sums_and_products(
    shape: tuple[int, ...], dtype: str, exclusive: bool, reverse: bool
) -> None:
    rng = np.random.default_rng(len(shape))
    for axis in range(len(shape)):
        if dtype == "float16":  # exact in both precisions
            x = rng.integers(0, 2, shape).astype(dtype)
        elif dtype in ("int32", "uint8"):
            x = rng.integers(0, 9, shape).astype(dtype)
        else:
            x = (1 + rng.normal(size=shape) / (1 + shape[axis])).astype(dtype)
        for name, start in (("cumsum", 0), ("cumprod", 1)):
            wide = x.astype("float32") if dtype == "float16" else x
            turned = np.flip(wide, axis) if reverse else wide
            y = getattr(np, name)(turned, axis=axis, dtype=wide.dtype)
            if exclusive:
                first = np.full((*shape[:axis], 1, *shape[axis + 1 :]), start, y.dtype)
                y = np.concatenate([first, y], axis).take(range(shape[axis]), axis)
            y = (np.flip(y, axis) if reverse else y).astype(dtype)
            with tf.device("cuda:0"):
                found = getattr(tf.math, name)(x, axis, exclusive=exclusive, reverse=reverse)
            assert found.dtype == dtype
            np.testing.assert_allclose(found.numpy(), y, rtol=1e-9)


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("shape", SHAPES)
def test_other_scans(shape: tuple[int, ...], reverse: bool) -> None:
    rng = np.random.default_rng(1)
    for axis in range(len(shape)):
        x, a = 5 * rng.normal(size=shape), rng.uniform(0, 1, shape)
        if x.size > 10:
            x.ravel()[3], x.ravel()[7] = -np.inf, np.inf
        flip = functools.partial(np.flip, axis=axis if reverse else ())
        turned = flip(x)
        with tf.device("cuda:0"):
            found = tf.math.cumulative_logsumexp(x, axis, reverse=reverse).numpy()
            with np.errstate(all="ignore"):
                expected = flip(np.logaddexp.accumulate(turned, axis))
            np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-12)
            x = np.nan_to_num(np.round(x, 1), posinf=9.0, neginf=-9.0)
            highest = cummax(x, axis).numpy()
            np.testing.assert_array_equal(highest, np.maximum.accumulate(x, axis))
            lowest = cummin(x, axis).numpy()
            np.testing.assert_array_equal(lowest, np.minimum.accumulate(x, axis))
            run = recurrence_p(tf.constant(a), tf.constant(x), axis=axis, reverse=reverse).numpy()
        y, factors = np.moveaxis(flip(x), axis, 0).copy(), np.moveaxis(flip(a), axis, 0)
        for i in range(1, len(y)):
            y[i] += factors[i] * y[i - 1]
        np.testing.assert_allclose(run, flip(np.moveaxis(y, 0, axis)), rtol=1e-9, atol=1e-9)


def test_gradients_in_programs() -> None:
    def loss(x: Any) -> Any:
        return tf.reduce_sum(
            tf.math.cumulative_logsumexp(x, 1) * tf.math.cumsum(x, 0, reverse=True)
            + tf.math.cumprod(tf.sigmoid(x), 1) * cummax(x, 1)
        )

    recorded = tf.function(tf.grad(loss))
    with tf.device("cuda:0"):
        for seed in range(4):
            x = np.random.default_rng(seed).normal(size=(30, 90))
            expected = tf.grad(loss)(tf.constant(x)).numpy()
            found = recorded(tf.constant(x)).numpy()
            np.testing.assert_allclose(found, expected, rtol=1e-10, atol=1e-12)
    with tf.device("cpu"):
        np.testing.assert_allclose(tf.grad(loss)(x).numpy(), expected, rtol=1e-9, atol=1e-11)
