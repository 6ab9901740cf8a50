"""Next items of sessions: attention with the last item as query pools the items before it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tapegrad_zoo.program import Arrays, Cost, Dims, Half, Kind, Optimizer, Program, Values


def make(rng: np.random.Generator, dims: Dims) -> tuple[Values, Values]:
    width, length, batch = dims["width"], dims["length"], dims["batch"]

    def weights(n: int, m: int) -> Any:
        return rng.standard_normal((n, m)) * n**-0.5

    params = {
        "items": rng.standard_normal((dims["items"], width)) * width**-0.5,
        "places": rng.standard_normal((length, width)) * 0.1,
        "of_query": weights(width, width),
        "of_key": weights(width, width),
        "score": weights(width, 1),
        "out": weights(2 * width, width),
    }
    lengths = rng.integers(2, length + 1, batch)
    data = {
        "session": rng.integers(0, dims["items"], (batch, length)),
        "length": lengths,
        "next": rng.integers(0, dims["items"], batch),
    }
    return params, data


def on_tapegrad(dims: Dims, half: Half) -> Callable[[Arrays, Arrays], Any]:
    import tapegrad as tf

    def loss(p: Arrays, batch: Arrays) -> Any:
        rows = tf.gather(p["items"], batch["session"]) + p["places"]
        last = tf.gather(rows, batch["length"] - 1, batch_dims=1)
        mixed = tf.sigmoid(tf.expand_dims(last @ p["of_query"], 1) + rows @ p["of_key"])
        scores = tf.squeeze(mixed @ p["score"], -1)
        mask = tf.sequence_mask(batch["length"], dims["length"])
        scores = tf.where(mask, scores, -1e9)
        attention = tf.nn.softmax(scores, axis=1)
        pooled = tf.reduce_sum(tf.expand_dims(attention, -1) * rows, axis=1)
        query = tf.tanh(tf.concat([pooled, last], axis=1) @ p["out"])
        logits = tf.matmul(query, p["items"], transpose_b=True)
        losses = tf.nn.sparse_softmax_cross_entropy_with_logits(batch["next"], logits)
        return tf.reduce_mean(losses)

    return loss


def on_jax(dims: Dims, half: Half) -> Callable[[Arrays, Arrays], Any]:
    import jax
    import jax.numpy as jnp

    def loss(p: Arrays, batch: Arrays) -> Any:
        rows = p["items"][batch["session"]] + p["places"]
        last = jnp.take_along_axis(rows, batch["length"][:, None, None] - 1, 1)
        mixed = jax.nn.sigmoid(last @ p["of_query"] + rows @ p["of_key"])
        mask = jnp.arange(dims["length"]) < batch["length"][:, None]
        attention = jax.nn.softmax((mixed @ p["score"])[..., 0], where=mask, axis=1)
        pooled = jnp.einsum("bl,bld->bd", attention, rows)
        query = jnp.tanh(jnp.concatenate([pooled, last[:, 0]], 1) @ p["out"])
        logits = query @ p["items"].T
        picked = jnp.take_along_axis(logits, batch["next"][:, None], 1)[:, 0]
        return jnp.mean(jax.nn.logsumexp(logits, 1) - picked)

    return loss


def on_torch(dims: Dims, half: Half) -> Callable[[Arrays, Arrays], Any]:
    import torch
    from torch.nn import functional

    def loss(p: Arrays, batch: Arrays) -> Any:
        rows = functional.embedding(batch["session"], p["items"]) + p["places"]
        number = torch.arange(len(rows), device=rows.device)
        last = rows[number, batch["length"] - 1]
        mixed = torch.sigmoid((last @ p["of_query"])[:, None] + rows @ p["of_key"])
        place = torch.arange(dims["length"], device=rows.device)
        outside = place >= batch["length"][:, None]
        scores = (mixed @ p["score"])[..., 0].masked_fill(outside, -torch.inf)
        pooled = torch.bmm(torch.softmax(scores, 1)[:, None], rows)[:, 0]
        query = torch.tanh(torch.cat([pooled, last], 1) @ p["out"])
        return functional.cross_entropy(query @ p["items"].T, batch["next"])

    return loss


def cost(dims: Dims) -> Cost:
    """Keys and scores of all items take three products; Adam reads and writes three tables."""
    width, batch = dims["width"], dims["batch"]
    products = batch * (dims["length"] * width**2 + dims["items"] * width)
    return Cost(bytes=28.0 * dims["items"] * width, operations=6.0 * products)


PROGRAM = Program(
    summary="session recommendation: 50 items pooled by attention, softmax over 50000 items, Adam",
    kind=Kind.TRAINING,
    make=make,
    on_tapegrad=on_tapegrad,
    on_jax=on_jax,
    on_torch=on_torch,
    sizes={
        "check": {"batch": 4, "length": 5, "items": 11, "width": 6},
        "cpu": {"batch": 128, "length": 20, "items": 2000, "width": 64},
        "cuda": {"batch": 512, "length": 50, "items": 50_000, "width": 128},
    },
    cost=cost,
    optimizer=Optimizer("adam", 1e-3),
)
