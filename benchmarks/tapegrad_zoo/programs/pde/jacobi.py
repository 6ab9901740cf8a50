"""Solve a Poisson equation by Jacobi's relaxation and find its source from sensors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tapegrad_zoo.program import Arrays, Cost, Dims, Half, Kind, Program, Values

SMOOTHNESS = 0.1


def make(rng: np.random.Generator, dims: Dims) -> tuple[Values, Values]:
    inner = dims["rows"], dims["columns"]
    params = {"source": rng.standard_normal(inner)}
    edge = np.zeros((inner[0] + 2, inner[1] + 2))
    edge[0], edge[:, 0] = np.linspace(0, 1, inner[1] + 2), np.linspace(0, -1, inner[0] + 2)
    batch = {
        "edge": edge,
        "sensors": rng.integers(0, inner[0] * inner[1], dims["sensors"]),
        "measured": rng.standard_normal(dims["sensors"]),
    }
    return params, batch


def on_tapegrad(dims: Dims, half: Half) -> Callable[[Arrays, Arrays], Any]:
    import tapegrad.numpy as np

    def loss(params: Arrays, batch: Arrays) -> Any:
        source = np.asarray(params["source"])
        u = np.array(batch["edge"])
        for _ in range(dims["steps"]):
            around = u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:]
            u[1:-1, 1:-1] = 0.25 * (around + source)
        seen = u[1:-1, 1:-1].ravel()[batch["sensors"]]
        rough = np.mean(np.diff(source, axis=0) ** 2) + np.mean(np.diff(source, axis=1) ** 2)
        return np.mean((seen - batch["measured"]) ** 2) + SMOOTHNESS * rough

    return loss


def on_jax(dims: Dims, half: Half) -> Callable[[Arrays, Arrays], Any]:
    import jax
    import jax.numpy as jnp

    def loss(params: Arrays, batch: Arrays) -> Any:
        source = params["source"]

        def relax(_: Any, u: Any) -> Any:
            around = u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:]
            return u.at[1:-1, 1:-1].set(0.25 * (around + source))

        u = jax.lax.fori_loop(0, dims["steps"], relax, batch["edge"])
        seen = u[1:-1, 1:-1].ravel()[batch["sensors"]]
        rough = jnp.mean(jnp.diff(source, axis=0) ** 2) + jnp.mean(jnp.diff(source, axis=1) ** 2)
        return jnp.mean((seen - batch["measured"]) ** 2) + SMOOTHNESS * rough

    return loss


def on_torch(dims: Dims, half: Half) -> Callable[[Arrays, Arrays], Any]:
    import torch
    from torch.nn import functional

    def loss(params: Arrays, batch: Arrays) -> Any:
        source, edge = params["source"], batch["edge"]
        # The fixed border enters as a source of the cells beside it, so that padding is by zeros.
        given = source + edge[:-2, 1:-1] + edge[2:, 1:-1] + edge[1:-1, :-2] + edge[1:-1, 2:]
        inner = torch.zeros_like(source)
        for _ in range(dims["steps"]):
            u = functional.pad(inner, (1, 1, 1, 1))
            around = u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:]
            inner = 0.25 * (around + given)
        seen = inner.flatten()[batch["sensors"]]
        rough = source.diff(dim=0).square().mean() + source.diff(dim=1).square().mean()
        return functional.mse_loss(seen, batch["measured"]) + SMOOTHNESS * rough

    return loss


def cost(dims: Dims) -> Cost:
    """A relaxation reads the field and the source and writes the field, in both directions."""
    cells = dims["rows"] * dims["columns"] * dims["steps"]
    return Cost(bytes=24.0 * cells, operations=11.0 * cells)


PROGRAM = Program(
    summary="Jacobi relaxation that writes the inside of a field; gradient by the source",
    kind=Kind.GRADIENT,
    make=make,
    on_tapegrad=on_tapegrad,
    on_jax=on_jax,
    on_torch=on_torch,
    sizes={
        "check": {"rows": 7, "columns": 10, "sensors": 6, "steps": 6},
        "cpu": {"rows": 126, "columns": 158, "sensors": 200, "steps": 60},
        "cuda": {"rows": 1022, "columns": 1278, "sensors": 5000, "steps": 200},
    },
    cost=cost,
)
