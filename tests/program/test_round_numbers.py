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
