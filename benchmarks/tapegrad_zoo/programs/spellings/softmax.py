"""The softmax of rows of scores, weighted and averaged; gradient by the scores."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from tapegrad_zoo.program import Arrays, Cost, Dims, Half, Kind, Program, Values

SUMMARIES = {
    "library": "by the library's function",
    "by_hand": "by hand: maximum, exp, sum, division",
    "constant_shift": "by hand, with no gradient through the maximum",
    "plain": "exp divided by its sum, without a maximum",
    "by_logsumexp": "exp of the scores minus their logsumexp",
}


def make(rng: np.random.Generator, dims: Dims) -> tuple[Values, Values]:
    shape = dims["rows"], dims["columns"]
    return {"scores": rng.standard_normal(shape)}, {"weights": 0.5 + rng.standard_normal(shape)}


def on_tapegrad(spelling: str, dims: Dims, half: Half) -> Callable[[Arrays, Arrays], Any]:
    import tapegrad.numpy as np
    from tapegrad import stop_gradient
    from tapegrad.scipy import special

    def by_hand(x: Any) -> Any:
        e = np.exp(x - np.max(x, axis=-1, keepdims=True))
        return e / np.sum(e, axis=-1, keepdims=True)

    def constant_shift(x: Any) -> Any:
        e = np.exp(x - stop_gradient(np.max(x, axis=-1, keepdims=True)))
        return e / np.sum(e, axis=-1, keepdims=True)

    def plain(x: Any) -> Any:
        return np.exp(x) / np.sum(np.exp(x), axis=-1, keepdims=True)

    spellings: dict[str, Callable[..., Any]] = {
        "library": partial(special.softmax, axis=-1),
        "by_hand": by_hand,
        "constant_shift": constant_shift,
        "plain": plain,
        "by_logsumexp": lambda x: np.exp(x - special.logsumexp(x, axis=-1, keepdims=True)),
    }
    softmax = spellings[spelling]

    def loss(params: Arrays, batch: Arrays) -> Any:
        result = softmax(half(params["scores"]))
        return np.mean(result.astype(batch["weights"].dtype) * batch["weights"])

    return loss


def on_jax(spelling: str, dims: Dims, half: Half) -> Callable[[Arrays, Arrays], Any]:
    import jax
    import jax.numpy as jnp

    def by_hand(x: Any) -> Any:
        e = jnp.exp(x - jnp.max(x, axis=-1, keepdims=True))
        return e / jnp.sum(e, axis=-1, keepdims=True)

    def constant_shift(x: Any) -> Any:
        e = jnp.exp(x - jax.lax.stop_gradient(jnp.max(x, axis=-1, keepdims=True)))
        return e / jnp.sum(e, axis=-1, keepdims=True)

    def plain(x: Any) -> Any:
        return jnp.exp(x) / jnp.sum(jnp.exp(x), axis=-1, keepdims=True)

    spellings: dict[str, Callable[..., Any]] = {
        "library": jax.nn.softmax,
        "by_hand": by_hand,
        "constant_shift": constant_shift,
        "plain": plain,
        "by_logsumexp": lambda x: jnp.exp(x - jax.nn.logsumexp(x, axis=-1, keepdims=True)),
    }
    softmax = spellings[spelling]

    def loss(params: Arrays, batch: Arrays) -> Any:
        result = softmax(half(params["scores"]))
        return jnp.mean(result.astype(batch["weights"].dtype) * batch["weights"])

    return loss


def on_torch(spelling: str, dims: Dims, half: Half) -> Callable[[Arrays, Arrays], Any]:
    import torch

    def by_hand(x: Any) -> Any:
        e = torch.exp(x - torch.amax(x, -1, keepdim=True))
        return e / torch.sum(e, -1, keepdim=True)

    def constant_shift(x: Any) -> Any:
        e = torch.exp(x - torch.amax(x, -1, keepdim=True).detach())
        return e / torch.sum(e, -1, keepdim=True)

    def plain(x: Any) -> Any:
        return torch.exp(x) / torch.sum(torch.exp(x), -1, keepdim=True)

    spellings: dict[str, Callable[..., Any]] = {
        "library": partial(torch.softmax, dim=-1),
        "by_hand": by_hand,
        "constant_shift": constant_shift,
        "plain": plain,
        "by_logsumexp": lambda x: torch.exp(x - torch.logsumexp(x, -1, keepdim=True)),
    }
    softmax = spellings[spelling]

    def loss(params: Arrays, batch: Arrays) -> Any:
        result = softmax(half(params["scores"]))
        return torch.mean(result.to(batch["weights"].dtype) * batch["weights"])

    return loss


def cost(dims: Dims) -> Cost:
    """Scores and weights are read and the gradient is written once."""
    cells = dims["rows"] * dims["columns"]
    return Cost(bytes=12.0 * cells, operations=10.0 * cells)


SPELLINGS = {
    spelling: Program(
        summary=f"softmax and its gradient, {summary}",
        kind=Kind.GRADIENT,
        make=make,
        on_tapegrad=partial(on_tapegrad, spelling),
        on_jax=partial(on_jax, spelling),
        on_torch=partial(on_torch, spelling),
        sizes={
            "check": {"rows": 5, "columns": 7},
            "cpu": {"rows": 1024, "columns": 1000},
            "cuda": {"rows": 16384, "columns": 4096},
        },
        cost=cost,
        dtypes={"cpu": "float32", "cuda": "bfloat16"},
    )
    for spelling, summary in SUMMARIES.items()
}
