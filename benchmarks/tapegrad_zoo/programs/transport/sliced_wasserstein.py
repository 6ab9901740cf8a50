"""Train a generator by the sliced Wasserstein distance: projections of both clouds are sorted."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tapegrad_zoo.program import Arrays, Cost, Dims, Half, Kind, Optimizer, Program, Values


def make(rng: np.random.Generator, dims: Dims) -> tuple[Values, Values]:
    latent, hidden, axes = dims["latent"], dims["hidden"], dims["axes"]
    params = {
        "w1": rng.standard_normal((latent, hidden)) * latent**-0.5,
        "b1": 0.1 * rng.standard_normal(hidden),
        "w2": rng.standard_normal((hidden, hidden)) * hidden**-0.5,
        "b2": 0.1 * rng.standard_normal(hidden),
        "w3": rng.standard_normal((hidden, axes)) * hidden**-0.5,
        "b3": np.zeros(axes),
    }
    batch = {
        "noise": rng.standard_normal((dims["points"], latent)),
        "data": 1 + 0.5 * rng.standard_normal((dims["points"], axes)),
        "directions": rng.standard_normal((dims["slices"], axes)),
    }
    return params, batch


def on_tapegrad(dims: Dims, half: Half) -> Callable[[Arrays, Arrays], Any]:
    import tapegrad.numpy as np

    def loss(p: Arrays, batch: Arrays) -> Any:
        h = np.tanh(batch["noise"] @ p["w1"] + p["b1"])
        h = np.tanh(h @ p["w2"] + p["b2"])
        points = h @ p["w3"] + p["b3"]
        directions = batch["directions"]
        directions = directions / np.linalg.norm(directions, axis=1, keepdims=True)
        ours = np.sort(points @ directions.T, axis=0)
        theirs = np.sort(batch["data"] @ directions.T, axis=0)
        return np.mean((ours - theirs) ** 2)

    return loss


def on_jax(dims: Dims, half: Half) -> Callable[[Arrays, Arrays], Any]:
    import jax.numpy as jnp

    def loss(p: Arrays, batch: Arrays) -> Any:
        h = jnp.tanh(batch["noise"] @ p["w1"] + p["b1"])
        h = jnp.tanh(h @ p["w2"] + p["b2"])
        points = h @ p["w3"] + p["b3"]
        directions = batch["directions"]
        directions = directions / jnp.linalg.norm(directions, axis=1, keepdims=True)
        ours = jnp.sort(directions @ points.T, axis=1, stable=False)
        theirs = jnp.sort(directions @ batch["data"].T, axis=1, stable=False)
        return jnp.mean((ours - theirs) ** 2)

    return loss


def on_torch(dims: Dims, half: Half) -> Callable[[Arrays, Arrays], Any]:
    import torch
    from torch.nn import functional

    def loss(p: Arrays, batch: Arrays) -> Any:
        h = torch.tanh(torch.addmm(p["b1"], batch["noise"], p["w1"]))
        h = torch.tanh(torch.addmm(p["b2"], h, p["w2"]))
        points = torch.addmm(p["b3"], h, p["w3"])
        directions = functional.normalize(batch["directions"], dim=1)
        ours = torch.sort(directions @ points.T, 1).values
        theirs = torch.sort(directions @ batch["data"].T, 1).values
        return functional.mse_loss(ours, theirs)

    return loss


def cost(dims: Dims) -> Cost:
    """The products of the generator and of projections; a sort reads and writes all projections."""
    hidden, points = dims["hidden"], dims["points"]
    weights = dims["latent"] * hidden + hidden**2 + hidden * dims["axes"]
    projected = points * dims["slices"]
    products = 6.0 * points * weights + 6.0 * projected * dims["axes"]
    return Cost(
        bytes=28.0 * weights + 32.0 * projected,
        operations=products + 2.0 * projected * np.log2(points),
    )


PROGRAM = Program(
    summary="a generator trained by the sliced Wasserstein distance, Adam",
    kind=Kind.TRAINING,
    make=make,
    on_tapegrad=on_tapegrad,
    on_jax=on_jax,
    on_torch=on_torch,
    sizes={
        "check": {"points": 9, "latent": 3, "hidden": 7, "axes": 4, "slices": 5},
        "cpu": {"points": 1000, "latent": 8, "hidden": 64, "axes": 16, "slices": 50},
        "cuda": {"points": 8192, "latent": 64, "hidden": 512, "axes": 256, "slices": 512},
    },
    cost=cost,
    optimizer=Optimizer("adam", 1e-3),
)
