"""Sums of parts among zeros are parts of sums among zeros."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tapegrad as tf
from tapegrad.program.passes.placed_ranges import with_placed_ranges
from tapegrad.program.passes.sums_of_parts import with_summed_parts
from tests.program.recorded_graphs import assert_same_results, recorded

A, B = (np.random.default_rng(k).standard_normal(s) for k, s in enumerate([(9, 1, 3), (5, 3)]))


def by_component(a: Any, b: Any) -> Any:
    with tf.GradientTape() as tape:
        tape.watch((a, b))
        d = a - b
        u, v = d[..., 0] * 2.0 - d[..., 1], tf.sin(d[..., 0]) * d[..., 2]
        loss = tf.reduce_sum(u * v)
    return tape.gradient(loss, (a, b))


def largest_sum(graph: Any) -> int:
    return max(call.reads[0].size for call in graph.calls if call.primitive.name == "sum")


def test_gradients_of_components_sum_each_component() -> None:
    graph = with_placed_ranges(recorded(by_component, [A, B]))

    found = with_summed_parts(graph)

    assert_same_results(graph, found, [A, B])
    assert largest_sum(graph) == 9 * 5 * 3
    assert largest_sum(found) == 9 * 5


@pytest.mark.parametrize("keepdims", [False, True])
@pytest.mark.parametrize("axis", [0, 1, (0, 2)])
def test_sums_along_each_axis(axis: Any, keepdims: bool) -> None:
    def function(x: Any) -> Any:
        placed = tf.pad(x, [[0, 0], [2, 0], [0, 0]]) - tf.pad(-x * x, [[0, 0], [0, 2], [0, 0]])
        return (tf.reduce_sum(-placed, axis, keepdims=keepdims),)

    x = np.random.default_rng(1).standard_normal((4, 3, 5))
    graph = recorded(function, [x])

    assert_same_results(graph, with_summed_parts(graph), [x])


def test_a_value_that_is_read_elsewhere_is_not_taken_apart() -> None:
    def function(x: Any) -> Any:
        placed = tf.pad(x, [[0, 0], [2, 0]]) + tf.pad(x, [[0, 0], [0, 2]])
        return placed, tf.reduce_sum(placed, 0)

    x = np.random.default_rng(1).standard_normal((4, 3))
    graph = recorded(function, [x])

    assert [*map(str, with_summed_parts(graph).calls)] == [*map(str, graph.calls)]
