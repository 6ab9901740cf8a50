"""Loops over axes whose lengths vary: two recordings serve all lengths."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tapegrad as tf
from tapegrad.program.loops import counted

W = (0.3 * np.random.default_rng(0).normal(size=(3, 3))).astype(np.float64)


@pytest.fixture(autouse=True)
def no_loop_is_short(monkeypatch: pytest.MonkeyPatch) -> None:
    """Record loops of a few rounds as loops, too."""
    monkeypatch.setattr(counted, "LEAST_CALLS", 0)


def states(x: Any, w: Any) -> Any:
    return tf.scan(lambda h, row: tf.tanh(tf.linalg.matvec(w, h) + row), x, tf.zeros(3, x.dtype))


def gradient(x: Any, w: Any) -> Any:
    with tf.GradientTape() as tape:
        tape.watch(w)
        loss = tf.reduce_mean(tf.square(states(x, w)))
    return loss, tape.gradient(loss, w)


def nested(x: Any, w: Any) -> Any:
    def row_sum(row: Any) -> Any:
        return tf.foldl(lambda total, entry: total + tf.sin(entry), row)

    return tf.map_fn(row_sum, x @ w)


def check(function: Any, recorded: Any, length: int) -> None:
    x = tf.constant(np.random.default_rng(length).normal(size=(length, 3)))
    found, expected = recorded(x, tf.constant(W)), function(x, tf.constant(W))
    for one, other in zip(tf.nest.flatten(found), tf.nest.flatten(expected), strict=True):
        np.testing.assert_allclose(one.numpy(), other.numpy(), rtol=1e-12, atol=1e-13)


@pytest.mark.usefixtures("quick_compiler")
@pytest.mark.parametrize("wait", [True, False])
@pytest.mark.parametrize("function", [states, gradient, nested])
def test_two_recordings_serve_all_lengths(function: Any, wait: bool) -> None:
    recorded = tf.function(function, wait=wait)

    for length in (20, 31, 24, 47, 18, 31, 20, 63):
        check(function, recorded, length)

    assert len(recorded.explain().recordings) == 2


@pytest.mark.usefixtures("quick_compiler")
def test_a_body_with_another_constant_is_recorded_anew() -> None:
    def function(x: Any, w: Any) -> Any:
        shift = np.full(3, float(x.shape[0] % 2))
        return tf.scan(lambda h, row: h * 0.5 + row + shift, x, tf.zeros(3, x.dtype))

    recorded = tf.function(function, wait=True)

    for length in (20, 31, 24, 47, 18, 31, 63):
        check(function, recorded, length)
