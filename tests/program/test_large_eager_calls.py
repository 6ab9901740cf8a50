"""Large eager convolutions, pooling, sums, scans and norms in C agree with their definitions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.signal

import tapegrad as tf
from tapegrad_numpy.eager.compiled import compiled_form
from tapegrad_numpy.kernels.table import KERNELS
from tapegrad_numpy.loops import compiler

pytestmark = pytest.mark.skipif(compiler.find() is None, reason="this machine has no C compiler")

rng = np.random.default_rng(28)


def draw(*shape: int) -> Any:
    return rng.normal(size=shape).astype(np.float32)


def close(found: Any, expected: Any, tolerance: float = 1e-5) -> None:
    expected = np.asarray(expected)
    assert np.shape(found) == expected.shape
    np.testing.assert_allclose(found, expected, rtol=tolerance, atol=tolerance * 30)


SUMS = [
    ((40, 70, 30), (1,)), ((300, 400), (0,)), ((300, 400), (1,)), ((200_000,), (0,)),
    ((50_000, 3), (1,)), ((6, 80, 9, 16), (0, 1, 2)), ((6, 80, 9, 16), (1, 3)),
    ((7, 1, 9000), (1,)),
]  # fmt: skip
REDUCTIONS: dict[str, Callable[..., Any]] = {
    "reduce_sum": np.sum,
    "reduce_mean": np.mean,
    "reduce_max": np.max,
    "reduce_min": np.min,
    "reduce_prod": np.prod,
}


@pytest.mark.parametrize("name", REDUCTIONS)
@pytest.mark.parametrize(("shape", "axis"), SUMS)
@pytest.mark.parametrize("keepdims", [True, False])
def test_reductions(name: str, shape: Any, axis: Any, keepdims: bool) -> None:
    x = draw(*shape)
    if name == "reduce_prod":
        x = 1 + x / 1000
    function = getattr(tf, name)
    expected = REDUCTIONS[name](x.astype(float), axis, keepdims=keepdims)
    close(function(tf.constant(x), axis, keepdims), expected, 2e-5)
    gaps = np.moveaxis(np.moveaxis(x, 0, -1).copy(), -1, 0)  # the same numbers in another order
    close(function(tf.constant(gaps), axis, keepdims), expected, 2e-5)


@pytest.mark.parametrize("special", [np.nan, np.inf, -np.inf])
def test_extremes_of_special_numbers(special: float) -> None:
    x = draw(64, 1000)
    x[3, 500] = special
    for axis in (0, 1):
        np.testing.assert_array_equal(tf.reduce_max(tf.constant(x), axis), np.max(x, axis))
        np.testing.assert_array_equal(tf.reduce_min(tf.constant(x), axis), np.min(x, axis))


def test_scans_and_the_largest() -> None:
    x = draw(300, 200)
    for axis in (0, 1):
        close(tf.cumsum(tf.constant(x), axis), np.cumsum(x.astype(float), axis))
        expected = np.cumsum(x[::-1, ::-1].astype(float), axis)[::-1, ::-1]
        close(tf.cumsum(tf.constant(x), axis, reverse=True), expected)
    values, places = tf.math.top_k(tf.constant(x), 7)
    np.testing.assert_array_equal(values, -np.sort(-x, 1)[:, :7])
    np.testing.assert_array_equal(np.take_along_axis(x, np.asarray(places), 1), values)


def test_sums_by_index_and_gradients_of_gathers() -> None:
    x, index = draw(3000, 20), rng.integers(0, 50, 3000)
    expected = np.zeros((50, 20))
    np.add.at(expected, index, x)
    close(tf.math.unsorted_segment_sum(tf.constant(x), index, 50), expected)
    largest = np.full((50, 20), -np.inf)
    np.maximum.at(largest, index, x)
    found = tf.math.unsorted_segment_max(tf.constant(x), index, 50)
    np.testing.assert_array_equal(found, largest.astype(np.float32))
    with tf.GradientTape() as tape:
        table = tf.constant(draw(50, 20))
        tape.watch(table)
        total = tf.reduce_sum(tf.gather(table, index) * x)
    close(tape.gradient(total, table), expected)


@pytest.mark.parametrize("padding", ["SAME", "VALID"])
def test_convolutions_and_their_gradients(padding: str) -> None:
    x, w = draw(5, 30, 31, 8), draw(3, 3, 8, 6)
    with tf.GradientTape(persistent=True) as tape:
        a, b = tf.constant(x), tf.constant(w)
        tape.watch([a, b])
        y = tf.nn.conv2d(a, b, 1, padding)
        total = tf.reduce_sum(y * y)
    mode = padding.lower()
    expected = np.zeros(y.shape)
    for n in range(5):
        for i in range(8):
            for k in range(6):
                expected[n, :, :, k] += scipy.signal.correlate2d(x[n, :, :, i], w[:, :, i, k], mode)
    close(y, expected, 1e-4)
    # The derivative along any direction, from the linearity of the convolution in each operand.
    for source, direction, moved in ((a, draw(*x.shape), 0), (b, draw(*w.shape), 1)):
        along = (
            tf.nn.conv2d(direction, w, 1, padding)
            if moved == 0
            else tf.nn.conv2d(x, direction, 1, padding)
        )
        slope = 2 * np.sum(expected * np.asarray(along, float))
        found = np.sum(np.asarray(tape.gradient(total, source), float) * direction)
        np.testing.assert_allclose(found, slope, rtol=1e-3)


def test_pooling_and_its_gradient() -> None:
    x = draw(6, 32, 32, 8)
    with tf.GradientTape() as tape:
        a = tf.constant(x)
        tape.watch(a)
        y = tf.nn.max_pool2d(a, 2, 2, "VALID")
        total = tf.reduce_sum(y * y)
    windows = x.reshape(6, 16, 2, 16, 2, 8)
    expected = windows.max((2, 4), keepdims=True)
    np.testing.assert_array_equal(y, expected[:, :, 0, :, 0])
    slope = np.where(windows == expected, 2 * windows, 0).reshape(x.shape)
    close(tape.gradient(total, a), slope)


NORMS = [
    ((8, 20, 20, 4, 8), (1, 2, 4), 2),
    ((16, 14, 14, 16), (0, 1, 2), 1),
    ((64, 24, 32), (1,), 1),
]


@pytest.mark.parametrize(("shape", "axes", "kept"), NORMS)
@pytest.mark.parametrize("center", [True, False])
def test_norms_along_other_axes_than_the_last(
    shape: Any, axes: Any, kept: int, center: bool
) -> None:
    x, t = (3 + draw(*shape)).astype(np.float32), draw(*shape)
    gain, bias = draw(*shape[-kept:]), draw(*shape[-kept:])
    params = {"axes": axes, "epsilon": 1e-3, "center": center, "scaled": True}
    y, mean, variance = compiled_form("normalize", _refused)(x, gain, bias, shifted=True, **params)

    wide = tf.constant(x.astype(float)), tf.constant(gain.astype(float)), tf.constant(bias + 0.0)
    with tf.GradientTape() as tape:
        tape.watch(wide)
        middle = tf.reduce_mean(wide[0], axes, keepdims=True) if center else 0.0
        spread = tf.reduce_mean((wide[0] - middle) ** 2, axes, keepdims=True)
        exact = (wide[0] - middle) / tf.sqrt(spread + 1e-3) * wide[1] + tf.cast(wide[2], "float64")
        total = tf.reduce_sum(exact * t.astype(float))
    close(y, exact, 1e-4)
    close(variance, np.reshape(spread, variance.shape), 1e-4)

    gradient = compiled_form("normalize_gradient", _refused)
    found = gradient(t, x, gain, mean, variance, bias_shape=bias.shape, **params)
    for one, other in zip(found, tape.gradient(total, wide)):
        close(one, other, 1e-4)


def _refused(*_: Any, **__: Any) -> Any:
    raise AssertionError("The kernel of NumPy was called.")


@pytest.mark.parametrize(
    ("name", "shapes", "params"),
    [
        ("sum", [(64, 30, 50)], {"axis": (1,), "keepdims": False}),
        ("cumulative_sum", [(300, 200)], {"axis": 1, "exclusive": False, "reverse": False}),
        ("prod", [(300, 200)], {"axis": (1,), "keepdims": False}),
    ],
)
def test_numpy_shows_the_results_only_once(name: str, shapes: Any, params: Any) -> None:
    calls = []

    def plain(*operands: Any, **params: Any) -> Any:
        calls.append(name)
        return KERNELS[name](*operands, **params)

    kernel = compiled_form(name, plain)
    arrays = [draw(*shape) for shape in shapes]
    first, second = kernel(*arrays, **params), kernel(*arrays, **params)
    np.testing.assert_array_equal(first, second)
    assert calls == [name]


def test_operands_with_gaps_are_copied() -> None:
    x = draw(200, 300)
    params = {"axis": 1, "exclusive": False, "reverse": False}
    kernel = compiled_form("cumulative_sum", KERNELS["cumulative_sum"])
    close(kernel(x.T, **params), np.cumsum(x.T.astype(float), 1))
    close(kernel(x[::2, ::3], **params), np.cumsum(x[::2, ::3].astype(float), 1))
