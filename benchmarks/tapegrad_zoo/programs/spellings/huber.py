"""The Huber loss of predictions, weighted and averaged; gradient by the predictions."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from tapegrad_zoo.program import Arrays, Cost, Dims, Half, Kind, Program, Values

DELTA = 1.0
SUMMARIES = {
    "library": "by the library's function",
    "by_where": "with a comparison",
    "by_minimum": "with the minimum of size and limit",
    "by_clip": "with clipped residuals",
}


def make(rng: np.random.Generator, dims: Dims) -> tuple[Values, Values]:
    shape = dims["rows"], dims["columns"]
    batch = {"observed": rng.standard_normal(shape), "weights": rng.uniform(0.5, 1.5, shape)}
    return {"predicted": rng.standard_normal(shape)}, batch


def on_tapegrad(spelling: str, dims: Dims, half: Half) -> Callable[[Arrays, Arrays], Any]:
    import tapegrad.numpy as np
    from tapegrad.scipy import special

    def by_where(r: Any) -> Any:
        size = np.abs(r)
        return np.where(size <= DELTA, 0.5 * r**2, DELTA * (size - 0.5 * DELTA))

    def by_minimum(r: Any) -> Any:
        size = np.abs(r)
        near = np.minimum(size, DELTA)
        return 0.5 * near**2 + DELTA * (size - near)

    def by_clip(r: Any) -> Any:
        near = np.clip(r, -DELTA, DELTA)
        return near * (r - 0.5 * near)

    spellings: dict[str, Callable[..., Any]] = {
        "library": partial(special.huber, DELTA),
        "by_where": by_where,
        "by_minimum": by_minimum,
        "by_clip": by_clip,
    }
    huber = spellings[spelling]

    def loss(params: Arrays, batch: Arrays) -> Any:
        return np.mean(huber(params["predicted"] - batch["observed"]) * batch["weights"])

    return loss


def on_jax(spelling: str, dims: Dims, half: Half) -> Callable[[Arrays, Arrays], Any]:
    import jax.numpy as jnp

    def by_where(r: Any) -> Any:
        size = jnp.abs(r)
        return jnp.where(size <= DELTA, 0.5 * r**2, DELTA * (size - 0.5 * DELTA))

    def by_minimum(r: Any) -> Any:
        size = jnp.abs(r)
        near = jnp.minimum(size, DELTA)
        return 0.5 * near**2 + DELTA * (size - near)

    def by_clip(r: Any) -> Any:
        near = jnp.clip(r, -DELTA, DELTA)
        return near * (r - 0.5 * near)

    spellings: dict[str, Callable[..., Any]] = {
        "library": by_where,  # JAX has no function of this kind
        "by_where": by_where,
        "by_minimum": by_minimum,
        "by_clip": by_clip,
    }
    huber = spellings[spelling]

    def loss(params: Arrays, batch: Arrays) -> Any:
        return jnp.mean(huber(params["predicted"] - batch["observed"]) * batch["weights"])

    return loss


def on_torch(spelling: str, dims: Dims, half: Half) -> Callable[[Arrays, Arrays], Any]:
    import torch
    from torch.nn import functional

    def library(r: Any) -> Any:
        return functional.huber_loss(r, torch.zeros_like(r), reduction="none", delta=DELTA)

    def by_where(r: Any) -> Any:
        size = torch.abs(r)
        return torch.where(size <= DELTA, 0.5 * r**2, DELTA * (size - 0.5 * DELTA))

    def by_minimum(r: Any) -> Any:
        size = torch.abs(r)
        near = torch.clamp_max(size, DELTA)
        return 0.5 * near**2 + DELTA * (size - near)

    def by_clip(r: Any) -> Any:
        near = torch.clamp(r, -DELTA, DELTA)
        return near * (r - 0.5 * near)

    spellings: dict[str, Callable[..., Any]] = {
        "library": library,
        "by_where": by_where,
        "by_minimum": by_minimum,
        "by_clip": by_clip,
    }
    huber = spellings[spelling]

    def loss(params: Arrays, batch: Arrays) -> Any:
        return torch.mean(huber(params["predicted"] - batch["observed"]) * batch["weights"])

    return loss


def cost(dims: Dims) -> Cost:
    """Predictions, observations and weights are read and the gradient is written once."""
    cells = dims["rows"] * dims["columns"]
    return Cost(bytes=16.0 * cells, operations=10.0 * cells)


SPELLINGS = {
    spelling: Program(
        summary=f"the Huber loss and its gradient, {summary}",
        kind=Kind.GRADIENT,
        make=make,
        on_tapegrad=partial(on_tapegrad, spelling),
        on_jax=partial(on_jax, spelling),
        on_torch=partial(on_torch, spelling),
        sizes={
            "check": {"rows": 5, "columns": 7},
            "cpu": {"rows": 2048, "columns": 1000},
            "cuda": {"rows": 8192, "columns": 3072},
        },
        cost=cost,
    )
    for spelling, summary in SUMMARIES.items()
}
