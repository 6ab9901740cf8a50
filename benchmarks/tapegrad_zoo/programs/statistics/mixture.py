"""A mixture of Gaussians with full covariances: the log likelihood and its gradient."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tapegrad_zoo.program import Arrays, Cost, Dims, Half, Kind, Program, Values

LOG_TAU = float(np.log(2 * np.pi))


def make(rng: np.random.Generator, dims: Dims) -> tuple[Values, Values]:
    parts, width = dims["parts"], dims["width"]
    # All batches come from one truth, whatever their seed.
    fixed = np.random.default_rng(1)
    centres = 2.0 * fixed.standard_normal((parts, width))
    params = {
        "weights": rng.standard_normal(parts) * 0.3,
        "means": centres + 0.3 * rng.standard_normal((parts, width)),
        "log_scales": rng.standard_normal((parts, width)) * 0.2,
        "below": rng.standard_normal((parts, width, width)) * 0.3 * width**-0.5,
    }
    member = rng.integers(0, parts, dims["rows"])
    batch = {"x": centres[member] + rng.standard_normal((dims["rows"], width))}
    return params, batch


def on_tapegrad(dims: Dims, half: Half) -> Callable[[Arrays, Arrays], Any]:
    import tapegrad.numpy as np

    width = dims["width"]

    def loss(p: Arrays, batch: Arrays) -> Any:
        eye = np.eye(width, dtype=batch["x"].dtype)
        # The Cholesky factor of each precision: exponentials on the diagonal.
        factor = np.tril(p["below"], -1) + np.exp(p["log_scales"])[:, :, None] * eye
        apart = batch["x"][:, None, :] - p["means"]
        white = np.einsum("nkd,kde->nke", apart, factor)
        distance = np.sum(white**2, axis=2)
        log_det = np.sum(p["log_scales"], axis=1)
        weights = p["weights"] - np.log(np.sum(np.exp(p["weights"])))
        joint = weights + log_det - 0.5 * distance - 0.5 * width * LOG_TAU
        top = np.max(joint, axis=1, keepdims=True)
        return -np.mean(top[:, 0] + np.log(np.sum(np.exp(joint - top), axis=1)))

    return loss


def on_jax(dims: Dims, half: Half) -> Callable[[Arrays, Arrays], Any]:
    import jax
    import jax.numpy as jnp

    width = dims["width"]

    def log_density(x: Any, mean: Any, log_scale: Any, below: Any) -> Any:
        # The mean is moved through the factor, so that no differences are stored.
        factor = jnp.tril(below, -1) + jnp.diag(jnp.exp(log_scale))
        white = x @ factor - mean @ factor
        return jnp.sum(log_scale) - 0.5 * jnp.sum(white**2, 1) - 0.5 * width * LOG_TAU

    def loss(p: Arrays, batch: Arrays) -> Any:
        each = jax.vmap(log_density, (None, 0, 0, 0), 1)
        logs = each(batch["x"], p["means"], p["log_scales"], p["below"])
        return -jnp.mean(jax.nn.logsumexp(logs + jax.nn.log_softmax(p["weights"]), 1))

    return loss


def on_torch(dims: Dims, half: Half) -> Callable[[Arrays, Arrays], Any]:
    import torch

    width = dims["width"]

    def loss(p: Arrays, batch: Arrays) -> Any:
        factor = torch.tril(p["below"], -1) + torch.diag_embed(torch.exp(p["log_scales"]))
        shift = torch.bmm(p["means"][:, None, :], factor)
        white = torch.matmul(batch["x"], factor) - shift
        logs = p["log_scales"].sum(1)[:, None] - 0.5 * torch.sum(white**2, 2)
        logs = logs + torch.log_softmax(p["weights"], 0)[:, None] - 0.5 * width * LOG_TAU
        return -torch.mean(torch.logsumexp(logs, 0))

    return loss


def cost(dims: Dims) -> Cost:
    """Two triangular products per row and part; rows are read once."""
    rows, parts, width = dims["rows"], dims["parts"], dims["width"]
    return Cost(bytes=4.0 * rows * width, operations=4.0 * rows * parts * width * (width / 2 + 2))


PROGRAM = Program(
    summary="likelihood of a mixture of 32 Gaussians with full covariances in 32 dimensions",
    kind=Kind.GRADIENT,
    make=make,
    on_tapegrad=on_tapegrad,
    on_jax=on_jax,
    on_torch=on_torch,
    sizes={
        "check": {"rows": 17, "parts": 3, "width": 4},
        "cpu": {"rows": 20_000, "parts": 8, "width": 12},
        "cuda": {"rows": 200_000, "parts": 32, "width": 32},
    },
    cost=cost,
)
