"""Programs keep the recomputation of `recompute_grad`, which saves memory."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tapegrad as tf
from tapegrad.program.graph.graph import Call

DEPTH, WIDTH = 6, 64


def block(x: Any, w: Any) -> Any:
    return tf.tanh(tf.sin(tf.exp(x @ w) * 0.01) @ w)


def gradient_of_blocks(apply: Any) -> Any:
    def step(x: Any, *weights: Any) -> Any:
        with tf.GradientTape() as tape:
            tape.watch(weights)
            for w in weights:
                x = apply(x, w)
            loss = tf.reduce_sum(x * x)
        return loss, *tape.gradient(loss, weights)

    return tf.function(step)


@pytest.fixture
def arrays() -> list[Any]:
    rng = np.random.default_rng(0)
    return [tf.constant(rng.normal(size=(WIDTH, WIDTH)) * 0.1) for _ in range(1 + DEPTH)]


def test_the_results_are_the_same(arrays: list[Any]) -> None:
    plain, again = gradient_of_blocks(block), gradient_of_blocks(tf.recompute_grad(block))
    for _ in range(3):
        expected, found = plain(*arrays), again(*arrays)

    for one, other in zip(found, expected):
        np.testing.assert_allclose(one.numpy(), other.numpy(), rtol=1e-11)


def test_less_memory_is_needed_at_once(arrays: list[Any]) -> None:
    plain, again = gradient_of_blocks(block), gradient_of_blocks(tf.recompute_grad(block))
    plain(*arrays), again(*arrays)

    peaks = [function.program(*arrays).memory().peak for function in (plain, again)]

    assert peaks[1] < 0.7 * peaks[0]


def test_products_are_computed_twice(arrays: list[Any]) -> None:
    plain, again = gradient_of_blocks(block), gradient_of_blocks(tf.recompute_grad(block))
    plain(*arrays), again(*arrays)

    def products(function: Any) -> int:
        calls = function.program(*arrays).recorded.calls
        return sum(call.primitive.name == "matmul" for call in calls)

    assert products(again) == products(plain) + 2 * DEPTH


def test_no_loop_computes_for_the_way_forth_and_again_for_the_way_back(arrays: list[Any]) -> None:
    """Both read the same inputs, and running together would keep what recomputation is to free."""
    x = arrays[0]

    @tf.function
    def step(x: Any) -> Any:
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = tf.reduce_sum(tf.recompute_grad(lambda x: tf.sin(tf.exp(x)))(x))
        return y, tape.gradient(y, x)

    step(x)

    loops = [s for s in step.program(x).steps if not isinstance(s, Call)]
    regions = [{call.region for call in loop.made_of.calls} for loop in loops]
    assert all(len(region) == 1 for region in regions)
    assert len(set.union(*regions)) == 2


def test_a_loop_computes_no_gradient_of_inputs_that_no_tape_follows() -> None:
    rng = np.random.default_rng(0)
    w = tf.Variable(rng.normal(size=(4, 4)) * 0.2)
    xs, h = tf.constant(rng.normal(size=(400, 2, 4))), tf.zeros([2, 4], "float64")

    def run(xs: Any, h: Any) -> Any:
        return tf.foldl(lambda h, x: tf.tanh(h @ w + x), xs, h)

    def gradient(xs: Any, h: Any) -> Any:
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(tf.recompute_grad(run)(xs, h) ** 2)
        return tape.gradient(loss, w)

    compiled = tf.function(gradient)
    np.testing.assert_allclose(compiled(xs, h), gradient(xs, h), rtol=1e-10)
    calls = compiled.program(xs, h).recorded.calls
    last = [call for call in calls if call.primitive.name == "counted_loop"][-1]
    assert [value.shape for value in last.results] == [(2, 4), (4, 4)]
