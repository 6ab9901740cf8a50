"""The variances of rows, weighted and averaged; gradient by the rows."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from tapegrad_zoo.program import Arrays, Cost, Dims, Half, Kind, Program, Values

SUMMARIES = {
    "library": "by the library's function",
    "mean_of_squares": "as the mean of squares minus the squared mean",
    "two_passes": "as the mean of squared differences",
    "sum_over_n": "as the sum of squared differences over their number",
    "shifted": "as a mean of squares after subtracting the first value",
}


def make(rng: np.random.Generator, dims: Dims) -> tuple[Values, Values]:
    params = {"x": 0.5 + rng.standard_normal((dims["rows"], dims["columns"]))}
    return params, {"weights": 0.5 + rng.standard_normal(dims["rows"])}


def on_tapegrad(spelling: str, dims: Dims, half: Half) -> Callable[[Arrays, Arrays], Any]:
    import tapegrad.numpy as np

    def mean_of_squares(x: Any) -> Any:
        return np.mean(x**2, axis=-1) - np.mean(x, axis=-1) ** 2

    def two_passes(x: Any) -> Any:
        return np.mean((x - np.mean(x, axis=-1, keepdims=True)) ** 2, axis=-1)

    def sum_over_n(x: Any) -> Any:
        centered = x - np.sum(x, axis=-1, keepdims=True) / dims["columns"]
        return np.sum(centered * centered, axis=-1) / dims["columns"]

    def shifted(x: Any) -> Any:
        y = x - x[:, :1]
        return np.mean(y * y, axis=-1) - np.mean(y, axis=-1) ** 2

    spellings: dict[str, Callable[..., Any]] = {
        "library": partial(np.var, axis=-1),
        "mean_of_squares": mean_of_squares,
        "two_passes": two_passes,
        "sum_over_n": sum_over_n,
        "shifted": shifted,
    }
    variance = spellings[spelling]

    def loss(params: Arrays, batch: Arrays) -> Any:
        return np.mean(variance(params["x"]) * batch["weights"])

    return loss


def on_jax(spelling: str, dims: Dims, half: Half) -> Callable[[Arrays, Arrays], Any]:
    import jax.numpy as jnp

    def mean_of_squares(x: Any) -> Any:
        return jnp.mean(x**2, axis=-1) - jnp.mean(x, axis=-1) ** 2

    def two_passes(x: Any) -> Any:
        return jnp.mean((x - jnp.mean(x, axis=-1, keepdims=True)) ** 2, axis=-1)

    def sum_over_n(x: Any) -> Any:
        centered = x - jnp.sum(x, axis=-1, keepdims=True) / dims["columns"]
        return jnp.sum(centered * centered, axis=-1) / dims["columns"]

    def shifted(x: Any) -> Any:
        y = x - x[:, :1]
        return jnp.mean(y * y, axis=-1) - jnp.mean(y, axis=-1) ** 2

    spellings: dict[str, Callable[..., Any]] = {
        "library": partial(jnp.var, axis=-1),
        "mean_of_squares": mean_of_squares,
        "two_passes": two_passes,
        "sum_over_n": sum_over_n,
        "shifted": shifted,
    }
    variance = spellings[spelling]

    def loss(params: Arrays, batch: Arrays) -> Any:
        return jnp.mean(variance(params["x"]) * batch["weights"])

    return loss


def on_torch(spelling: str, dims: Dims, half: Half) -> Callable[[Arrays, Arrays], Any]:
    import torch

    def mean_of_squares(x: Any) -> Any:
        return torch.mean(x**2, -1) - torch.mean(x, -1) ** 2

    def two_passes(x: Any) -> Any:
        return torch.mean((x - torch.mean(x, -1, keepdim=True)) ** 2, -1)

    def sum_over_n(x: Any) -> Any:
        centered = x - torch.sum(x, -1, keepdim=True) / dims["columns"]
        return torch.sum(centered * centered, -1) / dims["columns"]

    def shifted(x: Any) -> Any:
        y = x - x[:, :1]
        return torch.mean(y * y, -1) - torch.mean(y, -1) ** 2

    spellings: dict[str, Callable[..., Any]] = {
        "library": partial(torch.var, dim=-1, correction=0),
        "mean_of_squares": mean_of_squares,
        "two_passes": two_passes,
        "sum_over_n": sum_over_n,
        "shifted": shifted,
    }
    variance = spellings[spelling]

    def loss(params: Arrays, batch: Arrays) -> Any:
        return torch.mean(variance(params["x"]) * batch["weights"])

    return loss


def cost(dims: Dims) -> Cost:
    """The rows are read and their gradient is written once."""
    cells = dims["rows"] * dims["columns"]
    return Cost(bytes=8.0 * cells, operations=6.0 * cells)


SPELLINGS = {
    spelling: Program(
        summary=f"variances of rows and their gradient, {summary}",
        kind=Kind.GRADIENT,
        make=make,
        on_tapegrad=partial(on_tapegrad, spelling),
        on_jax=partial(on_jax, spelling),
        on_torch=partial(on_torch, spelling),
        sizes={
            "check": {"rows": 5, "columns": 7},
            "cpu": {"rows": 2048, "columns": 1000},
            "cuda": {"rows": 16384, "columns": 4096},
        },
        cost=cost,
    )
    for spelling, summary in SUMMARIES.items()
}
