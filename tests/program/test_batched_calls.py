"""Equal calls on the entries of an array become one call on the array."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tapegrad as tf
import tapegrad.numpy as tnp
from tapegrad.program.passes.batched_calls import MOST_BYTES, with_batched_calls
from tests import capabilities
from tests.program.recorded_graphs import assert_same_results, count, recorded

ENTRIES = 12
X = np.random.default_rng(3).uniform(0.5, 1.5, (5, ENTRIES, 4))
Y = np.random.default_rng(4).uniform(0.5, 1.5, (ENTRIES, 4))
W = np.array([0.3, 0.7, -0.2, 1.1])


def means(x: Any, y: Any, w: Any) -> Any:
    return tnp.stack([tnp.mean(x[:, t] * w, axis=1) for t in range(ENTRIES)])


def sums_along_all(x: Any, y: Any, w: Any) -> Any:
    return tnp.stack([tnp.sum(tnp.exp(x[:, t]) + y[t]) for t in range(ENTRIES)])


def maxima_of_neighbours(x: Any, y: Any, w: Any) -> Any:
    found = [tnp.max(x[:, t + 1] - x[:, t], axis=0, keepdims=True) for t in range(ENTRIES - 1)]
    return tnp.concatenate(found, axis=0)


def total(x: Any, y: Any, w: Any) -> Any:
    result = w * 0
    for t in range(2, ENTRIES):
        result = result + tnp.sin(x[:, t]) * y[t]
    return result


def joined_along_another_axis(x: Any, y: Any, w: Any) -> Any:
    return tnp.stack([tnp.tanh(x[:, t] * w) for t in range(ENTRIES)], axis=2)


def in_two_steps(x: Any, y: Any, w: Any) -> Any:
    scaled = [x[:, t] / tnp.sum(x[:, t], axis=1, keepdims=True) for t in range(ENTRIES)]
    return tnp.stack([tnp.min(one.T * 2.0, axis=0) for one in scaled])


PROGRAMS = [
    means, sums_along_all, maxima_of_neighbours, total, joined_along_another_axis, in_two_steps
]  # fmt: skip


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_one_call_replaces_those_on_the_entries(program: Callable[..., Any]) -> None:
    graph = recorded(lambda *arrays: (program(*arrays),), (X, Y, W))

    after = with_batched_calls(graph)

    assert_same_results(graph, after, (X, Y, W))
    arithmetic = ("sum", "mean", "max", "min", "multiply", "exp", "sin", "tanh", "divide", "add")
    assert count(graph, *arithmetic) >= ENTRIES - 2
    assert count(after, *arithmetic) <= 6
    assert count(after, "stack") == 0


def test_calls_that_nothing_joins_stay_where_they_are() -> None:
    def program(x: Any) -> Any:
        h = x[:, 0]
        for t in range(1, ENTRIES):
            h = tnp.tanh(h + 2.0 * x[:, t])
        return (h,)

    graph = recorded(program, (X,))

    assert with_batched_calls(graph) is graph


def test_large_entries_and_few_entries_stay_separate() -> None:
    large = np.ones((4, MOST_BYTES // 8 + 1))

    def sums(x: Any) -> Any:
        return (tnp.stack([tnp.sum(part) for part in x]),)

    for x in (large, X[:3]):
        graph = recorded(sums, (x,))
        assert with_batched_calls(graph) is graph


def test_entries_that_are_missing_end_the_batch() -> None:
    def program(x: Any) -> Any:
        return tuple(tnp.sum(x[:, t]) for t in range(ENTRIES) if t != 3)

    graph = recorded(program, (X,))
    after = with_batched_calls(graph)

    assert_same_results(graph, after, (X,))
    assert count(after, "sum") == 1 + 3


def test_what_depends_on_a_batch_is_computed_after_it() -> None:
    def program(x: Any, y: Any) -> Any:
        sums = [tnp.sum(x[:, t]) for t in range(ENTRIES)]
        scale = sums[2] * 3.0
        return tnp.stack([tnp.sum(y[t] * scale) for t in range(ENTRIES)]), tnp.stack(sums)

    graph = recorded(program, (X, Y))
    after = with_batched_calls(graph)

    assert_same_results(graph, after, (X, Y))
    assert count(after, "sum") == 2


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_compiled_programs_and_gradients_equal_eager_ones(program: Callable[..., Any]) -> None:
    arrays = [tf.constant(array) for array in (X, Y, W)]

    def step(*given: Any) -> Any:
        with tf.GradientTape() as tape:
            tape.watch(given)
            result = program(*given)
            loss = tnp.sum(tnp.cos(result))
        return loss, *[g for g in tape.gradient(loss, given) if g is not None]

    expected = step(*arrays)
    compiled = tf.function(step)
    compiled(*arrays)
    tf.wait_for_programs()

    for got, want in zip(compiled(*arrays), expected, strict=True):
        np.testing.assert_allclose(got.numpy(), want.numpy(), rtol=1e-10, atol=1e-12)


def test_rounds_with_sums_in_their_gradient_are_a_loop_and_few_calls(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As on devices, where one launch runs all elementwise rounds and sums are taken outside."""
    capabilities.use(monkeypatch, fused_rounds=True)
    rounds = 40
    x = tf.constant(np.random.default_rng(1).normal(size=(6, rounds)))
    a, b = tf.Variable(np.float64(0.3)), tf.Variable(np.float64(0.8))

    def step(x: Any) -> Any:
        with tf.GradientTape() as tape:
            v, loss = tf.ones_like(x[:, 0]), 0.0
            for t in range(rounds):
                loss = loss + tf.reduce_mean(tf.math.log(v) + x[:, t] ** 2 / v)
                v = 0.1 + tf.sigmoid(a) * x[:, t] ** 2 + tf.sigmoid(b) * v
        return loss, *tape.gradient(loss, [a, b])

    expected = step(x)
    compiled = tf.function(step)
    compiled(x)
    tf.wait_for_programs()

    for got, want in zip(compiled(x), expected, strict=True):
        np.testing.assert_allclose(got.numpy(), want.numpy(), rtol=1e-10)
    text = str(compiled.program(x))
    assert text.count("counted_loop(") == 2
    assert text.count("loop over") < rounds
