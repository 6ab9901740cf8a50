"""Regression with Student's t errors: coefficients, scale and degrees of freedom by likelihood."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tapegrad_zoo.program import Arrays, Cost, Dims, Half, Kind, Program, Values

LOG_PI = float(np.log(np.pi))


def make(rng: np.random.Generator, dims: Dims) -> tuple[Values, Values]:
    rows, features, outputs = dims["rows"], dims["features"], dims["outputs"]
    # All batches come from one truth, whatever their seed.
    fixed = np.random.default_rng(1)
    truth = fixed.standard_normal((features, outputs)) * features**-0.5
    params = {
        "weights": truth + 0.1 * rng.standard_normal((features, outputs)),
        "bias": rng.standard_normal(outputs) * 0.1,
        "log_scale": rng.standard_normal(outputs) * 0.1 - 0.5,
        "scale_slope": rng.standard_normal((features, outputs)) * 0.1 * features**-0.5,
        "freedom": rng.standard_normal(outputs) * 0.3 + 1.0,
    }
    x = rng.standard_normal((rows, features))
    batch = {"x": x, "y": x @ truth + 0.5 * rng.standard_t(4.0, (rows, outputs))}
    return params, batch


def on_tapegrad(dims: Dims, half: Half) -> Callable[[Arrays, Arrays], Any]:
    import tapegrad.numpy as np
    from tapegrad.numpy.special import gammaln

    def loss(p: Arrays, batch: Arrays) -> Any:
        x = batch["x"]
        nu = 1.0 + np.log(1.0 + np.exp(p["freedom"]))
        log_scale = p["log_scale"] + x @ p["scale_slope"]
        z = (batch["y"] - x @ p["weights"] - p["bias"]) * np.exp(-log_scale)
        constant = gammaln((nu + 1) / 2) - gammaln(nu / 2) - 0.5 * (LOG_PI + np.log(nu))
        logs = constant - log_scale - 0.5 * (nu + 1) * np.log(1 + z**2 / nu)
        return -np.mean(np.sum(logs, axis=1))

    return loss


def on_jax(dims: Dims, half: Half) -> Callable[[Arrays, Arrays], Any]:
    import jax
    import jax.numpy as jnp

    def loss(p: Arrays, batch: Arrays) -> Any:
        nu = 1.0 + jax.nn.softplus(p["freedom"])
        # Both products share one pass over the features.
        both = batch["x"] @ jnp.concatenate([p["weights"], p["scale_slope"]], 1)
        mean, slope = jnp.split(both, 2, 1)
        log_scale = p["log_scale"] + slope
        z = (batch["y"] - mean - p["bias"]) * jnp.exp(-log_scale)
        constant = jax.lax.lgamma((nu + 1) / 2) - jax.lax.lgamma(nu / 2)
        constant = constant - 0.5 * (LOG_PI + jnp.log(nu))
        logs = constant - log_scale - 0.5 * (nu + 1) * jnp.log1p(z**2 / nu)
        return -jnp.sum(logs) / len(logs)

    return loss


def on_torch(dims: Dims, half: Half) -> Callable[[Arrays, Arrays], Any]:
    import torch
    from torch.nn import functional

    def loss(p: Arrays, batch: Arrays) -> Any:
        nu = 1.0 + functional.softplus(p["freedom"], threshold=1e9)
        both = batch["x"] @ torch.cat([p["weights"], p["scale_slope"]], 1)
        mean, slope = both.chunk(2, 1)
        log_scale = p["log_scale"] + slope
        z = (batch["y"] - mean - p["bias"]) * torch.exp(-log_scale)
        constant = torch.lgamma((nu + 1) / 2) - torch.lgamma(nu / 2)
        constant = constant - 0.5 * (LOG_PI + torch.log(nu))
        logs = constant - log_scale - 0.5 * (nu + 1) * torch.log1p(z**2 / nu)
        return -torch.sum(logs) / len(logs)

    return loss


def cost(dims: Dims) -> Cost:
    """Four products with the features, which are read once in each direction."""
    rows, features, outputs = dims["rows"], dims["features"], dims["outputs"]
    return Cost(
        bytes=4.0 * rows * (2 * features + outputs), operations=8.0 * rows * features * outputs
    )


PROGRAM = Program(
    summary="Student-t regression with scales that depend on features: 1 million rows",
    kind=Kind.GRADIENT,
    make=make,
    on_tapegrad=on_tapegrad,
    on_jax=on_jax,
    on_torch=on_torch,
    sizes={
        "check": {"rows": 19, "features": 4, "outputs": 3},
        "cpu": {"rows": 100_000, "features": 24, "outputs": 4},
        "cuda": {"rows": 1_000_000, "features": 64, "outputs": 16},
    },
    cost=cost,
)
