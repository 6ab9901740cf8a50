"""Kernels that overwrite their first operand run only if no later step reads it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tapegrad as tf
from tests import capabilities
from tests.program.reference_loops import Reference


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """A kernel for `sort` that destroys its operand, and the operands that it got."""
    seen: list[Any] = []

    def sort_over(x: Any, *, axis: int, descending: bool) -> Any:
        seen.append(x)
        result = np.sort(x, axis=axis)[..., :: -1 if descending else 1].copy()
        x[...] = result
        return x

    overwriting = capabilities.Overwriting(sort=sort_over)
    capabilities.use(monkeypatch, in_place=overwriting, loops=Reference())
    return seen


def check(function: Any, calls: list[Any], times: int) -> None:
    x = tf.constant(np.random.default_rng(0).normal(size=8))
    given = x.numpy()
    expected = tf.nest.flatten(function(x))
    recorded = tf.function(function)
    recorded(x)
    calls.clear()
    for _ in range(3):
        found = tf.nest.flatten(recorded(x))
        for one, other in zip(found, expected, strict=True):
            np.testing.assert_allclose(one.numpy(), other.numpy(), rtol=1e-12)

    assert len(calls) == 3 * times
    np.testing.assert_array_equal(x.numpy(), given)


def test_a_value_that_nobody_needs_later_is_written_over(calls: list[Any]) -> None:
    check(lambda x: tf.sort(tf.exp(x)), calls, times=1)


def test_an_input_is_not(calls: list[Any]) -> None:
    check(lambda x: tf.sort(x) * 2.0, calls, times=0)


def test_a_value_that_is_read_later_is_not(calls: list[Any]) -> None:
    def function(x: Any) -> Any:
        y = tf.exp(x)
        return tf.cumsum(tf.sort(y)) + tf.cumsum(y)

    check(function, calls, times=0)


def test_a_result_is_not(calls: list[Any]) -> None:
    def function(x: Any) -> Any:
        y = tf.cumsum(x)
        return tf.sort(y), y

    check(function, calls, times=0)


def test_what_a_view_shows_is_not(calls: list[Any]) -> None:
    def function(x: Any) -> Any:
        y = tf.cumsum(x)
        view = tf.reshape(y, [2, 4])
        return tf.sort(y), tf.cumsum(view, axis=1)

    check(function, calls, times=0)


def test_the_memory_plan_counts_a_value_that_is_written_over_once(calls: list[Any]) -> None:
    def function(x: Any) -> Any:
        return tf.reduce_sum(tf.cumsum(tf.sort(tf.cumsum(x))))

    x = tf.constant(np.ones(1000))
    recorded = tf.function(function)
    recorded(x)

    # Sorted in place, then the last sums beside it.
    assert recorded.program(x).memory().peak == 16_000
    assert len(recorded.program(x).memory().held) == 2
