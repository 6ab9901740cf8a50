"""The marginal likelihood of a Gaussian process, by which its hyperparameters are learned."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tapegrad_zoo.program import Arrays, Cost, Dims, Half, Kind, Program, Values

JITTER = 1e-6
LOG_TWO_PI = float(np.log(2 * np.pi))


def make(rng: np.random.Generator, dims: Dims) -> tuple[Values, Values]:
    x = rng.standard_normal((dims["points"], dims["axes"]))
    params = {
        "log_scales": 0.5 * np.log(dims["axes"]) + 0.1 * rng.standard_normal(dims["axes"]),
        "log_variance": np.full((), 0.1),
        "log_linear": np.full((), -1.0),
        "log_noise": np.full((), -1.5),
        "mean": np.full((), 0.2),
    }
    y = np.sin(x.sum(axis=1)) + 0.2 * rng.standard_normal(dims["points"])
    return params, {"x": x, "y": y}


def on_tapegrad(dims: Dims, half: Half) -> Callable[[Arrays, Arrays], Any]:
    import tapegrad as tf

    n = dims["points"]

    def covariance(p: Arrays, x: Any) -> Any:
        scaled = x / tf.exp(p["log_scales"])
        squares = tf.reduce_sum(tf.square(scaled), axis=1)
        products = tf.matmul(scaled, scaled, transpose_b=True)
        distances = squares[:, None] + squares[None, :] - 2.0 * products
        smooth = tf.exp(p["log_variance"] - 0.5 * tf.maximum(distances, 0.0))
        return smooth + tf.exp(p["log_linear"]) * tf.matmul(x, x, transpose_b=True)

    def loss(p: Arrays, batch: Arrays) -> Any:
        noise = tf.exp(p["log_noise"]) + JITTER
        matrix = covariance(p, batch["x"]) + noise * tf.eye(n, dtype=batch["x"].dtype)
        factor = tf.linalg.cholesky(matrix)
        residual = (batch["y"] - p["mean"])[:, None]
        white = tf.linalg.triangular_solve(factor, residual, lower=True)
        log_determinant = 2.0 * tf.reduce_sum(tf.math.log(tf.linalg.diag_part(factor)))
        return 0.5 * (tf.reduce_sum(tf.square(white)) + log_determinant + n * LOG_TWO_PI)

    return loss


def on_jax(dims: Dims, half: Half) -> Callable[[Arrays, Arrays], Any]:
    import jax.numpy as jnp
    from jax.scipy.linalg import solve_triangular

    n = dims["points"]

    def loss(p: Arrays, batch: Arrays) -> Any:
        x = batch["x"]
        scaled = x * jnp.exp(-p["log_scales"])
        squares = jnp.sum(scaled**2, axis=1)
        distances = jnp.maximum(squares[:, None] + squares - 2 * scaled @ scaled.T, 0)
        matrix = jnp.exp(p["log_variance"] - 0.5 * distances) + jnp.exp(p["log_linear"]) * x @ x.T
        matrix = matrix + (jnp.exp(p["log_noise"]) + JITTER) * jnp.eye(n, dtype=x.dtype)
        factor = jnp.linalg.cholesky(matrix)
        white = solve_triangular(factor, batch["y"] - p["mean"], lower=True)
        log_determinant = 2 * jnp.sum(jnp.log(jnp.diagonal(factor)))
        return 0.5 * (white @ white + log_determinant + n * LOG_TWO_PI)

    return loss


def on_torch(dims: Dims, half: Half) -> Callable[[Arrays, Arrays], Any]:
    import torch

    n = dims["points"]

    def loss(p: Arrays, batch: Arrays) -> Any:
        x = batch["x"]
        scaled = x * torch.exp(-p["log_scales"])
        squares = scaled.square().sum(1)
        distances = torch.addmm(squares[:, None] + squares, scaled, scaled.T, alpha=-2)
        smooth = torch.exp(p["log_variance"] - 0.5 * distances.clamp(min=0))
        matrix = smooth + torch.exp(p["log_linear"]) * (x @ x.T)
        noise = torch.exp(p["log_noise"]) + JITTER
        matrix = matrix + torch.diag(noise.expand(n))
        factor = torch.linalg.cholesky_ex(matrix).L
        residual = (batch["y"] - p["mean"])[:, None]
        white = torch.linalg.solve_triangular(factor, residual, upper=False)
        log_determinant = 2 * torch.log(factor.diagonal()).sum()
        return 0.5 * (white.square().sum() + log_determinant + n * LOG_TWO_PI)

    return loss


def cost(dims: Dims) -> Cost:
    """A Cholesky factor takes n^3/3 operations and its gradient n^3; two products make kernels."""
    n = dims["points"]
    return Cost(bytes=48.0 * n**2, operations=4 / 3 * n**3 + 12.0 * n**2 * dims["axes"])


PROGRAM = Program(
    summary="Gaussian process likelihood by Cholesky; gradient by hyperparameters",
    kind=Kind.GRADIENT,
    make=make,
    on_tapegrad=on_tapegrad,
    on_jax=on_jax,
    on_torch=on_torch,
    sizes={
        "check": {"points": 11, "axes": 3},
        "cpu": {"points": 300, "axes": 6},
        "cuda": {"points": 2048, "axes": 16},
    },
    cost=cost,
    dtypes={"cpu": "float64", "cuda": "float64"},
)
