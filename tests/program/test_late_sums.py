"""Rounds of programs that run all rounds in one launch: sums are taken after the loop."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tapegrad as tf
import tapegrad.numpy as tnp
from tests import capabilities

ROUNDS = 40

rng = np.random.default_rng(5)
X = rng.uniform(0.5, 1.5, (ROUNDS, 6, 4))
W = rng.uniform(0.2, 0.4, 4)


def shared_weight(w: Any, x: Any) -> Any:
    h = x[0]
    for t in range(1, ROUNDS):
        h = tnp.tanh(w * h + x[t])
    return tnp.sum(h)


def losses_of_all_rounds(w: Any, x: Any) -> Any:
    h, total = x[0] * 0, 0.0
    for t in range(ROUNDS):
        h = 0.5 * (h - w * x[t])
        total = total + tnp.mean(h * h)
    return total


def signs_and_factors(w: Any, x: Any) -> Any:
    scale, h = tnp.exp(-w), x[0]
    for t in range(1, ROUNDS):
        h = scale * h + (1 - scale) * x[t] - 0.1 * h * tnp.abs(w)
    return tnp.sum(h * h)


def kept_axes(w: Any, x: Any) -> Any:
    h, total = x[0] * 0, 1.0
    for t in range(ROUNDS):
        h = 0.5 * h + w * x[t]
        total = total - 2.0 * tnp.sum(h, axis=1, keepdims=True)
    return tnp.sum(total * total)


def numbers_of_rounds(w: Any, x: Any) -> Any:
    h = x[0]
    for t in range(1, ROUNDS):
        h = tnp.tanh(w * h * (0.9 - 0.01 * t) + x[t])
    return tnp.sum(h)


PROGRAMS = [numbers_of_rounds, shared_weight, losses_of_all_rounds, signs_and_factors, kept_axes]


def with_gradients(function: Callable[..., Any]) -> Callable[..., Any]:
    def step(w: Any, x: Any) -> Any:
        with tf.GradientTape() as tape:
            tape.watch([w, x])
            loss = function(w, x)
        return loss, *tape.gradient(loss, [w, x])

    return step


@pytest.mark.parametrize("function", PROGRAMS)
def test_rounds_without_sums_give_the_results_of_eager_mode(
    function: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    capabilities.use(monkeypatch, sequences=None, fused_rounds=True)
    step = with_gradients(function)
    w, x = tf.constant(W), tf.constant(X)
    expected = step(w, x)
    recorded = tf.function(step)
    for _ in range(2):
        for one, other in zip(recorded(w, x), expected, strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-10, atol=1e-12)
    calls = recorded.program(w, x).graph.calls
    loops = [call for call in calls if call.primitive.name == "counted_loop"]
    assert len(loops) == 2  # forwards and backwards
    for loop in loops:
        inside = [call.primitive.name for call in loop.params["body"].recorded.calls]
        assert not {"sum", "mean"} & {*inside}
    assert len(calls) < 100


def test_sums_in_other_programs_stay_where_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    def total(x: Any) -> Any:
        return sum(tnp.sum(x[t] @ x[t].T) for t in range(ROUNDS))

    capabilities.use(monkeypatch, sequences=None, fused_rounds=True)
    recorded, x = tf.function(total), tf.constant(X)
    np.testing.assert_allclose(recorded(x), total(x), rtol=1e-10)
    names = [call.primitive.name for call in recorded.program(x).graph.calls]
    assert names.count("sum") == ROUNDS


def alternating(w: Any, x: Any) -> Any:
    h, total = x[0] * 0, 1.0
    for t in range(ROUNDS):
        h = 0.5 * h + w * x[t]
        total = tnp.sum(h) - total
    return total


def added_from_the_left(w: Any, x: Any) -> Any:
    h, total = x[0] * 0, 1.0
    for t in range(ROUNDS):
        h = 0.5 * h - w * x[t]
        total = tnp.sum(h * h) + total
    return total


@pytest.mark.parametrize("function", [alternating, added_from_the_left])
def test_totals_may_be_the_second_operand(
    function: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A total that is subtracted is no part of a longer sum."""
    capabilities.use(monkeypatch, sequences=None, fused_rounds=True)
    w, x = tf.constant(W), tf.constant(X)
    recorded = tf.function(with_gradients(function))
    for _ in range(2):
        total, slope, _ = recorded(w, x)
        np.testing.assert_allclose(total, function(W, X), rtol=1e-10)
        step = np.eye(4)[1] * 1e-6
        difference = (function(W + step, X) - function(W - step, X)) / 2e-6
        np.testing.assert_allclose(slope[1], difference, rtol=1e-5)
