"""Loops that pass several times over rows whose elements are not next to each other."""

from __future__ import annotations

import shutil
from typing import Any

import numpy as np
import pytest

import tapegrad as tf
from tapegrad.program.emit.lowering import CompiledLoop
from tests import capabilities

pytest.importorskip("cupy")
host_cuda = pytest.importorskip("tests.house.host_cuda")
loops = pytest.importorskip("tapegrad_cupy.kernels.loops.loops")

pytestmark = pytest.mark.skipif(shutil.which("g++") is None, reason="Needs a C++ compiler.")


def draw(*shape: int) -> Any:
    return np.random.default_rng(len(shape)).normal(size=shape)


def normalized(axis: Any) -> Any:
    def function(x: Any) -> Any:
        mean = tf.reduce_mean(x, axis, keepdims=True)
        variance = tf.reduce_mean(tf.square(x - mean), axis, keepdims=True)
        return tf.tanh((x - mean) / tf.sqrt(variance + 1e-3))

    return function


def by_hand(x: Any) -> Any:
    top = tf.reduce_max(x, 1, keepdims=True)
    total = tf.reduce_sum(tf.exp(x - top), 1, keepdims=True)
    return (tf.math.log(total) + top)[:, 0]


CASES: dict[str, tuple[Any, Any]] = {
    "softmax": (lambda x: tf.nn.softmax(x, 1), draw(3, 5, 7)),
    "softmax of the first axis": (lambda x: tf.nn.softmax(x, 0), draw(5, 9)),
    "softmax of a long axis": (lambda x: tf.nn.softmax(x, 1), draw(2, 70, 3)),
    "logsumexp": (lambda x: tf.reduce_logsumexp(x * 2.0, 1) + 1.0, draw(3, 5, 7)),
    "logsumexp by hand": (by_hand, draw(3, 11, 6)),
    "log_softmax": (lambda x: tf.nn.log_softmax(x, 1), draw(3, 4, 7)),
    "a norm of two axes": (normalized((1, 2)), draw(3, 4, 5, 6)),
    "a norm of the first axes": (normalized((0, 1)), draw(3, 4, 6)),
    "a norm of short rows": (normalized(1), draw(300, 3, 2)),
}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_values_and_gradients_are_those_of_eager_mode(
    name: str, dtype: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    function, given = CASES[name]
    capabilities.use(monkeypatch, loops=host_cuda.HostLoops())

    def step(x: Any) -> Any:
        with tf.GradientTape() as tape:
            tape.watch(x)
            value = function(x)
            total = tf.reduce_sum(tf.sin(value))
        return value, tape.gradient(total, x)

    x = tf.constant(given.astype(dtype))
    compiled = tf.function(step)
    for _ in range(2):
        found = compiled(x)

    tolerance = 1e-5 if dtype == "float32" else 1e-12
    for one, other in zip(found, step(x)):
        np.testing.assert_allclose(one.numpy(), other.numpy(), rtol=tolerance, atol=tolerance)
    steps = compiled.program(x).steps
    assert any(isinstance(one, CompiledLoop) and one.made_of.loop.stages for one in steps)


@pytest.mark.parametrize(
    ("rows", "length", "taken"),
    [(20_000, 300, True), (8192, 10_000, True), (300, 20, True), (64, 100_000, False)],
)
def test_a_few_long_columns_are_left_to_several_launches(
    rows: int, length: int, taken: bool
) -> None:
    assert loops.CudaLoopCompiler().takes_stages(rows, length, stride=4) is taken
