"""A program that needs sorted values and their order sorts once."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tapegrad as tf
from tapegrad.program.passes.orders import with_one_sort
from tests.program.recorded_graphs import assert_same_results, count, recorded

X = np.array([[3.0, np.nan, -0.0, 0.0, 3.0], [1.0, -np.inf, 2.0, np.inf, 1.0]])


def with_gradient(direction: str, axis: int) -> Any:
    def function(x: Any) -> Any:
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = tf.sort(x, axis=axis, direction=direction)
        return y, tape.gradient(y, x, output_gradients=tf.constant(X[::-1]))

    return function


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("direction", ["ASCENDING", "DESCENDING"])
def test_values_and_gradient_need_one_sort(direction: str, axis: int) -> None:
    graph = recorded(with_gradient(direction, axis), [X])

    found = with_one_sort(graph)

    assert_same_results(graph, found, [X])
    assert count(found, "sort") == 0


def test_a_sort_alone_stays_a_sort() -> None:
    graph = recorded(lambda x: (tf.sort(x), tf.argsort(x, direction="DESCENDING")), [X])

    assert count(with_one_sort(graph), "sort") == 1
