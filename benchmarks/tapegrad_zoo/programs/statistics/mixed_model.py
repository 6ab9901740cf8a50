"""Logistic regression with random intercepts and slopes per group: gradient of a log posterior."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from tapegrad_zoo.program import Arrays, Cost, Dims, Half, Kind, Program, Values

LOG_TAU = float(np.log(2 * np.pi))


def make(rng: np.random.Generator, dims: Dims) -> tuple[Values, Values]:
    features, slopes, groups, rows = (dims[k] for k in ("features", "slopes", "groups", "rows"))
    params = {
        "fixed": rng.standard_normal(features) * 0.3,
        "raw": rng.standard_normal((groups, slopes + 1)),
        "log_spread": rng.standard_normal(slopes + 1) * 0.2 - 0.5,
        "ties": rng.standard_normal((slopes + 1, slopes + 1)) * 0.1,
        "intercept": np.array(0.2),
    }
    batch = {
        "x": rng.standard_normal((rows, features)),
        "group": rng.integers(0, groups, rows),
        "y": rng.integers(0, 2, rows).astype(np.float64),
    }
    return params, batch


def on_tapegrad(dims: Dims, half: Half) -> Callable[[Arrays, Arrays], Any]:
    import tapegrad as tf

    slopes = dims["slopes"]

    def log_normal(x: Any, spread: float) -> Any:
        return tf.reduce_sum(-0.5 * tf.square(x / spread) - math.log(spread) - 0.5 * LOG_TAU)

    def loss(p: Arrays, batch: Arrays) -> Any:
        # Effects are not centred: a triangular factor scales and ties standard normals.
        below = tf.linalg.band_part(p["ties"], -1, 0)
        factor = tf.linalg.set_diag(below, tf.ones(slopes + 1, dtype=below.dtype))
        factor = tf.exp(p["log_spread"])[:, None] * factor
        effects = tf.matmul(p["raw"], factor, transpose_b=True)
        mine = tf.gather(effects, batch["group"])
        logits = p["intercept"] + tf.linalg.matvec(batch["x"], p["fixed"]) + mine[:, 0]
        logits += tf.reduce_sum(mine[:, 1:] * batch["x"][:, :slopes], axis=1)
        fit = tf.reduce_sum(
            tf.nn.sigmoid_cross_entropy_with_logits(labels=batch["y"], logits=logits)
        )
        prior = (
            log_normal(p["fixed"], 2.5)
            + log_normal(p["raw"], 1.0)
            + log_normal(p["log_spread"], 1.0)
            + log_normal(p["ties"], 0.5)
            + log_normal(p["intercept"], 5.0)
        )
        return (fit - prior) / dims["rows"]

    return loss


def on_jax(dims: Dims, half: Half) -> Callable[[Arrays, Arrays], Any]:
    import jax
    import jax.numpy as jnp
    from jax.scipy.stats import norm

    slopes = dims["slopes"]
    spreads = {"fixed": 2.5, "raw": 1.0, "log_spread": 1.0, "ties": 0.5, "intercept": 5.0}

    def loss(p: Arrays, batch: Arrays) -> Any:
        factor = jnp.tril(p["ties"], -1) + jnp.eye(slopes + 1, dtype=p["ties"].dtype)
        effects = p["raw"] @ (jnp.exp(p["log_spread"])[:, None] * factor).T
        mine = effects[batch["group"]]
        logits = p["intercept"] + batch["x"] @ p["fixed"] + mine[:, 0]
        logits = logits + jnp.einsum("ns,ns->n", mine[:, 1:], batch["x"][:, :slopes])
        fit = jnp.sum(jax.nn.softplus(logits) - batch["y"] * logits)
        prior = sum(jnp.sum(norm.logpdf(p[k], 0.0, s)) for k, s in spreads.items())
        return (fit - prior) / dims["rows"]

    return loss


def on_torch(dims: Dims, half: Half) -> Callable[[Arrays, Arrays], Any]:
    import torch
    from torch.nn import functional

    slopes = dims["slopes"]
    spreads = {"fixed": 2.5, "raw": 1.0, "log_spread": 1.0, "ties": 0.5, "intercept": 5.0}

    def loss(p: Arrays, batch: Arrays) -> Any:
        factor = torch.tril(p["ties"], -1)
        factor = factor + torch.eye(slopes + 1, dtype=factor.dtype, device=factor.device)
        effects = p["raw"] @ (torch.exp(p["log_spread"])[:, None] * factor).T
        mine = effects.index_select(0, batch["group"])
        logits = torch.addmv(mine[:, 0], batch["x"], p["fixed"]) + p["intercept"]
        logits = logits + torch.linalg.vecdot(mine[:, 1:], batch["x"][:, :slopes])
        fit = functional.binary_cross_entropy_with_logits(logits, batch["y"], reduction="sum")
        prior = 0.0
        for name, spread in spreads.items():
            constant = p[name].numel() * (math.log(spread) + 0.5 * LOG_TAU)
            prior = prior - 0.5 * torch.sum(p[name] ** 2) / spread**2 - constant
        return (fit - prior) / dims["rows"]

    return loss


def cost(dims: Dims) -> Cost:
    """The features are read twice, and each row reads and adds to the effects of its group."""
    columns = dims["features"] + 2 * (dims["slopes"] + 1)
    rows = dims["rows"]
    return Cost(
        bytes=8.0 * rows * dims["features"] + 8.0 * dims["groups"] * (dims["slopes"] + 1),
        operations=4.0 * rows * columns,
    )


PROGRAM = Program(
    summary="log posterior of a logistic mixed model: 1 million rows, 20000 groups, 4 slopes",
    kind=Kind.GRADIENT,
    make=make,
    on_tapegrad=on_tapegrad,
    on_jax=on_jax,
    on_torch=on_torch,
    sizes={
        "check": {"rows": 23, "features": 5, "slopes": 2, "groups": 4},
        "cpu": {"rows": 200_000, "features": 20, "slopes": 3, "groups": 1000},
        "cuda": {"rows": 1_000_000, "features": 40, "slopes": 4, "groups": 20_000},
    },
    cost=cost,
)
