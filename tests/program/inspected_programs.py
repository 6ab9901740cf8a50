"""Small programs for the inspection tests; their loops run in NumPy, so no compiler is needed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tapegrad as tf
from tests import capabilities


def use_loops(monkeypatch: pytest.MonkeyPatch, make: Any) -> None:
    """Set the loop compiler of NumPy's programs; with None there are no loops."""
    capabilities.use(monkeypatch, loops=make)


def program_of(function: Callable[..., Any], *tensors: Any) -> Any:
    recorded = tf.function(function)
    recorded(*tensors)
    return recorded.program(*tensors)


def variable(*shape: int, name: str | None = None) -> Any:
    return tf.Variable(np.ones(shape, "float32"), name=name)


def mlp_step() -> Any:
    """One step of gradient descent with 3 examples of 5 numbers, 7 hidden ones and 2 results."""
    w1, b1, w2 = variable(5, 7), variable(7), variable(7, 2)

    def step(x: Any, y: Any) -> Any:
        with tf.GradientTape() as tape:
            hidden = tf.nn.relu(x @ w1 + b1)
            loss = tf.reduce_mean(tf.square(hidden @ w2 - y))
        gradients = tape.gradient(loss, [w1, b1, w2])
        for weight, gradient in zip([w1, b1, w2], gradients):
            weight.assign_sub(0.1 * gradient)
        return loss

    return program_of(step, tf.ones([3, 5]), tf.ones([3, 2]))
