"""Move weighted points to a target by the gradient of an entropic transport cost."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tapegrad_zoo.program import Arrays, Cost, Dims, Half, Kind, Program, Values

ENTROPY = 0.5


def make(rng: np.random.Generator, dims: Dims) -> tuple[Values, Values]:
    sources, targets, axes = dims["sources"], dims["targets"], dims["axes"]
    params = {
        "points": rng.standard_normal((sources, axes)),
        "logits": 0.1 * rng.standard_normal(sources),
    }
    return params, {"targets": 0.5 + rng.standard_normal((targets, axes))}


def on_tapegrad(dims: Dims, half: Half) -> Callable[[Arrays, Arrays], Any]:
    import tapegrad as tf

    def loss(params: Arrays, batch: Arrays) -> Any:
        x, y = params["points"], batch["targets"]
        cost = (
            tf.reduce_sum(tf.square(x), axis=1)[:, None]
            + tf.reduce_sum(tf.square(y), axis=1)[None, :]
            - 2.0 * tf.matmul(x, y, transpose_b=True)
        )
        log_a = tf.nn.log_softmax(params["logits"])
        log_b = -tf.math.log(tf.cast(dims["targets"], y.dtype))
        f = tf.zeros_like(log_a)
        g = tf.zeros_like(cost[0])
        for _ in range(dims["steps"]):
            f = ENTROPY * (log_a - tf.reduce_logsumexp((g[None, :] - cost) / ENTROPY, axis=1))
            g = ENTROPY * (log_b - tf.reduce_logsumexp((f[:, None] - cost) / ENTROPY, axis=0))
        plan = tf.exp((f[:, None] + g[None, :] - cost) / ENTROPY)
        return tf.reduce_sum(plan * cost)

    return loss


def on_jax(dims: Dims, half: Half) -> Callable[[Arrays, Arrays], Any]:
    import jax
    import jax.numpy as jnp

    def loss(params: Arrays, batch: Arrays) -> Any:
        x, y = params["points"], batch["targets"]
        squares = jnp.sum(x**2, axis=1)[:, None] + jnp.sum(y**2, axis=1)
        cost = squares - 2 * jnp.matmul(x, y.T, precision="highest")
        kernel = -cost / ENTROPY
        log_a = jax.nn.log_softmax(params["logits"])
        log_b = -jnp.log(jnp.asarray(dims["targets"], y.dtype))

        # The potentials are kept in units of the entropy.
        def step(carry: Any, _: Any) -> Any:
            f = log_a - jax.nn.logsumexp(carry[1] + kernel, axis=1)
            return (f, log_b - jax.nn.logsumexp(f[:, None] + kernel, axis=0)), None

        start = jnp.zeros_like(x[:, 0]), jnp.zeros_like(y[:, 0])
        (f, g), _ = jax.lax.scan(step, start, None, length=dims["steps"])
        return jnp.sum(jnp.exp(f[:, None] + g + kernel) * cost)

    return loss


def on_torch(dims: Dims, half: Half) -> Callable[[Arrays, Arrays], Any]:
    import math

    import torch

    def loss(params: Arrays, batch: Arrays) -> Any:
        x, y = params["points"], batch["targets"]
        squares = x.square().sum(1)[:, None] + y.square().sum(1)
        cost = torch.addmm(squares, x, y.T, alpha=-2)
        kernel = cost * (-1 / ENTROPY)
        log_a, log_b = torch.log_softmax(params["logits"], 0), -math.log(dims["targets"])
        g = torch.zeros_like(kernel[0])
        for _ in range(dims["steps"]):
            f = log_a - torch.logsumexp(kernel + g, 1)
            g = log_b - torch.logsumexp(kernel + f[:, None], 0)
        return torch.sum(torch.exp(kernel + f[:, None] + g) * cost)

    return loss


def cost(dims: Dims) -> Cost:
    """Each half step reads the costs once forth and once back."""
    pairs = dims["sources"] * dims["targets"]
    passes = 4.0 * dims["steps"]
    return Cost(bytes=4 * passes * pairs, operations=5 * passes * pairs)


PROGRAM = Program(
    summary="Sinkhorn's iterations by log-sum-exp; gradient by points and their weights",
    kind=Kind.GRADIENT,
    make=make,
    on_tapegrad=on_tapegrad,
    on_jax=on_jax,
    on_torch=on_torch,
    sizes={
        "check": {"sources": 5, "targets": 8, "axes": 3, "steps": 6},
        "cpu": {"sources": 150, "targets": 200, "axes": 3, "steps": 20},
        "cuda": {"sources": 2048, "targets": 2560, "axes": 16, "steps": 50},
    },
    cost=cost,
)
