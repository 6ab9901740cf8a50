"""Recorded programs on CUDA that gather rows and add rows inside of loops, against eager code."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tapegrad as tf

cupy = pytest.importorskip("cupy")

RNG = np.random.default_rng(8)


def on_device(array: Any) -> Any:
    return tf.constant(cupy.asarray(array))


def steps_of(program: Any) -> list[str]:
    """Return the names of the steps that are not loops."""
    return [step.primitive.name for step in program.steps if hasattr(step, "primitive")]


def check(function: Any, *args: Any, rtol: float) -> Any:
    """Compare the captured program with eager code, and return it."""
    expected = [one.numpy() for one in tf.nest.flatten(function(*args))]
    recorded = tf.function(function)
    for _ in range(4):
        found = tf.nest.flatten(recorded(*args))
        for one, other in zip(found, expected, strict=True):
            scale = max(1.0, float(np.abs(other).max()))
            np.testing.assert_allclose(one.numpy(), other, rtol=rtol, atol=rtol * scale)
    return recorded.program(*args)


@pytest.mark.parametrize(("dtype", "rtol"), [("float64", 1e-11), ("float32", 2e-4)])
@pytest.mark.parametrize("width", [1, 5, 64])
@pytest.mark.parametrize("ordered", [False, True])
@pytest.mark.parametrize("edges", [70_000, 501])
def test_messages_along_edges(
    dtype: str, rtol: float, width: int, ordered: bool, edges: int
) -> None:
    nodes = 3000
    source, target = RNG.integers(-nodes, nodes, (2, edges))
    target = np.where(target < -2900, -1, np.abs(target))
    given = [on_device(source), on_device(np.sort(target) if ordered else target)]
    given += [on_device(RNG.normal(size=s).astype(dtype)) for s in ((nodes, width), (edges,))]

    def step(source: Any, target: Any, x: Any, w: Any) -> Any:
        with tf.GradientTape() as tape:
            tape.watch((x, w))
            messages = tf.gather(x, source) * w[:, None]
            y = tf.math.unsorted_segment_sum(messages, target, nodes)
            loss = tf.reduce_mean(tf.sin(y))
        return y, loss, *tape.gradient(loss, (x, w))

    program = check(step, *given, rtol=rtol)

    assert not {"gather_rows", "segment_sum", "segment_take"} & {*steps_of(program)}


@pytest.mark.parametrize(("dtype", "rtol"), [("float64", 1e-11), ("float32", 2e-4)])
@pytest.mark.parametrize("width", [3, 32, 96])
def test_products_of_rows(dtype: str, rtol: float, width: int) -> None:
    count = 20_000
    users, items = RNG.integers(0, 900, count), RNG.integers(0, 300, count)
    shapes = ((900, width), (300, width), (300,), (count,))
    given = [on_device(users), on_device(items)]
    given += [on_device(RNG.normal(size=shape).astype(dtype)) for shape in shapes]

    def step(users: Any, items: Any, u: Any, v: Any, b: Any, wanted: Any) -> Any:
        with tf.GradientTape() as tape:
            tape.watch((u, v, b))
            rows, others = tf.gather(u, users), tf.gather(v, items)
            guess = tf.reduce_sum(rows * others, axis=1) + tf.gather(b, items)
            loss = tf.reduce_mean((guess - wanted) ** 2)
        return loss, *tape.gradient(loss, (u, v, b))

    program = check(step, *given, rtol=rtol)

    assert not {"gather_rows", "take_add"} & {*steps_of(program)}


def test_half_precision_rows_are_gathered_and_their_sums_are_stored() -> None:
    index = RNG.integers(0, 50, 4000)
    x = RNG.normal(size=(50, 16)).astype(np.float16)

    def step(index: Any, x: Any) -> Any:
        with tf.GradientTape() as tape:
            tape.watch(x)
            loss = tf.reduce_sum(tf.gather(x, index) * 0.01)
        return tape.gradient(loss, x)

    check(step, on_device(index), on_device(x), rtol=4e-3)


def test_the_same_bits_if_that_is_wanted() -> None:
    index, x = RNG.integers(0, 40, 50_000), RNG.normal(size=(50_000, 8)).astype(np.float32)

    def step(index: Any, x: Any) -> Any:
        return tf.math.unsorted_segment_sum(tf.exp(x), index, 40)

    tf.config.experimental.enable_op_determinism()
    try:
        recorded, given = tf.function(step), (on_device(index), on_device(x))
        first = recorded(*given).numpy()
        for _ in range(4):
            np.testing.assert_array_equal(recorded(*given).numpy(), first)
    finally:
        tf.config.experimental.disable_op_determinism()
