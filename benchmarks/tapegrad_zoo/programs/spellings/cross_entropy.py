"""The mean cross entropy of rows of logits with class indices; gradient by the logits."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from tapegrad_zoo.program import Arrays, Cost, Dims, Half, Kind, Program, Values

SUMMARIES = {
    "library": "by the library's function",
    "in_single": "by the library's function, on logits cast to float32",
    "by_take_along_axis": "log_softmax and take_along_axis",
    "by_index": "log_softmax and an index per row",
    "by_logsumexp": "logsumexp minus the picked logit",
    "by_one_hot": "one-hot vectors times log_softmax",
    "by_hand": "by hand: maximum, exp, sum, log",
}


def make(rng: np.random.Generator, dims: Dims) -> tuple[Values, Values]:
    params = {"logits": rng.standard_normal((dims["rows"], dims["classes"]))}
    return params, {"labels": rng.integers(0, dims["classes"], dims["rows"])}


def on_tapegrad(spelling: str, dims: Dims, half: Half) -> Callable[[Arrays, Arrays], Any]:
    import tapegrad.numpy as np
    from tapegrad import nn, one_hot
    from tapegrad.scipy import special

    def library(x: Any, labels: Any, dtype: Any) -> Any:
        return nn.sparse_softmax_cross_entropy_with_logits(labels, x)

    def in_single(x: Any, labels: Any, dtype: Any) -> Any:
        return nn.sparse_softmax_cross_entropy_with_logits(labels, x.astype(dtype))

    def by_take_along_axis(x: Any, labels: Any, dtype: Any) -> Any:
        return -np.take_along_axis(nn.log_softmax(x), labels[:, None], axis=1)[:, 0]

    def by_index(x: Any, labels: Any, dtype: Any) -> Any:
        return -nn.log_softmax(x)[np.arange(dims["rows"]), labels]

    def by_logsumexp(x: Any, labels: Any, dtype: Any) -> Any:
        picked = np.take_along_axis(x, labels[:, None], axis=1)[:, 0]
        return special.logsumexp(x, axis=-1) - picked

    def by_one_hot(x: Any, labels: Any, dtype: Any) -> Any:
        chosen = one_hot(labels, dims["classes"], dtype=x.dtype)
        return -np.sum(chosen * nn.log_softmax(x), axis=-1)

    def by_hand(x: Any, labels: Any, dtype: Any) -> Any:
        shifted = x - np.max(x, axis=-1, keepdims=True)
        picked = np.take_along_axis(shifted, labels[:, None], axis=1)[:, 0]
        return np.log(np.sum(np.exp(shifted), axis=-1)) - picked

    spellings: dict[str, Callable[..., Any]] = {
        "library": library,
        "in_single": in_single,
        "by_take_along_axis": by_take_along_axis,
        "by_index": by_index,
        "by_logsumexp": by_logsumexp,
        "by_one_hot": by_one_hot,
        "by_hand": by_hand,
    }
    cross_entropy = spellings[spelling]

    def loss(params: Arrays, batch: Arrays) -> Any:
        logits = params["logits"]
        losses = cross_entropy(half(logits), batch["labels"], logits.dtype)
        return np.mean(losses.astype(logits.dtype))

    return loss


def on_jax(spelling: str, dims: Dims, half: Half) -> Callable[[Arrays, Arrays], Any]:
    import jax
    import jax.numpy as jnp

    def library(x: Any, labels: Any, dtype: Any) -> Any:  # JAX has no function of this kind
        chosen = jax.nn.one_hot(labels, dims["classes"], dtype=x.dtype)
        return -jnp.sum(chosen * jax.nn.log_softmax(x), axis=-1)

    def in_single(x: Any, labels: Any, dtype: Any) -> Any:
        return library(x.astype(dtype), labels, dtype)

    def by_take_along_axis(x: Any, labels: Any, dtype: Any) -> Any:
        return -jnp.take_along_axis(jax.nn.log_softmax(x), labels[:, None], axis=1)[:, 0]

    def by_index(x: Any, labels: Any, dtype: Any) -> Any:
        return -jax.nn.log_softmax(x)[jnp.arange(dims["rows"]), labels]

    def by_logsumexp(x: Any, labels: Any, dtype: Any) -> Any:
        picked = jnp.take_along_axis(x, labels[:, None], axis=1)[:, 0]
        return jax.nn.logsumexp(x, axis=-1) - picked

    def by_one_hot(x: Any, labels: Any, dtype: Any) -> Any:
        chosen = jax.nn.one_hot(labels, dims["classes"], dtype=x.dtype)
        return -jnp.sum(chosen * jax.nn.log_softmax(x), axis=-1)

    def by_hand(x: Any, labels: Any, dtype: Any) -> Any:
        shifted = x - jnp.max(x, axis=-1, keepdims=True)
        picked = jnp.take_along_axis(shifted, labels[:, None], axis=1)[:, 0]
        return jnp.log(jnp.sum(jnp.exp(shifted), axis=-1)) - picked

    spellings: dict[str, Callable[..., Any]] = {
        "library": library,
        "in_single": in_single,
        "by_take_along_axis": by_take_along_axis,
        "by_index": by_index,
        "by_logsumexp": by_logsumexp,
        "by_one_hot": by_one_hot,
        "by_hand": by_hand,
    }
    cross_entropy = spellings[spelling]

    def loss(params: Arrays, batch: Arrays) -> Any:
        logits = params["logits"]
        losses = cross_entropy(half(logits), batch["labels"], logits.dtype)
        return jnp.mean(losses.astype(logits.dtype))

    return loss


def on_torch(spelling: str, dims: Dims, half: Half) -> Callable[[Arrays, Arrays], Any]:
    import torch
    from torch.nn import functional

    def library(x: Any, labels: Any, dtype: Any) -> Any:
        return functional.cross_entropy(x, labels, reduction="none")

    def in_single(x: Any, labels: Any, dtype: Any) -> Any:
        return functional.cross_entropy(x.to(dtype), labels, reduction="none")

    def by_take_along_axis(x: Any, labels: Any, dtype: Any) -> Any:
        return -torch.take_along_dim(torch.log_softmax(x, -1), labels[:, None], 1)[:, 0]

    def by_index(x: Any, labels: Any, dtype: Any) -> Any:
        return -torch.log_softmax(x, -1)[torch.arange(dims["rows"], device=x.device), labels]

    def by_logsumexp(x: Any, labels: Any, dtype: Any) -> Any:
        return torch.logsumexp(x, -1) - torch.take_along_dim(x, labels[:, None], 1)[:, 0]

    def by_one_hot(x: Any, labels: Any, dtype: Any) -> Any:
        chosen = functional.one_hot(labels, dims["classes"]).to(x.dtype)
        return -torch.sum(chosen * torch.log_softmax(x, -1), -1)

    def by_hand(x: Any, labels: Any, dtype: Any) -> Any:
        shifted = x - torch.amax(x, -1, keepdim=True)
        picked = torch.take_along_dim(shifted, labels[:, None], 1)[:, 0]
        return torch.log(torch.sum(torch.exp(shifted), -1)) - picked

    spellings: dict[str, Callable[..., Any]] = {
        "library": library,
        "in_single": in_single,
        "by_take_along_axis": by_take_along_axis,
        "by_index": by_index,
        "by_logsumexp": by_logsumexp,
        "by_one_hot": by_one_hot,
        "by_hand": by_hand,
    }
    cross_entropy = spellings[spelling]

    def loss(params: Arrays, batch: Arrays) -> Any:
        logits = params["logits"]
        losses = cross_entropy(half(logits), batch["labels"], logits.dtype)
        return torch.mean(losses.to(logits.dtype))

    return loss


def cost(dims: Dims) -> Cost:
    """The logits are read and their gradient is written once."""
    cells = dims["rows"] * dims["classes"]
    return Cost(bytes=8.0 * cells, operations=8.0 * cells)


SPELLINGS = {
    spelling: Program(
        summary=f"cross entropy with class indices and its gradient, {summary}",
        kind=Kind.GRADIENT,
        make=make,
        on_tapegrad=partial(on_tapegrad, spelling),
        on_jax=partial(on_jax, spelling),
        on_torch=partial(on_torch, spelling),
        sizes={
            "check": {"rows": 5, "classes": 9},
            "cpu": {"rows": 512, "classes": 2000},
            "cuda": {"rows": 8192, "classes": 32768},
        },
        cost=cost,
        dtypes={"cpu": "float32", "cuda": "bfloat16"},
    )
    for spelling, summary in SUMMARIES.items()
}
