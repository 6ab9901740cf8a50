"""The logarithm of the sum of exponentials of rows, weighted; gradient by the scores."""

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
    "plain": "log of the sum of exp, without a maximum",
}


def make(rng: np.random.Generator, dims: Dims) -> tuple[Values, Values]:
    params = {"scores": rng.standard_normal((dims["rows"], dims["columns"]))}
    return params, {"weights": 0.5 + rng.standard_normal(dims["rows"])}


def on_tapegrad(spelling: str, dims: Dims, half: Half) -> Callable[[Arrays, Arrays], Any]:
    import tapegrad.numpy as np
    from tapegrad import stop_gradient
    from tapegrad.scipy import special

    def by_hand(x: Any) -> Any:
        shift = np.max(x, axis=-1, keepdims=True)
        return np.log(np.sum(np.exp(x - shift), axis=-1)) + shift[:, 0]

    def constant_shift(x: Any) -> Any:
        shift = stop_gradient(np.max(x, axis=-1, keepdims=True))
        return np.log(np.sum(np.exp(x - shift), axis=-1)) + shift[:, 0]

    def plain(x: Any) -> Any:
        return np.log(np.sum(np.exp(x), axis=-1))

    spellings: dict[str, Callable[..., Any]] = {
        "library": partial(special.logsumexp, axis=-1),
        "by_hand": by_hand,
        "constant_shift": constant_shift,
        "plain": plain,
    }
    logsumexp = spellings[spelling]

    def loss(params: Arrays, batch: Arrays) -> Any:
        result = logsumexp(half(params["scores"]))
        return np.mean(result.astype(batch["weights"].dtype) * batch["weights"])

    return loss


def on_jax(spelling: str, dims: Dims, half: Half) -> Callable[[Arrays, Arrays], Any]:
    import jax
    import jax.numpy as jnp

    def by_hand(x: Any) -> Any:
        shift = jnp.max(x, axis=-1, keepdims=True)
        return jnp.log(jnp.sum(jnp.exp(x - shift), axis=-1)) + shift[:, 0]

    def constant_shift(x: Any) -> Any:
        shift = jax.lax.stop_gradient(jnp.max(x, axis=-1, keepdims=True))
        return jnp.log(jnp.sum(jnp.exp(x - shift), axis=-1)) + shift[:, 0]

    def plain(x: Any) -> Any:
        return jnp.log(jnp.sum(jnp.exp(x), axis=-1))

    spellings: dict[str, Callable[..., Any]] = {
        "library": partial(jax.nn.logsumexp, axis=-1),
        "by_hand": by_hand,
        "constant_shift": constant_shift,
        "plain": plain,
    }
    logsumexp = spellings[spelling]

    def loss(params: Arrays, batch: Arrays) -> Any:
        result = logsumexp(half(params["scores"]))
        return jnp.mean(result.astype(batch["weights"].dtype) * batch["weights"])

    return loss


def on_torch(spelling: str, dims: Dims, half: Half) -> Callable[[Arrays, Arrays], Any]:
    import torch

    def by_hand(x: Any) -> Any:
        shift = torch.amax(x, -1, keepdim=True)
        return torch.log(torch.sum(torch.exp(x - shift), -1)) + shift[:, 0]

    def constant_shift(x: Any) -> Any:
        shift = torch.amax(x, -1, keepdim=True).detach()
        return torch.log(torch.sum(torch.exp(x - shift), -1)) + shift[:, 0]

    def plain(x: Any) -> Any:
        return torch.log(torch.sum(torch.exp(x), -1))

    spellings: dict[str, Callable[..., Any]] = {
        "library": partial(torch.logsumexp, dim=-1),
        "by_hand": by_hand,
        "constant_shift": constant_shift,
        "plain": plain,
    }
    logsumexp = spellings[spelling]

    def loss(params: Arrays, batch: Arrays) -> Any:
        result = logsumexp(half(params["scores"]))
        return torch.mean(result.to(batch["weights"].dtype) * batch["weights"])

    return loss


def cost(dims: Dims) -> Cost:
    """The scores are read and their gradient is written once."""
    cells = dims["rows"] * dims["columns"]
    return Cost(bytes=8.0 * cells, operations=6.0 * cells)


SPELLINGS = {
    spelling: Program(
        summary=f"logsumexp and its gradient, {summary}",
        kind=Kind.GRADIENT,
        make=make,
        on_tapegrad=partial(on_tapegrad, spelling),
        on_jax=partial(on_jax, spelling),
        on_torch=partial(on_torch, spelling),
        sizes={
            "check": {"rows": 7, "columns": 5},
            "cpu": {"rows": 1024, "columns": 1000},
            "cuda": {"rows": 16384, "columns": 4096},
        },
        cost=cost,
        dtypes={"cpu": "float32", "cuda": "bfloat16"},
    )
    for spelling, summary in SUMMARIES.items()
}
