"""The predicted peak of a run is the measured one, within 2 percent."""

from __future__ import annotations

import gc
import tracemalloc
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tapegrad as tf

ROWS, WIDTH, LAYERS = 12_000, 200, 3


def loss_of(weights: list[Any], x: Any) -> Any:
    for w in weights:
        x = tf.nn.gelu(x @ w)
    return tf.reduce_mean(x * x)


def chain(weights: list[Any], optimizer: Any) -> Callable[..., Any]:
    return lambda x: tf.tanh(tf.tanh(tf.tanh(x @ weights[0]) @ weights[1]) @ weights[2])


def gradients(weights: list[Any], optimizer: Any) -> Callable[..., Any]:
    def step(x: Any) -> Any:
        with tf.GradientTape() as tape:
            tape.watch(x)
            loss = loss_of(weights, x)
        return tape.gradient(loss, [x, *weights])

    return step


def training(weights: list[Any], optimizer: Any) -> Callable[..., Any]:
    def step(x: Any) -> Any:
        with tf.GradientTape() as tape:
            loss = loss_of(weights, x)
        optimizer.apply_gradients(zip(tape.gradient(loss, weights), weights))
        return loss

    return step


def steps_in_python(weights: list[Any], optimizer: Any) -> Callable[..., Any]:
    return lambda x: tf.sort(tf.sort(x * 2.0, axis=0) + 1.0, axis=1) * 3.0


@pytest.mark.engine
@pytest.mark.parametrize("make", [chain, gradients, training, steps_in_python])
def test_the_predicted_peak_is_the_measured_one(make: Any) -> None:
    x = tf.constant(np.random.default_rng(0).standard_normal((ROWS, WIDTH), "float32"))
    warm = tf.function(make(*weights_and_optimizer()), wait=True)
    warm(x)  # imports and caches
    del warm
    gc.collect()
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        weights, optimizer = weights_and_optimizer()
        run = tf.function(make(weights, optimizer), wait=True)
        for _ in range(3):
            run(x)
        gc.collect()
        tracemalloc.reset_peak()
        run(x)
        measured = tracemalloc.get_traced_memory()[1] - before
    finally:
        tracemalloc.stop()
    variables = [*weights, *optimizer.variables]
    plan = run.program(x).memory()

    held = sum(variable.numpy().nbytes for variable in variables) + plan.constants

    assert measured - held == pytest.approx(plan.run_peak, rel=0.02)


def weights_and_optimizer() -> tuple[list[Any], Any]:
    rng = np.random.default_rng(1)
    shape = (WIDTH, WIDTH)
    weights = [tf.Variable(rng.standard_normal(shape, "float32") * 0.1) for _ in range(LAYERS)]
    optimizer = tf.keras.optimizers.Adam()
    optimizer.build(weights)
    return weights, optimizer


def test_the_prediction_counts_what_lives_at_the_same_time() -> None:
    # One array of 4 MB for each product: the result, and what the last product reads.
    x = tf.constant(np.ones((1000, 1000), "float32"))
    run = tf.function(lambda x: x @ x @ x @ x, wait=True)
    run(x)

    assert run.program(x).memory().run_peak == 3 * 4_000_000
