"""Factor a nonnegative matrix: multiplicative updates that lower the divergence of Kullback."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tapegrad_zoo.program import Arrays, Cost, Dims, Half, Kind, Program, Values

EPSILON = 1e-8


def make(rng: np.random.Generator, dims: Dims) -> tuple[Values, Values]:
    rows, columns, rank = dims["rows"], dims["columns"], dims["rank"]
    params = {
        "left": rng.uniform(0.1, 1.0, (rows, rank)),
        "right": rng.uniform(0.1, 1.0, (rank, columns)),
    }
    left, right = rng.gamma(0.5, 1.0, (rows, rank)), rng.gamma(0.5, 1.0, (rank, columns))
    return params, {"table": left @ right + rng.uniform(0.0, 0.1, (rows, columns))}


def on_tapegrad(dims: Dims, half: Half) -> Callable[[Arrays, Arrays], Any]:
    import tapegrad as tf

    def step(params: Arrays, batch: Arrays) -> Arrays:
        table = batch["table"]
        left, right = tf.identity(params["left"]), tf.identity(params["right"])
        for _ in range(dims["iterations"]):
            ratio = table / (tf.matmul(left, right) + EPSILON)
            weight = tf.reduce_sum(left, axis=0)[:, None] + EPSILON
            right = right * tf.matmul(left, ratio, transpose_a=True) / weight
            ratio = table / (tf.matmul(left, right) + EPSILON)
            weight = tf.reduce_sum(right, axis=1)[None, :] + EPSILON
            left = left * tf.matmul(ratio, right, transpose_b=True) / weight
        model = tf.matmul(left, right) + EPSILON
        divergence = table * tf.math.log((table + EPSILON) / model) - table + model
        return {"left": left, "right": right, "divergence": tf.reduce_mean(divergence)}

    return step


def on_jax(dims: Dims, half: Half) -> Callable[[Arrays, Arrays], Any]:
    import jax
    import jax.numpy as jnp

    def step(params: Arrays, batch: Arrays) -> Arrays:
        table = batch["table"]

        def iterate(_: Any, factors: Any) -> Any:
            left, right = factors
            ratio = table / (left @ right + EPSILON)
            right = right * (left.T @ ratio) / (jnp.sum(left, 0)[:, None] + EPSILON)
            ratio = table / (left @ right + EPSILON)
            left = left * (ratio @ right.T) / (jnp.sum(right, 1) + EPSILON)
            return left, right

        start = params["left"], params["right"]
        left, right = jax.lax.fori_loop(0, dims["iterations"], iterate, start)
        model = left @ right + EPSILON
        divergence = table * jnp.log((table + EPSILON) / model) - table + model
        return {"left": left, "right": right, "divergence": jnp.mean(divergence)}

    return step


def on_torch(dims: Dims, half: Half) -> Callable[[Arrays, Arrays], Any]:
    import torch

    def step(params: Arrays, batch: Arrays) -> Arrays:
        table = batch["table"]
        left, right = params["left"].detach(), params["right"].detach()
        for _ in range(dims["iterations"]):
            ratio = table / (left @ right).add_(EPSILON)
            right = right * (left.T @ ratio) / (left.sum(0)[:, None] + EPSILON)
            ratio = table / (left @ right).add_(EPSILON)
            left = left * (ratio @ right.T) / (right.sum(1) + EPSILON)
        model = (left @ right).add_(EPSILON)
        divergence = table * torch.log((table + EPSILON) / model) - table + model
        return {"left": left, "right": right, "divergence": torch.mean(divergence)}

    return step


def cost(dims: Dims) -> Cost:
    """Four products per iteration; the table is read for each of its two ratios."""
    entries, iterations = dims["rows"] * dims["columns"], dims["iterations"]
    return Cost(
        bytes=8.0 * entries * iterations, operations=8.0 * entries * dims["rank"] * iterations
    )


PROGRAM = Program(
    summary="multiplicative updates of a nonnegative factorisation, 4096 by 3000 of rank 64",
    kind=Kind.STEP,
    make=make,
    on_tapegrad=on_tapegrad,
    on_jax=on_jax,
    on_torch=on_torch,
    sizes={
        "check": {"rows": 9, "columns": 7, "rank": 3, "iterations": 3},
        "cpu": {"rows": 800, "columns": 600, "rank": 16, "iterations": 5},
        "cuda": {"rows": 4096, "columns": 3000, "rank": 64, "iterations": 10},
    },
    cost=cost,
)
