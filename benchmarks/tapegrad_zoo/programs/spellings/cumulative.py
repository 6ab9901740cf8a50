"""Cumulative sums over time, weighted and averaged; gradient by the summands."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from tapegrad_zoo.program import Arrays, Cost, Dims, Half, Kind, Program, Values

SUMMARIES = {
    "library": "by the library's function",
    "triangular": "as a product with a triangular matrix",
    "loop": "step by step in a loop",
    "doubling": "by sums over distances that double",
}


def make(rng: np.random.Generator, dims: Dims) -> tuple[Values, Values]:
    shape = dims["times"], dims["columns"]
    return {"x": 0.5 + rng.standard_normal(shape)}, {"weights": 0.5 + rng.standard_normal(shape)}


def on_tapegrad(spelling: str, dims: Dims, half: Half) -> Callable[[Arrays, Arrays], Any]:
    import tapegrad.numpy as np

    times = dims["times"]

    def triangular(x: Any) -> Any:
        return np.tril(np.ones((times, times), dtype=x.dtype)) @ x

    def loop(x: Any) -> Any:
        total = x[0]
        totals = [total]
        for t in range(1, times):
            total = total + x[t]
            totals.append(total)
        return np.stack(totals)

    def doubling(x: Any) -> Any:
        step = 1
        while step < times:
            x = x + np.concatenate([np.zeros_like(x[:step]), x[:-step]])
            step *= 2
        return x

    spellings: dict[str, Callable[..., Any]] = {
        "library": partial(np.cumsum, axis=0),
        "triangular": triangular,
        "loop": loop,
        "doubling": doubling,
    }
    cumulative = spellings[spelling]

    def loss(params: Arrays, batch: Arrays) -> Any:
        return np.mean(cumulative(params["x"]) * batch["weights"])

    return loss


def on_jax(spelling: str, dims: Dims, half: Half) -> Callable[[Arrays, Arrays], Any]:
    import jax
    import jax.numpy as jnp

    times = dims["times"]

    def triangular(x: Any) -> Any:
        return jnp.tril(jnp.ones((times, times), x.dtype)) @ x

    def loop(x: Any) -> Any:
        def step(total: Any, row: Any) -> Any:
            return total + row, total + row

        return jax.lax.scan(step, jnp.zeros_like(x[0]), x)[1]

    def doubling(x: Any) -> Any:
        step = 1
        while step < times:
            x = x + jnp.concatenate([jnp.zeros_like(x[:step]), x[:-step]])
            step *= 2
        return x

    spellings: dict[str, Callable[..., Any]] = {
        "library": partial(jnp.cumsum, axis=0),
        "triangular": triangular,
        "loop": loop,
        "doubling": doubling,
    }
    cumulative = spellings[spelling]

    def loss(params: Arrays, batch: Arrays) -> Any:
        return jnp.mean(cumulative(params["x"]) * batch["weights"])

    return loss


def on_torch(spelling: str, dims: Dims, half: Half) -> Callable[[Arrays, Arrays], Any]:
    import torch

    times = dims["times"]

    def triangular(x: Any) -> Any:
        return torch.tril(torch.ones(times, times, dtype=x.dtype, device=x.device)) @ x

    def loop(x: Any) -> Any:
        first, *rows = x.unbind()
        totals = [first]
        for row in rows:
            totals.append(totals[-1] + row)
        return torch.stack(totals)

    def doubling(x: Any) -> Any:
        step = 1
        while step < times:
            x = x + torch.cat([torch.zeros_like(x[:step]), x[:-step]])
            step *= 2
        return x

    spellings: dict[str, Callable[..., Any]] = {
        "library": partial(torch.cumsum, dim=0),
        "triangular": triangular,
        "loop": loop,
        "doubling": doubling,
    }
    cumulative = spellings[spelling]

    def loss(params: Arrays, batch: Arrays) -> Any:
        return torch.mean(cumulative(params["x"]) * batch["weights"])

    return loss


def cost(dims: Dims) -> Cost:
    """The summands and weights are read and the gradient is written once."""
    cells = dims["times"] * dims["columns"]
    return Cost(bytes=12.0 * cells, operations=4.0 * cells)


SPELLINGS = {
    spelling: Program(
        summary=f"cumulative sums and their gradient, {summary}",
        kind=Kind.GRADIENT,
        make=make,
        on_tapegrad=partial(on_tapegrad, spelling),
        on_jax=partial(on_jax, spelling),
        on_torch=partial(on_torch, spelling),
        sizes={
            "check": {"times": 7, "columns": 5},
            "cpu": {"times": 64, "columns": 16384},
            "cuda": {"times": 128, "columns": 131072},
        },
        cost=cost,
    )
    for spelling, summary in SUMMARIES.items()
}
