"""Grouped-query attention with normed queries and keys, ALiBi, and layers that run in parallel."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tapegrad_zoo.program import Arrays, Cost, Dims, Half, Kind, Optimizer, Program, Values

EPSILON, SOFT_LIMIT = 1e-6, 20.0


def make(rng: np.random.Generator, dims: Dims) -> tuple[Values, Values]:
    width, size = dims["width"], dims["size"]
    heads, shared = dims["groups"] * dims["shared"], dims["shared"]

    def weights(n: int, m: int) -> Any:
        return rng.standard_normal((n, m)) * n**-0.5

    params = {
        "embedding": rng.standard_normal((dims["words"], width)) * width**-0.5,
        "norm": 1 + 0.1 * rng.standard_normal(width),
    }
    for layer in range(dims["layers"]):
        params |= {
            f"norm_{layer}": 1 + 0.1 * rng.standard_normal(width),
            f"query_norm_{layer}": 1 + 0.1 * rng.standard_normal(size),
            f"key_norm_{layer}": 1 + 0.1 * rng.standard_normal(size),
            f"query_{layer}": weights(width, heads * size),
            f"key_{layer}": weights(width, shared * size),
            f"value_{layer}": weights(width, shared * size),
            f"out_{layer}": weights(heads * size, width),
            f"up_{layer}": weights(width, dims["hidden"]),
            f"down_{layer}": weights(dims["hidden"], width),
        }
    batch = {
        "inputs": rng.integers(0, dims["words"], (dims["batch"], dims["tokens"])),
        "targets": rng.integers(0, dims["words"], (dims["batch"], dims["tokens"])),
    }
    return params, batch


def on_tapegrad(dims: Dims, half: Half) -> Callable[[Arrays, Arrays], Any]:
    import tapegrad as tf

    tokens, size, groups = dims["tokens"], dims["size"], dims["groups"]
    heads = groups * dims["shared"]

    def rms(x: Any, gain: Any) -> Any:
        x = tf.cast(x, gain.dtype)
        mean = tf.reduce_mean(x * x, axis=-1, keepdims=True)
        return half(x * tf.math.rsqrt(mean + EPSILON) * gain)

    def alibi(dtype: Any) -> Any:
        slopes = 2.0 ** (-8.0 * tf.range(1, heads + 1, dtype=dtype) / heads)
        apart = tf.range(tokens)[:, None] - tf.range(tokens)[None, :]
        bias = -slopes[:, None, None] * tf.cast(apart, dtype)
        return tf.where(apart >= 0, bias, -1e9)

    def attention(p: Arrays, i: int, x: Any, bias: Any) -> Any:
        q = tf.reshape(x @ half(p[f"query_{i}"]), (-1, tokens, heads, size))
        k = tf.reshape(x @ half(p[f"key_{i}"]), (-1, tokens, dims["shared"], size))
        v = tf.reshape(x @ half(p[f"value_{i}"]), (-1, tokens, dims["shared"], size))
        q, k = rms(q, p[f"query_norm_{i}"]), rms(k, p[f"key_norm_{i}"])
        k, v = tf.repeat(k, groups, axis=2), tf.repeat(v, groups, axis=2)
        scores = tf.einsum("bqhd,bkhd->bhqk", q, k) / size**0.5
        weights = tf.nn.softmax(tf.cast(scores, bias.dtype) + bias)
        mixed = tf.einsum("bhqk,bkhd->bqhd", half(weights), v)
        return tf.reshape(mixed, (-1, tokens, heads * size)) @ half(p[f"out_{i}"])

    def loss(p: Arrays, batch: Arrays) -> Any:
        x = tf.gather(p["embedding"], batch["inputs"]) * dims["width"] ** 0.5
        bias = alibi(x.dtype)
        x = half(x)
        for i in range(dims["layers"]):
            normed = rms(x, p[f"norm_{i}"])
            hidden = tf.square(tf.nn.relu(normed @ half(p[f"up_{i}"])))
            x = x + attention(p, i, normed, bias) + hidden @ half(p[f"down_{i}"])
        logits = tf.matmul(rms(x, p["norm"]), half(p["embedding"]), transpose_b=True)
        logits = SOFT_LIMIT * tf.tanh(tf.cast(logits, p["embedding"].dtype) / SOFT_LIMIT)
        targets = tf.one_hot(batch["targets"], dims["words"], dtype=logits.dtype)
        return -tf.reduce_mean(tf.reduce_sum(targets * tf.nn.log_softmax(logits), axis=-1))

    return loss


def on_jax(dims: Dims, half: Half) -> Callable[[Arrays, Arrays], Any]:
    import jax
    import jax.numpy as jnp

    tokens, size, shared = dims["tokens"], dims["size"], dims["shared"]
    heads = dims["groups"] * shared

    def rms(x: Any, gain: Any) -> Any:
        x = x.astype(gain.dtype)
        return half(x * jax.lax.rsqrt(jnp.mean(x * x, -1, keepdims=True) + EPSILON) * gain)

    def attention(p: Arrays, i: int, x: Any, bias: Any) -> Any:
        q = (x @ half(p[f"query_{i}"])).reshape(-1, tokens, heads, size)
        k = (x @ half(p[f"key_{i}"])).reshape(-1, tokens, shared, size)
        v = (x @ half(p[f"value_{i}"])).reshape(-1, tokens, shared, size)
        q, k = rms(q, p[f"query_norm_{i}"]), rms(k, p[f"key_norm_{i}"])
        mixed = jax.nn.dot_product_attention(q, k, v, bias=bias, is_causal=True)
        return mixed.reshape(-1, tokens, heads * size) @ half(p[f"out_{i}"])

    def loss(p: Arrays, batch: Arrays) -> Any:
        dtype = p["embedding"].dtype
        slopes = 2.0 ** (-8.0 * jnp.arange(1, heads + 1, dtype=dtype) / heads)
        apart = jnp.arange(tokens)[:, None] - jnp.arange(tokens)
        bias = -slopes[None, :, None, None] * apart
        x = half(p["embedding"][batch["inputs"]] * dims["width"] ** 0.5)
        for i in range(dims["layers"]):
            normed = rms(x, p[f"norm_{i}"])
            hidden = jnp.square(jax.nn.relu(normed @ half(p[f"up_{i}"])))
            x = x + attention(p, i, normed, bias) + hidden @ half(p[f"down_{i}"])
        logits = (rms(x, p["norm"]) @ half(p["embedding"]).T).astype(dtype)
        logits = SOFT_LIMIT * jnp.tanh(logits / SOFT_LIMIT)
        right = jnp.take_along_axis(logits, batch["targets"][..., None], -1)[..., 0]
        return jnp.mean(jax.nn.logsumexp(logits, -1) - right)

    return loss


def on_torch(dims: Dims, half: Half) -> Callable[[Arrays, Arrays], Any]:
    import torch
    from torch.nn import functional

    tokens, size, shared = dims["tokens"], dims["size"], dims["shared"]
    heads = dims["groups"] * shared

    def rms(x: Any, gain: Any) -> Any:
        return half(functional.rms_norm(x.to(gain.dtype), gain.shape, gain, EPSILON))

    def attention(p: Arrays, i: int, x: Any, bias: Any) -> Any:
        q = (x @ half(p[f"query_{i}"])).view(-1, tokens, heads, size)
        k = (x @ half(p[f"key_{i}"])).view(-1, tokens, shared, size)
        v = (x @ half(p[f"value_{i}"])).view(-1, tokens, shared, size)
        q, k = rms(q, p[f"query_norm_{i}"]), rms(k, p[f"key_norm_{i}"])
        mixed = functional.scaled_dot_product_attention(
            q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2), bias, enable_gqa=True
        )
        return mixed.transpose(1, 2).flatten(2) @ half(p[f"out_{i}"])

    def loss(p: Arrays, batch: Arrays) -> Any:
        table = p["embedding"]
        numbers = torch.arange(1, heads + 1, dtype=table.dtype, device=table.device)
        places = torch.arange(tokens, device=table.device)
        apart = places[:, None] - places
        bias = -torch.exp2(-8.0 * numbers / heads)[:, None, None] * apart
        bias = half(bias.masked_fill(apart < 0, -torch.inf))[None]
        x = half(functional.embedding(batch["inputs"], table) * dims["width"] ** 0.5)
        for i in range(dims["layers"]):
            normed = rms(x, p[f"norm_{i}"])
            hidden = torch.square(torch.relu(normed @ half(p[f"up_{i}"])))
            x = x + attention(p, i, normed, bias) + hidden @ half(p[f"down_{i}"])
        logits = (rms(x, p["norm"]) @ half(table).T).to(table.dtype)
        logits = SOFT_LIMIT * torch.tanh(logits / SOFT_LIMIT)
        return functional.cross_entropy(logits.flatten(0, 1), batch["targets"].flatten())

    return loss


def cost(dims: Dims) -> Cost:
    """Three passes over all products, half of the scores; Adam moves seven arrays of weights."""
    width, tokens, layers = dims["width"], dims["tokens"], dims["layers"]
    inner = dims["groups"] * dims["shared"] * dims["size"]
    keys = dims["shared"] * dims["size"]
    weights = layers * 2 * width * (inner + keys + dims["hidden"]) + width * dims["words"]
    products = 2 * weights * tokens + 2 * layers * tokens**2 * inner
    return Cost(bytes=28.0 * weights, operations=3.0 * products * dims["batch"])


PROGRAM = Program(
    summary="16 query heads on 4 key heads, ALiBi, parallel attention and MLP, tied words, Adam",
    kind=Kind.TRAINING,
    make=make,
    on_tapegrad=on_tapegrad,
    on_jax=on_jax,
    on_torch=on_torch,
    sizes={
        "check": {
            "batch": 2,
            "tokens": 5,
            "words": 11,
            "width": 9,
            "hidden": 13,
            "size": 4,
            "groups": 3,
            "shared": 2,
            "layers": 2,
        },
        "cpu": {
            "batch": 4,
            "tokens": 64,
            "words": 1000,
            "width": 96,
            "hidden": 256,
            "size": 16,
            "groups": 4,
            "shared": 2,
            "layers": 2,
        },
        "cuda": {
            "batch": 4,
            "tokens": 1024,
            "words": 16384,
            "width": 1024,
            "hidden": 4096,
            "size": 64,
            "groups": 4,
            "shared": 4,
            "layers": 6,
        },
    },
    cost=cost,
    optimizer=Optimizer("adam", 3e-4),
    dtypes={"cpu": "float32", "cuda": "bfloat16"},
    tolerance=1e-5,  # JAX's attention takes the softmax in single precision
)
