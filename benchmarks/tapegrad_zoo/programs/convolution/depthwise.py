"""Inverted residuals: depthwise convolutions between wide layers, with squeeze-and-excitation."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tapegrad_zoo.program import Arrays, Cost, Dims, Half, Kind, Optimizer, Program, Values

EPSILON, EXPANSION, SQUEEZE = 1e-3, 4, 4
BLOCKS = ((3, 1, 1), (3, 2, 2), (3, 1, 2), (5, 2, 3), (5, 1, 3), (3, 2, 5), (3, 1, 5))
"""The kernel, the stride, and the multiple of channels of each block."""


def _blocks(dims: Dims) -> list[tuple[str, int, int, int, int]]:
    """Return the name, kernel, stride, inputs and outputs of each block."""
    found, n = [], dims["channels"]
    for i, (kernel, stride, factor) in enumerate(BLOCKS[: dims["blocks"]]):
        found.append((f"b{i}", kernel, stride, n, factor * dims["channels"]))
        n = factor * dims["channels"]
    return found


def make(rng: np.random.Generator, dims: Dims) -> tuple[Values, Values]:
    params: Values = {}

    def normed(name: str, weights: Any, channels: int) -> None:
        params[f"{name}_w"] = weights
        params[f"{name}_scale"] = 1 + 0.1 * rng.standard_normal(channels)
        # The batch norm after a projection, which is linear, would remove an offset.
        if not name.endswith("project"):
            params[f"{name}_offset"] = 0.1 * rng.standard_normal(channels)

    def dense(n: int, m: int) -> Any:
        return rng.standard_normal((n, m)) * n**-0.5

    normed("stem", rng.standard_normal((3, 3, 3, dims["channels"])) * 0.2, dims["channels"])
    n = dims["channels"]
    for name, kernel, _, n, m in _blocks(dims):
        wide = EXPANSION * n
        normed(f"{name}_expand", dense(n, wide)[None, None], wide)
        normed(f"{name}_deep", rng.standard_normal((kernel, kernel, wide, 1)) / kernel, wide)
        params[f"{name}_squeeze"] = dense(wide, wide // SQUEEZE)
        params[f"{name}_squeeze_bias"] = 0.1 * rng.standard_normal(wide // SQUEEZE)
        params[f"{name}_excite"] = dense(wide // SQUEEZE, wide)
        params[f"{name}_excite_bias"] = 0.1 * rng.standard_normal(wide)
        normed(f"{name}_project", dense(wide, m)[None, None], m)
        n = m
    params["head"] = dense(n, dims["classes"])
    params["head_bias"] = 0.1 * rng.standard_normal(dims["classes"])
    batch = {
        "images": rng.standard_normal((dims["batch"], dims["height"], dims["width"], 3)),
        "labels": rng.integers(0, dims["classes"], dims["batch"]),
    }
    return params, batch


def on_tapegrad(dims: Dims, half: Half) -> Callable[[Arrays, Arrays], Any]:
    import tapegrad as tf

    def norm(p: Arrays, name: str, x: Any) -> Any:
        x = tf.cast(x, p[f"{name}_scale"].dtype)
        mean, variance = tf.nn.moments(x, axes=[0, 1, 2])
        offset, scale = p.get(f"{name}_offset"), p[f"{name}_scale"]
        return half(tf.nn.batch_normalization(x, mean, variance, offset, scale, EPSILON))

    def conv(p: Arrays, name: str, x: Any, stride: int = 1) -> Any:
        return norm(p, name, tf.nn.conv2d(x, half(p[f"{name}_w"]), stride, "SAME"))

    def block(p: Arrays, name: str, x: Any, stride: int) -> Any:
        y = tf.nn.swish(conv(p, f"{name}_expand", x))
        w = half(p[f"{name}_deep_w"])
        y = tf.nn.depthwise_conv2d(y, w, strides=[1, stride, stride, 1], padding="SAME")
        y = tf.nn.swish(norm(p, f"{name}_deep", y))
        s = tf.reduce_mean(y, axis=[1, 2])
        s = tf.nn.swish(s @ half(p[f"{name}_squeeze"]) + half(p[f"{name}_squeeze_bias"]))
        s = tf.sigmoid(s @ half(p[f"{name}_excite"]) + half(p[f"{name}_excite_bias"]))
        return conv(p, f"{name}_project", y * s[:, None, None, :])

    def loss(p: Arrays, batch: Arrays) -> Any:
        x = tf.nn.swish(conv(p, "stem", half(batch["images"]), 2))
        for name, _, stride, n, m in _blocks(dims):
            y = block(p, name, x, stride)
            x = x + y if stride == 1 and n == m else y
        logits = tf.reduce_mean(x, axis=[1, 2]) @ half(p["head"])
        logits = tf.cast(logits, p["head"].dtype) + p["head_bias"]
        losses = tf.nn.sparse_softmax_cross_entropy_with_logits(batch["labels"], logits)
        return tf.reduce_mean(losses)

    return loss


def on_jax(dims: Dims, half: Half) -> Callable[[Arrays, Arrays], Any]:
    import jax
    import jax.numpy as jnp
    from jax import lax

    def norm(p: Arrays, name: str, x: Any) -> Any:
        scale, offset = p[f"{name}_scale"], p.get(f"{name}_offset", 0)
        x = jax.nn.standardize(x.astype(scale.dtype), (0, 1, 2), epsilon=EPSILON)
        return half(x * scale + offset)

    def conv(p: Arrays, name: str, x: Any, stride: int = 1, groups: int = 1) -> Any:
        w = half(p[f"{name}_w"])
        w = w.reshape(*w.shape[:2], 1, groups) if groups > 1 else w
        x = lax.conv_general_dilated(
            x,
            w,
            (stride, stride),
            "SAME",
            dimension_numbers=("NHWC", "HWIO", "NHWC"),
            feature_group_count=groups,
        )
        return norm(p, name, x)

    def block(p: Arrays, name: str, x: Any, stride: int) -> Any:
        y = jax.nn.silu(conv(p, f"{name}_expand", x))
        y = jax.nn.silu(conv(p, f"{name}_deep", y, stride, y.shape[-1]))
        s = jnp.mean(y, (1, 2))
        s = jax.nn.silu(s @ half(p[f"{name}_squeeze"]) + half(p[f"{name}_squeeze_bias"]))
        s = jax.nn.sigmoid(s @ half(p[f"{name}_excite"]) + half(p[f"{name}_excite_bias"]))
        return conv(p, f"{name}_project", y * s[:, None, None, :])

    def loss(p: Arrays, batch: Arrays) -> Any:
        x = jax.nn.silu(conv(p, "stem", half(batch["images"]), 2))
        for name, _, stride, n, m in _blocks(dims):
            y = block(p, name, x, stride)
            x = x + y if stride == 1 and n == m else y
        logits = (jnp.mean(x, (1, 2)) @ half(p["head"])).astype(p["head"].dtype)
        log_shares = jax.nn.log_softmax(logits + p["head_bias"])
        return -jnp.mean(jnp.take_along_axis(log_shares, batch["labels"][:, None], 1))

    return loss


def on_torch(dims: Dims, half: Half) -> Callable[[Arrays, Arrays], Any]:
    import torch
    from torch.nn import functional

    def conv(p: Arrays, name: str, x: Any, stride: int = 1, groups: int = 1) -> Any:
        w = half(p[f"{name}_w"])
        w = w.permute(2, 3, 0, 1) if groups > 1 else w.permute(3, 2, 0, 1)
        padding = w.shape[-1] // 2
        if stride > 1:  # the last row and column get the larger half
            height, width = x.shape[2:]
            rows, columns = ((-(-n // 2) - 1) * 2 + w.shape[-1] - n for n in (height, width))
            edges = (columns // 2, -(-columns // 2), rows // 2, -(-rows // 2))
            x, padding = functional.pad(x, edges), 0
        x = functional.conv2d(x, w, None, stride, padding, 1, groups)
        scale = p[f"{name}_scale"]
        offset = p.get(f"{name}_offset", torch.zeros_like(scale))
        return functional.batch_norm(x, None, None, scale, offset, training=True, eps=EPSILON)

    def block(p: Arrays, name: str, x: Any, stride: int) -> Any:
        y = functional.silu(conv(p, f"{name}_expand", x))
        y = functional.silu(conv(p, f"{name}_deep", y, stride, y.shape[1]))
        s = y.mean((2, 3))
        s = functional.silu(s @ half(p[f"{name}_squeeze"]) + half(p[f"{name}_squeeze_bias"]))
        s = functional.sigmoid(s @ half(p[f"{name}_excite"]) + half(p[f"{name}_excite_bias"]))
        return conv(p, f"{name}_project", y * s[:, :, None, None])

    def loss(p: Arrays, batch: Arrays) -> Any:
        x = half(batch["images"]).permute(0, 3, 1, 2)  # channels last in memory
        x = functional.silu(conv(p, "stem", x, 2))
        for name, _, stride, n, m in _blocks(dims):
            y = block(p, name, x, stride)
            x = x + y if stride == 1 and n == m else y
        logits = (x.mean((2, 3)) @ half(p["head"])).to(p["head"].dtype)
        return functional.cross_entropy(logits + p["head_bias"], batch["labels"])

    return loss


def cost(dims: Dims) -> Cost:
    """Three passes over the products; a value and its gradient: one write, two reads."""
    pixels = dims["batch"] * dims["height"] * dims["width"] // 4
    products, values = pixels * 27 * dims["channels"], pixels * dims["channels"]
    for _, kernel, stride, n, m in _blocks(dims):
        before, pixels, wide = pixels, pixels // stride**2, EXPANSION * n
        products += before * n * wide + pixels * wide * (kernel**2 + m)
        values += (before + pixels) * wide + pixels * m
    return Cost(bytes=12.0 * values, operations=6.0 * products)


PROGRAM = Program(
    summary="a mobile network of 7 inverted residuals with batch norm and swish, momentum",
    kind=Kind.TRAINING,
    make=make,
    on_tapegrad=on_tapegrad,
    on_jax=on_jax,
    on_torch=on_torch,
    sizes={
        "check": {
            "batch": 3,
            "height": 16,
            "width": 22,
            "channels": 4,
            "blocks": 4,
            "classes": 5,
        },
        "cpu": {
            "batch": 4,
            "height": 64,
            "width": 64,
            "channels": 8,
            "blocks": 7,
            "classes": 10,
        },
        "cuda": {
            "batch": 64,
            "height": 192,
            "width": 192,
            "channels": 32,
            "blocks": 7,
            "classes": 1000,
        },
    },
    cost=cost,
    optimizer=Optimizer("momentum", 0.05),
    dtypes={"cpu": "float32", "cuda": "bfloat16"},
)
