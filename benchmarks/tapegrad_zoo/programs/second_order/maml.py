"""Meta-learning: the gradient by the start passes through one inner step on each task."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tapegrad_zoo.program import Arrays, Cost, Dims, Half, Kind, Optimizer, Program, Values

INNER_RATE = 0.05


def make(rng: np.random.Generator, dims: Dims) -> tuple[Values, Values]:
    hidden = dims["hidden"]
    params = {
        "w1": rng.standard_normal((1, hidden)),
        "b1": rng.standard_normal(hidden),
        "w2": rng.standard_normal((hidden, hidden)) * hidden**-0.5,
        "b2": rng.standard_normal(hidden) * 0.1,
        "w3": rng.standard_normal((hidden, 1)) * hidden**-0.5,
        "b3": rng.standard_normal(1) * 0.1,
        "log_rate": rng.standard_normal(6) * 0.1,
    }
    tasks = dims["tasks"]
    height, phase = rng.uniform(0.1, 2.0, (tasks, 1, 1)), rng.uniform(0, np.pi, (tasks, 1, 1))
    known = rng.uniform(-3, 3, (tasks, dims["shots"], 1))
    asked = rng.uniform(-3, 3, (tasks, dims["questions"], 1))
    batch = {
        "known_x": known,
        "known_y": height * np.sin(known + phase),
        "asked_x": asked,
        "asked_y": height * np.sin(asked + phase),
    }
    return params, batch


def on_tapegrad(dims: Dims, half: Half) -> Callable[[Arrays, Arrays], Any]:
    import tapegrad as tf

    names = ["w1", "b1", "w2", "b2", "w3", "b3"]

    def error(weights: list[Any], x: Any, y: Any) -> Any:
        w1, b1, w2, b2, w3, b3 = weights
        h = tf.tanh(tf.matmul(x, w1) + b1)
        h = tf.tanh(tf.matmul(h, w2) + b2)
        return tf.reduce_mean(tf.square(tf.matmul(h, w3) + b3 - y))

    def loss(p: Arrays, batch: Arrays) -> Any:
        start = [tf.convert_to_tensor(p[name]) for name in names]
        rates = tf.unstack(INNER_RATE * tf.exp(p["log_rate"]))

        def after_one_step(task: Any) -> Any:
            known_x, known_y, asked_x, asked_y = task
            with tf.GradientTape() as tape:
                tape.watch(start)
                value = error(start, known_x, known_y)
            found = tape.gradient(value, start)
            learned = [w - rate * g for w, rate, g in zip(start, rates, found)]
            return error(learned, asked_x, asked_y)

        tasks = (batch["known_x"], batch["known_y"], batch["asked_x"], batch["asked_y"])
        return tf.reduce_mean(tf.vectorized_map(after_one_step, tasks))

    return loss


def on_jax(dims: Dims, half: Half) -> Callable[[Arrays, Arrays], Any]:
    import jax
    import jax.numpy as jnp

    names = ["w1", "b1", "w2", "b2", "w3", "b3"]

    def error(weights: list[Any], x: Any, y: Any) -> Any:
        w1, b1, w2, b2, w3, b3 = weights
        h = jnp.tanh(x * w1 + b1)
        h = jnp.tanh(h @ w2 + b2)
        return jnp.mean((h @ w3 + b3 - y) ** 2)

    def loss(p: Arrays, batch: Arrays) -> Any:
        start = [p[name] for name in names]
        rates = INNER_RATE * jnp.exp(p["log_rate"])

        def after_one_step(task: Arrays) -> Any:
            found = jax.grad(error)(start, task["known_x"], task["known_y"])
            learned = [w - rate * g for w, rate, g in zip(start, rates, found)]
            return error(learned, task["asked_x"], task["asked_y"])

        return jnp.mean(jax.vmap(after_one_step)(batch))

    return loss


def on_torch(dims: Dims, half: Half) -> Callable[[Arrays, Arrays], Any]:
    import torch
    from torch.nn import functional

    names = ["w1", "b1", "w2", "b2", "w3", "b3"]

    def error(weights: tuple[Any, ...], x: Any, y: Any) -> Any:
        w1, b1, w2, b2, w3, b3 = weights
        h = torch.tanh(x * w1 + b1)
        h = torch.tanh(h @ w2 + b2)
        return functional.mse_loss(h @ w3 + b3, y)

    def loss(p: Arrays, batch: Arrays) -> Any:
        start = tuple(p[name] for name in names)
        rates = INNER_RATE * torch.exp(p["log_rate"])

        def after_one_step(known_x: Any, known_y: Any, asked_x: Any, asked_y: Any) -> Any:
            found = torch.func.grad(error)(start, known_x, known_y)
            learned = tuple(w - rate * g for w, rate, g in zip(start, rates, found))
            return error(learned, asked_x, asked_y)

        each = torch.func.vmap(after_one_step)(
            batch["known_x"], batch["known_y"], batch["asked_x"], batch["asked_y"]
        )
        return torch.mean(each)

    return loss


def cost(dims: Dims) -> Cost:
    """The inner step takes three products, pulled back by six; the questions take three."""
    weights = dims["hidden"] * (dims["hidden"] + 2)
    products = 9 * dims["shots"] + 3 * dims["questions"]
    return Cost(
        bytes=8.0 * weights * dims["tasks"], operations=2.0 * products * weights * dims["tasks"]
    )


PROGRAM = Program(
    summary="MAML with learned rates: one inner step on each of 256 sine tasks, Adam",
    kind=Kind.TRAINING,
    make=make,
    on_tapegrad=on_tapegrad,
    on_jax=on_jax,
    on_torch=on_torch,
    sizes={
        "check": {"tasks": 3, "shots": 5, "questions": 7, "hidden": 6},
        "cpu": {"tasks": 100, "shots": 10, "questions": 10, "hidden": 40},
        "cuda": {"tasks": 256, "shots": 20, "questions": 40, "hidden": 256},
    },
    cost=cost,
    optimizer=Optimizer("adam", 1e-3),
)
