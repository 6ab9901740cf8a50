"""Sums of deviations from a mean are left out of gradients, which stay the same."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tapegrad as tf
import tapegrad.numpy as tnp
from tapegrad.program.passes.algebra import simplified
from tapegrad.program.passes.centred_sums import without_centred_sums
from tests.program.recorded_graphs import assert_same_results, count, recorded

X, GAIN = np.random.default_rng(0).normal(size=(2, 6, 5)) + 3.0, np.linspace(0.5, 2.0, 5)


def moments(axes: Any) -> Any:
    def norm(x: Any, gain: Any) -> Any:
        mean, variance = tf.nn.moments(x, axes=axes, keepdims=True)
        return (x - mean) / tf.sqrt(variance + 1e-3) * gain

    return norm


def by_hand(x: Any, gain: Any) -> Any:
    mean = tf.reduce_mean(x, -1, keepdims=True)
    variance = tf.reduce_mean((x - mean) ** 2, -1, keepdims=True)
    return (x - mean) * tf.math.rsqrt(variance + 1e-3) * gain


def by_sums(x: Any, gain: Any) -> Any:
    mean = tnp.sum(x, axis=-1)[..., None] / 5
    variance = tnp.sum((x - mean) * (x - mean), axis=-1)[..., None] / 5
    return (x - mean) / tnp.sqrt(variance + 1e-3) * gain


NORMS: dict[str, Any] = {
    "rows": moments([-1]),
    "positions": moments([1]),
    "all but the last axis": moments([0, 1]),
    "by hand": by_hand,
    "by sums": by_sums,
}


def gradients_of(norm: Any) -> Any:
    def step(x: Any, gain: Any) -> Any:
        with tf.GradientTape() as tape:
            tape.watch([x, gain])
            value = tf.reduce_sum(tf.sin(norm(x, gain)))
        return tape.gradient(value, [x, gain])

    return step


def sums(graph: Any) -> int:
    return count(graph, "sum") + count(graph, "mean")


@pytest.mark.parametrize("name", NORMS)
def test_gradients_of_norms_need_fewer_sums(name: str) -> None:
    graph = simplified(recorded(gradients_of(NORMS[name]), (X, GAIN)))
    after = without_centred_sums(graph)

    assert sums(after) < sums(graph)
    assert_same_results(graph, after, (X, GAIN))


def test_second_derivatives_of_a_variance() -> None:
    """They are those of the sum of squared deviations: 2 / n times (1 if i == j else 0) - 1 / n."""
    hessian = tf.function(tf.hessian(lambda x: tf.math.reduce_variance(x)))
    for _ in range(2):
        got = hessian(tf.constant(X[0, :, 0]))

    np.testing.assert_allclose(got.numpy(), 2 / 6 * (np.eye(6) - 1 / 6), atol=1e-12)


@pytest.mark.parametrize(
    "function",
    [
        pytest.param(
            lambda x: tf.reduce_sum(x - tf.reduce_mean(x, 0, keepdims=True), 1), id="axis"
        ),
        pytest.param(
            lambda x: tf.reduce_sum((x - tf.reduce_mean(x, 1, keepdims=True)) * x, 1), id="factor"
        ),
        pytest.param(
            lambda x: tf.reduce_sum(1.0 / (x - tf.reduce_mean(x, 1, keepdims=True)), 1),
            id="inverse",
        ),
        pytest.param(
            lambda x: tf.reduce_sum(x - tf.reduce_mean(2.0 * x, 1, keepdims=True), 1), id="other"
        ),
        pytest.param(lambda x: tf.reduce_sum(x - tf.reduce_max(x, 1, keepdims=True), 1), id="max"),
        pytest.param(
            lambda x: tf.reduce_sum(x - tf.reduce_mean(x, (0, 1), keepdims=True), 1), id="more axes"
        ),
    ],
)
def test_other_sums_stay(function: Any) -> None:
    graph = recorded(lambda x: (function(x),), (X,))

    assert sums(without_centred_sums(graph)) == sums(graph)
