"""Byte-level language model on long texts: each byte attends to a window of bytes before it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tapegrad_zoo.program import Arrays, Cost, Dims, Half, Kind, Optimizer, Program, Values

EPSILON = 1e-6


def make(rng: np.random.Generator, dims: Dims) -> tuple[Values, Values]:
    width, heads, window = dims["width"], dims["heads"], dims["window"]

    def weights(n: int, m: int) -> Any:
        return rng.standard_normal((n, m)) * n**-0.5

    params = {
        "bytes": rng.standard_normal((dims["symbols"], width)),
        "head": weights(width, dims["symbols"]),
    }
    for layer in range(dims["layers"]):
        params |= {
            f"scale1_{layer}": 1 + 0.1 * rng.standard_normal(width),
            f"scale2_{layer}": 1 + 0.1 * rng.standard_normal(width),
            f"qkv_{layer}": weights(width, 3 * width),
            f"distance_{layer}": rng.standard_normal((heads, window)),
            f"out_{layer}": weights(width, width),
            f"up_{layer}": weights(width, 3 * width),
            f"down_{layer}": weights(3 * width, width),
        }
    length = dims["blocks"] * window
    batch = {"text": rng.integers(0, dims["symbols"], (dims["batch"], length + 1))}
    return params, batch


def on_tapegrad(dims: Dims, half: Half) -> Callable[[Arrays, Arrays], Any]:
    import tapegrad.numpy as np

    width, heads, window, blocks = dims["width"], dims["heads"], dims["window"], dims["blocks"]

    def norm(x: Any, scale: Any) -> Any:
        x = np.astype(x, scale.dtype)
        centred = x - np.mean(x, -1, keepdims=True)
        return half(centred / np.sqrt(np.var(x, -1, keepdims=True) + EPSILON) * scale)

    def with_previous(x: Any) -> Any:
        """Put the block before in front of each block; the first has zeros there."""
        before = np.concatenate([np.zeros_like(x[:, :, :1]), x[:, :, :-1]], axis=2)
        return np.concatenate([before, x], axis=3)

    def attention(x: Any, qkv: Any, distance: Any, out: Any) -> Any:
        rows = np.reshape(x @ half(qkv), (-1, blocks, window, 3, heads, width // heads))
        q, k, v = np.transpose(rows, (3, 0, 4, 1, 2, 5))
        k, v = with_previous(k), with_previous(v)
        query, key = np.arange(window)[:, None], np.arange(2 * window)
        apart = query + window - key
        exists = (np.arange(blocks)[:, None, None] > 0) | (key >= window)
        visible = (apart >= 0) & (apart < window) & exists
        bias = half(distance)[:, np.clip(apart, 0, window - 1)]
        scores = q @ np.swapaxes(k, -1, -2) * (width // heads) ** -0.5 + bias[:, None]
        scores = np.where(visible, scores, -np.inf)
        e = np.exp(scores - np.max(scores, axis=-1, keepdims=True))
        mixed = e / np.sum(e, axis=-1, keepdims=True) @ v
        return np.reshape(np.transpose(mixed, (0, 2, 3, 1, 4)), x.shape) @ half(out)

    def loss(p: Arrays, batch: Arrays) -> Any:
        x = half(np.take(p["bytes"], batch["text"][:, :-1], axis=0))
        for i in range(dims["layers"]):
            normed = norm(x, p[f"scale1_{i}"])
            x = x + attention(normed, p[f"qkv_{i}"], p[f"distance_{i}"], p[f"out_{i}"])
            hidden = np.maximum(norm(x, p[f"scale2_{i}"]) @ half(p[f"up_{i}"]), 0)
            x = x + hidden @ half(p[f"down_{i}"])
        logits = np.astype(x @ half(p["head"]), p["head"].dtype)
        top = np.max(logits, axis=-1, keepdims=True)
        total = np.log(np.sum(np.exp(logits - top), axis=-1)) + top[..., 0]
        right = np.take_along_axis(logits, batch["text"][:, 1:, None], axis=-1)[..., 0]
        return np.mean(total - right)

    return loss


def on_jax(dims: Dims, half: Half) -> Callable[[Arrays, Arrays], Any]:
    import jax
    import jax.numpy as jnp

    width, heads, window, blocks = dims["width"], dims["heads"], dims["window"], dims["blocks"]

    def norm(x: Any, scale: Any) -> Any:
        return half(jax.nn.standardize(x.astype(scale.dtype), epsilon=EPSILON) * scale)

    def with_previous(x: Any) -> Any:
        before = jnp.pad(x, ((0, 0), (1, 0), (0, 0), (0, 0), (0, 0)))[:, :-1]
        return jnp.concatenate([before, x], 2)

    def attention(x: Any, qkv: Any, distance: Any, out: Any) -> Any:
        size = x.shape[0]
        rows = (x @ half(qkv)).reshape(size, blocks, window, 3, heads, width // heads)
        q, k, v = (rows[:, :, :, i] for i in range(3))
        key = jnp.arange(2 * window)
        apart = jnp.arange(window)[:, None] + window - key
        exists = (jnp.arange(blocks)[:, None, None] > 0) | (key >= window)
        visible = ((apart >= 0) & (apart < window) & exists)[:, None]
        bias = half(distance)[:, jnp.clip(apart, 0, window - 1)]
        mixed = jax.nn.dot_product_attention(
            q.reshape(-1, *q.shape[2:]),
            with_previous(k).reshape(-1, 2 * window, *k.shape[3:]),
            with_previous(v).reshape(-1, 2 * window, *v.shape[3:]),
            bias=bias[None],
            mask=jnp.tile(visible, (size, 1, 1, 1)),
        )
        return mixed.reshape(x.shape) @ half(out)

    def loss(p: Arrays, batch: Arrays) -> Any:
        x = half(p["bytes"][batch["text"][:, :-1]])
        for i in range(dims["layers"]):
            normed = norm(x, p[f"scale1_{i}"])
            x = x + attention(normed, p[f"qkv_{i}"], p[f"distance_{i}"], p[f"out_{i}"])
            hidden = jax.nn.relu(norm(x, p[f"scale2_{i}"]) @ half(p[f"up_{i}"]))
            x = x + hidden @ half(p[f"down_{i}"])
        logits = (x @ half(p["head"])).astype(p["head"].dtype)
        right = jnp.take_along_axis(logits, batch["text"][:, 1:, None], -1)[..., 0]
        return jnp.mean(jax.nn.logsumexp(logits, -1) - right)

    return loss


def on_torch(dims: Dims, half: Half) -> Callable[[Arrays, Arrays], Any]:
    import torch
    from torch.nn import functional

    width, heads, window, blocks = dims["width"], dims["heads"], dims["window"], dims["blocks"]

    def norm(x: Any, scale: Any) -> Any:
        return half(functional.layer_norm(x.to(scale.dtype), (width,), scale, eps=EPSILON))

    def with_previous(x: Any) -> Any:
        before = functional.pad(x, (0, 0, 0, 0, 0, 0, 1, 0))[:, :-1]
        return torch.cat([before, x], 3).flatten(0, 1)

    def attention(x: Any, qkv: Any, distance: Any, out: Any) -> Any:
        size = x.shape[0]
        rows = (x @ half(qkv)).view(size, blocks, window, 3, heads, width // heads)
        q, k, v = rows.permute(3, 0, 1, 4, 2, 5)
        key = torch.arange(2 * window, device=x.device)
        apart = torch.arange(window, device=x.device)[:, None] + window - key
        exists = (torch.arange(blocks, device=x.device)[:, None, None] > 0) | (key >= window)
        visible = ((apart >= 0) & (apart < window) & exists)[:, None]
        bias = half(distance)[:, apart.clamp(0, window - 1)].masked_fill(~visible, -torch.inf)
        bias = bias.expand(size, *bias.shape).flatten(0, 1)
        mixed = functional.scaled_dot_product_attention(
            q.flatten(0, 1), with_previous(k), with_previous(v), bias
        )
        return mixed.transpose(1, 2).reshape(x.shape) @ half(out)

    def loss(p: Arrays, batch: Arrays) -> Any:
        x = half(functional.embedding(batch["text"][:, :-1], p["bytes"]))
        for i in range(dims["layers"]):
            normed = norm(x, p[f"scale1_{i}"])
            x = x + attention(normed, p[f"qkv_{i}"], p[f"distance_{i}"], p[f"out_{i}"])
            hidden = torch.relu(norm(x, p[f"scale2_{i}"]) @ half(p[f"up_{i}"]))
            x = x + hidden @ half(p[f"down_{i}"])
        logits = (x @ half(p["head"])).to(p["head"].dtype)
        return functional.cross_entropy(logits.flatten(0, 1), batch["text"][:, 1:].flatten())

    return loss


def cost(dims: Dims) -> Cost:
    """Three passes over all products, with one window of scores per byte; Adam's seven arrays."""
    width, layers, length = dims["width"], dims["layers"], dims["blocks"] * dims["window"]
    weights = 10 * width**2 * layers + 2 * width * dims["symbols"]
    products = 2 * weights * length + 4 * layers * length * dims["window"] * width
    return Cost(bytes=28.0 * weights, operations=3.0 * products * dims["batch"])


PROGRAM = Program(
    summary="16384 bytes of text, attention in a window of 256 with learned distances, Adam",
    kind=Kind.TRAINING,
    make=make,
    on_tapegrad=on_tapegrad,
    on_jax=on_jax,
    on_torch=on_torch,
    sizes={
        "check": {
            "batch": 2,
            "blocks": 4,
            "window": 3,
            "symbols": 7,
            "width": 10,
            "heads": 2,
            "layers": 2,
        },
        "cpu": {
            "batch": 1,
            "blocks": 16,
            "window": 32,
            "symbols": 256,
            "width": 64,
            "heads": 4,
            "layers": 2,
        },
        "cuda": {
            "batch": 1,
            "blocks": 64,
            "window": 256,
            "symbols": 256,
            "width": 512,
            "heads": 8,
            "layers": 4,
        },
    },
    cost=cost,
    optimizer=Optimizer("adam", 3e-4),
    dtypes={"cpu": "float32", "cuda": "bfloat16"},
    tolerance=1e-5,  # JAX's attention takes the softmax in single precision
)
