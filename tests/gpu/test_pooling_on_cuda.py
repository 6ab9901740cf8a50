"""Pooling on the GPU against NumPy: dtypes, layouts, ties, NaN and padding."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tapegrad as tf
from tapegrad.ops.convolution import generic_kernels

cupy = pytest.importorskip("cupy")
ml_dtypes = pytest.importorskip("ml_dtypes")
pooling = pytest.importorskip("tapegrad_cupy.kernels.convolution.pooling")

BFLOAT16 = np.dtype(ml_dtypes.bfloat16)
DTYPES = [np.dtype(name) for name in ("float16", "float32", "float64")] + [BFLOAT16]

# Data, window, strides, padding
CASES = {
    "1d": ((3, 11, 4), (3,), (2,), ((1, 1),)),
    "2d": ((2, 8, 8, 16), (2, 2), (2, 2), ((0, 0), (0, 0))),
    "2d-overlap": ((2, 9, 7, 5), (3, 3), (1, 2), ((1, 1), (1, 0))),
    "2d-gaps": ((2, 9, 9, 8), (2, 2), (4, 3), ((0, 0), (0, 0))),
    "2d-only-padding": ((2, 3, 3, 8), (2, 2), (2, 2), ((3, 2), (0, 1))),
    "3d": ((1, 5, 6, 4, 6), (2, 3, 2), (1, 2, 2), ((0, 1), (1, 1), (0, 0))),
    "4d": ((1, 3, 4, 3, 4, 2), (2, 2, 2, 2), (1, 2, 1, 2), ((0, 0), (0, 1), (1, 0), (0, 0))),
}


def draw(shape: tuple[int, ...], dtype: Any, seed: int = 0) -> Any:
    """Return numbers with many ties among them."""
    value = np.random.default_rng(seed).integers(-20, 20, size=shape) / 4
    return cupy.asarray(value.astype(dtype))


def exact(array: Any) -> Any:
    return cupy.asnumpy(array).astype("float64")


def epsilon(dtype: Any) -> float:
    return float(ml_dtypes.finfo(dtype).eps)


@pytest.mark.parametrize("dtype", [*DTYPES, np.dtype("int8"), np.dtype("uint32")], ids=str)
@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_maxima_and_their_positions(case: Any, dtype: Any) -> None:
    shape, window, strides, padding = case
    x = abs(draw(shape, "float32")).astype(dtype) if dtype.kind == "u" else draw(shape, dtype)
    for dilation in [(1,) * len(window), (2,) * len(window)]:
        params = {"window": window, "strides": strides, "padding": padding, "dilation": dilation}

        y, index = pooling.max_pool(x, **params)

        host = cupy.asnumpy(x)
        if dtype == BFLOAT16:
            host = host.astype("float32")
        want, where = generic_kernels.max_pool(np, host, **params)
        assert (y.dtype, index.dtype) == (dtype, np.int64)
        np.testing.assert_array_equal(exact(y), want.astype("float64"))
        np.testing.assert_array_equal(cupy.asnumpy(index), where)


def test_a_nan_beats_any_number() -> None:
    x = np.array([1.0, np.nan, 3.0, np.nan, -np.inf, -np.inf], np.float32).reshape(1, 6, 1)

    y, index = pooling.max_pool(
        cupy.asarray(x), window=(2,), strides=(2,), padding=((0, 0),), dilation=(1,)
    )

    np.testing.assert_array_equal(cupy.asnumpy(y).ravel(), [np.nan, np.nan, -np.inf])
    assert cupy.asnumpy(index).ravel().tolist() == [1, 3, 4]


@pytest.mark.parametrize("dtype", [*DTYPES, np.dtype("complex64"), np.dtype("complex128")], ids=str)
def test_picking_at_positions(dtype: Any) -> None:
    x = draw((3, 5, 7, 6), dtype)
    index = cupy.asarray(np.random.default_rng(1).integers(0, 35, size=(3, 4, 2, 6)))

    y = pooling.pool_gather(x, index)

    assert y.dtype == dtype
    want = generic_kernels.pool_gather(np, cupy.asnumpy(x), cupy.asnumpy(index))
    np.testing.assert_array_equal(cupy.asnumpy(y), want)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("places", [2, 35])
def test_adding_at_positions_many_of_them_equal(dtype: Any, places: int) -> None:
    t = draw((3, 20, 3, 6), dtype)
    index = cupy.asarray(np.random.default_rng(1).integers(-1, places, size=t.shape))

    g = pooling.pool_scatter(t, index, spatial=(5, 7))

    host, where = exact(t), cupy.asnumpy(index)
    want = generic_kernels.pool_scatter(np, host, where, spatial=(5, 7))
    bound = generic_kernels.pool_scatter(np, abs(host), where, spatial=(5, 7)) * epsilon(dtype)
    assert g.dtype == dtype
    np.testing.assert_array_less(abs(exact(g) - want), bound + 1e-30)
    again = pooling.pool_scatter(t, index, spatial=(5, 7))
    assert cupy.asnumpy(g).tobytes() == cupy.asnumpy(again).tobytes()


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_placing_at_positions_none_of_them_equal(dtype: Any) -> None:
    t = draw((3, 5, 2, 6), dtype)
    rng = np.random.default_rng(1)
    index = np.stack([rng.permutation(35)[:10] for _ in range(18)], -1).reshape(10, 3, 6)
    index = np.ascontiguousarray(index.transpose(1, 0, 2)).reshape(t.shape)
    index[0, 0, 0, 0] = -1  # of a window without elements

    g = pooling.pool_scatter(t, cupy.asarray(index), spatial=(5, 7), unique=True)

    want = generic_kernels.pool_scatter(np, exact(t), index, spatial=(5, 7))
    np.testing.assert_array_equal(exact(g), want)


@pytest.mark.parametrize("count_padding", [False, True])
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_means_and_their_transpose(case: Any, dtype: Any, count_padding: bool) -> None:
    shape, window, strides, padding = case
    params = {
        "window": window,
        "strides": strides,
        "padding": padding,
        "count_padding": count_padding,
    }
    x = draw(shape, dtype)

    y = pooling.avg_pool(x, **params)
    g = pooling.avg_pool_gradient(y, spatial=shape[1:-1], **params)

    assert (y.dtype, g.dtype, g.shape) == (dtype, dtype, shape)
    want = generic_kernels.avg_pool(np, exact(x), **params)
    tolerance = 2 * epsilon(dtype)
    np.testing.assert_allclose(exact(y), want, rtol=tolerance, atol=5 * tolerance)
    want = generic_kernels.avg_pool_gradient(np, exact(y), spatial=shape[1:-1], **params)
    np.testing.assert_allclose(exact(g), want, rtol=tolerance, atol=5 * tolerance)


def test_means_of_complex_numbers_and_of_integers() -> None:
    params: dict[str, Any] = {
        "window": (2,),
        "strides": (1,),
        "padding": ((1, 0),),
        "count_padding": False,
    }
    x = draw((2, 5, 3), "float64") + 1j * draw((2, 5, 3), "float64", 1)

    y = pooling.avg_pool(x, **params)
    g = pooling.avg_pool_gradient(y, spatial=(5,), **params)

    host = cupy.asnumpy(x)
    want = generic_kernels.avg_pool(np, host, **params)
    np.testing.assert_allclose(cupy.asnumpy(y), want, rtol=1e-14)
    want = generic_kernels.avg_pool_gradient(np, cupy.asnumpy(y), spatial=(5,), **params)
    np.testing.assert_allclose(cupy.asnumpy(g), want, rtol=1e-14)
    whole = cupy.arange(6).reshape(1, 6, 1)
    assert cupy.asnumpy(pooling.avg_pool(whole, **params)).ravel().tolist()[:2] == [0.0, 0.5]


@pytest.mark.parametrize("layout", ["channels first", "odd address"])
def test_the_layout_in_memory_does_not_matter(layout: str) -> None:
    x = draw((2, 8, 8, 16), "float32")
    if layout == "channels first":
        there = cupy.ascontiguousarray(x.transpose(0, 3, 1, 2)).transpose(0, 2, 3, 1)
    else:
        there = cupy.concatenate([cupy.zeros(1, "float32"), x.ravel()])[1:].reshape(x.shape)
    geometry: dict[str, Any] = {"window": (2, 2), "strides": (2, 2), "padding": ((0, 0), (0, 0))}

    for one, other in zip(
        pooling.max_pool(x, dilation=(1, 1), **geometry),
        pooling.max_pool(there, dilation=(1, 1), **geometry),
    ):
        np.testing.assert_array_equal(cupy.asnumpy(one), cupy.asnumpy(other))
    one, other = (pooling.avg_pool(a, count_padding=False, **geometry) for a in (x, there))
    np.testing.assert_array_equal(cupy.asnumpy(one), cupy.asnumpy(other))


def test_nothing_is_pooled_to_nothing() -> None:
    x = cupy.ones((0, 4, 3), "float32")
    geometry: dict[str, Any] = {"window": (2,), "strides": (2,), "padding": ((0, 0),)}

    y, index = pooling.max_pool(x, dilation=(1,), **geometry)

    assert (y.shape, index.shape) == ((0, 2, 3), (0, 2, 3))
    assert pooling.pool_gather(x, index).shape == (0, 2, 3)
    assert pooling.pool_scatter(y, index, spatial=(4,)).shape == (0, 4, 3)
    assert pooling.avg_pool(x, count_padding=False, **geometry).shape == (0, 2, 3)
    g = pooling.avg_pool_gradient(y, spatial=(4,), count_padding=False, **geometry)
    assert g.shape == (0, 4, 3)


@pytest.mark.parametrize("pool", [tf.nn.max_pool2d, tf.nn.avg_pool2d])
def test_gradients_on_the_gpu_equal_those_on_the_host(pool: Any) -> None:
    x, t = exact(draw((2, 7, 7, 6), "float64")), exact(draw((2, 4, 4, 6), "float64", 1))

    def gradient(device: str) -> Any:
        with tf.device(device):
            value = tf.constant(x)
            with tf.GradientTape() as tape:
                tape.watch(value)
                loss = tf.reduce_sum(pool(value, 3, 2, "SAME") * tf.constant(t))
            return tape.gradient(loss, value).numpy()

    np.testing.assert_allclose(gradient("cuda:0"), gradient("cpu"), rtol=1e-12, atol=1e-15)
