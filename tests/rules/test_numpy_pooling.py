from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest

import tapegrad as tf
from tapegrad_numpy.kernels.convolution import output_shape
from tapegrad_numpy.kernels.pooling import KERNELS

max_pool = KERNELS["max_pool"]
pool_gather = KERNELS["pool_gather"]
pool_scatter = KERNELS["pool_scatter"]
avg_pool = KERNELS["avg_pool"]
avg_pool_gradient = KERNELS["avg_pool_gradient"]

# name: shape of x, window, strides, padding, dilation
CASES = {
    "1d": ((2, 7, 3), (3,), (2,), ((0, 0),), (1,)),
    "1d padding": ((2, 8, 3), (3,), (2,), ((2, 1),), (1,)),
    "1d dilation": ((2, 9, 3), (3,), (1,), ((2, 2),), (3,)),
    "2d": ((2, 6, 8, 3), (2, 2), (2, 2), ((0, 0), (0, 0)), (1, 1)),
    "2d overlapping": ((2, 7, 6, 3), (3, 2), (2, 1), ((0, 0), (0, 0)), (1, 1)),
    "2d stride leaves a rest": ((2, 8, 9, 3), (2, 3), (3, 5), ((0, 0), (0, 0)), (1, 1)),
    "2d same": ((2, 5, 6, 3), (3, 3), (2, 2), ((1, 1), (0, 1)), (1, 1)),
    "2d everything": ((2, 9, 8, 3), (3, 2), (2, 1), ((2, 1), (1, 2)), (2, 3)),
    "2d whole block": ((2, 4, 3, 3), (4, 3), (1, 1), ((0, 0), (0, 0)), (1, 1)),
    "2d large window": ((1, 20, 19, 2), (18, 17), (1, 1), ((1, 2), (3, 4)), (1, 1)),
    "3d": ((2, 4, 5, 4, 2), (2, 3, 2), (2, 1, 2), ((1, 0), (1, 1), (0, 1)), (1, 1, 1)),
    "no images": ((0, 6, 8, 3), (2, 2), (2, 2), ((1, 0), (0, 0)), (1, 1)),
    "no room for a window": ((2, 3, 2, 3), (2, 5), (2, 2), ((0, 0), (0, 0)), (1, 1)),
}
every_case = pytest.mark.parametrize(
    ("shape", "window", "strides", "padding", "dilation"), CASES.values(), ids=CASES.keys()
)


def draw(shape: tuple[int, ...], seed: int = 1, dtype: Any = np.float64) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=shape).astype(dtype)


def windows(x, window, strides, padding, dilation):
    """Yield each output index with the coordinates of the real elements of its window."""
    spatial = x.shape[1:-1]
    count = output_shape(spatial, window, strides, padding, dilation)
    for o in product(*map(range, count)):
        inside = []
        for k in product(*map(range, window)):
            at = tuple(
                a * s + b * d - low
                for a, s, b, d, (low, _) in zip(o, strides, k, dilation, padding)
            )
            if all(0 <= index < size for index, size in zip(at, spatial)):
                inside.append(at)
        yield o, inside


def max_pool_by_loops(x, window, strides, padding, dilation):
    spatial = x.shape[1:-1]
    count = output_shape(spatial, window, strides, padding, dilation)
    y = np.empty((x.shape[0], *count, x.shape[-1]), x.dtype)
    indices = np.empty(y.shape, np.int64)
    for o, inside in windows(x, window, strides, padding, dilation):
        for n, c in product(range(x.shape[0]), range(x.shape[-1])):
            values = np.array([x[(n, *at, c)] for at in inside])
            best = int(np.argmax(values))  # the first maximum; a NaN counts as one
            y[(n, *o, c)] = values[best]
            indices[(n, *o, c)] = np.ravel_multi_index(inside[best], spatial)
    return y, indices


@every_case
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "int8", "uint8", "int64"])
def test_max_pool_equals_explicit_loops(shape, window, strides, padding, dilation, dtype):
    # Rounded to few values, so that there are many ties.
    x = np.abs(2 * draw(shape)).round().astype(dtype)

    y, indices = max_pool(x, window=window, strides=strides, padding=padding, dilation=dilation)

    expected_y, expected_indices = max_pool_by_loops(x, window, strides, padding, dilation)
    assert (y.dtype, indices.dtype) == (x.dtype, np.int64)
    np.testing.assert_array_equal(y, expected_y)
    np.testing.assert_array_equal(indices, expected_indices)


@every_case
def test_max_pool_with_nan_and_infinities_equals_explicit_loops(
    shape, window, strides, padding, dilation
):
    rng = np.random.default_rng(3)
    x = rng.choice(
        [-np.inf, -1.0, 0.0, 1.0, np.inf, np.nan], size=shape, p=[0.4, *[0.15] * 3, 0.05, 0.1]
    )

    y, indices = max_pool(x, window=window, strides=strides, padding=padding, dilation=dilation)

    expected_y, expected_indices = max_pool_by_loops(x, window, strides, padding, dilation)
    np.testing.assert_array_equal(y, expected_y)
    np.testing.assert_array_equal(indices, expected_indices)


@pytest.mark.parametrize("lowest", [-np.inf, np.int16(-(2**15)), np.uint8(0)])
def test_padding_never_wins_against_the_lowest_value(lowest):
    x = np.full((1, 3, 3, 1), lowest)

    y, indices = max_pool(
        x, window=(2, 2), strides=(1, 1), padding=((1, 0), (1, 0)), dilation=(1, 1)
    )

    np.testing.assert_array_equal(y, lowest)
    np.testing.assert_array_equal(indices[0, ..., 0], [[0, 0, 1], [0, 0, 1], [3, 3, 4]])


def test_first_of_equal_elements_wins():
    x = np.zeros((1, 4, 4, 2), np.float32)

    _, indices = max_pool(
        x, window=(2, 2), strides=(2, 2), padding=((0, 0), (0, 0)), dilation=(1, 1)
    )

    np.testing.assert_array_equal(indices[0, ..., 1], [[0, 2], [8, 10]])


def test_window_in_the_padding_alone_is_refused():
    x = np.zeros((1, 1, 1))

    with pytest.raises(ValueError, match=r"dimension 0, a window of 2 \(dilation 2\) lies in"):
        max_pool(x, window=(2,), strides=(1,), padding=((1, 1),), dilation=(2,))


@every_case
def test_gather_picks_the_maxima(shape, window, strides, padding, dilation):
    x = draw(shape)
    y, indices = max_pool(x, window=window, strides=strides, padding=padding, dilation=dilation)

    np.testing.assert_array_equal(pool_gather(x, indices), y)
    np.testing.assert_array_equal(pool_gather(x[::-1], indices[::-1]), y[::-1])


@every_case
@pytest.mark.parametrize("dtype", [np.float64, np.complex128])
def test_scatter_is_the_transpose_of_gather(shape, window, strides, padding, dilation, dtype):
    x = draw(shape, 1)
    _, indices = max_pool(x, window=window, strides=strides, padding=padding, dilation=dilation)
    other = draw(shape, 2, dtype)
    t = draw(indices.shape, 3, dtype)

    g = pool_scatter(t, indices, spatial=shape[1:-1])

    assert (g.shape, g.dtype) == (x.shape, t.dtype)
    np.testing.assert_allclose(np.sum(g * other), np.sum(t * pool_gather(other, indices)))


@pytest.mark.parametrize("first", [0, -1])
def test_scatter_of_positions_that_differ(first):
    t = draw((2, 4, 3), 1)
    indices = np.random.default_rng(2).permuted(np.tile(np.arange(7), (6, 1)), axis=1)[:, :4]
    indices = indices.reshape(2, 3, 4).transpose(0, 2, 1).copy()
    indices[0, 0, 0] = first if first < 0 else indices[0, 0, 0]

    found = pool_scatter(t, indices, spatial=(7,), unique=True)

    np.testing.assert_array_equal(found, pool_scatter(t, indices, spatial=(7,)))


@pytest.mark.parametrize(("window", "is_unique"), [(2, True), (3, False)])
def test_windows_that_do_not_overlap_pick_no_element_twice(window, is_unique):
    @tf.function
    def gradient(x):
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = tf.nn.max_pool2d(x, window, 2, "VALID")
        return tape.gradient(y, x)

    x = tf.constant(draw((1, 8, 8, 2), 1))
    gradient(x)

    calls = [c for c in gradient.program(x).graph.calls if c.primitive.name == "pool_scatter"]
    assert [call.params["unique"] for call in calls] == [is_unique]


@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_scatter_adds_repeated_positions(dtype):
    t = np.ones((1, 4096, 1), dtype)

    g = pool_scatter(t, np.full(t.shape, 2), spatial=(3,))

    np.testing.assert_array_equal(g[0, :, 0], np.array([0, 0, 4096], dtype))


@every_case
@pytest.mark.parametrize("count_padding", [False, True])
def test_avg_pool_equals_explicit_loops(shape, window, strides, padding, dilation, count_padding):
    x = draw(shape)

    y = avg_pool(x, window=window, strides=strides, padding=padding, count_padding=count_padding)

    for o, inside in windows(x, window, strides, padding, (1,) * len(window)):
        total = sum(x[(slice(None), *at)] for at in inside)
        size = np.prod(window) if count_padding else max(1, len(inside))
        np.testing.assert_allclose(y[(slice(None), *o)], total / size, rtol=1e-12, atol=1e-14)


@every_case
@pytest.mark.parametrize("count_padding", [False, True])
@pytest.mark.parametrize("dtype", [np.float64, np.complex128])
def test_avg_pool_gradient_is_the_transpose(
    shape, window, strides, padding, dilation, count_padding, dtype
):
    params = {
        "window": window,
        "strides": strides,
        "padding": padding,
        "count_padding": count_padding,
    }
    x = draw(shape, 1, dtype)
    y = avg_pool(x, **params)
    t = draw(y.shape, 2, dtype)

    g = avg_pool_gradient(t, spatial=shape[1:-1], **params)

    assert g.shape == x.shape
    np.testing.assert_allclose(np.sum(g * x), np.sum(t * y), rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("dtype", ["float16", "float32", "complex64"])
@pytest.mark.parametrize("count_padding", [False, True])
def test_avg_pool_keeps_the_dtype(dtype, count_padding):
    params = {
        "window": (2, 2),
        "strides": (2, 2),
        "padding": ((1, 1), (0, 0)),
        "count_padding": count_padding,
    }

    y = avg_pool(np.ones((1, 4, 4, 2), dtype), **params)

    assert y.dtype == dtype
    assert avg_pool_gradient(y, spatial=(4, 4), **params).dtype == dtype


def test_float16_mean_is_summed_in_float32():
    x = np.full((1, 64, 64, 1), 100, np.float16)

    y = avg_pool(x, window=(64, 64), strides=(1, 1), padding=((0, 0),) * 2, count_padding=False)

    assert y.item() == 100


def test_mean_of_a_window_in_the_padding_alone_is_zero():
    y = avg_pool(
        np.ones((1, 2, 1)), window=(2,), strides=(2,), padding=((2, 0),), count_padding=False
    )

    np.testing.assert_array_equal(y[0, :, 0], [0, 1])
