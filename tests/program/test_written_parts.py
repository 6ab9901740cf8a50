"""Arrays that loops fill part by part cost one pass in both directions, not one per part."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

import tapegrad as tf
import tapegrad.numpy as tnp
from tests.program.test_windows import array, check


@pytest.fixture(autouse=True)
def without_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    """Run the calls of programs one by one: what a pass makes does not depend on loops in C."""
    monkeypatch.setenv("PATH", "")
    monkeypatch.delenv("CC", raising=False)


def whole_calls(function: Any, x: Any) -> Counter[str]:
    """Return the calls in the program of a value and its gradient that make a whole array."""

    @tf.function
    def with_gradient(x: Any) -> Any:
        with tf.GradientTape() as tape:
            tape.watch(x)
            value = tf.reduce_sum(tf.cos(function(x)))
        return value, tape.gradient(value, x)

    with_gradient(x)
    shape = tuple(function(x).shape)
    calls = with_gradient.program(x).graph.calls
    return Counter(c.primitive.name for c in calls if c.results[0].shape == shape)


def path(x: Any, rounds: int = 5) -> Any:
    """Return all states of a recurrence, written round by round."""
    states = tnp.zeros((rounds + 1, *x.shape), dtype=x.dtype)
    states[0] = tnp.sin(x)
    for i in range(rounds):
        states[i + 1] = states[i] + 0.1 * tnp.cos(states[i])
    return states


def two_back(x: Any) -> Any:
    states = tnp.zeros((7, *x.shape), dtype=x.dtype)
    states[0], states[1] = x, tnp.cos(x)
    for i in range(2, 7):
        states[i] = tnp.sin(states[i - 1]) * states[i - 2]
    return states


def overlapping(x: Any) -> Any:
    """Write and read ranges that share elements with others."""
    states = tnp.zeros((9,), dtype=x.dtype) + x[0]
    for i in range(6):
        states[i : i + 3] = tnp.cos(states[i + 1 : i + 4]) * x[:3]
    return states


def written_again(x: Any) -> Any:
    states = tnp.zeros((3, *x.shape), dtype=x.dtype)
    for i in (0, 1, 0, 2, -3, 1):
        states[i] = tnp.sin(states[0] + x) + states[i]
    return states


def along_columns(x: Any) -> Any:
    table = tnp.zeros((4, 6), dtype=x.dtype)
    for i in range(6):
        table[:, i] = tnp.tanh(x[:4] * (i + 1)) + (table[:, i - 1] if i else 0.0)
        table[1, ::2] = table[1, ::2] * 1.5
    return table


def added(x: Any) -> Any:
    """Add to parts of an array, which is read as a whole at the end."""
    total = tnp.zeros((5, *x.shape), dtype=x.dtype)
    for i in range(5):
        total[i] += x * (i + 1)
        total[(i + 2) % 5] += tnp.sin(total[i])
    return total


@pytest.mark.parametrize(
    "function", [path, two_back, overlapping, written_again, along_columns, added]
)
def test_values_and_gradients_equal_those_of_eager_code(function: Any) -> None:
    check(function, array(4))


@pytest.mark.parametrize("function", [path, two_back])
def test_the_gradient_of_each_round_makes_no_whole_array(function: Any) -> None:
    made = whole_calls(function, array(4))
    assert not made.keys() & {"unslice", "add"}
    assert made["slice_set"] <= 7  # the writes of the forward part


def test_many_rounds_are_searched_in_little_time() -> None:
    made = whole_calls(lambda x: path(x, 60), array(2))
    assert not made.keys() & {"unslice", "add"}
