"""Cox regression: each event is compared with everyone still at risk, by a cumulative sum."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tapegrad_zoo.program import Arrays, Cost, Dims, Half, Kind, Program, Values

DECAY, KNOTS = 1e-2, (-1.0, 0.0, 1.0)


def make(rng: np.random.Generator, dims: Dims) -> tuple[Values, Values]:
    people, features, strata = dims["people"], dims["features"], dims["strata"]
    params = {
        "linear": rng.standard_normal(features) * 0.2,
        "bends": rng.standard_normal((len(KNOTS), features)) * 0.1,
    }
    # Rows of a stratum are ordered by their times.
    batch = {
        "x": rng.standard_normal((strata, people, features)),
        "event": (rng.uniform(size=(strata, people)) < 0.6).astype(np.float64),
    }
    batch["event"][:, 0] = 1.0
    return params, batch


def on_tapegrad(dims: Dims, half: Half) -> Callable[[Arrays, Arrays], Any]:
    import tapegrad as tf

    def loss(p: Arrays, batch: Arrays) -> Any:
        x, event = batch["x"], batch["event"]
        risk = tf.reduce_sum(x * p["linear"], axis=-1)
        for number, knot in enumerate(KNOTS):
            risk += tf.reduce_sum(tf.maximum(x - knot, 0.0) * p["bends"][number], axis=-1)
        at_risk = tf.math.cumulative_logsumexp(risk, axis=1, reverse=True)
        fit = tf.reduce_sum(event * (at_risk - risk)) / tf.reduce_sum(event)
        return fit + DECAY * (tf.nn.l2_loss(p["linear"]) + tf.nn.l2_loss(p["bends"]))

    return loss


def on_jax(dims: Dims, half: Half) -> Callable[[Arrays, Arrays], Any]:
    import jax
    import jax.numpy as jnp

    def loss(p: Arrays, batch: Arrays) -> Any:
        x, event = batch["x"], batch["event"]
        risk = x @ p["linear"]
        for number, knot in enumerate(KNOTS):
            risk = risk + jax.nn.relu(x - knot) @ p["bends"][number]
        at_risk = jax.lax.cumlogsumexp(risk, 1, reverse=True)
        fit = jnp.vdot(event, at_risk - risk) / jnp.sum(event)
        return fit + 0.5 * DECAY * (jnp.sum(p["linear"] ** 2) + jnp.sum(p["bends"] ** 2))

    return loss


def on_torch(dims: Dims, half: Half) -> Callable[[Arrays, Arrays], Any]:
    import torch

    def loss(p: Arrays, batch: Arrays) -> Any:
        x, event = batch["x"], batch["event"]
        risk = x @ p["linear"]
        for number, knot in enumerate(KNOTS):
            risk = risk + torch.relu(x - knot) @ p["bends"][number]
        at_risk = torch.logcumsumexp(risk.flip(1), 1).flip(1)
        fit = torch.sum(event * (at_risk - risk)) / torch.sum(event)
        return fit + 0.5 * DECAY * (torch.sum(p["linear"] ** 2) + torch.sum(p["bends"] ** 2))

    return loss


def cost(dims: Dims) -> Cost:
    """The features are read once for the risks and once for the gradient."""
    rows = dims["strata"] * dims["people"]
    entries = rows * dims["features"]
    return Cost(bytes=8.0 * entries + 16.0 * rows, operations=24.0 * entries)


PROGRAM = Program(
    summary="Cox partial likelihood with splines: 8 strata of 200000 people, 32 features",
    kind=Kind.GRADIENT,
    make=make,
    on_tapegrad=on_tapegrad,
    on_jax=on_jax,
    on_torch=on_torch,
    sizes={
        "check": {"strata": 2, "people": 13, "features": 5},
        "cpu": {"strata": 4, "people": 20_000, "features": 16},
        "cuda": {"strata": 8, "people": 200_000, "features": 32},
    },
    cost=cost,
)
