"""Complete a matrix of ratings from known entries: biases, factors and a decay by activity."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tapegrad_zoo.program import Arrays, Cost, Dims, Half, Kind, Optimizer, Program, Values

DECAY = 0.02


def make(rng: np.random.Generator, dims: Dims) -> tuple[Values, Values]:
    rows, columns, rank, known = (dims[k] for k in ("rows", "columns", "rank", "known"))
    params = {
        "row_factors": rng.standard_normal((rows, rank)) * rank**-0.25,
        "column_factors": rng.standard_normal((columns, rank)) * rank**-0.25,
        "row_bias": rng.standard_normal(rows) * 0.1,
        "column_bias": rng.standard_normal(columns) * 0.1,
        "mean": np.array(3.5),
    }
    batch = {
        "row": rng.integers(0, rows, known),
        "column": rng.integers(0, columns, known),
        "rating": rng.uniform(1.0, 5.0, known),
    }
    return params, batch


def on_tapegrad(dims: Dims, half: Half) -> Callable[[Arrays, Arrays], Any]:
    import tapegrad.numpy as np

    def loss(p: Arrays, batch: Arrays) -> Any:
        row, column = batch["row"], batch["column"]
        u = np.take(p["row_factors"], row, axis=0)
        v = np.take(p["column_factors"], column, axis=0)
        a, b = p["row_bias"][row], p["column_bias"][column]
        predicted = p["mean"] + a + b + np.sum(u * v, axis=1)
        error = predicted - batch["rating"]
        size = np.sum(u**2, axis=1) + np.sum(v**2, axis=1) + a**2 + b**2
        return np.mean(error**2) + DECAY * np.mean(size)

    return loss


def on_jax(dims: Dims, half: Half) -> Callable[[Arrays, Arrays], Any]:
    import jax.numpy as jnp

    def loss(p: Arrays, batch: Arrays) -> Any:
        row, column = batch["row"], batch["column"]
        u = p["row_factors"].at[row].get(mode="promise_in_bounds")
        v = p["column_factors"].at[column].get(mode="promise_in_bounds")
        a = p["row_bias"].at[row].get(mode="promise_in_bounds")
        b = p["column_bias"].at[column].get(mode="promise_in_bounds")
        error = p["mean"] + a + b + jnp.einsum("nk,nk->n", u, v) - batch["rating"]
        size = jnp.sum(u**2 + v**2, 1) + a**2 + b**2
        return jnp.mean(error**2 + DECAY * size)

    return loss


def on_torch(dims: Dims, half: Half) -> Callable[[Arrays, Arrays], Any]:
    import torch
    from torch.nn import functional

    def loss(p: Arrays, batch: Arrays) -> Any:
        u = functional.embedding(batch["row"], p["row_factors"])
        v = functional.embedding(batch["column"], p["column_factors"])
        a = p["row_bias"].index_select(0, batch["row"])
        b = p["column_bias"].index_select(0, batch["column"])
        error = p["mean"] + a + b + torch.linalg.vecdot(u, v) - batch["rating"]
        size = torch.sum(u**2 + v**2, 1) + a**2 + b**2
        return torch.mean(error**2 + DECAY * size)

    return loss


def cost(dims: Dims) -> Cost:
    """Each known entry reads two rows; momentum reads and writes two arrays of each factor."""
    factors = (dims["rows"] + dims["columns"]) * (dims["rank"] + 1)
    touched = 2 * dims["known"] * (dims["rank"] + 1)
    return Cost(bytes=20.0 * factors + 12.0 * dims["known"], operations=7.0 * touched)


PROGRAM = Program(
    summary="matrix completion: 2 million known entries, rank 64, biases, momentum",
    kind=Kind.TRAINING,
    make=make,
    on_tapegrad=on_tapegrad,
    on_jax=on_jax,
    on_torch=on_torch,
    sizes={
        "check": {"rows": 7, "columns": 9, "rank": 3, "known": 29},
        "cpu": {"rows": 6000, "columns": 3700, "rank": 16, "known": 200_000},
        "cuda": {"rows": 138_000, "columns": 27_000, "rank": 64, "known": 2_000_000},
    },
    cost=cost,
    optimizer=Optimizer("momentum", 0.5),
)
