"""Pooling runs in sequences and computes what NumPy's kernels compute."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest

import tapegrad as tf
from tapegrad_numpy.kernels.pooling import avg_pool, avg_pool_gradient, max_pool, pool_scatter
from tapegrad_numpy.loops import compiler
from tests.program.native_calls import check_native, run_native, sequences_of

pytestmark = pytest.mark.skipif(compiler.find() is None, reason="this machine has no C compiler")

rng = np.random.default_rng(8)
GEOMETRIES = {
    "halves": ((2, 9, 8, 5), (2, 2), (2, 2), ((0, 1), (0, 0)), (1, 1)),
    "overlaps": ((1, 7, 9, 70), (3, 2), (1, 2), ((1, 1), (0, 1)), (1, 1)),
    "a dilation": ((2, 11, 6, 3), (3, 2), (2, 1), ((2, 2), (1, 1)), (2, 3)),
    "one axis": ((3, 10, 4), (4,), (3,), ((1, 2),), (1,)),
    "three axes": ((2, 4, 5, 6, 2), (2, 3, 2), (2, 1, 2), ((0, 0), (1, 1), (0, 0)), (1, 1, 1)),
}


def geometry(name: str) -> tuple[tuple[int, ...], dict[str, Any]]:
    shape, window, strides, padding, dilation = GEOMETRIES[name]
    return shape, {"window": window, "strides": strides, "padding": padding, "dilation": dilation}


@pytest.mark.parametrize(("name", "dtype"), [*product(GEOMETRIES, ("float32", "float64"))])
def test_maxima_their_positions_and_gradients(name: str, dtype: str) -> None:
    shape, params = geometry(name)
    x = rng.integers(-3, 4, shape).astype(dtype)  # with ties
    x.reshape(-1)[::17] = np.nan
    x.reshape(-1)[::13] = -np.inf
    y, places = max_pool(x, **params)
    check_native("max_pool", [x], params, y, places)
    t = rng.normal(size=y.shape).astype(dtype)
    spatial = {"spatial": shape[1:-1]}
    check_native("pool_scatter", [t, places], spatial, pool_scatter(t, places, **spatial))


@pytest.mark.parametrize(("name", "counts"), [*product(GEOMETRIES, (False, True))])
def test_means_and_their_gradients(name: str, counts: bool) -> None:
    shape, params = geometry(name)
    del params["dilation"]
    params["padding"] = tuple((low, high) for low, high in params["padding"])
    params["count_padding"] = counts
    x = rng.normal(size=shape).astype(np.float32)
    y = avg_pool(x, **params)
    check_native("avg_pool", [x], params, y)
    t = rng.normal(size=y.shape).astype(np.float32)
    params["spatial"] = shape[1:-1]
    expected = avg_pool_gradient(t, **params)
    found = run_native("avg_pool_gradient", [t], params, [(shape, np.float32)])
    assert found is not None
    np.testing.assert_allclose(found[0], expected, rtol=1e-5, atol=1e-6)


def test_a_step_with_pooling_is_one_sequence() -> None:
    def step(x: Any) -> Any:
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = tf.nn.avg_pool2d(tf.nn.max_pool2d(tf.tanh(x), 2, 2, "SAME"), 2, 1, "SAME")
            loss = tf.reduce_sum(y * y)
        return loss, tape.gradient(loss, x)

    x = tf.constant(rng.normal(size=(2, 8, 8, 3)).astype(np.float32))
    function = tf.function(step)
    for _ in range(2):
        for one, other in zip(function(x), step(x), strict=True):
            np.testing.assert_allclose(one.numpy(), other.numpy(), rtol=1e-5, atol=1e-6)
    (sequence,) = sequences_of(function, x)
    names = [getattr(s, "primitive", None) and s.primitive.name for s in sequence.steps]
    assert {"max_pool", "pool_scatter", "avg_pool", "avg_pool_gradient"} <= {*names}


def test_windows_of_padding_alone_are_refused_as_in_python() -> None:
    params = {"window": (2,), "strides": (1,), "padding": ((3, 0),), "dilation": (1,)}
    x = np.ones((1, 4, 2), np.float32)
    results = [((1, 6, 2), np.float32), ((1, 6, 2), np.int64)]
    assert run_native("max_pool", [x], params, results, code=3) is not None
