"""The cosines of the angles between pairs of rows, weighted; gradients by both sets of rows."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from tapegrad_zoo.program import Arrays, Cost, Dims, Half, Kind, Program, Values

SUMMARIES = {
    "library": "by the library's function",
    "normalised": "as products of normalised rows",
    "by_norms": "as products divided by norms",
    "by_rsqrt": "as products times a reciprocal square root",
    "by_einsum": "with einsum",
}


def make(rng: np.random.Generator, dims: Dims) -> tuple[Values, Values]:
    shape = dims["rows"], dims["width"]
    params = {"x": 0.5 + rng.standard_normal(shape), "y": 0.5 + rng.standard_normal(shape)}
    return params, {"weights": 0.5 + rng.standard_normal(dims["rows"])}


def on_tapegrad(spelling: str, dims: Dims, half: Half) -> Callable[[Arrays, Arrays], Any]:
    import tapegrad as tf

    def normalised(x: Any, y: Any) -> Any:
        unit_x, unit_y = tf.nn.l2_normalize(x, axis=-1), tf.nn.l2_normalize(y, axis=-1)
        return tf.reduce_sum(unit_x * unit_y, axis=-1)

    def by_norms(x: Any, y: Any) -> Any:
        norms = tf.norm(x, axis=-1) * tf.norm(y, axis=-1)
        return tf.reduce_sum(x * y, axis=-1) / norms

    def by_rsqrt(x: Any, y: Any) -> Any:
        squares = tf.reduce_sum(x * x, axis=-1) * tf.reduce_sum(y * y, axis=-1)
        return tf.reduce_sum(x * y, axis=-1) * tf.math.rsqrt(squares)

    def by_einsum(x: Any, y: Any) -> Any:
        squares = tf.einsum("ij,ij->i", x, x) * tf.einsum("ij,ij->i", y, y)
        return tf.einsum("ij,ij->i", x, y) / tf.sqrt(squares)

    spellings: dict[str, Callable[..., Any]] = {
        "library": lambda x, y: -tf.keras.losses.cosine_similarity(x, y, axis=-1),
        "normalised": normalised,
        "by_norms": by_norms,
        "by_rsqrt": by_rsqrt,
        "by_einsum": by_einsum,
    }
    cosine = spellings[spelling]

    def loss(params: Arrays, batch: Arrays) -> Any:
        return tf.reduce_mean(cosine(params["x"], params["y"]) * batch["weights"])

    return loss


def on_jax(spelling: str, dims: Dims, half: Half) -> Callable[[Arrays, Arrays], Any]:
    import jax
    import jax.numpy as jnp

    def normalised(x: Any, y: Any) -> Any:
        unit_x = x / jnp.linalg.norm(x, axis=-1, keepdims=True)
        unit_y = y / jnp.linalg.norm(y, axis=-1, keepdims=True)
        return jnp.sum(unit_x * unit_y, axis=-1)

    def by_norms(x: Any, y: Any) -> Any:
        norms = jnp.linalg.norm(x, axis=-1) * jnp.linalg.norm(y, axis=-1)
        return jnp.sum(x * y, axis=-1) / norms

    def by_rsqrt(x: Any, y: Any) -> Any:
        squares = jnp.sum(x * x, axis=-1) * jnp.sum(y * y, axis=-1)
        return jnp.sum(x * y, axis=-1) * jax.lax.rsqrt(squares)

    def by_einsum(x: Any, y: Any) -> Any:
        squares = jnp.einsum("ij,ij->i", x, x) * jnp.einsum("ij,ij->i", y, y)
        return jnp.einsum("ij,ij->i", x, y) / jnp.sqrt(squares)

    spellings: dict[str, Callable[..., Any]] = {
        "library": by_norms,  # JAX has no function of this kind
        "normalised": normalised,
        "by_norms": by_norms,
        "by_rsqrt": by_rsqrt,
        "by_einsum": by_einsum,
    }
    cosine = spellings[spelling]

    def loss(params: Arrays, batch: Arrays) -> Any:
        return jnp.mean(cosine(params["x"], params["y"]) * batch["weights"])

    return loss


def on_torch(spelling: str, dims: Dims, half: Half) -> Callable[[Arrays, Arrays], Any]:
    import torch
    from torch.nn import functional

    def normalised(x: Any, y: Any) -> Any:
        unit_x, unit_y = functional.normalize(x, dim=-1), functional.normalize(y, dim=-1)
        return torch.sum(unit_x * unit_y, -1)

    def by_norms(x: Any, y: Any) -> Any:
        norms = torch.linalg.vector_norm(x, dim=-1) * torch.linalg.vector_norm(y, dim=-1)
        return torch.sum(x * y, -1) / norms

    def by_rsqrt(x: Any, y: Any) -> Any:
        squares = torch.sum(x * x, -1) * torch.sum(y * y, -1)
        return torch.sum(x * y, -1) * torch.rsqrt(squares)

    def by_einsum(x: Any, y: Any) -> Any:
        squares = torch.einsum("ij,ij->i", x, x) * torch.einsum("ij,ij->i", y, y)
        return torch.einsum("ij,ij->i", x, y) / torch.sqrt(squares)

    spellings: dict[str, Callable[..., Any]] = {
        "library": partial(functional.cosine_similarity, dim=-1),
        "normalised": normalised,
        "by_norms": by_norms,
        "by_rsqrt": by_rsqrt,
        "by_einsum": by_einsum,
    }
    cosine = spellings[spelling]

    def loss(params: Arrays, batch: Arrays) -> Any:
        return torch.mean(cosine(params["x"], params["y"]) * batch["weights"])

    return loss


def cost(dims: Dims) -> Cost:
    """Both sets of rows are read and two gradients are written once."""
    cells = dims["rows"] * dims["width"]
    return Cost(bytes=16.0 * cells, operations=12.0 * cells)


SPELLINGS = {
    spelling: Program(
        summary=f"cosines between rows and their gradients, {summary}",
        kind=Kind.GRADIENT,
        make=make,
        on_tapegrad=partial(on_tapegrad, spelling),
        on_jax=partial(on_jax, spelling),
        on_torch=partial(on_torch, spelling),
        sizes={
            "check": {"rows": 5, "width": 7},
            "cpu": {"rows": 1024, "width": 512},
            "cuda": {"rows": 16384, "width": 2048},
        },
        cost=cost,
    )
    for spelling, summary in SUMMARIES.items()
}
