"""Programs in float16 on the CPU are fused, and compute in single precision."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tapegrad as tf
from tapegrad_numpy.loops import compiler

pytestmark = pytest.mark.skipif(compiler.find() is None, reason="this machine has no C compiler")

F2, F4 = np.float16, np.float32
rng = np.random.default_rng(15)


def compiled(function: Any, *arrays: Any) -> tuple[Any, list[str]]:
    recorded = tf.function(function)
    given = [tf.constant(array) for array in arrays]
    with np.errstate(all="ignore"):  # the first call computes with NumPy
        recorded(*given)
    steps = recorded.program(*given).steps
    names = [step.primitive.name if hasattr(step, "primitive") else "loop" for step in steps]
    return tf.nest.map_structure(np.asarray, recorded(*given)), names


def test_every_float16_is_widened_exactly() -> None:
    every = np.arange(1 << 16, dtype=np.uint16).view(F2)
    found, names = compiled(lambda x: tf.negative(tf.cast(x, tf.float32)), every)
    assert names == ["loop"]
    np.testing.assert_array_equal(found, -every.astype(F4))
    numbers = ~np.isnan(every)
    np.testing.assert_array_equal(np.signbit(found)[numbers], ~np.signbit(every)[numbers])


def test_numbers_are_rounded_as_numpy_rounds_them() -> None:
    any_bits = rng.integers(0, 2**32, 50_000, dtype=np.uint32).view(F4)
    around = np.arange(0x33000000, 0x47900000, 0x800, dtype=np.uint32)  # the range of float16
    ties = np.concatenate([around - 1, around, around + 1]).view(F4)
    x = np.concatenate([any_bits, ties, F4([0, -0.0, np.inf, -np.inf, np.nan, 65520, 65519.9])])
    found, names = compiled(lambda x: tf.cast(tf.negative(x), tf.float16), x)
    assert names == ["loop"]
    with np.errstate(all="ignore"):
        expected = (-x).astype(F2)
    is_nan = np.isnan(x)
    assert np.isnan(found[is_nan]).all()
    np.testing.assert_array_equal(found[~is_nan].view(np.uint16), expected[~is_nan].view(np.uint16))


def test_doubles_are_rounded_once() -> None:
    # Rounded to single precision first, these would become ties, and half of them round otherwise.
    ties = 1 + (2 * np.arange(512) + 1) * 2.0**-11
    x = np.concatenate([ties * (1 + 2.0**-40), ties * (1 - 2.0**-40), -ties * (1 - 2.0**-40)])
    x = np.concatenate([x, x * 2.0**-16, [1e300, -1e-300, np.inf, np.nan]])
    found, _ = compiled(lambda x: tf.cast(tf.negative(x), tf.float16), x)
    with np.errstate(over="ignore"):
        np.testing.assert_array_equal(found, (-x).astype(F2))


def test_a_cast_rounds_also_where_its_result_is_not_stored() -> None:
    x = rng.normal(size=(5, 40)).astype(F4)
    found, names = compiled(lambda x: tf.cast(tf.cast(x, tf.float16), tf.float32) * 3.0, x)
    assert names == ["loop"]
    np.testing.assert_array_equal(found, x.astype(F2).astype(F4) * F4(3))


@pytest.mark.parametrize("shape", [(40, 100), (300, 9), (3, 5000)])
def test_reductions_and_stages(shape: tuple[int, ...]) -> None:
    x = rng.normal(size=shape).astype(F2)

    def function(x: Any) -> Any:
        return tf.nn.softmax(x), tf.reduce_sum(x * x, axis=0), tf.reduce_max(-x, axis=1)

    (weights, squares, largest), names = compiled(function, x)
    assert set(names) == {"loop"}
    e = np.exp(x.astype(float) - x.max(1, keepdims=True))
    np.testing.assert_allclose(weights, e / e.sum(1, keepdims=True), rtol=2**-10, atol=2**-25)
    np.testing.assert_allclose(squares, (x.astype(float) ** 2).sum(0), rtol=2**-10)
    np.testing.assert_array_equal(largest, (-x).max(1))


def test_a_layer_and_its_gradients_run_in_single_precision_between_casts() -> None:
    x, w = rng.normal(size=(20, 30)).astype(F2), rng.normal(size=(30, 40)).astype(F2)

    def function(x: Any, w: Any) -> Any:
        with tf.GradientTape() as tape:
            tape.watch(w)
            y = tf.nn.relu(x @ w) + 1.0
            loss = tf.reduce_sum(tf.cast(y, tf.float32))
        return y, tape.gradient(loss, w)

    (found, slope), names = compiled(function, x, w)
    assert set(names) == {"loop", "matmul"}
    wide = x.astype(float) @ w.astype(float)
    np.testing.assert_allclose(found, np.maximum(wide, 0) + 1, rtol=2**-9, atol=2**-9)
    sure = (np.abs(wide) > 0.02).all(0)  # where no product is close to the kink
    exact = x.T.astype(float) @ (wide > 0)
    np.testing.assert_allclose(slope[:, sure], exact[:, sure], rtol=2**-9, atol=2**-8)
