"""The columns of a table, shifted and scaled to mean 0 and variance 1; gradient by the table."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from tapegrad_zoo.program import Arrays, Cost, Dims, Half, Kind, Program, Values

SUMMARIES = {
    "library": "by the library's function",
    "by_std": "with mean and standard deviation",
    "moments": "with the library's mean and variance",
    "two_passes": "with the mean of squared differences",
    "by_sums": "with the sums of values and squares",
}


def make(rng: np.random.Generator, dims: Dims) -> tuple[Values, Values]:
    shape = dims["rows"], dims["columns"]
    params = {"x": 1.0 + rng.standard_normal(shape) * rng.uniform(0.5, 2.0, dims["columns"])}
    return params, {"weights": 0.5 + rng.standard_normal(shape)}


def on_tapegrad(spelling: str, dims: Dims, half: Half) -> Callable[[Arrays, Arrays], Any]:
    import tapegrad.numpy as np
    from tapegrad import nn

    def by_std(x: Any) -> Any:
        return (x - np.mean(x, axis=0)) / np.std(x, axis=0)

    def moments(x: Any) -> Any:
        mean, variance = nn.moments(x, axes=0)
        return (x - mean) / np.sqrt(variance)

    def two_passes(x: Any) -> Any:
        centered = x - np.mean(x, axis=0)
        return centered / np.sqrt(np.mean(centered**2, axis=0))

    def by_sums(x: Any) -> Any:
        mean = np.sum(x, axis=0) / dims["rows"]
        variance = np.sum(x**2, axis=0) / dims["rows"] - mean**2
        return (x - mean) / np.sqrt(variance)

    spellings: dict[str, Callable[..., Any]] = {
        "library": partial(nn.batch_norm, epsilon=0.0),
        "by_std": by_std,
        "moments": moments,
        "two_passes": two_passes,
        "by_sums": by_sums,
    }
    standardise = spellings[spelling]

    def loss(params: Arrays, batch: Arrays) -> Any:
        return np.mean(standardise(params["x"]) * batch["weights"])

    return loss


def on_jax(spelling: str, dims: Dims, half: Half) -> Callable[[Arrays, Arrays], Any]:
    import jax
    import jax.numpy as jnp

    def by_std(x: Any) -> Any:
        return (x - jnp.mean(x, axis=0)) / jnp.std(x, axis=0)

    def moments(x: Any) -> Any:
        mean, variance = jnp.mean(x, axis=0), jnp.var(x, axis=0)
        return (x - mean) / jnp.sqrt(variance)

    def two_passes(x: Any) -> Any:
        centered = x - jnp.mean(x, axis=0)
        return centered / jnp.sqrt(jnp.mean(centered**2, axis=0))

    def by_sums(x: Any) -> Any:
        mean = jnp.sum(x, axis=0) / dims["rows"]
        variance = jnp.sum(x**2, axis=0) / dims["rows"] - mean**2
        return (x - mean) / jnp.sqrt(variance)

    spellings: dict[str, Callable[..., Any]] = {
        "library": partial(jax.nn.standardize, axis=0, epsilon=0.0),
        "by_std": by_std,
        "moments": moments,
        "two_passes": two_passes,
        "by_sums": by_sums,
    }
    standardise = spellings[spelling]

    def loss(params: Arrays, batch: Arrays) -> Any:
        return jnp.mean(standardise(params["x"]) * batch["weights"])

    return loss


def on_torch(spelling: str, dims: Dims, half: Half) -> Callable[[Arrays, Arrays], Any]:
    import torch
    from torch.nn import functional

    def library(x: Any) -> Any:
        # torch refuses 0 for epsilon.
        return functional.batch_norm(x, None, None, training=True, eps=1e-12)

    def by_std(x: Any) -> Any:
        return (x - torch.mean(x, 0)) / torch.std(x, 0, correction=0)

    def moments(x: Any) -> Any:
        variance, mean = torch.var_mean(x, 0, correction=0)
        return (x - mean) / torch.sqrt(variance)

    def two_passes(x: Any) -> Any:
        centered = x - torch.mean(x, 0)
        return centered / torch.sqrt(torch.mean(centered**2, 0))

    def by_sums(x: Any) -> Any:
        mean = torch.sum(x, 0) / dims["rows"]
        variance = torch.sum(x**2, 0) / dims["rows"] - mean**2
        return (x - mean) / torch.sqrt(variance)

    spellings: dict[str, Callable[..., Any]] = {
        "library": library,
        "by_std": by_std,
        "moments": moments,
        "two_passes": two_passes,
        "by_sums": by_sums,
    }
    standardise = spellings[spelling]

    def loss(params: Arrays, batch: Arrays) -> Any:
        return torch.mean(standardise(params["x"]) * batch["weights"])

    return loss


def cost(dims: Dims) -> Cost:
    """The table and weights are read and the gradient is written once."""
    cells = dims["rows"] * dims["columns"]
    return Cost(bytes=12.0 * cells, operations=14.0 * cells)


SPELLINGS = {
    spelling: Program(
        summary=f"standardised columns and their gradient, {summary}",
        kind=Kind.GRADIENT,
        make=make,
        on_tapegrad=partial(on_tapegrad, spelling),
        on_jax=partial(on_jax, spelling),
        on_torch=partial(on_torch, spelling),
        sizes={
            "check": {"rows": 7, "columns": 5},
            "cpu": {"rows": 4000, "columns": 256},
            "cuda": {"rows": 16384, "columns": 4096},
        },
        cost=cost,
    )
    for spelling, summary in SUMMARIES.items()
}
