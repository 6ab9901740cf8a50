"""A tagger with a linear-chain conditional random field over sentences of unequal lengths."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tapegrad_zoo.program import Arrays, Cost, Dims, Half, Kind, Optimizer, Program, Values


def make(rng: np.random.Generator, dims: Dims) -> tuple[Values, Values]:
    words, width, tags = dims["words"], dims["width"], dims["tags"]
    params = {
        "embedding": rng.standard_normal((words, width)),
        "before": rng.standard_normal((width, width)) * width**-0.5,
        "here": rng.standard_normal((width, width)) * width**-0.5,
        "after": rng.standard_normal((width, width)) * width**-0.5,
        "bias": np.zeros(width),
        "scores": rng.standard_normal((width, tags)) * width**-0.5,
        "moves": 0.1 * rng.standard_normal((tags, tags)),
        "start": 0.1 * rng.standard_normal(tags),
        "stop": 0.1 * rng.standard_normal(tags),
    }
    shape = dims["batch"], dims["steps"]
    batch = {
        "words": rng.integers(0, words, shape),
        "tags": rng.integers(0, tags, shape),
        "lengths": rng.integers(dims["steps"] // 2, dims["steps"] + 1, dims["batch"]),
    }
    return params, batch


def on_tapegrad(dims: Dims, half: Half) -> Callable[[Arrays, Arrays], Any]:
    import tapegrad as tf

    steps = dims["steps"]

    def emissions(p: Arrays, words: Any) -> Any:
        x = tf.gather(p["embedding"], words)
        padded = tf.pad(x, [[0, 0], [1, 1], [0, 0]])
        h = padded[:, :-2] @ p["before"] + x @ p["here"] + padded[:, 2:] @ p["after"]
        return tf.tanh(h + p["bias"]) @ p["scores"]

    def score(p: Arrays, unary: Any, tags: Any, lengths: Any, mask: Any) -> Any:
        picked = tf.gather(unary, tags, batch_dims=2)
        total = tf.reduce_sum(picked * mask, axis=1)
        pairs = tf.stack([tags[:, :-1], tags[:, 1:]], axis=-1)
        total += tf.reduce_sum(tf.gather_nd(p["moves"], pairs) * mask[:, 1:], axis=1)
        last = tf.gather(tags, lengths - 1, batch_dims=1)
        return total + tf.gather(p["start"], tags[:, 0]) + tf.gather(p["stop"], last)

    def log_partition(p: Arrays, unary: Any, lengths: Any) -> Any:
        alpha = p["start"] + unary[:, 0]
        for t in range(1, steps):
            moved = tf.reduce_logsumexp(alpha[:, :, None] + p["moves"], axis=1) + unary[:, t]
            alpha = tf.where((t < lengths)[:, None], moved, alpha)
        return tf.reduce_logsumexp(alpha + p["stop"], axis=1)

    def loss(p: Arrays, batch: Arrays) -> Any:
        unary = emissions(p, batch["words"])
        lengths = batch["lengths"]
        mask = tf.sequence_mask(lengths, steps, dtype=unary.dtype)
        found = score(p, unary, batch["tags"], lengths, mask)
        return tf.reduce_mean(log_partition(p, unary, lengths) - found)

    return loss


def on_jax(dims: Dims, half: Half) -> Callable[[Arrays, Arrays], Any]:
    import jax
    import jax.numpy as jnp

    def loss(p: Arrays, batch: Arrays) -> Any:
        def one(words: Any, tags: Any, length: Any) -> Any:
            x = p["embedding"][words]
            earlier = jnp.pad(x[:-1], ((1, 0), (0, 0))) @ p["before"]
            later = jnp.pad(x[1:], ((0, 1), (0, 0))) @ p["after"]
            unary = jnp.tanh(earlier + x @ p["here"] + later + p["bias"]) @ p["scores"]

            def step(alpha: Any, seen: Any) -> Any:
                row, inside = seen
                moved = jax.nn.logsumexp(alpha[:, None] + p["moves"], axis=0) + row
                return jnp.where(inside, moved, alpha), None

            inside = jnp.arange(dims["steps"]) < length
            alpha, _ = jax.lax.scan(step, p["start"] + unary[0], (unary[1:], inside[1:]))
            every = jnp.take_along_axis(unary, tags[:, None], 1)[:, 0]
            score = jnp.sum(jnp.where(inside, every, 0))
            score += jnp.sum(jnp.where(inside[1:], p["moves"][tags[:-1], tags[1:]], 0))
            score += p["start"][tags[0]] + p["stop"][tags[length - 1]]
            return jax.nn.logsumexp(alpha + p["stop"]) - score

        return jnp.mean(jax.vmap(one)(batch["words"], batch["tags"], batch["lengths"]))

    return loss


def on_torch(dims: Dims, half: Half) -> Callable[[Arrays, Arrays], Any]:
    import torch
    from torch.nn import functional

    def loss(p: Arrays, batch: Arrays) -> Any:
        tags, lengths = batch["tags"], batch["lengths"]
        x = functional.embedding(batch["words"], p["embedding"])
        kernel = torch.stack([p["before"].T, p["here"].T, p["after"].T], -1)
        h = functional.conv1d(x.mT, kernel, p["bias"], padding=1)
        unary = torch.tanh(h).mT @ p["scores"]
        times = torch.arange(dims["steps"], device=tags.device)
        inside = times < lengths[:, None]
        every = unary.gather(2, tags[:, :, None])[:, :, 0]
        score = torch.where(inside, every, 0.0).sum(1)
        moved = p["moves"][tags[:, :-1], tags[:, 1:]]
        score = score + torch.where(inside[:, 1:], moved, 0.0).sum(1)
        last = tags.gather(1, lengths[:, None] - 1)[:, 0]
        score = score + p["start"][tags[:, 0]] + p["stop"][last]
        alpha = p["start"] + unary[:, 0]
        for t in range(1, dims["steps"]):
            after = torch.logsumexp(alpha[:, :, None] + p["moves"], 1) + unary[:, t]
            alpha = torch.where(inside[:, t, None], after, alpha)
        return torch.mean(torch.logsumexp(alpha + p["stop"], 1) - score)

    return loss


def cost(dims: Dims) -> Cost:
    """Three products per word and a log-sum-exp over pairs of tags, once forth and twice back."""
    rows, tags = dims["batch"] * dims["steps"], dims["tags"]
    weights = 3 * dims["width"] ** 2 + dims["width"] * tags
    table = 28.0 * dims["words"] * dims["width"]
    return Cost(bytes=table + 28.0 * weights, operations=3 * rows * (2.0 * weights + 5 * tags**2))


PROGRAM = Program(
    summary="embeddings, a window of three words and a linear-chain random field, Adam",
    kind=Kind.TRAINING,
    make=make,
    on_tapegrad=on_tapegrad,
    on_jax=on_jax,
    on_torch=on_torch,
    sizes={
        "check": {"batch": 3, "steps": 6, "words": 11, "width": 5, "tags": 4},
        "cpu": {"batch": 16, "steps": 32, "words": 1000, "width": 64, "tags": 20},
        "cuda": {"batch": 256, "steps": 64, "words": 30000, "width": 256, "tags": 48},
    },
    cost=cost,
    optimizer=Optimizer("adam", 1e-3),
)
