"""Checks that hold for every layer of one tensor."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import tapegrad as tf
import tapegrad_strict as strict
from tapegrad.core.backend.registry import register_backend, unregister_backend


def slope_and_rise(layer: Any, x: Any, step: Any) -> tuple[float, float]:
    """What the gradient says of a change of the input, and what a central difference says."""
    g = np.random.default_rng(1).normal(size=layer(x).shape)
    with tf.GradientTape() as tape:
        data = tf.constant(x)
        tape.watch(data)
        loss = tf.reduce_sum(g * layer(data))
    slope = np.sum(tape.gradient(loss, data).numpy() * step)
    rise = np.sum(g * (layer(x + step).numpy() - layer(x - step).numpy())) / 2
    return float(slope), float(rise)


def check_function_equals_eager(layer: Any, x: Any) -> None:
    """Compare a recorded step, with its gradient, with an eager one."""

    def step(data: Any) -> Any:
        with tf.GradientTape() as tape:
            tape.watch(data)
            loss = tf.reduce_sum(layer(data) ** 2)
        return loss, tape.gradient(loss, data)

    recorded = tf.function(step)
    recorded(x + 1.0)

    for one, other in zip(recorded(x), step(x), strict=True):
        np.testing.assert_allclose(one.numpy(), other.numpy(), rtol=1e-12, atol=1e-13)


def check_nothing_is_read_on_the_host(make: Callable[[], Any], x: Any) -> None:
    """Call a layer in training on a device that refuses to give its values away."""
    register_backend(strict.StrictBackend())
    try:
        with tf.device("strict:0"):
            layer, data = make(), tf.constant(x)
            with strict.forbidding_reads():
                y = layer(data, training=True)

        assert y.device == "strict:0"
    finally:
        unregister_backend("strict")
