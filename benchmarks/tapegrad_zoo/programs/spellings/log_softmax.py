"""The logarithm of the softmax of rows, weighted and averaged; gradient by the scores."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from tapegrad_zoo.program import Arrays, Cost, Dims, Half, Kind, Program, Values

SUMMARIES = {
    "library": "by the library's function",
    "by_hand": "by hand: maximum, exp, sum, log",
    "constant_shift": "by hand, with no gradient through the maximum",
    "by_logsumexp": "scores minus their logsumexp",
    "log_of_softmax": "the logarithm of the library's softmax",
}


def make(rng: np.random.Generator, dims: Dims) -> tuple[Values, Values]:
    shape = dims["rows"], dims["columns"]
    return {"scores": rng.standard_normal(shape)}, {"weights": 0.5 + rng.standard_normal(shape)}


def on_tapegrad(spelling: str, dims: Dims, half: Half) -> Callable[[Arrays, Arrays], Any]:
    import tapegrad as tf

    def by_hand(x: Any) -> Any:
        shifted = x - tf.reduce_max(x, axis=-1, keepdims=True)
        return shifted - tf.math.log(tf.reduce_sum(tf.exp(shifted), axis=-1, keepdims=True))

    def constant_shift(x: Any) -> Any:
        shifted = x - tf.stop_gradient(tf.reduce_max(x, axis=-1, keepdims=True))
        return shifted - tf.math.log(tf.reduce_sum(tf.exp(shifted), axis=-1, keepdims=True))

    spellings: dict[str, Callable[..., Any]] = {
        "library": tf.nn.log_softmax,
        "by_hand": by_hand,
        "constant_shift": constant_shift,
        "by_logsumexp": lambda x: x - tf.reduce_logsumexp(x, axis=-1, keepdims=True),
        "log_of_softmax": lambda x: tf.math.log(tf.nn.softmax(x)),
    }
    log_softmax = spellings[spelling]

    def loss(params: Arrays, batch: Arrays) -> Any:
        result = log_softmax(half(params["scores"]))
        return tf.reduce_mean(tf.cast(result, batch["weights"].dtype) * batch["weights"])

    return loss


def on_jax(spelling: str, dims: Dims, half: Half) -> Callable[[Arrays, Arrays], Any]:
    import jax
    import jax.numpy as jnp

    def by_hand(x: Any) -> Any:
        shifted = x - jnp.max(x, axis=-1, keepdims=True)
        return shifted - jnp.log(jnp.sum(jnp.exp(shifted), axis=-1, keepdims=True))

    def constant_shift(x: Any) -> Any:
        shifted = x - jax.lax.stop_gradient(jnp.max(x, axis=-1, keepdims=True))
        return shifted - jnp.log(jnp.sum(jnp.exp(shifted), axis=-1, keepdims=True))

    spellings: dict[str, Callable[..., Any]] = {
        "library": jax.nn.log_softmax,
        "by_hand": by_hand,
        "constant_shift": constant_shift,
        "by_logsumexp": lambda x: x - jax.nn.logsumexp(x, axis=-1, keepdims=True),
        "log_of_softmax": lambda x: jnp.log(jax.nn.softmax(x)),
    }
    log_softmax = spellings[spelling]

    def loss(params: Arrays, batch: Arrays) -> Any:
        result = log_softmax(half(params["scores"]))
        return jnp.mean(result.astype(batch["weights"].dtype) * batch["weights"])

    return loss


def on_torch(spelling: str, dims: Dims, half: Half) -> Callable[[Arrays, Arrays], Any]:
    import torch

    def by_hand(x: Any) -> Any:
        shifted = x - torch.amax(x, -1, keepdim=True)
        return shifted - torch.log(torch.sum(torch.exp(shifted), -1, keepdim=True))

    def constant_shift(x: Any) -> Any:
        shifted = x - torch.amax(x, -1, keepdim=True).detach()
        return shifted - torch.log(torch.sum(torch.exp(shifted), -1, keepdim=True))

    spellings: dict[str, Callable[..., Any]] = {
        "library": partial(torch.log_softmax, dim=-1),
        "by_hand": by_hand,
        "constant_shift": constant_shift,
        "by_logsumexp": lambda x: x - torch.logsumexp(x, -1, keepdim=True),
        "log_of_softmax": lambda x: torch.log(torch.softmax(x, -1)),
    }
    log_softmax = spellings[spelling]

    def loss(params: Arrays, batch: Arrays) -> Any:
        result = log_softmax(half(params["scores"]))
        return torch.mean(result.to(batch["weights"].dtype) * batch["weights"])

    return loss


def cost(dims: Dims) -> Cost:
    """Scores and weights are read and the gradient is written once."""
    cells = dims["rows"] * dims["columns"]
    return Cost(bytes=12.0 * cells, operations=10.0 * cells)


SPELLINGS = {
    spelling: Program(
        summary=f"log-softmax and its gradient, {summary}",
        kind=Kind.GRADIENT,
        make=make,
        on_tapegrad=partial(on_tapegrad, spelling),
        on_jax=partial(on_jax, spelling),
        on_torch=partial(on_torch, spelling),
        sizes={
            "check": {"rows": 3, "columns": 11},
            "cpu": {"rows": 1024, "columns": 1000},
            "cuda": {"rows": 16384, "columns": 4096},
        },
        cost=cost,
        dtypes={"cpu": "float32", "cuda": "bfloat16"},
    )
    for spelling, summary in SUMMARIES.items()
}
