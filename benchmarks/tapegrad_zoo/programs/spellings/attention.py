"""Causal attention over several heads; gradients by queries, keys and values."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from tapegrad_zoo.program import Arrays, Cost, Dims, Half, Kind, Program, Values

SUMMARIES = {
    "library": "by the library's function",
    "by_where": "by hand, masked by where",
    "additive_mask": "by hand, with a mask that is added",
    "by_einsum": "by hand with einsum",
    "all_by_hand": "by hand, softmax included",
}


def make(rng: np.random.Generator, dims: Dims) -> tuple[Values, Values]:
    shape = dims["batch"], dims["heads"], dims["tokens"], dims["depth"]
    params = {name: rng.standard_normal(shape) for name in ("queries", "keys")}
    params["values"] = 0.5 + rng.standard_normal(shape)
    return params, {"weights": 0.5 + rng.standard_normal(shape)}


def on_tapegrad(spelling: str, dims: Dims, half: Half) -> Callable[[Arrays, Arrays], Any]:
    import tapegrad as tf

    tokens, scale = dims["tokens"], dims["depth"] ** -0.5

    def by_where(q: Any, k: Any, v: Any) -> Any:
        scores = tf.matmul(q, k, transpose_b=True) * scale
        allowed = tf.range(tokens)[:, None] >= tf.range(tokens)[None, :]
        scores = tf.where(allowed, scores, tf.constant(-1e9, scores.dtype))
        return tf.matmul(tf.nn.softmax(scores), v)

    def additive_mask(q: Any, k: Any, v: Any) -> Any:
        scores = tf.matmul(q, k, transpose_b=True) * scale
        lower = tf.linalg.band_part(tf.ones((tokens, tokens), scores.dtype), -1, 0)
        return tf.matmul(tf.nn.softmax(scores + (1.0 - lower) * -1e9), v)

    def by_einsum(q: Any, k: Any, v: Any) -> Any:
        scores = tf.einsum("bhqd,bhkd->bhqk", q * scale, k)
        allowed = tf.cast(tf.linalg.band_part(tf.ones((tokens, tokens)), -1, 0), tf.bool)
        scores = tf.where(allowed, scores, tf.constant(-1e9, scores.dtype))
        return tf.einsum("bhqk,bhkd->bhqd", tf.nn.softmax(scores, axis=-1), v)

    def all_by_hand(q: Any, k: Any, v: Any) -> Any:
        scores = q @ tf.transpose(k, (0, 1, 3, 2)) / math.sqrt(dims["depth"])
        lower = tf.linalg.band_part(tf.ones((tokens, tokens), scores.dtype), -1, 0)
        scores = scores - 1e9 * (1.0 - lower)
        e = tf.exp(scores - tf.reduce_max(scores, axis=-1, keepdims=True))
        return e / tf.reduce_sum(e, axis=-1, keepdims=True) @ v

    spellings: dict[str, Callable[..., Any]] = {
        "library": partial(tf.nn.scaled_dot_product_attention, causal=True),
        "by_where": by_where,
        "additive_mask": additive_mask,
        "by_einsum": by_einsum,
        "all_by_hand": all_by_hand,
    }
    attention = spellings[spelling]

    def loss(params: Arrays, batch: Arrays) -> Any:
        result = attention(half(params["queries"]), half(params["keys"]), half(params["values"]))
        return tf.reduce_mean(tf.cast(result, batch["weights"].dtype) * batch["weights"])

    return loss


def on_jax(spelling: str, dims: Dims, half: Half) -> Callable[[Arrays, Arrays], Any]:
    import jax
    import jax.numpy as jnp

    tokens, scale = dims["tokens"], dims["depth"] ** -0.5

    def library(q: Any, k: Any, v: Any) -> Any:
        heads_last = (jnp.swapaxes(x, 1, 2) for x in (q, k, v))
        kernel = "cudnn" if q.dtype == jnp.bfloat16 else "xla"
        result = jax.nn.dot_product_attention(*heads_last, is_causal=True, implementation=kernel)
        return jnp.swapaxes(result, 1, 2)

    def by_where(q: Any, k: Any, v: Any) -> Any:
        scores = q @ jnp.swapaxes(k, -1, -2) * scale
        allowed = jnp.arange(tokens)[:, None] >= jnp.arange(tokens)[None, :]
        return jax.nn.softmax(jnp.where(allowed, scores, -1e9)) @ v

    def additive_mask(q: Any, k: Any, v: Any) -> Any:
        scores = q @ jnp.swapaxes(k, -1, -2) * scale
        lower = jnp.tril(jnp.ones((tokens, tokens), scores.dtype))
        return jax.nn.softmax(scores + (1.0 - lower) * -1e9) @ v

    def by_einsum(q: Any, k: Any, v: Any) -> Any:
        scores = jnp.einsum("bhqd,bhkd->bhqk", q * scale, k)
        allowed = jnp.tril(jnp.ones((tokens, tokens), bool))
        weights = jax.nn.softmax(jnp.where(allowed, scores, -1e9), axis=-1)
        return jnp.einsum("bhqk,bhkd->bhqd", weights, v)

    def all_by_hand(q: Any, k: Any, v: Any) -> Any:
        scores = q @ jnp.swapaxes(k, -1, -2) / math.sqrt(dims["depth"])
        lower = jnp.tril(jnp.ones((tokens, tokens), scores.dtype))
        scores = scores - 1e9 * (1.0 - lower)
        e = jnp.exp(scores - jnp.max(scores, axis=-1, keepdims=True))
        return e / jnp.sum(e, axis=-1, keepdims=True) @ v

    spellings: dict[str, Callable[..., Any]] = {
        "library": library,
        "by_where": by_where,
        "additive_mask": additive_mask,
        "by_einsum": by_einsum,
        "all_by_hand": all_by_hand,
    }
    attention = spellings[spelling]

    def loss(params: Arrays, batch: Arrays) -> Any:
        result = attention(half(params["queries"]), half(params["keys"]), half(params["values"]))
        return jnp.mean(result.astype(batch["weights"].dtype) * batch["weights"])

    return loss


def on_torch(spelling: str, dims: Dims, half: Half) -> Callable[[Arrays, Arrays], Any]:
    import torch
    from torch.nn import functional

    tokens, scale = dims["tokens"], dims["depth"] ** -0.5

    def by_where(q: Any, k: Any, v: Any) -> Any:
        scores = q @ k.transpose(-1, -2) * scale
        position = torch.arange(tokens, device=q.device)
        scores = torch.where(position[:, None] >= position[None, :], scores, -1e9)
        return torch.softmax(scores, -1) @ v

    def additive_mask(q: Any, k: Any, v: Any) -> Any:
        scores = q @ k.transpose(-1, -2) * scale
        lower = torch.tril(torch.ones(tokens, tokens, dtype=q.dtype, device=q.device))
        return torch.softmax(scores + (1.0 - lower) * -1e9, -1) @ v

    def by_einsum(q: Any, k: Any, v: Any) -> Any:
        scores = torch.einsum("bhqd,bhkd->bhqk", q * scale, k)
        later = torch.ones(tokens, tokens, dtype=torch.bool, device=q.device).triu(1)
        weights = torch.softmax(scores.masked_fill(later, -1e9), -1)
        return torch.einsum("bhqk,bhkd->bhqd", weights, v)

    def all_by_hand(q: Any, k: Any, v: Any) -> Any:
        scores = q @ k.transpose(-1, -2) / math.sqrt(dims["depth"])
        lower = torch.tril(torch.ones(tokens, tokens, dtype=q.dtype, device=q.device))
        scores = scores - 1e9 * (1.0 - lower)
        e = torch.exp(scores - torch.amax(scores, -1, keepdim=True))
        return e / torch.sum(e, -1, keepdim=True) @ v

    spellings: dict[str, Callable[..., Any]] = {
        "library": partial(functional.scaled_dot_product_attention, is_causal=True),
        "by_where": by_where,
        "additive_mask": additive_mask,
        "by_einsum": by_einsum,
        "all_by_hand": all_by_hand,
    }
    attention = spellings[spelling]

    def loss(params: Arrays, batch: Arrays) -> Any:
        result = attention(half(params["queries"]), half(params["keys"]), half(params["values"]))
        return torch.mean(result.to(batch["weights"].dtype) * batch["weights"])

    return loss


def cost(dims: Dims) -> Cost:
    """Half of the scores are needed, by two products forwards and five backwards."""
    cells = dims["batch"] * dims["heads"] * dims["tokens"] * dims["depth"]
    return Cost(bytes=28.0 * cells, operations=7.0 * cells * dims["tokens"])


SPELLINGS = {
    spelling: Program(
        summary=f"causal attention and its gradients, {summary}",
        kind=Kind.GRADIENT,
        make=make,
        on_tapegrad=partial(on_tapegrad, spelling),
        on_jax=partial(on_jax, spelling),
        on_torch=partial(on_torch, spelling),
        sizes={
            "check": {"batch": 2, "heads": 3, "tokens": 7, "depth": 5},
            "cpu": {"batch": 2, "heads": 4, "tokens": 256, "depth": 64},
            "cuda": {"batch": 8, "heads": 12, "tokens": 1024, "depth": 64},
        },
        cost=cost,
        dtypes={"cpu": "float32", "cuda": "bfloat16"},
        # JAX's library function takes the softmax in single precision.
        tolerance=1e-5 if spelling == "library" else 1e-7,
    )
    for spelling, summary in SUMMARIES.items()
}
