"""Squared distances between all pairs of two sets of points; gradients by both sets."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from tapegrad_zoo.program import Arrays, Cost, Dims, Half, Kind, Program, Values

SUMMARIES = {
    "broadcasting": "by broadcasting and a sum over features",
    "expanded": "as squares minus twice a matrix product",
    "by_einsum": "with einsum over differences",
    "by_feature": "feature by feature in a loop",
}


def make(rng: np.random.Generator, dims: Dims) -> tuple[Values, Values]:
    params = {
        "x": rng.standard_normal((dims["points"], dims["features"])),
        "y": rng.standard_normal((dims["centers"], dims["features"])),
    }
    return params, {"weights": 0.5 + rng.standard_normal((dims["points"], dims["centers"]))}


def on_tapegrad(spelling: str, dims: Dims, half: Half) -> Callable[[Arrays, Arrays], Any]:
    import tapegrad.numpy as np

    def broadcasting(x: Any, y: Any) -> Any:
        return np.sum((x[:, None, :] - y[None, :, :]) ** 2, axis=-1)

    def expanded(x: Any, y: Any) -> Any:
        squares = np.sum(x * x, axis=1)[:, None] + np.sum(y * y, axis=1)[None, :]
        return squares - 2 * x @ y.T

    def by_einsum(x: Any, y: Any) -> Any:
        differences = x[:, None] - y[None]
        return np.einsum("ijk,ijk->ij", differences, differences)

    def by_feature(x: Any, y: Any) -> Any:
        total = 0.0
        for k in range(dims["features"]):
            total = total + (x[:, k, None] - y[None, :, k]) ** 2
        return total

    spellings: dict[str, Callable[..., Any]] = {
        "broadcasting": broadcasting,
        "expanded": expanded,
        "by_einsum": by_einsum,
        "by_feature": by_feature,
    }
    distances = spellings[spelling]

    def loss(params: Arrays, batch: Arrays) -> Any:
        return np.mean(distances(params["x"], params["y"]) * batch["weights"])

    return loss


def on_jax(spelling: str, dims: Dims, half: Half) -> Callable[[Arrays, Arrays], Any]:
    import jax.numpy as jnp

    def broadcasting(x: Any, y: Any) -> Any:
        return jnp.sum((x[:, None, :] - y[None, :, :]) ** 2, axis=-1)

    def expanded(x: Any, y: Any) -> Any:
        squares = jnp.sum(x * x, axis=1)[:, None] + jnp.sum(y * y, axis=1)[None, :]
        return squares - 2 * x @ y.T

    def by_einsum(x: Any, y: Any) -> Any:
        differences = x[:, None] - y[None]
        return jnp.einsum("ijk,ijk->ij", differences, differences)

    def by_feature(x: Any, y: Any) -> Any:
        total = 0.0
        for k in range(dims["features"]):
            total = total + (x[:, k, None] - y[None, :, k]) ** 2
        return total

    spellings: dict[str, Callable[..., Any]] = {
        "broadcasting": broadcasting,
        "expanded": expanded,
        "by_einsum": by_einsum,
        "by_feature": by_feature,
    }
    distances = spellings[spelling]

    def loss(params: Arrays, batch: Arrays) -> Any:
        return jnp.mean(distances(params["x"], params["y"]) * batch["weights"])

    return loss


def on_torch(spelling: str, dims: Dims, half: Half) -> Callable[[Arrays, Arrays], Any]:
    import torch

    def broadcasting(x: Any, y: Any) -> Any:
        return torch.sum((x[:, None, :] - y[None, :, :]) ** 2, -1)

    def expanded(x: Any, y: Any) -> Any:
        squares = torch.sum(x * x, 1)[:, None] + torch.sum(y * y, 1)[None, :]
        return squares - 2 * x @ y.T

    def by_einsum(x: Any, y: Any) -> Any:
        differences = x[:, None] - y[None]
        return torch.einsum("ijk,ijk->ij", differences, differences)

    def by_feature(x: Any, y: Any) -> Any:
        total = 0.0
        for k in range(dims["features"]):
            total = total + (x[:, k, None] - y[None, :, k]) ** 2
        return total

    spellings: dict[str, Callable[..., Any]] = {
        "broadcasting": broadcasting,
        "expanded": expanded,
        "by_einsum": by_einsum,
        "by_feature": by_feature,
    }
    distances = spellings[spelling]

    def loss(params: Arrays, batch: Arrays) -> Any:
        return torch.mean(distances(params["x"], params["y"]) * batch["weights"])

    return loss


def cost(dims: Dims) -> Cost:
    """The weights are read once; a pair takes differences forwards and two sums backwards."""
    pairs = dims["points"] * dims["centers"]
    return Cost(bytes=4.0 * pairs, operations=6.0 * pairs * dims["features"])


SPELLINGS = {
    spelling: Program(
        summary=f"pairwise squared distances and their gradients, {summary}",
        kind=Kind.GRADIENT,
        make=make,
        on_tapegrad=partial(on_tapegrad, spelling),
        on_jax=partial(on_jax, spelling),
        on_torch=partial(on_torch, spelling),
        sizes={
            "check": {"points": 5, "centers": 7, "features": 3},
            "cpu": {"points": 1024, "centers": 768, "features": 8},
            "cuda": {"points": 8192, "centers": 4096, "features": 16},
        },
        cost=cost,
    )
    for spelling, summary in SUMMARIES.items()
}
