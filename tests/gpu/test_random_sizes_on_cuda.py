"""Layers of random sizes, eager and recorded, against NumPy in float64: values and gradients.

Libraries choose kernels by size, and our kernels treat long, short and odd rows differently, so
random sizes can find cases that fixed sizes miss.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest

import tapegrad as tf

pytest.importorskip("cupy")
ml_dtypes = pytest.importorskip("ml_dtypes")

TOLERANCES = {"float32": 2e-5, "float16": 1.5e-2, "bfloat16": 0.12}
"""Relative to the largest element: long sums, and roundings at every operation."""


class Draw(NamedTuple):
    """A function of tensors, and the shapes of those."""

    function: Callable[..., Any]
    shapes: list[tuple[int, ...]]


Random = np.random.Generator


def size(rng: Random, most: int = 400) -> int:
    """Draw a size: anything, or what memory and warps like."""
    liked = [n for n in (8, 16, 32, 64, 128, 256) if n <= most]
    return int(rng.choice([*rng.integers(1, most, 2), 8 * rng.integers(1, most // 8), *liked]))


def dense(rng: Random) -> Draw:
    n, m, k = size(rng), size(rng), size(rng)
    return Draw(lambda x, w, b: tf.tanh(tf.matmul(x, w) + b), [(n, k), (k, m), (m,)])


def stacked_products(rng: Random) -> Draw:
    n, m, k, stack = size(rng, 200), size(rng, 200), size(rng, 200), int(rng.integers(1, 9))
    turns = [bool(turn) for turn in rng.integers(0, 2, 2)]
    shapes = [
        (stack, *((k, n) if turns[0] else (n, k))),
        (stack, *((m, k) if turns[1] else (k, m))),
    ]
    return Draw(lambda a, b: tf.matmul(a, b, *turns), shapes)


def rows(rng: Random) -> Draw:
    kind = rng.choice([tf.nn.softmax, tf.nn.log_softmax, tf.math.reduce_logsumexp])
    axis = int(rng.integers(-2, 0))
    return Draw(lambda x: kind(x, axis=axis), [(size(rng), size(rng, 3000))])


def running(rng: Random) -> Draw:
    kind, axis = rng.choice([tf.cumsum, tf.math.cumulative_logsumexp]), int(rng.integers(-2, 0))
    return Draw(lambda x: kind(tf.abs(x), axis=axis), [(size(rng), size(rng, 3000))])


def cross_entropy(rng: Random) -> Draw:
    n, classes = size(rng), size(rng, 3000)
    labels = rng.integers(0, classes, n)

    def loss(x: Any) -> Any:
        return tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=x)

    return Draw(loss, [(n, classes)])


def layer_norm(rng: Random) -> Draw:
    n, width = size(rng), size(rng, 3000)
    return Draw(tf.nn.layer_norm, [(n, width), (width,), (width,)])


def batch_norm(rng: Random) -> Draw:
    shape = (size(rng, 20), size(rng, 20), size(rng, 20), size(rng, 150))

    def normalized(x: Any, gain: Any, bias: Any) -> Any:
        mean, variance = tf.nn.moments(x, [0, 1, 2])
        return tf.nn.batch_normalization(x, mean, variance, bias, gain, 1e-3)

    return Draw(normalized, [shape, shape[-1:], shape[-1:]])


def sums(rng: Random) -> Draw:
    shape = (size(rng, 60), size(rng, 60), size(rng, 200))
    axes = [k for k in range(3) if rng.integers(0, 2)]
    kind = rng.choice([tf.reduce_sum, tf.reduce_mean, tf.math.reduce_std])
    return Draw(lambda x: kind(0.01 * x * x, axis=axes or None), [shape])


def convolved(rng: Random) -> Draw:
    window = int(rng.integers(1, 6))
    side = int(rng.integers(window, 34))
    batch, c_in, c_out = int(rng.choice([1, 4, 16])), size(rng, 64), size(rng, 64)
    strides, padding = int(rng.integers(1, 4)), str(rng.choice(["SAME", "VALID"]))
    return Draw(
        lambda x, w: tf.nn.conv2d(x, w, strides, padding),
        [(batch, side, side, c_in), (window, window, c_in, c_out)],
    )


def pooled(rng: Random) -> Draw:
    window, strides = int(rng.integers(1, 5)), int(rng.integers(1, 4))
    padding = str(rng.choice(["SAME", "VALID"]))
    side = int(rng.integers(window, 34))
    shape = (int(rng.choice([1, 4, 16])), side, side, size(rng, 64))
    return Draw(lambda x: tf.nn.avg_pool2d(x, window, strides, padding), [shape])


def gathered(rng: Random) -> Draw:
    count, width = size(rng), size(rng)
    places = rng.integers(0, count, size(rng, 1000))
    return Draw(lambda x: tf.gather(x, places), [(count, width)])


FAMILIES = {
    maker.__name__: maker
    for maker in (dense, stacked_products, rows, running, cross_entropy, layer_norm, batch_norm,
                  sums, convolved, pooled, gathered)
}  # fmt: skip


def values_and_gradients(draw: Draw, arrays: list[Any], t: Any, recorded: bool) -> list[Any]:
    """Return the result, and what each argument gets from the cotangent `t` of it."""

    def both(*inputs: Any) -> Any:
        with tf.GradientTape() as tape:
            tape.watch(inputs)
            y = draw.function(*inputs)
        return y, *tape.gradient(y, inputs, output_gradients=tf.cast(t, y.dtype))

    run = tf.function(both) if recorded else both
    found = run(*[tf.constant(array) for array in arrays])
    return [value.numpy().astype("float64") for value in found]


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("name", FAMILIES)
def test_values_and_gradients_are_those_of_numpy(name, seed):
    rng = np.random.default_rng([seed, *name.encode()])
    for dtype in (np.dtype("float32"), np.dtype("float16"), np.dtype(ml_dtypes.bfloat16)):
        for _ in range(4):
            draw = FAMILIES[name](rng)
            arrays = [rng.normal(size=shape).astype(dtype) for shape in draw.shapes]
            with tf.device("cpu"):
                wide = [array.astype("float64") for array in arrays]
                shape = draw.function(*wide).shape
                t = rng.normal(size=shape).astype(dtype).astype("float64")
                expected = values_and_gradients(draw, wide, t, recorded=False)
            for recorded in (False, True):
                with tf.device("cuda:0"):
                    found = values_and_gradients(draw, arrays, t, recorded)
                for got, want in zip(found, expected, strict=True):
                    error = np.abs(got - want).max() / max(np.abs(want).max(), 1e-3)
                    assert error < TOLERANCES[dtype.name], (draw.shapes, dtype, recorded)
