"""Shallow water by finite volumes: find the first surface from the gauges that saw the wave."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tapegrad_zoo.program import Arrays, Cost, Dims, Half, Kind, Program, Values

GRAVITY, RATIO = 1.0, 0.2
"""RATIO is the time step over the width of a cell."""


def make(rng: np.random.Generator, dims: Dims) -> tuple[Values, Values]:
    shape = dims["rows"], dims["columns"]
    y, x = np.meshgrid(
        *(np.linspace(0, 2 * np.pi, n, endpoint=False) for n in shape), indexing="ij"
    )
    params = {"height": 1 + 0.1 * np.sin(x) * np.cos(y) + 0.01 * rng.standard_normal(shape)}
    batch = {
        "gauge_rows": rng.integers(0, shape[0], dims["gauges"]),
        "gauge_columns": rng.integers(0, shape[1], dims["gauges"]),
        "levels": 1 + 0.1 * rng.standard_normal((dims["steps"], dims["gauges"])),
    }
    return params, batch


def on_tapegrad(dims: Dims, half: Half) -> Callable[[Arrays, Arrays], Any]:
    import tapegrad.numpy as np

    def physical_flux(h: Any, along: Any, across: Any) -> Any:
        speed = along / h
        flux = np.stack([along, along * speed + 0.5 * GRAVITY * h**2, across * speed])
        return flux, np.abs(speed) + np.sqrt(GRAVITY * h)

    def divergence(h: Any, along: Any, across: Any, axis: int) -> Any:
        """Differences of Rusanov's flux through the two faces of every cell."""
        flux, fastest = physical_flux(h, along, across)
        state = np.stack([h, along, across])
        limit = np.maximum(fastest, np.roll(fastest, -1, axis))
        axis = axis + 1
        jump = np.roll(state, -1, axis) - state
        through = 0.5 * (flux + np.roll(flux, -1, axis)) - 0.5 * limit * jump
        return through - np.roll(through, 1, axis)

    def loss(params: Arrays, batch: Arrays) -> Any:
        h = np.asarray(params["height"])
        u = np.zeros_like(h)
        v = np.zeros_like(h)
        error = 0.0
        for t in range(dims["steps"]):
            dh_x, du_x, dv_x = divergence(h, u, v, 1)
            dh_y, dv_y, du_y = divergence(h, v, u, 0)
            h = h - RATIO * (dh_x + dh_y)
            u = u - RATIO * (du_x + du_y)
            v = v - RATIO * (dv_x + dv_y)
            level = h[batch["gauge_rows"], batch["gauge_columns"]]
            error = error + np.mean((level - batch["levels"][t]) ** 2)
        return error / dims["steps"]

    return loss


def on_jax(dims: Dims, half: Half) -> Callable[[Arrays, Arrays], Any]:
    import jax
    import jax.numpy as jnp

    def divergence(h: Any, along: Any, across: Any, axis: int) -> Any:
        speed = along / h
        flux = jnp.stack([along, along * speed + 0.5 * GRAVITY * h**2, across * speed])
        fastest = jnp.abs(speed) + jnp.sqrt(GRAVITY * h)
        limit = jnp.maximum(fastest, jnp.roll(fastest, -1, axis))
        state = jnp.stack([h, along, across])
        jump = jnp.roll(state, -1, axis + 1) - state
        through = 0.5 * (flux + jnp.roll(flux, -1, axis + 1) - limit * jump)
        return through - jnp.roll(through, 1, axis + 1)

    def loss(params: Arrays, batch: Arrays) -> Any:
        def step(state: Any, observed: Any) -> Any:
            h, u, v = state
            dh_x, du_x, dv_x = divergence(h, u, v, 1)
            dh_y, dv_y, du_y = divergence(h, v, u, 0)
            h = h - RATIO * (dh_x + dh_y)
            u = u - RATIO * (du_x + du_y)
            v = v - RATIO * (dv_x + dv_y)
            level = h[batch["gauge_rows"], batch["gauge_columns"]]
            return (h, u, v), jnp.mean((level - observed) ** 2)

        rest = jnp.zeros_like(params["height"])
        _, errors = jax.lax.scan(step, (params["height"], rest, rest), batch["levels"])
        return jnp.mean(errors)

    return loss


def on_torch(dims: Dims, half: Half) -> Callable[[Arrays, Arrays], Any]:
    import torch
    from torch.nn import functional

    def divergence(h: Any, along: Any, across: Any, axis: int) -> Any:
        speed = along / h
        flux = torch.stack([along, along * speed + 0.5 * GRAVITY * h**2, across * speed])
        fastest = speed.abs() + torch.sqrt(GRAVITY * h)
        limit = torch.maximum(fastest, fastest.roll(-1, axis))
        state = torch.stack([h, along, across])
        jump = state.roll(-1, axis + 1) - state
        through = 0.5 * (flux + flux.roll(-1, axis + 1) - limit * jump)
        return through - through.roll(1, axis + 1)

    def loss(params: Arrays, batch: Arrays) -> Any:
        h = params["height"]
        u = v = torch.zeros_like(h)
        levels = []
        for _ in range(dims["steps"]):
            dh_x, du_x, dv_x = divergence(h, u, v, 1)
            dh_y, dv_y, du_y = divergence(h, v, u, 0)
            h = h - RATIO * (dh_x + dh_y)
            u = u - RATIO * (du_x + du_y)
            v = v - RATIO * (dv_x + dv_y)
            levels.append(h[batch["gauge_rows"], batch["gauge_columns"]])
        return functional.mse_loss(torch.stack(levels), batch["levels"])

    return loss


def cost(dims: Dims) -> Cost:
    """A step reads and writes three fields, going forth and going back."""
    cells = dims["rows"] * dims["columns"] * dims["steps"]
    return Cost(bytes=48.0 * cells, operations=200.0 * cells)


PROGRAM = Program(
    summary="nonlinear shallow water with Rusanov's flux; gradient by the first surface",
    kind=Kind.GRADIENT,
    make=make,
    on_tapegrad=on_tapegrad,
    on_jax=on_jax,
    on_torch=on_torch,
    sizes={
        "check": {"rows": 9, "columns": 12, "gauges": 5, "steps": 4},
        "cpu": {"rows": 80, "columns": 96, "gauges": 16, "steps": 30},
        "cuda": {"rows": 512, "columns": 768, "gauges": 64, "steps": 60},
    },
    cost=cost,
)
