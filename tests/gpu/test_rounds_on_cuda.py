"""All rounds of elementwise bodies in one launch compute what the CPU computes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tapegrad as tf
import tapegrad.numpy as tnp
from tapegrad_cupy.kernels.loops.rounds import RoundsKernel

rng = np.random.default_rng(4)
ROUNDS = 600
X = 0.1 * rng.standard_normal((ROUNDS, 5, 33))
W = rng.uniform(0.1, 0.9, 33)


def scanned(w: Any, x: Any) -> Any:
    return tf.scan(lambda h, y: tf.tanh(w * h + y), x, x[0] * 0)


def scanned_from_the_end(w: Any, x: Any) -> Any:
    return tf.scan(lambda h, y: w * h + tf.sin(y), x, x[0] * 0, reverse=True)


def two_states(w: Any, x: Any) -> Any:
    return tf.scan(lambda s, y: (0.9 * s[1] + y, w * s[0]), x, (x[0], x[1]))[0]


def unrolled(w: Any, x: Any) -> Any:
    h, total = x[0] * 0, 0.0
    for t in range(60):
        h = w * h + (1 - w) * x[t]
        total = total + tnp.mean(h * h)
    return total


def unrolled_with_states(w: Any, x: Any) -> Any:
    h, states = x[0], []
    for t in range(1, 60):
        h = tnp.tanh(w * h + x[t])
        states.append(h)
    return tnp.stack(states)


def unrolled_with_numbers(w: Any, x: Any) -> Any:
    h = x[0]
    for t in range(1, 60):
        h = tnp.tanh(w * h * (0.9 - 0.01 * t) + x[t])
    return h


PROGRAMS = [
    *(scanned, scanned_from_the_end, two_states),
    *(unrolled, unrolled_with_states, unrolled_with_numbers),
]


def run(function: Callable[..., Any], device: str, dtype: str) -> list[list[Any]]:
    with tf.device(device):
        w, x = tf.constant(W.astype(dtype)), tf.constant(X.astype(dtype))

        @tf.function
        def step(w: Any, x: Any) -> Any:
            with tf.GradientTape() as tape:
                tape.watch([w, x])
                result = function(w, x)
                loss = tf.reduce_sum(result * result)
            return result, *tape.gradient(loss, [w, x])

        return [[value.numpy() for value in step(w, x)] for _ in range(3)]


@pytest.mark.parametrize("function", PROGRAMS)
@pytest.mark.parametrize(("dtype", "tolerance"), [("float64", 1e-10), ("float32", 1e-3)])
def test_rounds_in_one_launch_equal_the_cpu(
    function: Callable[..., Any], dtype: str, tolerance: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    launched = []
    launch = RoundsKernel.__call__

    def count(self: RoundsKernel, operands: Any, length: int) -> Any:
        launched.append(length)
        return launch(self, operands, length)

    monkeypatch.setattr(RoundsKernel, "__call__", count)
    expected = run(function, "cpu", "float64")[0]
    found = run(function, "cuda", dtype)
    assert launched
    for call in found:
        for one, other in zip(call, expected, strict=True):
            np.testing.assert_allclose(one, other, rtol=tolerance, atol=tolerance)
