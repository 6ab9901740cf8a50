"""A sparse Gaussian process: the collapsed bound of Titsias by kernel and inducing points."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tapegrad_zoo.program import Arrays, Cost, Dims, Half, Kind, Optimizer, Program, Values

JITTER = 1e-6
LOG_TWO_PI = float(np.log(2 * np.pi))


def make(rng: np.random.Generator, dims: Dims) -> tuple[Values, Values]:
    axes = dims["axes"]
    x = rng.uniform(-2, 2, (dims["points"], axes))
    params = {
        "inducing": rng.uniform(-2, 2, (dims["inducing"], axes)),
        "log_scales": 0.5 * np.log(axes) + 0.1 * rng.standard_normal(axes),
        "log_variance": np.full((), 0.2),
        "log_noise": np.full((), -1.0),
    }
    y = np.cos(x.sum(axis=1)) + 0.3 * rng.standard_normal(dims["points"])
    return params, {"x": x, "y": y}


def on_tapegrad(dims: Dims, half: Half) -> Callable[[Arrays, Arrays], Any]:
    import tapegrad.numpy as np
    from tapegrad.scipy.linalg import solve_triangular

    n, m = dims["points"], dims["inducing"]

    def matern(p: Arrays, a: Any, b: Any) -> Any:
        """The Matern kernel of order 5/2."""
        apart = (a[:, None, :] - b[None, :, :]) / np.exp(p["log_scales"])
        r = np.sqrt(5 * np.sum(apart**2, axis=-1) + 1e-12)
        return np.exp(p["log_variance"]) * (1 + r + r**2 / 3) * np.exp(-r)

    def loss(p: Arrays, batch: Arrays) -> Any:
        x, y, z = batch["x"], batch["y"], p["inducing"]
        noise = np.exp(p["log_noise"])
        inner = matern(p, z, z) + JITTER * np.eye(m, dtype=x.dtype)
        factor = np.linalg.cholesky(inner)
        a = solve_triangular(factor, matern(p, z, x), lower=True) / np.sqrt(noise)
        b = a @ a.T + np.eye(m, dtype=x.dtype)
        outer = np.linalg.cholesky(b)
        c = solve_triangular(outer, a @ y, lower=True) / np.sqrt(noise)
        fit = np.sum(y**2) / noise - np.sum(c**2)
        log_determinant = 2 * np.sum(np.log(np.diag(outer))) + n * p["log_noise"]
        slack = n * np.exp(p["log_variance"]) / noise - np.sum(a**2)
        return 0.5 * (fit + log_determinant + slack + n * LOG_TWO_PI) / n

    return loss


def on_jax(dims: Dims, half: Half) -> Callable[[Arrays, Arrays], Any]:
    import jax.numpy as jnp
    from jax.scipy.linalg import solve_triangular

    n, m = dims["points"], dims["inducing"]

    def loss(p: Arrays, batch: Arrays) -> Any:
        x, y, z = batch["x"], batch["y"], p["inducing"]
        variance, noise = jnp.exp(p["log_variance"]), jnp.exp(p["log_noise"])
        shrink = jnp.exp(-p["log_scales"])

        def matern(a: Any, b: Any) -> Any:
            apart = (a[:, None] - b) * shrink
            r = jnp.sqrt(5 * jnp.sum(apart**2, axis=-1) + 1e-12)
            return variance * (1 + r + r**2 / 3) * jnp.exp(-r)

        eye = jnp.eye(m, dtype=x.dtype)
        factor = jnp.linalg.cholesky(matern(z, z) + JITTER * eye)
        a = solve_triangular(factor, matern(z, x), lower=True) / jnp.sqrt(noise)
        outer = jnp.linalg.cholesky(a @ a.T + eye)
        c = solve_triangular(outer, a @ y, lower=True) / jnp.sqrt(noise)
        fit = y @ y / noise - c @ c
        log_determinant = 2 * jnp.sum(jnp.log(jnp.diagonal(outer))) + n * p["log_noise"]
        slack = n * variance / noise - jnp.sum(a**2)
        return 0.5 * (fit + log_determinant + slack + n * LOG_TWO_PI) / n

    return loss


def on_torch(dims: Dims, half: Half) -> Callable[[Arrays, Arrays], Any]:
    import torch
    from torch.linalg import solve_triangular

    n, m = dims["points"], dims["inducing"]

    def loss(p: Arrays, batch: Arrays) -> Any:
        x, y, z = batch["x"], batch["y"], p["inducing"]
        variance, noise = torch.exp(p["log_variance"]), torch.exp(p["log_noise"])
        shrink = torch.exp(-p["log_scales"])

        def matern(a: Any, b: Any) -> Any:
            apart = a[:, None] * shrink - b * shrink
            r = torch.sqrt(5 * apart.square().sum(-1) + 1e-12)
            return variance * (1 + r + r**2 / 3) * torch.exp(-r)

        eye = torch.eye(m, dtype=x.dtype, device=x.device)
        factor = torch.linalg.cholesky_ex(matern(z, z) + JITTER * eye).L
        a = solve_triangular(factor, matern(z, x), upper=False) / torch.sqrt(noise)
        outer = torch.linalg.cholesky_ex(torch.addmm(eye, a, a.T)).L
        c = solve_triangular(outer, (a @ y)[:, None], upper=False) / torch.sqrt(noise)
        fit = y.dot(y) / noise - c.square().sum()
        log_determinant = 2 * torch.log(outer.diagonal()).sum() + n * p["log_noise"]
        slack = n * variance / noise - a.square().sum()
        return 0.5 * (fit + log_determinant + slack + n * LOG_TWO_PI) / n

    return loss


def cost(dims: Dims) -> Cost:
    """The solve and the product of the factors take m^2 n each, and twice as much going back."""
    n, m = dims["points"], dims["inducing"]
    return Cost(bytes=64.0 * n * m, operations=9.0 * m**2 * n + 12.0 * n * m * dims["axes"])


PROGRAM = Program(
    summary="sparse Gaussian process regression with trained inducing points, Adam",
    kind=Kind.TRAINING,
    make=make,
    on_tapegrad=on_tapegrad,
    on_jax=on_jax,
    on_torch=on_torch,
    sizes={
        "check": {"points": 13, "inducing": 4, "axes": 2},
        "cpu": {"points": 1500, "inducing": 50, "axes": 4},
        "cuda": {"points": 20000, "inducing": 256, "axes": 8},
    },
    cost=cost,
    optimizer=Optimizer("adam", 1e-2),
    dtypes={"cpu": "float64", "cuda": "float64"},
)
