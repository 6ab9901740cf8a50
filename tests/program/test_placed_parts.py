"""Sums of parts among zeros become joined parts, with the same results."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tapegrad as tf
import tapegrad.numpy as tnp
from tapegrad.program.passes.placed_parts import with_joined_parts
from tapegrad.program.passes.placed_ranges import with_placed_ranges
from tests.program.recorded_graphs import assert_same_results, count, recorded

X = np.random.default_rng(0).normal(size=(4, 6, 5))


def gradient_of(function: Any) -> Any:
    def step(x: Any) -> Any:
        with tf.GradientTape() as tape:
            tape.watch(x)
            value = tf.reduce_sum(function(x))
        return (tape.gradient(value, x),)

    return step


CASES: dict[str, Any] = {
    "all rows": lambda x: sum(tf.sin(x[k]) * (k + 1) for k in range(4)),
    "rows of another axis": lambda x: sum(tf.sin(x[:, k]) * (k + 1) for k in range(6)),
    "negative positions": lambda x: sum(tf.sin(x[..., -k]) * k for k in range(1, 6)),
    "ranges": lambda x: sum(
        tf.reduce_sum(tf.exp(x[:, k : k + 2]) * (k + 1)) for k in range(0, 6, 2)
    ),
    "gaps": lambda x: sum(tf.sin(x[:, k]) * (k + 1) for k in (1, 2, 4)),
    "one part twice": lambda x: sum(tf.sin(x[k]) + tf.exp(x[k]) for k in range(4)),
    "a part as a position and as a range": lambda x: sum(
        tf.sin(x[:, k]) + tf.reduce_sum(tf.exp(x[:, k : k + 1]) * k, 1) for k in range(6)
    ),
    "a longer part": lambda x: sum(tf.sin(x[k]) for k in range(4)) + tf.reduce_sum(x[:-1] ** 2, 0),
    "a use of the whole": lambda x: sum(tf.sin(x[k]) for k in range(4)) + tf.reduce_sum(x**2, 0),
}


@pytest.mark.parametrize("name", CASES)
def test_parts_that_are_next_to_each_other_are_joined(name: str) -> None:
    graph = recorded(gradient_of(CASES[name]), (X,))
    after = with_joined_parts(graph)

    assert count(graph, "unslice") >= 3
    assert count(after, "concat") == 1
    assert_same_results(graph, after, (X,))


@pytest.mark.parametrize(
    "function",
    [
        pytest.param(lambda x: tf.sin(x[0]) + tf.cos(x[1]), id="two parts"),
        pytest.param(
            lambda x: sum(tf.reduce_sum(tf.sin(x[:, k : k + 3]) * k) for k in range(4)),
            id="parts that overlap",
        ),
        pytest.param(
            lambda x: sum(tf.reduce_sum(tf.sin(x[:, k::3]) * k) for k in range(3)), id="steps"
        ),
    ],
)
def test_other_sums_stay(function: Any) -> None:
    graph = recorded(gradient_of(function), (X,))

    assert count(with_joined_parts(graph), "concat") == 0


def test_loops_read_a_part_at_a_position_among_zeros() -> None:
    def function(x: Any) -> Any:
        return tf.sin(x[:, 2]) + tf.reduce_sum(tf.exp(x[:, :2]) * tf.cos(x[:, 1:3]), 1)

    graph = recorded(gradient_of(function), (X,))
    after = with_placed_ranges(graph)

    assert any(
        isinstance(part, int)
        for call in graph.calls
        if call.primitive.name == "unslice"
        for part in call.params["index"]
    )
    indices = [call.params["index"] for call in after.calls if call.primitive.name == "unslice"]
    assert all(isinstance(part, slice) for index in indices for part in index)
    assert_same_results(graph, after, (X,))


def test_a_recurrence_over_time_adds_no_arrays_of_zeros() -> None:
    """The work of a step must not grow with the square of the number of rounds."""
    rounds = 24
    weights = tf.Variable(np.eye(5))

    @tf.function
    def step(x: Any) -> Any:
        with tf.GradientTape() as tape:
            tape.watch(x)
            state = x[:, 0]
            for k in range(1, rounds):
                state = tf.tanh(state @ weights + x[:, k])
            loss = tf.reduce_sum(state)
        return loss, tape.gradient(loss, x)

    x = np.random.default_rng(1).normal(size=(3, rounds, 5))
    for _ in range(2):
        loss, gradient = step(tf.constant(x))

    plain_loss, plain = step.python_function(tf.constant(x))
    np.testing.assert_allclose(gradient.numpy(), plain.numpy(), rtol=1e-10)
    np.testing.assert_allclose(float(loss), float(plain_loss), rtol=1e-12)
    assert count(step.program(tf.constant(x)).graph, "unslice") == 0


def test_zeros_in_a_gap_may_be_filled_next_to_a_value_that_no_other_step_reads() -> None:
    """The fill call names a value of which loops keep nothing else."""
    weights = np.cos(np.arange(15.0)).reshape(3, 5)

    @tf.function(wait=True)
    def gradient(b: Any, c: Any) -> Any:
        with tf.GradientTape() as tape:
            tape.watch(b)
            rows = tnp.stack([c * b[0]] * 5, axis=1)
            loss = tf.reduce_sum(rows * weights) + tf.reduce_sum(tnp.gradient(b) * weights[0])
        return tape.gradient(loss, b)

    b, c = np.arange(5.0) ** 2, np.array([0.3, 1.0, -2.0])
    slopes = np.array([np.gradient(row) for row in np.eye(5)]) @ weights[0]
    slopes[0] += c @ weights.sum(axis=1)
    for _ in range(2):
        found = gradient(tf.constant(b), tf.constant(c))
        np.testing.assert_allclose(found.numpy(), slopes, rtol=1e-12)
