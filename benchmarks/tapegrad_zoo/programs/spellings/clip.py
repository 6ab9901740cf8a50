"""Values kept between two limits, weighted and averaged; gradient by the values."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from tapegrad_zoo.program import Arrays, Cost, Dims, Half, Kind, Program, Values

LOW, HIGH = -0.5, 0.75
SUMMARIES = {
    "library": "by the library's function",
    "minimum_maximum": "with minimum and maximum",
    "where": "with two comparisons",
    "relu_differences": "as a difference of rectifiers",
    "absolute_values": "as a difference of absolute values",
}


def make(rng: np.random.Generator, dims: Dims) -> tuple[Values, Values]:
    shape = dims["rows"], dims["columns"]
    return {"x": rng.standard_normal(shape)}, {"weights": 0.5 + rng.standard_normal(shape)}


def on_tapegrad(spelling: str, dims: Dims, half: Half) -> Callable[[Arrays, Arrays], Any]:
    import tapegrad.numpy as np
    from tapegrad import nn

    def minimum_maximum(x: Any) -> Any:
        return np.minimum(np.maximum(x, LOW), HIGH)

    def where(x: Any) -> Any:
        return np.where(x < LOW, LOW, np.where(x > HIGH, HIGH, x))

    def relu_differences(x: Any) -> Any:
        return LOW + nn.relu(x - LOW) - nn.relu(x - HIGH)

    def absolute_values(x: Any) -> Any:
        return 0.5 * (np.abs(x - LOW) - np.abs(x - HIGH) + LOW + HIGH)

    spellings: dict[str, Callable[..., Any]] = {
        "library": lambda x: np.clip(x, LOW, HIGH),
        "minimum_maximum": minimum_maximum,
        "where": where,
        "relu_differences": relu_differences,
        "absolute_values": absolute_values,
    }
    clip = spellings[spelling]

    def loss(params: Arrays, batch: Arrays) -> Any:
        return np.mean(clip(params["x"]) * batch["weights"])

    return loss


def on_jax(spelling: str, dims: Dims, half: Half) -> Callable[[Arrays, Arrays], Any]:
    import jax
    import jax.numpy as jnp

    def minimum_maximum(x: Any) -> Any:
        return jnp.minimum(jnp.maximum(x, LOW), HIGH)

    def where(x: Any) -> Any:
        return jnp.where(x < LOW, LOW, jnp.where(x > HIGH, HIGH, x))

    def relu_differences(x: Any) -> Any:
        return LOW + jax.nn.relu(x - LOW) - jax.nn.relu(x - HIGH)

    def absolute_values(x: Any) -> Any:
        return 0.5 * (jnp.abs(x - LOW) - jnp.abs(x - HIGH) + LOW + HIGH)

    spellings: dict[str, Callable[..., Any]] = {
        "library": lambda x: jnp.clip(x, LOW, HIGH),
        "minimum_maximum": minimum_maximum,
        "where": where,
        "relu_differences": relu_differences,
        "absolute_values": absolute_values,
    }
    clip = spellings[spelling]

    def loss(params: Arrays, batch: Arrays) -> Any:
        return jnp.mean(clip(params["x"]) * batch["weights"])

    return loss


def on_torch(spelling: str, dims: Dims, half: Half) -> Callable[[Arrays, Arrays], Any]:
    import torch

    def minimum_maximum(x: Any) -> Any:
        return torch.clamp_max(torch.clamp_min(x, LOW), HIGH)

    def where(x: Any) -> Any:
        return torch.where(x < LOW, LOW, torch.where(x > HIGH, HIGH, x))

    def relu_differences(x: Any) -> Any:
        return LOW + torch.relu(x - LOW) - torch.relu(x - HIGH)

    def absolute_values(x: Any) -> Any:
        return 0.5 * (torch.abs(x - LOW) - torch.abs(x - HIGH) + LOW + HIGH)

    spellings: dict[str, Callable[..., Any]] = {
        "library": lambda x: torch.clamp(x, LOW, HIGH),
        "minimum_maximum": minimum_maximum,
        "where": where,
        "relu_differences": relu_differences,
        "absolute_values": absolute_values,
    }
    clip = spellings[spelling]

    def loss(params: Arrays, batch: Arrays) -> Any:
        return torch.mean(clip(params["x"]) * batch["weights"])

    return loss


def cost(dims: Dims) -> Cost:
    """The values and weights are read and the gradient is written once."""
    cells = dims["rows"] * dims["columns"]
    return Cost(bytes=12.0 * cells, operations=6.0 * cells)


SPELLINGS = {
    spelling: Program(
        summary=f"clipped values and their gradient, {summary}",
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
