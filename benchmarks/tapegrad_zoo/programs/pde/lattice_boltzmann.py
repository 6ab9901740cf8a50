"""A lattice Boltzmann flow through a porous body whose shape is optimized for a target flow."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tapegrad_zoo.program import Arrays, Cost, Dims, Half, Kind, Program, Values

SPEEDS = ((0, 0), (1, 0), (0, 1), (-1, 0), (0, -1), (1, 1), (-1, 1), (-1, -1), (1, -1))
WEIGHTS = (4 / 9, 1 / 9, 1 / 9, 1 / 9, 1 / 9, 1 / 36, 1 / 36, 1 / 36, 1 / 36)
OPPOSITE = (0, 3, 4, 1, 2, 7, 8, 5, 6)
RELAXATION, FORCE = 1.2, 1e-2


def make(rng: np.random.Generator, dims: Dims) -> tuple[Values, Values]:
    shape = dims["rows"], dims["columns"]
    params = {"solid": rng.standard_normal(shape) - 2.0}
    noise = 1 + 0.05 * rng.standard_normal((9, *shape))
    batch = {
        "densities": np.asarray(WEIGHTS)[:, None, None] * noise,
        "target": 0.05 * rng.standard_normal((2, *shape)),
    }
    return params, batch


def on_tapegrad(dims: Dims, half: Half) -> Callable[[Arrays, Arrays], Any]:
    import tapegrad.numpy as np

    def moments(f: Any) -> Any:
        density = np.sum(f, axis=0)
        ux = sum(cx * f[i] for i, (cx, _) in enumerate(SPEEDS) if cx) / density
        uy = sum(cy * f[i] for i, (_, cy) in enumerate(SPEEDS) if cy) / density
        return density, ux, uy

    def equilibrium(density: Any, ux: Any, uy: Any) -> Any:
        square = 1.5 * (ux**2 + uy**2)
        result = []
        for (cx, cy), weight in zip(SPEEDS, WEIGHTS):
            along = 3 * (cx * ux + cy * uy)
            result.append(weight * density * (1 + along + 0.5 * along**2 - square))
        return np.stack(result)

    def loss(params: Arrays, batch: Arrays) -> Any:
        solid = 1 / (1 + np.exp(-params["solid"]))
        f = batch["densities"]
        for _ in range(dims["steps"]):
            f = np.stack(
                [np.roll(f[i], (cy, cx), axis=(0, 1)) for i, (cx, cy) in enumerate(SPEEDS)]
            )
            density, ux, uy = moments(f)
            collided = f - RELAXATION * (f - equilibrium(density, ux + FORCE, uy))
            bounced = f[list(OPPOSITE)]
            f = (1 - solid) * collided + solid * bounced
        _, ux, uy = moments(f)
        return np.mean((np.stack([ux, uy]) - batch["target"]) ** 2)

    return loss


def on_jax(dims: Dims, half: Half) -> Callable[[Arrays, Arrays], Any]:
    import jax
    import jax.numpy as jnp

    def moments(f: Any) -> Any:
        density = sum(f)
        ux = (f[1] - f[3] + f[5] - f[6] - f[7] + f[8]) / density
        uy = (f[2] - f[4] + f[5] + f[6] - f[7] - f[8]) / density
        return density, ux, uy

    def loss(params: Arrays, batch: Arrays) -> Any:
        solid = jax.nn.sigmoid(params["solid"])

        def step(_: Any, f: Any) -> Any:
            f = [jnp.roll(g, (cy, cx), (0, 1)) for g, (cx, cy) in zip(f, SPEEDS)]
            density, ux, uy = moments(f)
            ux = ux + FORCE
            slow = 1 - 1.5 * (ux * ux + uy * uy)
            after = []
            for i, ((cx, cy), weight) in enumerate(zip(SPEEDS, WEIGHTS)):
                along = cx * ux + cy * uy
                still = weight * density * (slow + along * (3 + 4.5 * along))
                collided = f[i] + RELAXATION * (still - f[i])
                after.append((1 - solid) * collided + solid * f[OPPOSITE[i]])
            return tuple(after)

        f = jax.lax.fori_loop(0, dims["steps"], step, tuple(batch["densities"]))
        _, ux, uy = moments(f)
        return jnp.mean((jnp.stack([ux, uy]) - batch["target"]) ** 2)

    return loss


def on_torch(dims: Dims, half: Half) -> Callable[[Arrays, Arrays], Any]:
    import torch
    from torch.nn import functional

    def moments(f: Any) -> Any:
        density = f.sum(0)
        ux = (f[1] - f[3] + f[5] - f[6] - f[7] + f[8]) / density
        uy = (f[2] - f[4] + f[5] + f[6] - f[7] - f[8]) / density
        return density, ux, uy

    def loss(params: Arrays, batch: Arrays) -> Any:
        solid = torch.sigmoid(params["solid"])
        f = batch["densities"]
        for _ in range(dims["steps"]):
            f = torch.stack([f[i].roll((cy, cx), (0, 1)) for i, (cx, cy) in enumerate(SPEEDS)])
            density, ux, uy = moments(f)
            ux = ux + FORCE
            slow = 1 - 1.5 * (ux * ux + uy * uy)
            still = []
            for (cx, cy), weight in zip(SPEEDS, WEIGHTS):
                along = cx * ux + cy * uy
                still.append(weight * density * (slow + along * (3 + 4.5 * along)))
            collided = torch.lerp(f, torch.stack(still), RELAXATION)
            f = torch.lerp(collided, torch.stack([f[i] for i in OPPOSITE]), solid)
        _, ux, uy = moments(f)
        return functional.mse_loss(torch.stack([ux, uy]), batch["target"])

    return loss


def cost(dims: Dims) -> Cost:
    """A step reads and writes nine densities per cell, going forth and going back."""
    cells = dims["rows"] * dims["columns"] * dims["steps"]
    return Cost(bytes=2 * 72.0 * cells, operations=450.0 * cells)


PROGRAM = Program(
    summary="D2Q9 lattice Boltzmann with partial bounce-back; gradient by the solid fraction",
    kind=Kind.GRADIENT,
    make=make,
    on_tapegrad=on_tapegrad,
    on_jax=on_jax,
    on_torch=on_torch,
    sizes={
        "check": {"rows": 6, "columns": 9, "steps": 3},
        "cpu": {"rows": 48, "columns": 80, "steps": 20},
        "cuda": {"rows": 384, "columns": 512, "steps": 50},
    },
    cost=cost,
)
