"""Reductions in two steps: where a part of the axes is reduced nearby."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tapegrad as tf
from tapegrad.program.graph.graph import Graph
from tapegrad.program.passes.nested_sums import with_nested_sums
from tests import capabilities
from tests.program.recorded_graphs import assert_same_results, recorded
from tests.program.test_components import Fast, traffic
from tests.program.test_fusion import Watching, kinds

SHAPE = (4, 64, 8, 16)


@pytest.fixture
def target(monkeypatch: pytest.MonkeyPatch) -> Watching:
    found = Fast()
    capabilities.use(monkeypatch, loops=found)
    return found


def draw(*shape: int, seed: int = 0) -> Any:
    return np.random.default_rng(seed).normal(size=shape)


def axes_of(graph: Graph) -> list[Any]:
    names = ("sum", "mean", "max", "min")
    return [call.params["axis"] for call in graph.calls if call.primitive.name in names]


@pytest.mark.parametrize("reduce", [tf.reduce_sum, tf.reduce_mean, tf.reduce_max, tf.reduce_min])
@pytest.mark.parametrize("keepdims", [False, True])
def test_the_outer_axes_are_reduced_second(reduce: Callable[..., Any], keepdims: bool) -> None:
    def function(x: Any) -> Any:
        y = tf.exp(x)
        return reduce(y, (1, 2)), reduce(tf.sin(y), (0, 1, 2), keepdims=keepdims)

    x = draw(*SHAPE)
    graph = recorded(function, (x,))
    after = with_nested_sums(graph)

    assert_same_results(graph, after, (x,))
    assert axes_of(after) == [(1, 2), (1, 2), (0, 1, 2)]


OTHERS: dict[str, Callable[..., Any]] = {
    "other arrays": lambda x, y: (tf.reduce_sum(tf.exp(x), (1, 2)), tf.reduce_sum(tf.sin(y))),
    "axes that overlap": lambda x, y: (
        tf.reduce_sum(tf.exp(x), (1, 2)),
        tf.reduce_sum(tf.sin(x), (0, 1)),
    ),
    "equal axes": lambda x, y: (
        tf.reduce_sum(tf.exp(x), (1, 2)),
        tf.reduce_sum(tf.sin(x), (1, 2)),
    ),
    "a short axis": lambda x, y: (tf.reduce_sum(tf.exp(x), 2), tf.reduce_sum(tf.sin(x), (1, 2))),
    "whole numbers": lambda x, y: (
        tf.reduce_sum(tf.cast(x, "int64"), (1, 2)),
        tf.reduce_sum(tf.cast(x, "int64"), (0, 1, 2)),
    ),
}


@pytest.mark.parametrize("name", OTHERS)
def test_other_reductions_stay(name: str) -> None:
    graph = recorded(OTHERS[name], (draw(*SHAPE), draw(*SHAPE, seed=1)))

    assert axes_of(with_nested_sums(graph)) == axes_of(graph)


def instance_norm(x: Any, gain: Any, bias: Any) -> Any:
    mean, variance = tf.nn.moments(x, axes=[1, 2], keepdims=True)
    return (x - mean) / tf.sqrt(variance + 1e-3) * gain + bias


def test_an_instance_norm_by_hand_stores_its_result_only(target: Watching) -> None:
    """The mean, the variance and the result are three passes over the operand."""
    tensors = [tf.constant(v) for v in (draw(*SHAPE), draw(16, seed=1), draw(16, seed=2))]
    function = tf.function(instance_norm)
    function(*tensors)

    found = function(*tensors)

    np.testing.assert_allclose(found.numpy(), instance_norm(*tensors).numpy(), rtol=1e-10)
    assert traffic(function.program(*tensors).steps) < 4.2 * tensors[0].numpy().nbytes


def test_the_gradients_of_an_instance_norm_share_a_loop(target: Watching) -> None:
    def function(x: Any, gain: Any, bias: Any) -> Any:
        with tf.GradientTape() as tape:
            tape.watch([x, gain, bias])
            y = tf.reduce_sum(tf.sin(instance_norm(x, gain, bias)))
        return tape.gradient(y, [x, gain, bias])

    tensors = [tf.constant(v) for v in (draw(*SHAPE), draw(16, seed=1), draw(16, seed=2))]
    compiled = tf.function(function)
    compiled(*tensors)

    found = compiled(*tensors)

    for one, other in zip(found, function(*tensors), strict=True):
        np.testing.assert_allclose(one.numpy(), other.numpy(), rtol=1e-9, atol=1e-10)
    steps = compiled.program(*tensors).steps
    whole = [
        step
        for step in steps
        if kinds([step]) == ["loop"] and getattr(step.made_of.loop, "shape", ()) == SHAPE
    ]
    assert {step.made_of.loop.axes for step in whole} <= {(), (1, 2)}
    assert traffic(steps) < 12.5 * tensors[0].numpy().nbytes
