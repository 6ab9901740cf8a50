"""Find the field whose diffusion ends in what was observed: explicit steps of a 5-point stencil."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tapegrad_zoo.program import Arrays, Cost, Dims, Half, Kind, Program, Values

RATE = 0.2


def make(rng: np.random.Generator, dims: Dims) -> tuple[Values, Values]:
    shape = dims["side"], dims["side"]
    return {"field": rng.standard_normal(shape)}, {"observed": rng.standard_normal(shape)}


def on_tapegrad(dims: Dims, half: Half) -> Callable[[Arrays, Arrays], Any]:
    import tapegrad.numpy as np

    def loss(params: Arrays, batch: Arrays) -> Any:
        u = params["field"]
        for _ in range(dims["steps"]):
            around = np.roll(u, 1, 0) + np.roll(u, -1, 0) + np.roll(u, 1, 1) + np.roll(u, -1, 1)
            u = u + RATE * (around - 4 * u)
        return np.mean((u - batch["observed"]) ** 2)

    return loss


def on_jax(dims: Dims, half: Half) -> Callable[[Arrays, Arrays], Any]:
    import jax
    import jax.numpy as jnp

    def loss(params: Arrays, batch: Arrays) -> Any:
        def step(_: Any, u: Any) -> Any:
            around = sum(jnp.roll(u, shift, axis) for shift in (1, -1) for axis in (0, 1))
            return u + RATE * (around - 4 * u)

        u = jax.lax.fori_loop(0, dims["steps"], step, params["field"])
        return jnp.mean((u - batch["observed"]) ** 2)

    return loss


def on_torch(dims: Dims, half: Half) -> Callable[[Arrays, Arrays], Any]:
    import torch

    def loss(params: Arrays, batch: Arrays) -> Any:
        u = params["field"]
        for _ in range(dims["steps"]):
            around = u.roll(1, 0) + u.roll(-1, 0) + u.roll(1, 1) + u.roll(-1, 1)
            u = u + RATE * (around - 4 * u)
        return torch.mean((u - batch["observed"]) ** 2)

    return loss


def cost(dims: Dims) -> Cost:
    """Each step reads and writes the field once in each direction."""
    cells = dims["side"] ** 2
    return Cost(bytes=16.0 * cells * dims["steps"], operations=14.0 * cells * dims["steps"])


PROGRAM = Program(
    summary="explicit steps of a 5-point stencil written with roll; gradient by the first field",
    kind=Kind.GRADIENT,
    make=make,
    on_tapegrad=on_tapegrad,
    on_jax=on_jax,
    on_torch=on_torch,
    sizes={
        "check": {"side": 12, "steps": 5},
        "cpu": {"side": 128, "steps": 50},
        "cuda": {"side": 1024, "steps": 200},
    },
    cost=cost,
)
