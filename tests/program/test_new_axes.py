"""Indices with new axes become slices without them and reshapes, with the same results."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tapegrad as tf
from tapegrad.program.passes.new_axes import without_new_axes
from tapegrad.program.passes.pipeline import optimized
from tests.program.recorded_graphs import assert_same_results, count, recorded
from tests.program.test_placed_parts import gradient_of

X = np.random.default_rng(0).normal(size=(4, 6, 5))

CASES: dict[str, Any] = {
    "behind a position": lambda x: tf.sin(x[:, 2, None]),
    "in front": lambda x: tf.sin(x[None, 1:3]) * tf.cos(x[None, 2:]),
    "between ranges with steps": lambda x: tf.exp(x[::2, None, ::-2, :3]),
    "several": lambda x: tf.exp(x[None, :, None, -1, None]),
    "behind an ellipsis": lambda x: tf.sin(x[..., 1, None]) + tf.cos(x[..., 3, None]),
}


@pytest.mark.parametrize("name", CASES)
def test_new_axes_are_reshapes(name: str) -> None:
    graph = recorded(gradient_of(CASES[name]), (X,))
    after = without_new_axes(graph)

    assert any(_new_axes(graph))
    assert not any(_new_axes(after))
    assert_same_results(graph, after, (X,))


def _new_axes(graph: Any) -> list[bool]:
    return [None in call.params["index"] for call in graph.calls if "index" in call.params]


def test_gradients_of_parts_with_new_axes_are_joined() -> None:
    def function(x: Any) -> Any:
        return sum(tf.sin(x[:, k, None] * (k + 1.0)) for k in range(6))

    graph = recorded(gradient_of(function), (X,))
    after = optimized(graph, None)

    assert count(graph, "unslice") == 6
    assert (count(after, "unslice"), count(after, "concat")) == (0, 1)
    assert_same_results(graph, after, (X,))


def test_an_unrolled_recurrence_may_use_parts_with_and_without_new_axes() -> None:
    """The rounds, with the sums of the gradients of one part, become loops."""
    given = np.random.default_rng(1).normal(size=(3, 24, 5)), np.linspace(0.1, 1.0, 4)

    def step(x: Any, a: Any) -> Any:
        with tf.GradientTape() as tape:
            tape.watch([x, a])
            h = tf.zeros((3, 5, 4), tf.float64)
            total = tf.zeros((3, 5), tf.float64)
            for t in range(24):
                h = tf.exp(-a) * h + x[:, t, :, None] * a
                total += tf.reduce_sum(h, -1) * tf.sin(x[:, t])
            value = tf.reduce_sum(total)
        return (value, *tape.gradient(value, [x, a]))

    compiled = tf.function(step)
    expected = step(*map(tf.constant, given))
    for _ in range(3):
        for found, wanted in zip(compiled(*map(tf.constant, given)), expected):
            np.testing.assert_allclose(found, wanted, rtol=1e-11)
    assert str(compiled.program(*map(tf.constant, given))).count("counted_loop") == 2
