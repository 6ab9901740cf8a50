"""A factorisation machine: all pairs of sparse features, computed by sums of squares."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tapegrad_zoo.program import Arrays, Cost, Dims, Half, Kind, Optimizer, Program, Values

DECAY = 1e-3


def make(rng: np.random.Generator, dims: Dims) -> tuple[Values, Values]:
    features, factors = dims["features"], dims["factors"]
    shape = dims["batch"], dims["fields"]
    params = {
        "bias": rng.standard_normal(()) * 0.1,
        "linear": rng.standard_normal(features) * 0.1,
        "factors": rng.standard_normal((features, factors)) * 0.2,
    }
    batch = {
        "index": rng.integers(0, features, shape),
        "value": rng.uniform(0.5, 1.5, shape),
        "target": rng.choice([-1.0, 1.0], dims["batch"]),
    }
    return params, batch


def on_tapegrad(dims: Dims, half: Half) -> Callable[[Arrays, Arrays], Any]:
    import tapegrad as tf

    def loss(p: Arrays, batch: Arrays) -> Any:
        index, value = batch["index"], batch["value"]
        linear = tf.reduce_sum(tf.gather(p["linear"], index) * value, axis=1)
        vectors = tf.gather(p["factors"], index)
        weighted = vectors * tf.expand_dims(value, -1)
        square_of_sum = tf.square(tf.reduce_sum(weighted, axis=1))
        sum_of_squares = tf.reduce_sum(tf.square(weighted), axis=1)
        pairs = 0.5 * tf.reduce_sum(square_of_sum - sum_of_squares, axis=1)
        score = p["bias"] + linear + pairs
        fit = tf.reduce_mean(tf.math.log(1.0 + tf.exp(-batch["target"] * score)))
        return fit + DECAY * tf.reduce_mean(tf.reduce_sum(tf.square(vectors), axis=[1, 2]))

    return loss


def on_jax(dims: Dims, half: Half) -> Callable[[Arrays, Arrays], Any]:
    import jax
    import jax.numpy as jnp

    def loss(p: Arrays, batch: Arrays) -> Any:
        index, value = batch["index"], batch["value"]
        vectors = p["factors"][index]
        total = jnp.einsum("bfk,bf->bk", vectors, value)
        squares = jnp.einsum("bfk,bf->b", vectors**2, value**2)
        pairs = 0.5 * (jnp.sum(total**2, 1) - squares)
        score = p["bias"] + jnp.sum(p["linear"][index] * value, 1) + pairs
        fit = jnp.mean(jax.nn.softplus(-batch["target"] * score))
        return fit + DECAY * jnp.mean(jnp.sum(vectors**2, (1, 2)))

    return loss


def on_torch(dims: Dims, half: Half) -> Callable[[Arrays, Arrays], Any]:
    import torch
    from torch.nn import functional

    def loss(p: Arrays, batch: Arrays) -> Any:
        index, value = batch["index"], batch["value"]
        linear = functional.embedding(index, p["linear"][:, None])[..., 0]
        vectors = functional.embedding(index, p["factors"])
        total = torch.bmm(value[:, None, :], vectors)[:, 0]
        squares = torch.sum((vectors * value[:, :, None]) ** 2, (1, 2))
        score = p["bias"] + torch.sum(linear * value, 1)
        score = score + 0.5 * (torch.sum(total**2, 1) - squares)
        fit = torch.mean(functional.softplus(-batch["target"] * score))
        return fit + DECAY * torch.mean(torch.sum(vectors**2, (1, 2)))

    return loss


def cost(dims: Dims) -> Cost:
    """The rows of the batch are read once, and written once by the update."""
    touched = dims["batch"] * dims["fields"] * (dims["factors"] + 1)
    return Cost(bytes=8.0 * touched, operations=12.0 * touched)


PROGRAM = Program(
    summary="factorisation machine: 39 fields, 32 factors, batch 16384, logistic loss, SGD",
    kind=Kind.TRAINING,
    make=make,
    on_tapegrad=on_tapegrad,
    on_jax=on_jax,
    on_torch=on_torch,
    sizes={
        "check": {"batch": 5, "fields": 4, "features": 17, "factors": 3},
        "cpu": {"batch": 2048, "fields": 39, "features": 20_000, "factors": 16},
        "cuda": {"batch": 16_384, "fields": 39, "features": 1_000_000, "factors": 32},
    },
    cost=cost,
    optimizer=Optimizer("sgd", 0.05),
)
