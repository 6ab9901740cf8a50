"""t-SNE: points in the plane whose heavy-tailed neighbourhoods match those of the data."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tapegrad_zoo.program import Arrays, Cost, Dims, Half, Kind, Optimizer, Program, Values

EPSILON = 1e-12


def make(rng: np.random.Generator, dims: Dims) -> tuple[Values, Values]:
    points = dims["points"]
    data = rng.standard_normal((points, 8)) + 3.0 * rng.integers(0, 2, (points, 8))
    squares = np.sum(data**2, 1)
    distance = squares[:, None] + squares - 2 * data @ data.T
    near = np.exp(-0.5 * np.maximum(distance, 0.0) / np.median(distance) * 4)
    np.fill_diagonal(near, 0.0)
    near /= np.sum(near, 1, keepdims=True)
    params = {"plane": rng.standard_normal((points, 2))}
    return params, {"near": (near + near.T) / (2 * points)}


def on_tapegrad(dims: Dims, half: Half) -> Callable[[Arrays, Arrays], Any]:
    import tapegrad as tf

    def loss(p: Arrays, batch: Arrays) -> Any:
        y, near = p["plane"], batch["near"]
        gaps = tf.expand_dims(y, 1) - tf.expand_dims(y, 0)
        distance = tf.reduce_sum(tf.square(gaps), axis=-1)
        kernel = 1.0 / (1.0 + distance)
        kernel = kernel * (1.0 - tf.eye(dims["points"], dtype=kernel.dtype))
        model = kernel / tf.reduce_sum(kernel)
        logs = tf.math.log(near + EPSILON) - tf.math.log(model + EPSILON)
        return tf.reduce_sum(near * logs)

    return loss


def on_jax(dims: Dims, half: Half) -> Callable[[Arrays, Arrays], Any]:
    import jax.numpy as jnp

    def loss(p: Arrays, batch: Arrays) -> Any:
        y, near = p["plane"], batch["near"]
        distance = jnp.sum((y[:, None] - y[None]) ** 2, -1)
        other = ~jnp.eye(dims["points"], dtype=bool)
        kernel = jnp.where(other, 1.0 / (1.0 + distance), 0.0)
        logs = jnp.log(near + EPSILON) - jnp.log(kernel / jnp.sum(kernel) + EPSILON)
        return jnp.sum(near * logs)

    return loss


def on_torch(dims: Dims, half: Half) -> Callable[[Arrays, Arrays], Any]:
    import torch

    def loss(p: Arrays, batch: Arrays) -> Any:
        y, near = p["plane"], batch["near"]
        # Two coordinates one by one, so that no array of pairs and coordinates is made.
        across, up = y.unbind(1)
        distance = (across[:, None] - across) ** 2 + (up[:, None] - up) ** 2
        same = torch.eye(dims["points"], dtype=torch.bool, device=y.device)
        kernel = torch.reciprocal(1.0 + distance).masked_fill(same, 0.0)
        logs = torch.log(near + EPSILON) - torch.log(kernel / torch.sum(kernel) + EPSILON)
        return torch.sum(near * logs)

    return loss


def cost(dims: Dims) -> Cost:
    """The neighbourhoods are read in each direction; kernels can be computed twice."""
    pairs = dims["points"] ** 2
    return Cost(bytes=8.0 * pairs, operations=30.0 * pairs)


PROGRAM = Program(
    summary="exact t-SNE: all pairs of 8192 points in the plane, momentum",
    kind=Kind.TRAINING,
    make=make,
    on_tapegrad=on_tapegrad,
    on_jax=on_jax,
    on_torch=on_torch,
    sizes={
        "check": {"points": 13},
        "cpu": {"points": 1000},
        "cuda": {"points": 8192},
    },
    cost=cost,
    optimizer=Optimizer("momentum", 10.0),
)
