"""Backward passes of random networks with device kernels, against the plain rules on NumPy."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tapegrad as tf
from tests.api.device_kernels import sweep_as_on_a_device

WIDTH = 4
ROUNDS = 2
"""Tapes one after the other: casts are made ahead from the second on."""

Values = list[tuple[str, np.ndarray] | None]


class Network:
    """Layers that share weights, biases and products in a way that a seed decides."""

    def __init__(self, seed: int, dtype: str) -> None:
        rng = np.random.default_rng(seed)
        kind = "float32" if dtype == "float16" else dtype

        def draw(*shape: int) -> tf.Variable:
            return tf.Variable((0.4 * rng.standard_normal(shape)).astype(kind))

        self.seed, self.dtype = seed, dtype
        self.weights = [draw(WIDTH, WIDTH) for _ in range(2)]
        self.biases = [draw(WIDTH) for _ in range(3)]
        self.start = draw(WIDTH, WIDTH)

    def loss(self) -> tuple[Any, list[Any]]:
        """Return the loss and intermediate values."""
        choose = random.Random(self.seed)
        early = [self._read(v) for v in (*self.weights, *self.biases) if choose.random() < 0.5]
        values, products = [self._read(self.start), *[e for e in early if e.ndim == 2]], []
        for _ in range(choose.randint(2, 8)):
            x, bias = choose.choice(values), self._read(choose.choice(self.biases))
            product = choose.choice(products) if products and choose.random() < 0.3 else None
            if product is None:
                w = self._read(choose.choice(self.weights))
                turns = {name: choose.random() < 0.3 for name in ("transpose_a", "transpose_b")}
                product = tf.matmul(x, w, **turns)
                products.append(product)
            values.append(choose.choice(STEPS)(x, product, bias))
        total = tf.reduce_sum(tf.tanh(values[-1])) + 0.5 * tf.reduce_sum(choose.choice(values))
        if choose.random() < 0.3:
            total += tf.cast(tf.reduce_sum(self.biases[0] ** 2), total.dtype)
        return total, values

    def _read(self, variable: tf.Variable) -> Any:
        return tf.cast(variable, self.dtype) if self.dtype == "float16" else variable.value()

    def gradients(self) -> Values:
        """Return the gradients by some of the variables, and at times by a value on the way."""
        choose = random.Random(-1 - self.seed)
        everything = [*self.weights, *self.biases, self.start]
        chosen = [v for v in everything if choose.random() < 0.8] or everything
        is_persistent, has_inner = choose.random() < 0.2, choose.random() < 0.4
        for _ in range(ROUNDS):
            with tf.GradientTape(persistent=is_persistent) as tape:
                loss, values = self.loss()
            inner = [random.Random(self.seed).choice(values)] if has_inner else []
            found = tape.gradient(loss, [*chosen, *inner])
        return [None if g is None else (g.dtype.name, g.numpy().astype("f8")) for g in found]


STEPS: list[Callable[[Any, Any, Any], Any]] = [
    lambda x, product, bias: product + bias,
    lambda x, product, bias: bias + product,
    lambda x, product, bias: tf.tanh(product + bias) + x,
    lambda x, product, bias: (product + bias) + (x + bias),
    lambda x, product, bias: product * x - bias,
    lambda x, product, bias: product * bias + x,
    lambda x, product, bias: bias - product,
    lambda x, product, bias: (bias + product) + (product + bias),
    lambda x, product, bias: x + x,
]


@pytest.mark.parametrize("dtype", ["float64", "float16"])
@pytest.mark.parametrize("seed", range(60))
def test_kernels_of_a_device_give_what_the_rules_give(monkeypatch, seed, dtype):
    network = Network(seed, dtype)
    with tf.device("cpu"):
        expected = network.gradients()
        sweep_as_on_a_device(monkeypatch)
        found = network.gradients()

    tolerance = 1e-12 if dtype == "float64" else 2e-2
    for one, other in zip(found, expected, strict=True):
        assert (one is None) == (other is None)
        if one is not None and other is not None:
            assert one[0] == other[0]
            np.testing.assert_allclose(one[1], other[1], rtol=tolerance, atol=tolerance)


@pytest.mark.engine
def test_such_networks_do_let_biases_wait(monkeypatch):
    made = sweep_as_on_a_device(monkeypatch)
    for seed in range(60):
        Network(seed, "float64").gradients()
    assert len(made) > 20
