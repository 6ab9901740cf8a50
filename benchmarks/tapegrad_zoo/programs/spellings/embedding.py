"""Rows of a table picked by tokens, weighted and averaged; gradient by the table."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from tapegrad_zoo.program import Arrays, Cost, Dims, Half, Kind, Program, Values

SUMMARIES = {
    "library": "by the library's function",
    "take": "with take or gather along the first axis",
    "index": "with the tokens as an index",
    "one_hot": "as a product with one-hot vectors",
}


def make(rng: np.random.Generator, dims: Dims) -> tuple[Values, Values]:
    table = 0.5 + rng.standard_normal((dims["vocabulary"], dims["width"]))
    batch = {
        "tokens": rng.integers(0, dims["vocabulary"], dims["tokens"]),
        "weights": 0.5 + rng.standard_normal((dims["tokens"], dims["width"])),
    }
    return {"table": table}, batch


def on_tapegrad(spelling: str, dims: Dims, half: Half) -> Callable[[Arrays, Arrays], Any]:
    import tapegrad as tf

    def one_hot(table: Any, tokens: Any) -> Any:
        return tf.one_hot(tokens, dims["vocabulary"], dtype=table.dtype) @ table

    spellings: dict[str, Callable[..., Any]] = {
        "library": tf.nn.embedding_lookup,
        "take": partial(tf.gather, axis=0),
        "index": lambda table, tokens: table[tokens],
        "one_hot": one_hot,
    }
    embed = spellings[spelling]

    def loss(params: Arrays, batch: Arrays) -> Any:
        result = embed(half(params["table"]), batch["tokens"])
        return tf.reduce_mean(tf.cast(result, batch["weights"].dtype) * batch["weights"])

    return loss


def on_jax(spelling: str, dims: Dims, half: Half) -> Callable[[Arrays, Arrays], Any]:
    import jax
    import jax.numpy as jnp

    def one_hot(table: Any, tokens: Any) -> Any:
        return jax.nn.one_hot(tokens, dims["vocabulary"], dtype=table.dtype) @ table

    spellings: dict[str, Callable[..., Any]] = {
        "library": partial(jnp.take, axis=0, mode="clip"),
        "take": partial(jnp.take, axis=0),
        "index": lambda table, tokens: table[tokens],
        "one_hot": one_hot,
    }
    embed = spellings[spelling]

    def loss(params: Arrays, batch: Arrays) -> Any:
        result = embed(half(params["table"]), batch["tokens"])
        return jnp.mean(result.astype(batch["weights"].dtype) * batch["weights"])

    return loss


def on_torch(spelling: str, dims: Dims, half: Half) -> Callable[[Arrays, Arrays], Any]:
    import torch
    from torch.nn import functional

    def one_hot(table: Any, tokens: Any) -> Any:
        return functional.one_hot(tokens, dims["vocabulary"]).to(table.dtype) @ table

    spellings: dict[str, Callable[..., Any]] = {
        "library": lambda table, tokens: functional.embedding(tokens, table),
        "take": lambda table, tokens: torch.index_select(table, 0, tokens),
        "index": lambda table, tokens: table[tokens],
        "one_hot": one_hot,
    }
    embed = spellings[spelling]

    def loss(params: Arrays, batch: Arrays) -> Any:
        result = embed(half(params["table"]), batch["tokens"])
        return torch.mean(result.to(batch["weights"].dtype) * batch["weights"])

    return loss


def cost(dims: Dims) -> Cost:
    """The picked rows and weights are read and the gradient of the whole table is written once."""
    picked = dims["tokens"] * dims["width"]
    table = dims["vocabulary"] * dims["width"]
    return Cost(bytes=8.0 * picked + 4.0 * table, operations=3.0 * picked)


SPELLINGS = {
    spelling: Program(
        summary=f"rows of an embedding table and their gradient, {summary}",
        kind=Kind.GRADIENT,
        make=make,
        on_tapegrad=partial(on_tapegrad, spelling),
        on_jax=partial(on_jax, spelling),
        on_torch=partial(on_torch, spelling),
        sizes={
            "check": {"vocabulary": 11, "tokens": 7, "width": 5},
            "cpu": {"vocabulary": 4000, "tokens": 2048, "width": 128},
            "cuda": {"vocabulary": 32768, "tokens": 8192, "width": 1024},
        },
        cost=cost,
        dtypes={"cpu": "float32", "cuda": "bfloat16"},
    )
    for spelling, summary in SUMMARIES.items()
}
