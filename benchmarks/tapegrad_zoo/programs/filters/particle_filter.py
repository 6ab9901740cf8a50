"""A particle filter with soft resampling, which gives the likelihood of noisy series a gradient."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tapegrad_zoo.program import Arrays, Cost, Dims, Half, Kind, Program, Values

SOFTNESS = 0.5


def make(rng: np.random.Generator, dims: Dims) -> tuple[Values, Values]:
    series, particles, steps = dims["series"], dims["particles"], dims["steps"]
    params = {
        "persistence": np.full((), 0.8),
        "log_drift": np.full((), -0.5),
        "log_noise": np.full((), 0.0),
        "curvature": np.full((), 0.3),
    }
    batch = {
        "observed": rng.standard_normal((steps, series)),
        "first": rng.standard_normal((series, particles)),
        "noise": rng.standard_normal((steps, series, particles)),
        "offsets": rng.random((steps, series)),
    }
    return params, batch


def on_tapegrad(dims: Dims, half: Half) -> Callable[[Arrays, Arrays], Any]:
    import tapegrad as tf

    n = dims["particles"]

    def resample(x: Any, log_weights: Any, offset: Any) -> Any:
        weights = tf.exp(log_weights)
        proposal = SOFTNESS * weights + (1.0 - SOFTNESS) / n
        edges = tf.cumsum(proposal, axis=1)
        places = (tf.range(n, dtype=x.dtype) + offset[:, None]) / n
        parents = tf.searchsorted(tf.stop_gradient(edges), places)
        parents = tf.minimum(parents, n - 1)
        x = tf.gather(x, parents, batch_dims=1)
        log_weights = tf.gather(log_weights - tf.math.log(proposal), parents, batch_dims=1)
        return x, log_weights - tf.reduce_logsumexp(log_weights, axis=1, keepdims=True)

    def loss(p: Arrays, batch: Arrays) -> Any:
        x = batch["first"]
        log_weights = tf.zeros_like(x) - tf.math.log(tf.cast(n, x.dtype))
        total = 0.0
        for t in range(dims["steps"]):
            pull = p["persistence"] * x + 0.1 * tf.sin(x)
            x = pull + tf.exp(p["log_drift"]) * batch["noise"][t]
            expected = x + p["curvature"] * tf.square(x)
            residual = (batch["observed"][t][:, None] - expected) * tf.exp(-p["log_noise"])
            joint = log_weights - 0.5 * tf.square(residual) - p["log_noise"]
            evidence = tf.reduce_logsumexp(joint, axis=1, keepdims=True)
            total = total + tf.reduce_mean(evidence)
            x, log_weights = resample(x, joint - evidence, batch["offsets"][t])
        return -total / dims["steps"]

    return loss


def on_jax(dims: Dims, half: Half) -> Callable[[Arrays, Arrays], Any]:
    import jax
    import jax.numpy as jnp

    n = dims["particles"]

    def loss(p: Arrays, batch: Arrays) -> Any:
        drift, noise = jnp.exp(p["log_drift"]), jnp.exp(p["log_noise"])

        def resample(x: Any, log_weights: Any, offset: Any) -> Any:
            proposal = SOFTNESS * jnp.exp(log_weights) + (1 - SOFTNESS) / n
            places = (jnp.arange(n, dtype=x.dtype) + offset) / n
            edges = jax.lax.stop_gradient(jnp.cumsum(proposal))
            parents = jnp.minimum(jnp.searchsorted(edges, places), n - 1)
            log_weights = (log_weights - jnp.log(proposal))[parents]
            return x[parents], jax.nn.log_softmax(log_weights)

        def step(carry: Any, seen: Any) -> Any:
            x, log_weights = carry
            observed, shock, offsets = seen
            x = p["persistence"] * x + 0.1 * jnp.sin(x) + drift * shock
            residual = (observed[:, None] - x - p["curvature"] * x**2) / noise
            joint = log_weights - 0.5 * residual**2 - p["log_noise"]
            evidence = jax.nn.logsumexp(joint, axis=1, keepdims=True)
            return jax.vmap(resample)(x, joint - evidence, offsets), jnp.mean(evidence)

        start = batch["first"], jnp.full_like(batch["first"], -np.log(n))
        inputs = batch["observed"], batch["noise"], batch["offsets"]
        return -jnp.mean(jax.lax.scan(step, start, inputs)[1])

    return loss


def on_torch(dims: Dims, half: Half) -> Callable[[Arrays, Arrays], Any]:
    import torch

    n = dims["particles"]

    def loss(p: Arrays, batch: Arrays) -> Any:
        x = batch["first"]
        drift, noise = torch.exp(p["log_drift"]), torch.exp(p["log_noise"])
        places = torch.arange(n, dtype=x.dtype, device=x.device)
        log_weights = torch.full_like(x, -np.log(n))
        total = []
        for t in range(dims["steps"]):
            x = p["persistence"] * x + 0.1 * torch.sin(x) + drift * batch["noise"][t]
            residual = (batch["observed"][t][:, None] - x - p["curvature"] * x**2) / noise
            joint = log_weights - 0.5 * residual**2 - p["log_noise"]
            evidence = torch.logsumexp(joint, 1, keepdim=True)
            total.append(evidence)
            log_weights = joint - evidence
            proposal = SOFTNESS * torch.exp(log_weights) + (1 - SOFTNESS) / n
            wanted = (places + batch["offsets"][t][:, None]) / n
            edges = torch.cumsum(proposal.detach(), 1)
            parents = torch.searchsorted(edges, wanted).clamp(max=n - 1)
            x = x.gather(1, parents)
            log_weights = (log_weights - torch.log(proposal)).gather(1, parents).log_softmax(1)
        return -torch.stack(total).mean()

    return loss


def cost(dims: Dims) -> Cost:
    """A step reads the noise and reads and writes particles and weights, forth and back."""
    moved = dims["series"] * dims["particles"] * dims["steps"]
    return Cost(bytes=2 * 40.0 * moved, operations=3 * (30.0 + np.log2(dims["particles"])) * moved)


PROGRAM = Program(
    summary="a particle filter with soft systematic resampling; gradient by the model's constants",
    kind=Kind.GRADIENT,
    make=make,
    on_tapegrad=on_tapegrad,
    on_jax=on_jax,
    on_torch=on_torch,
    sizes={
        "check": {"series": 3, "particles": 7, "steps": 4},
        "cpu": {"series": 8, "particles": 1000, "steps": 20},
        "cuda": {"series": 64, "particles": 4096, "steps": 50},
    },
    cost=cost,
    # Single precision would give some particles other parents in each library.
    dtypes={"cpu": "float64", "cuda": "float64"},
)
