"""Sorted rows, their order and their largest elements on CUDA are those of NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tapegrad as tf

cupy = pytest.importorskip("cupy")

LENGTHS = [1, 2, 3, 5, 31, 32, 33, 100, 1000, 1024, 1025, 4096]
LENGTHS += [4097, 8192, 8193, 12288, 20000, 70001]
DTYPES = ["bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"]
DTYPES += ["float16", "float32", "float64"]


def drawn(rng: np.random.Generator, shape: tuple[int, ...], dtype: str) -> Any:
    """Values with many ties, extreme ones included."""
    if dtype == "bool":
        return rng.random(shape) < 0.5
    if dtype.startswith("float"):
        x = rng.standard_normal(shape).astype(dtype)
        chosen = np.array([0.0, -0.0, np.nan, np.inf, -np.inf, 1.0], dtype)
        return np.where(rng.random(shape) < 0.3, rng.choice(chosen, shape), x)
    limits = np.iinfo(dtype)
    x = rng.integers(-3 if limits.min else 0, 9, shape).astype(dtype)
    ends = np.array([limits.min, limits.max], dtype)
    return np.where(rng.random(shape) < 0.1, rng.choice(ends, shape), x)


def order_of(x: Any, axis: int, direction: str) -> Any:
    """The stable order; NaN is the largest value."""
    if direction == "ASCENDING":
        return np.argsort(x, axis=axis, kind="stable")
    flipped = np.argsort(np.flip(x, axis), axis=axis, kind="stable")
    return x.shape[axis] - 1 - np.flip(flipped, axis)


@pytest.mark.parametrize("direction", ["ASCENDING", "DESCENDING"])
@pytest.mark.parametrize("length", LENGTHS)
@pytest.mark.parametrize("dtype", ["float32", "float64", "int64"])
def test_rows_of_any_length(dtype: str, length: int, direction: str) -> None:
    x = drawn(np.random.default_rng(length), (7, length), dtype)
    order = order_of(x, 1, direction)

    with tf.device("cuda"):
        found = tf.argsort(tf.constant(x), direction=direction, stable=True)
        values = tf.sort(tf.constant(x), direction=direction)

    np.testing.assert_array_equal(found.numpy(), order)
    np.testing.assert_array_equal(values.numpy(), np.take_along_axis(x, order, 1))


@pytest.mark.parametrize("shape", [(9, 40, 13), (5000, 2, 3), (2, 5000, 3)], ids=str)
@pytest.mark.parametrize("axis", [0, 1, 2])
@pytest.mark.parametrize("dtype", DTYPES)
def test_every_dtype_along_every_axis(dtype: str, axis: int, shape: tuple[int, ...]) -> None:
    x = drawn(np.random.default_rng(axis), shape, dtype)
    order = order_of(x, axis, "ASCENDING")

    with tf.device("cuda"):
        found = tf.argsort(tf.constant(x), axis=axis, stable=True)
        values = tf.sort(tf.constant(x), axis=axis)

    np.testing.assert_array_equal(found.numpy(), order)
    np.testing.assert_array_equal(values.numpy(), np.take_along_axis(x, order, axis))


@pytest.mark.parametrize(("length", "k"), [(50, 1), (50, 3), (50, 50), (9000, 7), (30000, 5000)])
def test_the_largest_elements(length: int, k: int) -> None:
    x = drawn(np.random.default_rng(k), (300, length), "float32")
    order = order_of(x, 1, "DESCENDING")[:, :k]

    with tf.device("cuda"):
        values, places = tf.math.top_k(tf.constant(x), k)

    np.testing.assert_array_equal(places.numpy(), order)
    np.testing.assert_array_equal(values.numpy(), np.take_along_axis(x, order, 1))


@pytest.mark.parametrize("length", [300, 10000])
def test_a_sort_in_a_captured_function_with_its_gradient(length: int) -> None:
    rng = np.random.default_rng(0)
    x, t = (rng.standard_normal((20, length)).astype("float32") for _ in range(2))

    @tf.function
    def both(x: Any, t: Any) -> Any:
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = tf.sort(x)
        return y, tape.gradient(y, x, output_gradients=t)

    with tf.device("cuda"):
        for _ in range(4):
            y, g = both(tf.constant(x), tf.constant(t))

    expected = np.empty_like(x)
    np.put_along_axis(expected, np.argsort(x, axis=1, kind="stable"), t, 1)
    np.testing.assert_array_equal(y.numpy(), np.sort(x))
    np.testing.assert_array_equal(g.numpy(), expected)
