"""Rounds of an unrolled loop that differ by their number share their compiled loops."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tapegrad as tf
from tapegrad.program.emit.lowering import CompiledLoop
from tapegrad.program.passes.round_numbers import with_numbered_rounds
from tests import capabilities
from tests.program.recorded_graphs import assert_same_results, count, recorded
from tests.program.reference_loops import Reference

LENGTHS = np.array([3, 12, 7, 0])


WEIGHTS = np.random.default_rng(1).normal(size=(6, 6))


def masked_rounds(x: Any, lengths: Any, rounds: int) -> Any:
    state = x
    for k in range(rounds):
        state = tf.where((k < lengths)[:, None], tf.tanh(state @ WEIGHTS + 0.5), state)
    return state


@pytest.mark.parametrize(
    "function",
    [
        lambda n: [k < n for k in range(12)],
        lambda n: [n >= k for k in range(12)],
        lambda n: [n + k for k in range(12)],
        lambda n: [tf.maximum(n, k) * 2 for k in range(12)],
        lambda n: [k - n for k in range(0, 60, 5)],
    ],
)
@pytest.mark.parametrize("dtype", ["int32", "int64"])
def test_numbers_of_rounds_become_elements_of_an_array(function: Any, dtype: str) -> None:
    given = (LENGTHS.astype(dtype),)
    graph = recorded(lambda n: tuple(function(n)), given)
    after = with_numbered_rounds(graph)

    assert count(after, "positions_like") == 1
    assert_same_results(graph, after, given)


@pytest.mark.parametrize(
    ("function", "given"),
    [
        pytest.param(lambda n: [n + k for k in range(5)], LENGTHS, id="few"),
        pytest.param(lambda n: [n + 3 for _ in range(12)], LENGTHS, id="one number"),
        pytest.param(lambda n: [n + k for k in range(-20, -4)], LENGTHS, id="negative"),
        pytest.param(lambda n: [n + (1 << 20) * k for k in range(9, 20)], LENGTHS, id="large"),
        pytest.param(lambda x: [x + k for k in range(12)], LENGTHS / 2, id="fractions"),
    ],
)
def test_other_numbers_stay(function: Any, given: Any) -> None:
    graph = recorded(lambda n: tuple(function(n)), (given,))

    assert count(with_numbered_rounds(graph), "positions_like") == 0


@pytest.mark.parametrize(
    "function",
    [
        lambda x, c: c * x,
        lambda x, c: x / (c + 2.0),
        lambda x, c: c - x,
        lambda x, c: tf.maximum(x, c),
        lambda x, c: tf.where(x > c, x, -x),
    ],
)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_fractions_of_rounds_become_constants(function: Any, dtype: str) -> None:
    weights = WEIGHTS.astype(dtype)

    def rounds(x: Any) -> Any:
        for k in range(10):
            x = function(x @ weights, k / 7)
        return (x,)

    given = (np.random.default_rng(0).normal(size=(4, 6)).astype(dtype),)
    graph = recorded(rounds, given)
    after = with_numbered_rounds(graph)

    assert len(after.constants) == len(graph.constants) + 10
    assert_same_results(graph, after, given)


def test_fractions_of_one_loop_stay() -> None:
    def polynomial(x: Any) -> Any:
        y = 0.0 * x
        for k in range(12):
            y = y * x + 1.0 / (k + 1)
        return (y @ WEIGHTS,)

    graph = recorded(polynomial, (np.ones([4, 6]),))

    assert with_numbered_rounds(graph) is graph


def test_fractions_that_are_the_same_in_all_rounds_stay() -> None:
    def rounds(x: Any) -> Any:
        for k in range(100):
            x = (k % 10 + 1) / 7 * (x @ WEIGHTS)
        return (x,)

    graph = recorded(rounds, (np.ones([4, 6]),))

    assert with_numbered_rounds(graph) is graph


@pytest.mark.parametrize("number", [np.inf, -np.inf, np.nan])
def test_numbers_that_are_not_finite_stay(number: float) -> None:
    numbers = [*[k / 7 for k in range(10)], number]

    def rounds(x: Any) -> Any:
        found = []
        for c in numbers:
            x = x @ WEIGHTS
            found.append(c * x)
        return tuple(found)

    given = (np.random.default_rng(0).normal(size=(4, 6)),)
    graph = recorded(rounds, given)
    after = with_numbered_rounds(graph)

    assert len(after.constants) == len(graph.constants) + 10
    assert_same_results(graph, after, given)


def test_loops_with_other_fractions_in_each_round_are_compiled_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    capabilities.use(monkeypatch, loops=Reference(), specializer=None)

    def different_loops(rounds: int) -> int:
        @tf.function
        def sample(x: Any) -> Any:
            for k in range(rounds):
                x = (x - k / 30 * tf.tanh(x @ WEIGHTS)) / (1.0 + k / 60)
            return x

        x = tf.constant(np.random.default_rng(0).normal(size=(4, 6)))
        expected = x.numpy()
        for k in range(rounds):
            expected = (expected - k / 30 * np.tanh(expected @ WEIGHTS)) / (1.0 + k / 60)
        np.testing.assert_allclose(sample(x).numpy(), expected, rtol=1e-12)
        steps = sample.program(x).steps
        return len({repr(one.made_of.loop) for one in steps if isinstance(one, CompiledLoop)})

    assert different_loops(24) <= different_loops(12)


def test_compiled_loops_do_not_become_more_with_the_rounds(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    capabilities.use(monkeypatch, loops=Reference(), specializer=None)
    x = tf.constant(np.random.default_rng(0).normal(size=(4, 6)))
    lengths = tf.constant(LENGTHS)

    def different_loops(rounds: int) -> int:
        @tf.function
        def step(x: Any, lengths: Any) -> Any:
            with tf.GradientTape() as tape:
                tape.watch(x)
                value = tf.reduce_sum(masked_rounds(x, lengths, rounds))
            return value, tape.gradient(value, x)

        value, gradient = step(x, lengths)
        plain = step.python_function(x, lengths)
        np.testing.assert_allclose(float(value), float(plain[0]), rtol=1e-12)
        np.testing.assert_allclose(gradient.numpy(), plain[1].numpy(), rtol=1e-12)
        steps = step.program(x, lengths).steps
        return len({repr(one.made_of.loop) for one in steps if isinstance(one, CompiledLoop)})

    assert different_loops(24) <= different_loops(12)
