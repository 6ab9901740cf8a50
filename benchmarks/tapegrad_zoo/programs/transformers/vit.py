"""A vision transformer on patches of images; with the class token the number of tokens is odd."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tapegrad_zoo.program import Arrays, Cost, Dims, Half, Kind, Optimizer, Program, Values

CLASSES, EPSILON = 100, 1e-6


def _tokens(dims: Dims) -> int:
    return (dims["side"] // dims["patch"]) ** 2 + 1


def make(rng: np.random.Generator, dims: Dims) -> tuple[Values, Values]:
    width, layers, pixels = dims["width"], dims["layers"], 3 * dims["patch"] ** 2

    def weights(*shape: int) -> Any:
        return rng.standard_normal(shape) * shape[-2] ** -0.5

    params = {
        "embed": weights(pixels, width),
        "class": rng.standard_normal((1, 1, width)) * 0.02,
        "position": rng.standard_normal((_tokens(dims), width)) * 0.02,
        "head": weights(width, CLASSES),
    }
    for layer in range(layers):
        params |= {
            f"norm1_{layer}": np.ones(width),
            f"norm2_{layer}": np.ones(width),
            f"qkv_{layer}": weights(width, 3 * width),
            f"out_{layer}": weights(width, width),
            f"up_{layer}": weights(width, 4 * width),
            f"down_{layer}": weights(4 * width, width),
        }
    batch = {
        "patches": rng.standard_normal((dims["batch"], _tokens(dims) - 1, pixels)),
        "labels": rng.integers(0, CLASSES, dims["batch"]),
    }
    return params, batch


def on_tapegrad(dims: Dims, half: Half) -> Callable[[Arrays, Arrays], Any]:
    import tapegrad as tf

    heads, width = dims["heads"], dims["width"]

    def norm(x: Any, gain: Any) -> Any:
        mean, variance = tf.nn.moments(x, -1, keepdims=True)
        return (x - mean) * tf.math.rsqrt(variance + EPSILON) * gain

    def attention(x: Any, qkv: Any, out: Any) -> Any:
        rows = tf.reshape(half(x) @ half(qkv), (*x.shape[:-1], 3, heads, width // heads))
        q, k, v = tf.unstack(tf.transpose(rows, (2, 0, 3, 1, 4)))
        scores = tf.matmul(q, k, transpose_b=True) * (width // heads) ** -0.5
        mixed = tf.matmul(tf.nn.softmax(scores), v)
        return tf.reshape(tf.transpose(mixed, (0, 2, 1, 3)), x.shape) @ half(out)

    def loss(p: Arrays, batch: Arrays) -> Any:
        x = half(batch["patches"]) @ half(p["embed"])
        first = tf.broadcast_to(tf.cast(p["class"], x.dtype), (x.shape[0], 1, width))
        x = tf.concat([first, x], 1) + tf.cast(p["position"], x.dtype)
        for layer in range(dims["layers"]):
            normed = norm(x, tf.cast(p[f"norm1_{layer}"], x.dtype))
            x = x + attention(normed, p[f"qkv_{layer}"], p[f"out_{layer}"])
            normed = norm(x, tf.cast(p[f"norm2_{layer}"], x.dtype))
            hidden = tf.nn.gelu(normed @ half(p[f"up_{layer}"]), approximate=True)
            x = x + hidden @ half(p[f"down_{layer}"])
        logits = tf.cast(x[:, 0] @ half(p["head"]), p["head"].dtype)
        losses = tf.nn.sparse_softmax_cross_entropy_with_logits(batch["labels"], logits)
        return tf.reduce_mean(losses)

    return loss


def on_jax(dims: Dims, half: Half) -> Callable[[Arrays, Arrays], Any]:
    import jax
    import jax.numpy as jnp

    heads, width = dims["heads"], dims["width"]

    def norm(x: Any, gain: Any) -> Any:
        mean, variance = jnp.mean(x, -1, keepdims=True), jnp.var(x, -1, keepdims=True)
        return (x - mean) * jax.lax.rsqrt(variance + EPSILON) * gain

    def attention(x: Any, qkv: Any, out: Any) -> Any:
        rows = (half(x) @ half(qkv)).reshape(*x.shape[:-1], 3, heads, width // heads)
        q, k, v = (rows[..., i, :, :] for i in range(3))
        return jax.nn.dot_product_attention(q, k, v).reshape(x.shape) @ half(out)

    def loss(p: Arrays, batch: Arrays) -> Any:
        x = half(batch["patches"]) @ half(p["embed"])
        first = jnp.broadcast_to(p["class"].astype(x.dtype), (x.shape[0], 1, width))
        x = jnp.concatenate([first, x], 1) + p["position"].astype(x.dtype)
        for layer in range(dims["layers"]):
            normed = norm(x, p[f"norm1_{layer}"].astype(x.dtype))
            x = x + attention(normed, p[f"qkv_{layer}"], p[f"out_{layer}"])
            normed = norm(x, p[f"norm2_{layer}"].astype(x.dtype))
            hidden = jax.nn.gelu(normed @ half(p[f"up_{layer}"]), approximate=True)
            x = x + hidden @ half(p[f"down_{layer}"])
        logits = (x[:, 0] @ half(p["head"])).astype(p["head"].dtype)
        picked = jnp.take_along_axis(jax.nn.log_softmax(logits), batch["labels"][:, None], 1)
        return -jnp.mean(picked)

    return loss


def on_torch(dims: Dims, half: Half) -> Callable[[Arrays, Arrays], Any]:
    import torch
    from torch.nn import functional

    heads, width = dims["heads"], dims["width"]

    def norm(x: Any, gain: Any) -> Any:
        return functional.layer_norm(x, (width,), gain.to(x.dtype), eps=EPSILON)

    def attention(x: Any, qkv: Any, out: Any) -> Any:
        rows = (half(x) @ half(qkv)).reshape(*x.shape[:-1], 3, heads, width // heads)
        q, k, v = rows.permute(2, 0, 3, 1, 4)
        mixed = functional.scaled_dot_product_attention(q, k, v)
        return mixed.transpose(1, 2).reshape(x.shape) @ half(out)

    def loss(p: Arrays, batch: Arrays) -> Any:
        x = half(batch["patches"]) @ half(p["embed"])
        first = p["class"].to(x.dtype).expand(x.shape[0], 1, width)
        x = torch.cat([first, x], 1) + p["position"].to(x.dtype)
        for layer in range(dims["layers"]):
            normed = norm(x, p[f"norm1_{layer}"])
            x = x + attention(normed, p[f"qkv_{layer}"], p[f"out_{layer}"])
            normed = norm(x, p[f"norm2_{layer}"])
            hidden = functional.gelu(normed @ half(p[f"up_{layer}"]), approximate="tanh")
            x = x + hidden @ half(p[f"down_{layer}"])
        logits = (x[:, 0] @ half(p["head"])).to(p["head"].dtype)
        return functional.cross_entropy(logits, batch["labels"])

    return loss


def cost(dims: Dims) -> Cost:
    """Three passes over all products; Adam reads and writes three arrays and reads a gradient."""
    width, tokens = dims["width"], _tokens(dims)
    weights = 12 * width**2 * dims["layers"]
    products = 2 * weights * tokens + 4 * dims["layers"] * tokens**2 * width
    return Cost(bytes=28.0 * weights, operations=3.0 * products * dims["batch"])


PROGRAM = Program(
    summary="ViT-B: 12 layers, 768 wide, 12 heads, 197 tokens, batch 64, Adam",
    kind=Kind.TRAINING,
    make=make,
    on_tapegrad=on_tapegrad,
    on_jax=on_jax,
    on_torch=on_torch,
    sizes={
        "check": {"batch": 2, "side": 8, "patch": 4, "width": 8, "heads": 2, "layers": 2},
        "cpu": {"batch": 4, "side": 32, "patch": 8, "width": 64, "heads": 4, "layers": 2},
        "cuda": {"batch": 64, "side": 224, "patch": 16, "width": 768, "heads": 12, "layers": 12},
    },
    cost=cost,
    optimizer=Optimizer("adam", 1e-3),
    dtypes={"cpu": "float32", "cuda": "bfloat16"},
    tolerance=1e-5,  # JAX's attention takes the softmax in single precision
)
