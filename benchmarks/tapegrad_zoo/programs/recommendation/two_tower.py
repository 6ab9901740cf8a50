"""Retrieval with two towers: each user's item competes with all other items of the batch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tapegrad_zoo.program import Arrays, Cost, Dims, Half, Kind, Optimizer, Program, Values

TEMPERATURE, EPSILON = 0.1, 1e-6


def make(rng: np.random.Generator, dims: Dims) -> tuple[Values, Values]:
    width, hidden, out = dims["width"], dims["hidden"], dims["out"]
    params: Values = {
        "users": rng.standard_normal((dims["users"], width)),
        "items": rng.standard_normal((dims["items"], width)),
        "genres": rng.standard_normal((dims["genres"], width)),
    }
    for tower, inputs in (("user", width), ("item", 2 * width)):
        params[f"{tower}_up"] = rng.standard_normal((inputs, hidden)) * inputs**-0.5
        params[f"{tower}_bias"] = rng.standard_normal(hidden) * 0.1
        params[f"{tower}_out"] = rng.standard_normal((hidden, out)) * hidden**-0.5
    popularity = rng.dirichlet(np.ones(dims["items"]))
    item = rng.integers(0, dims["items"], dims["batch"])
    batch = {
        "user": rng.integers(0, dims["users"], dims["batch"]),
        "item": item,
        "genre": rng.integers(0, dims["genres"], dims["batch"]),
        "log_popularity": np.log(popularity[item] + 1e-6),
    }
    return params, batch


def on_tapegrad(dims: Dims, half: Half) -> Callable[[Arrays, Arrays], Any]:
    import tapegrad.numpy as np

    def normalized(x: Any) -> Any:
        return x / np.sqrt(np.sum(x * x, axis=1, keepdims=True) + EPSILON)

    def tower(p: Arrays, name: str, x: Any) -> Any:
        h = np.maximum(x @ p[f"{name}_up"] + p[f"{name}_bias"], 0)
        return normalized(h @ p[f"{name}_out"])

    def loss(p: Arrays, batch: Arrays) -> Any:
        user = tower(p, "user", p["users"][batch["user"]])
        parts = [p["items"][batch["item"]], p["genres"][batch["genre"]]]
        item = tower(p, "item", np.concatenate(parts, axis=1))
        scores = user @ item.T / TEMPERATURE - batch["log_popularity"]
        # The same item twice in a batch is no negative example of itself.
        same = batch["item"][:, None] == batch["item"][None, :]
        hidden = same & ~np.eye(scores.shape[0], dtype=bool)
        scores = np.where(hidden, -1e9, scores)
        top = np.max(scores, axis=1, keepdims=True)
        total = np.log(np.sum(np.exp(scores - top), axis=1)) + top[:, 0]
        return np.mean(total - np.diagonal(scores))

    return loss


def on_jax(dims: Dims, half: Half) -> Callable[[Arrays, Arrays], Any]:
    import jax
    import jax.numpy as jnp

    def tower(p: Arrays, name: str, x: Any) -> Any:
        h = jax.nn.relu(x @ p[f"{name}_up"] + p[f"{name}_bias"]) @ p[f"{name}_out"]
        return h * jax.lax.rsqrt(jnp.sum(h * h, 1, keepdims=True) + EPSILON)

    def loss(p: Arrays, batch: Arrays) -> Any:
        user = tower(p, "user", p["users"][batch["user"]])
        parts = [p["items"][batch["item"]], p["genres"][batch["genre"]]]
        item = tower(p, "item", jnp.concatenate(parts, 1))
        scores = user @ item.T / TEMPERATURE - batch["log_popularity"]
        same = batch["item"][:, None] == batch["item"]
        scores = jnp.where(same & ~jnp.eye(len(scores), dtype=bool), -1e9, scores)
        return jnp.mean(jax.nn.logsumexp(scores, 1) - jnp.diagonal(scores))

    return loss


def on_torch(dims: Dims, half: Half) -> Callable[[Arrays, Arrays], Any]:
    import torch
    from torch.nn import functional

    def tower(p: Arrays, name: str, x: Any) -> Any:
        h = torch.relu(torch.addmm(p[f"{name}_bias"], x, p[f"{name}_up"])) @ p[f"{name}_out"]
        return h * torch.rsqrt(torch.sum(h * h, 1, keepdim=True) + EPSILON)

    def loss(p: Arrays, batch: Arrays) -> Any:
        user = tower(p, "user", functional.embedding(batch["user"], p["users"]))
        items = functional.embedding(batch["item"], p["items"])
        genres = functional.embedding(batch["genre"], p["genres"])
        item = tower(p, "item", torch.cat([items, genres], 1))
        scores = user @ item.T / TEMPERATURE - batch["log_popularity"]
        same = batch["item"][:, None] == batch["item"]
        diagonal = torch.eye(len(scores), dtype=torch.bool, device=scores.device)
        scores = scores.masked_fill(same & ~diagonal, -1e9)
        return functional.cross_entropy(scores, torch.arange(len(scores), device=scores.device))

    return loss


def cost(dims: Dims) -> Cost:
    """Scores and towers take three products; the scores need not leave the processor."""
    batch, width, hidden, out = (dims[name] for name in ("batch", "width", "hidden", "out"))
    products = batch * (3 * width * hidden + 2 * hidden * out + batch * out)
    return Cost(bytes=24.0 * batch * width, operations=6.0 * products)


PROGRAM = Program(
    summary="two towers with an in-batch softmax of 4096 users and items, corrected for popularity",
    kind=Kind.TRAINING,
    make=make,
    on_tapegrad=on_tapegrad,
    on_jax=on_jax,
    on_torch=on_torch,
    sizes={
        "check": {
            "batch": 7,
            "users": 13,
            "items": 5,
            "genres": 3,
            "width": 4,
            "hidden": 9,
            "out": 6,
        },
        "cpu": {
            "batch": 512,
            "users": 5000,
            "items": 2000,
            "genres": 20,
            "width": 32,
            "hidden": 128,
            "out": 32,
        },
        "cuda": {
            "batch": 4096,
            "users": 1_000_000,
            "items": 200_000,
            "genres": 50,
            "width": 64,
            "hidden": 512,
            "out": 128,
        },
    },
    cost=cost,
    optimizer=Optimizer("sgd", 0.1),
)
