"""Sums of products over several axes become products of sums with the same results."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tapegrad as tf
from tapegrad.program.passes.separated_sums import with_separated_sums
from tests.program.recorded_graphs import assert_same_results, recorded


def draw(*shape: int) -> Any:
    return np.random.default_rng(sum(shape)).normal(size=shape)


A, B, C = draw(9, 30), draw(9, 40), draw(9)
CASES: dict[str, tuple[Any, tuple[Any, ...]]] = {
    "squares of outer products": (
        lambda a, b: tf.reduce_sum((a[:, :, None] * b[:, None]) ** 2, (1, 2)),
        (A, B),
    ),
    "a mean, with axes kept": (
        lambda a, b: tf.reduce_mean(a[:, :, None] * b[:, None] * 3.0, (1, 2), keepdims=True),
        (A, B),
    ),
    "a divisor and a factor per row": (
        lambda a, b, c: tf.reduce_sum(
            -c[:, None, None] * a[:, :, None] * a[:, :, None] / tf.exp(b)[:, None] * b[:, None],
            (1, 2),
        ),
        (A, B, C),
    ),
    "all axes": (lambda a, b: tf.reduce_sum(a[0, :, None, None] * b[:, :]), (A, B)),
    "an axis along which nothing varies": (
        lambda a, b: tf.reduce_sum(
            tf.broadcast_to(a[:, :, None, None], (9, 30, 40, 2)) * b[:, None, :, None], (1, 2, 3)
        ),
        (A, B),
    ),
}


def largest(graph: Any) -> int:
    calls = [call for call in graph.calls if call.primitive.name != "broadcast_to"]
    return max(value.size for call in calls for value in call.results)


@pytest.mark.parametrize("name", CASES)
def test_factors_are_summed_alone(name: str) -> None:
    function, given = CASES[name]
    graph = recorded(lambda *args: (function(*args),), given)
    after = with_separated_sums(graph)
    assert largest(after) < 1000 < largest(graph)
    assert_same_results(graph, after, given)


@pytest.mark.parametrize(
    "function",
    [
        pytest.param(lambda a, b: tf.reduce_sum((a[:, :, None] - b[:, None]) ** 2, (1, 2)), id="-"),
        pytest.param(
            lambda a, b: tf.reduce_sum(tf.exp(a[:, :, None] * b[:, None]), (1, 2)), id="e"
        ),
        pytest.param(lambda a, b: tf.reduce_sum(a[:, :, None] * b[:, None], 1), id="one axis"),
        pytest.param(lambda a, b: tf.reduce_max(a[:, :, None] * b[:, None], (1, 2)), id="maximum"),
    ],
)
def test_other_sums_stay(function: Any) -> None:
    graph = recorded(lambda *args: (function(*args),), (A, B))
    assert with_separated_sums(graph) is graph


def test_norms_of_gradients_of_examples_need_no_gradients() -> None:
    w = tf.Variable(draw(40, 50))

    def norm(x: Any) -> Any:
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(tf.tanh(x[None] @ w))
        return tf.reduce_sum(tape.gradient(loss, w) ** 2)

    function = tf.function(lambda x: tf.vectorized_map(norm, x))
    x = tf.constant(draw(20, 40))
    eager = tf.vectorized_map(norm, x).numpy()
    np.testing.assert_allclose(function(x).numpy(), eager, rtol=1e-12)
    tf.wait_for_programs()
    np.testing.assert_allclose(function(x).numpy(), eager, rtol=1e-12)
    graph = function.program(x).graph
    assert largest(graph) <= 40 * 50
