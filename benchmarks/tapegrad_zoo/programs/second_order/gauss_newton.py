"""Levenberg-Marquardt on a spectrum: the Jacobian of all residuals and the normal equations."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tapegrad_zoo.program import Arrays, Cost, Dims, Half, Kind, Program, Values

DAMPING = 1e-2


def make(rng: np.random.Generator, dims: Dims) -> tuple[Values, Values]:
    peaks, points = dims["peaks"], dims["points"]
    place = (np.arange(peaks) + 0.5) / peaks
    # All batches come from one truth, whatever their seed.
    fixed = np.random.default_rng(1)
    height, width = fixed.uniform(0.5, 2.0, peaks), fixed.uniform(0.2, 0.4, peaks) / peaks
    x = np.linspace(0.0, 1.0, points)
    gap = (x[:, None] - place) / width
    spectrum = np.sum(height * np.exp(-0.5 * gap**2), 1) + 0.3 + 0.2 * x
    # One row per peak: height, place and width, all near the truth.
    start = np.stack([height, place, np.log(width)], 1)
    start = start + rng.standard_normal((peaks, 3)) * [0.1, 0.05 / peaks, 0.1]
    params = {"peaks": start, "base": np.array([0.25, 0.25])}
    batch = {"x": x, "spectrum": spectrum + 0.01 * rng.standard_normal(points)}
    return params, batch


def on_tapegrad(dims: Dims, half: Half) -> Callable[[Arrays, Arrays], Any]:
    import tapegrad
    import tapegrad.numpy as np

    peaks = dims["peaks"]

    def step(params: Arrays, batch: Arrays) -> Arrays:
        x = batch["x"]

        def residuals(theta: Any) -> Any:
            height, place, log_width = theta[:-2].reshape(peaks, 3).T
            gap = (x[:, None] - place) / np.exp(log_width)
            curve = np.sum(height * np.exp(-0.5 * gap**2), axis=1)
            return curve + theta[-2] + theta[-1] * x - batch["spectrum"]

        theta = np.concatenate([np.ravel(params["peaks"]), np.asarray(params["base"])])
        losses = []
        for _ in range(dims["iterations"]):
            r = residuals(theta)
            jacobian = tapegrad.jacobian(residuals)(theta)
            normal = jacobian.T @ jacobian
            damped = normal + DAMPING * np.diag(np.diag(normal))
            theta = theta - np.linalg.solve(damped, jacobian.T @ r)
            losses.append(0.5 * np.mean(r**2))
        losses.append(0.5 * np.mean(residuals(theta) ** 2))
        return {
            "peaks": theta[:-2].reshape(peaks, 3),
            "base": theta[-2:],
            "losses": np.stack(losses),
        }

    return step


def on_jax(dims: Dims, half: Half) -> Callable[[Arrays, Arrays], Any]:
    import jax
    import jax.numpy as jnp

    peaks = dims["peaks"]

    def step(params: Arrays, batch: Arrays) -> Arrays:
        def residual(theta: Any, x: Any, y: Any) -> Any:
            height, place, log_width = theta[:-2].reshape(peaks, 3).T
            gap = (x - place) * jnp.exp(-log_width)
            return jnp.vdot(height, jnp.exp(-0.5 * gap**2)) + theta[-2] + theta[-1] * x - y

        # Each residual is a scalar, so reverse mode needs one pass for its row.
        rows = jax.vmap(jax.value_and_grad(residual), (None, 0, 0))

        def iterate(theta: Any, _: Any) -> Any:
            r, jacobian = rows(theta, batch["x"], batch["spectrum"])
            normal = jacobian.T @ jacobian
            damped = normal + DAMPING * jnp.diag(jnp.diag(normal))
            move = jax.scipy.linalg.solve(damped, jacobian.T @ r, assume_a="pos")
            return theta - move, 0.5 * jnp.mean(r**2)

        start = jnp.concatenate([params["peaks"].ravel(), params["base"]])
        theta, losses = jax.lax.scan(iterate, start, None, length=dims["iterations"])
        last = jax.vmap(residual, (None, 0, 0))(theta, batch["x"], batch["spectrum"])
        return {
            "peaks": theta[:-2].reshape(peaks, 3),
            "base": theta[-2:],
            "losses": jnp.append(losses, 0.5 * jnp.mean(last**2)),
        }

    return step


def on_torch(dims: Dims, half: Half) -> Callable[[Arrays, Arrays], Any]:
    import torch

    peaks = dims["peaks"]

    def step(params: Arrays, batch: Arrays) -> Arrays:
        def residual(theta: Any, x: Any, y: Any) -> Any:
            height, place, log_width = theta[:-2].view(peaks, 3).unbind(1)
            gap = (x - place) * torch.exp(-log_width)
            return torch.dot(height, torch.exp(-0.5 * gap**2)) + theta[-2] + theta[-1] * x - y

        rows = torch.func.vmap(torch.func.grad_and_value(residual), (None, 0, 0))
        theta = torch.cat([params["peaks"].detach().flatten(), params["base"].detach()])
        losses = []
        for _ in range(dims["iterations"]):
            jacobian, r = rows(theta, batch["x"], batch["spectrum"])
            normal = jacobian.T @ jacobian
            damped = normal + DAMPING * torch.diag(torch.diag(normal))
            factor = torch.linalg.cholesky_ex(damped).L
            theta = theta - torch.cholesky_solve((jacobian.T @ r)[:, None], factor)[:, 0]
            losses.append(0.5 * torch.mean(r**2))
        _, r = rows(theta, batch["x"], batch["spectrum"])
        losses.append(0.5 * torch.mean(r**2))
        return {
            "peaks": theta[:-2].view(peaks, 3),
            "base": theta[-2:],
            "losses": torch.stack(losses),
        }

    return step


def cost(dims: Dims) -> Cost:
    """The Jacobian is written and read once; the normal equations and one factorisation."""
    unknowns = 3 * dims["peaks"] + 2
    entries = dims["points"] * unknowns
    return Cost(
        bytes=16.0 * entries * dims["iterations"],
        operations=dims["iterations"] * (entries * unknowns + unknowns**3 / 3),
    )


PROGRAM = Program(
    summary="Levenberg-Marquardt: 194 parameters of 64 peaks, 8192 residuals, dense Jacobian",
    kind=Kind.STEP,
    make=make,
    on_tapegrad=on_tapegrad,
    on_jax=on_jax,
    on_torch=on_torch,
    sizes={
        "check": {"peaks": 3, "points": 31, "iterations": 2},
        "cpu": {"peaks": 16, "points": 4000, "iterations": 3},
        "cuda": {"peaks": 64, "points": 8192, "iterations": 5},
    },
    cost=cost,
    dtypes={"cpu": "float64", "cuda": "float64"},
)
