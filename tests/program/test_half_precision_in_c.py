"""Programs in bfloat16 on the CPU are fused, and compute in single precision."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tapegrad as tf
from tapegrad_numpy.loops import compiler

pytestmark = pytest.mark.skipif(compiler.find() is None, reason="this machine has no C compiler")

BF16 = tf.bfloat16.as_numpy_dtype
rng = np.random.default_rng(5)


def rounded(x: Any) -> Any:
    """Round float32 to bfloat16, ties to even, by arithmetic on the bits."""
    bits = np.asarray(x, np.float32).view(np.uint32).astype(np.uint64)
    up = (bits + 0x7FFF + ((bits >> 16) & 1)) >> 16 << 16
    return up.astype(np.uint32).view(np.float32)


def draw(*shape: int) -> Any:
    return rounded(rng.normal(size=shape))


def names_of(function: Any, *args: Any) -> list[str]:
    steps = function.program(*args).steps
    return [step.primitive.name if hasattr(step, "primitive") else "loop" for step in steps]


def compiled(function: Any, *arrays: Any) -> tuple[Any, list[np.ndarray], list[str]]:
    recorded = tf.function(function)
    given = [tf.constant(array.astype(BF16)) for array in arrays]
    recorded(*given)
    results = [np.asarray(r).astype(np.float32) for r in tf.nest.flatten(recorded(*given))]
    return recorded, results, names_of(recorded, *given)


def test_elementwise_operations_round_once() -> None:
    x, y = draw(17, 33), draw(33)
    _, (found,), names = compiled(lambda x, y: tf.abs(x * y + x) * 1.5, x, y)
    assert names == ["loop"]
    np.testing.assert_array_equal(found, rounded(np.abs(x * y + x) * np.float32(1.5)))


def test_all_patterns_of_bits_are_rounded_as_numpy_rounds_them() -> None:
    numbers = rng.integers(0, 2**32, 50_000, dtype=np.uint32).view(np.float32)
    special = [0.0, -0.0, np.inf, -np.inf, np.nan, 1e-40, -3e-45, 3.4e38, 1.00390625, 1.01171875]
    x = np.concatenate([numbers, np.array(special, np.float32)])
    cast = tf.function(lambda x: tf.cast(tf.negative(x), tf.bfloat16))
    with np.errstate(invalid="ignore"):  # the first call computes with NumPy
        cast(tf.constant(x))
    found = np.asarray(cast(tf.constant(x))).view(np.uint16)
    is_nan = np.isnan(x)
    assert np.isnan((found[is_nan].astype(np.uint32) << 16).view(np.float32)).all()
    expected = (rounded(-x[~is_nan]).view(np.uint32) >> 16).astype(np.uint16)
    np.testing.assert_array_equal(found[~is_nan], expected)


def test_a_cast_rounds_also_where_its_result_is_not_stored() -> None:
    x = rng.normal(size=(5, 40)).astype(np.float32)
    function = tf.function(lambda x: tf.cast(tf.cast(x, tf.bfloat16), tf.float32) * 3.0)
    function(tf.constant(x))
    np.testing.assert_array_equal(function(tf.constant(x)).numpy(), rounded(x) * np.float32(3))


@pytest.mark.parametrize("shape", [(40, 100), (300, 9), (3, 5000)])
def test_reductions_and_stages(shape: tuple[int, ...]) -> None:
    x = draw(*shape)

    def function(x: Any) -> Any:
        return tf.nn.softmax(x), tf.reduce_sum(x * x, axis=0), tf.reduce_max(-x, axis=1)

    _, (weights, squares, largest), names = compiled(function, x)
    assert set(names) == {"loop"}
    e = np.exp(x.astype(np.float64) - x.max(1, keepdims=True))
    np.testing.assert_allclose(weights, e / e.sum(1, keepdims=True), rtol=2**-8, atol=1e-30)
    np.testing.assert_allclose(squares, (x.astype(np.float64) ** 2).sum(0), rtol=2**-8)
    np.testing.assert_array_equal(largest, (-x).max(1))


def test_shifted_reads() -> None:
    x = draw(8, 30)
    _, (found,), names = compiled(
        lambda x: tf.roll(x, 1, 0) + tf.pad(x[:, 1:], [[0, 0], [0, 1]]), x
    )
    assert names == ["loop"]
    expected = np.roll(x, 1, 0) + np.pad(x[:, 1:], [(0, 0), (0, 1)])
    np.testing.assert_array_equal(found, rounded(expected))


def test_products_run_in_single_precision_between_casts() -> None:
    x, w = draw(20, 30), draw(30, 40)
    recorded, (found,), names = compiled(lambda x, w: tf.nn.relu(x @ w) + 1.0, x, w)
    np.testing.assert_allclose(found, np.maximum(x @ w, 0) + 1, rtol=2**-7)
    arguments = [tf.constant(a.astype(BF16)) for a in (x, w)]
    (product,) = [s for s in recorded.program(*arguments).steps if hasattr(s, "primitive")]
    assert {value.dtype.name for value in (*product.reads, *product.results)} == {"float32"}
    assert names == ["loop", "loop", "matmul", "loop"]


def test_a_step_of_a_convolution_network() -> None:
    x, w = draw(2, 8, 8, 3), draw(3, 3, 3, 4)

    def function(x: Any, w: Any) -> Any:
        with tf.GradientTape() as tape:
            tape.watch([x, w])
            y = tf.nn.max_pool2d(tf.nn.relu(tf.nn.conv2d(x, w, 1, "SAME")), 2, 2, "VALID")
            loss = tf.reduce_sum(y * y)
        return [y, *tape.gradient(loss, [x, w])]

    recorded, found, _ = compiled(function, x, w)
    wide = function(tf.constant(x), tf.constant(w))
    for one, other in zip(found, wide, strict=True):
        scale = np.abs(other.numpy()).max()
        np.testing.assert_allclose(one / scale, other.numpy() / scale, atol=0.02)
    arguments = [tf.constant(a.astype(BF16)) for a in (x, w)]
    calls = [s for s in recorded.program(*arguments).steps if hasattr(s, "primitive")]
    halves = {c.primitive.name for c in calls for v in c.reads if v.dtype.name == "bfloat16"}
    assert not halves - {"reshape", "transpose"}


def test_the_next_number_is_one_of_half_precision() -> None:
    x = np.array([1.0, -2.0, 0.5], np.float32)
    _, (found,), _ = compiled(lambda x: tf.math.nextafter(x, x + 1), x)
    np.testing.assert_array_equal(found, [1 + 2**-7, -2 + 2**-7, 0.5 + 2**-8])
