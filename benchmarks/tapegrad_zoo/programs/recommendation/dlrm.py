"""DLRM: dense features and many embedding tables meet in pairwise dot products."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np

from tapegrad_zoo.program import Arrays, Cost, Dims, Half, Kind, Optimizer, Program, Values

DENSE = 13


def _rows(dims: Dims) -> list[int]:
    return [max(3, dims["rows"] // (1 + table)) for table in range(dims["tables"])]


def _bottom(dims: Dims) -> list[int]:
    return [DENSE, dims["hidden"], dims["width"]]


def _top(dims: Dims) -> list[int]:
    pairs = dims["tables"] * (dims["tables"] + 1) // 2
    return [dims["width"] + pairs, dims["hidden"], dims["hidden"], 1]


def make(rng: np.random.Generator, dims: Dims) -> tuple[Values, Values]:
    params: Values = {}
    for part, widths in (("bottom", _bottom(dims)), ("top", _top(dims))):
        for layer, (n, m) in enumerate(pairwise(widths)):
            params[f"{part}_w{layer}"] = rng.standard_normal((n, m)) * n**-0.5
            params[f"{part}_b{layer}"] = rng.standard_normal(m) * 0.1
    for table, rows in enumerate(_rows(dims)):
        params[f"table{table}"] = rng.standard_normal((rows, dims["width"])) * 0.3
    shape = dims["batch"], dims["tables"]
    batch = {
        "dense": rng.standard_normal((dims["batch"], DENSE)),
        "rows": rng.integers(0, _rows(dims), shape),
        "clicks": rng.integers(0, 2, dims["batch"]).astype(np.float64),
    }
    return params, batch


def on_tapegrad(dims: Dims, half: Half) -> Callable[[Arrays, Arrays], Any]:
    import tapegrad as tf

    features = dims["tables"] + 1
    pairs = [i * features + j for i in range(features) for j in range(i)]

    def dense(p: Arrays, part: str, layers: int, x: Any) -> Any:
        for layer in range(layers):
            x = tf.matmul(x, p[f"{part}_w{layer}"]) + p[f"{part}_b{layer}"]
            if part == "bottom" or layer < layers - 1:
                x = tf.nn.relu(x)
        return x

    def loss(p: Arrays, batch: Arrays) -> Any:
        x = dense(p, "bottom", 2, batch["dense"])
        columns = tf.unstack(batch["rows"], axis=1)
        vectors = [tf.nn.embedding_lookup(p[f"table{t}"], c) for t, c in enumerate(columns)]
        stacked = tf.stack([x, *vectors], 1)
        products = tf.matmul(stacked, stacked, transpose_b=True)
        flat = tf.reshape(products, (-1, features * features))
        crossed = tf.gather(flat, pairs, axis=1)
        logits = dense(p, "top", 3, tf.concat([x, crossed], 1))[:, 0]
        losses = tf.nn.sigmoid_cross_entropy_with_logits(labels=batch["clicks"], logits=logits)
        return tf.reduce_mean(losses)

    return loss


def on_jax(dims: Dims, half: Half) -> Callable[[Arrays, Arrays], Any]:
    import jax
    import jax.numpy as jnp

    first, second = np.tril_indices(dims["tables"] + 1, -1)

    def loss(p: Arrays, batch: Arrays) -> Any:
        x = jax.nn.relu(batch["dense"] @ p["bottom_w0"] + p["bottom_b0"])
        x = jax.nn.relu(x @ p["bottom_w1"] + p["bottom_b1"])
        tables = range(dims["tables"])
        vectors = [jnp.take(p[f"table{t}"], batch["rows"][:, t], 0, mode="clip") for t in tables]
        stacked = jnp.stack([x, *vectors], 1)
        crossed = jnp.einsum("bid,bjd->bij", stacked, stacked)[:, first, second]
        h = jnp.concatenate([x, crossed], 1)
        h = jax.nn.relu(h @ p["top_w0"] + p["top_b0"])
        h = jax.nn.relu(h @ p["top_w1"] + p["top_b1"])
        logits = (h @ p["top_w2"] + p["top_b2"])[:, 0]
        return jnp.mean(jax.nn.softplus(logits) - batch["clicks"] * logits)

    return loss


def on_torch(dims: Dims, half: Half) -> Callable[[Arrays, Arrays], Any]:
    import torch
    from torch.nn import functional

    features = dims["tables"] + 1

    def loss(p: Arrays, batch: Arrays) -> Any:
        x = torch.relu(torch.addmm(p["bottom_b0"], batch["dense"], p["bottom_w0"]))
        x = torch.relu(torch.addmm(p["bottom_b1"], x, p["bottom_w1"]))
        columns = batch["rows"].unbind(1)
        vectors = [functional.embedding(c, p[f"table{t}"]) for t, c in enumerate(columns)]
        stacked = torch.stack([x, *vectors], 1)
        first, second = torch.tril_indices(features, features, -1, device=x.device)
        crossed = torch.bmm(stacked, stacked.transpose(1, 2))[:, first, second]
        h = torch.cat([x, crossed], 1)
        h = torch.relu(torch.addmm(p["top_b0"], h, p["top_w0"]))
        h = torch.relu(torch.addmm(p["top_b1"], h, p["top_w1"]))
        logits = torch.addmm(p["top_b2"], h, p["top_w2"])[:, 0]
        return functional.binary_cross_entropy_with_logits(logits, batch["clicks"])

    return loss


def cost(dims: Dims) -> Cost:
    """Only the rows of the batch have to be read and written; each weight has three products."""
    weights = sum(n * m for w in (_bottom(dims), _top(dims)) for n, m in pairwise(w))
    products = weights + (dims["tables"] + 1) ** 2 * dims["width"] / 2
    moved = dims["batch"] * dims["tables"] * dims["width"]
    return Cost(bytes=8.0 * (weights + moved), operations=6.0 * products * dims["batch"])


PROGRAM = Program(
    summary="DLRM: 26 tables 64 wide, 13 dense features, pairwise products, batch 8192, SGD",
    kind=Kind.TRAINING,
    make=make,
    on_tapegrad=on_tapegrad,
    on_jax=on_jax,
    on_torch=on_torch,
    sizes={
        "check": {"batch": 6, "tables": 4, "rows": 11, "width": 5, "hidden": 7},
        "cpu": {"batch": 256, "tables": 26, "rows": 5000, "width": 16, "hidden": 128},
        "cuda": {"batch": 8192, "tables": 26, "rows": 400_000, "width": 64, "hidden": 512},
    },
    cost=cost,
    optimizer=Optimizer("sgd", 0.05),
)
