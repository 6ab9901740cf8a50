"""DenseNet: each layer sees the concatenation of all layers before it in its block."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tapegrad_zoo.program import Arrays, Cost, Dims, Half, Kind, Optimizer, Program, Values

EPSILON, DECAY, BOTTLENECK = 1e-5, 1e-4, 4


def make(rng: np.random.Generator, dims: Dims) -> tuple[Values, Values]:
    growth, n = dims["growth"], 2 * dims["growth"]
    params: Values = {"stem": rng.standard_normal((3, 3, 3, n)) * (2 / 27) ** 0.5}

    def normed(name: str, size: int, n: int, m: int) -> None:
        params[f"{name}.gamma"] = 1 + 0.1 * rng.standard_normal(n)
        params[f"{name}.beta"] = 0.1 * rng.standard_normal(n)
        params[f"{name}.kernel"] = rng.standard_normal((size, size, n, m)) * (
            (2 / (size * size * n)) ** 0.5
        )

    for block in range(dims["blocks"]):
        for layer in range(dims["layers"]):
            normed(f"b{block}l{layer}.narrow", 1, n, BOTTLENECK * growth)
            normed(f"b{block}l{layer}.grow", 3, BOTTLENECK * growth, growth)
            n += growth
        if block < dims["blocks"] - 1:
            normed(f"t{block}", 1, n, n // 2)
            n //= 2
    normed("last", 1, n, dims["classes"])
    batch = {
        "images": rng.standard_normal((dims["batch"], dims["height"], dims["width"], 3)),
        "labels": rng.integers(0, dims["classes"], dims["batch"]),
    }
    return params, batch


def on_tapegrad(dims: Dims, half: Half) -> Callable[[Arrays, Arrays], Any]:
    import tapegrad as tf

    def norm_relu(p: Arrays, name: str, x: Any) -> Any:
        gamma, beta = p[f"{name}.gamma"], p[f"{name}.beta"]
        x = tf.cast(x, gamma.dtype)
        mean = tf.reduce_mean(x, axis=[0, 1, 2])
        variance = tf.reduce_mean(tf.math.squared_difference(x, mean), axis=[0, 1, 2])
        return half(tf.nn.relu(gamma * (x - mean) / tf.sqrt(variance + EPSILON) + beta))

    def conv(x: Any, kernel: Any) -> Any:
        return tf.nn.conv2d(x, half(kernel), strides=1, padding="SAME")

    def unit(p: Arrays, name: str, x: Any) -> Any:
        return conv(norm_relu(p, name, x), p[f"{name}.kernel"])

    def loss(p: Arrays, batch: Arrays) -> Any:
        x = conv(half(batch["images"]), p["stem"])
        for block in range(dims["blocks"]):
            for layer in range(dims["layers"]):
                y = unit(p, f"b{block}l{layer}.narrow", x)
                y = unit(p, f"b{block}l{layer}.grow", y)
                x = tf.concat([x, y], axis=-1)
            if block < dims["blocks"] - 1:
                x = tf.nn.avg_pool2d(unit(p, f"t{block}", x), 2, 2, "VALID")
        x = tf.reduce_mean(norm_relu(p, "last", x), axis=[1, 2])
        logits = tf.cast(x @ half(p["last.kernel"][0, 0]), p["stem"].dtype)
        losses = tf.nn.sparse_softmax_cross_entropy_with_logits(batch["labels"], logits)
        decay = tf.add_n([tf.nn.l2_loss(w) for name, w in p.items() if name.endswith("kernel")])
        return tf.reduce_mean(losses) + DECAY * decay

    return loss


def on_jax(dims: Dims, half: Half) -> Callable[[Arrays, Arrays], Any]:
    import jax
    import jax.numpy as jnp
    from jax import lax

    def norm_relu(p: Arrays, name: str, x: Any) -> Any:
        gamma, beta = p[f"{name}.gamma"], p[f"{name}.beta"]
        x = jax.nn.standardize(x.astype(gamma.dtype), (0, 1, 2), epsilon=EPSILON)
        return half(jax.nn.relu(x * gamma + beta))

    def conv(x: Any, kernel: Any) -> Any:
        layout = ("NHWC", "HWIO", "NHWC")
        return lax.conv_general_dilated(x, half(kernel), (1, 1), "SAME", dimension_numbers=layout)

    def unit(p: Arrays, name: str, x: Any) -> Any:
        return conv(norm_relu(p, name, x), p[f"{name}.kernel"])

    def pool(x: Any) -> Any:
        window = (1, 2, 2, 1)
        return lax.reduce_window(x, 0.0, lax.add, window, window, "VALID") / 4

    def loss(p: Arrays, batch: Arrays) -> Any:
        x = conv(half(batch["images"]), p["stem"])
        for block in range(dims["blocks"]):
            for layer in range(dims["layers"]):
                y = unit(p, f"b{block}l{layer}.narrow", x)
                x = jnp.concatenate([x, unit(p, f"b{block}l{layer}.grow", y)], -1)
            x = pool(unit(p, f"t{block}", x)) if block < dims["blocks"] - 1 else x
        x = jnp.mean(norm_relu(p, "last", x), (1, 2))
        logits = (x @ half(p["last.kernel"][0, 0])).astype(p["stem"].dtype)
        log_shares = jax.nn.log_softmax(logits)
        losses = -jnp.mean(jnp.take_along_axis(log_shares, batch["labels"][:, None], 1))
        decay = sum(jnp.sum(w * w) for name, w in p.items() if name.endswith("kernel"))
        return losses + DECAY / 2 * decay

    return loss


def on_torch(dims: Dims, half: Half) -> Callable[[Arrays, Arrays], Any]:
    import torch
    from torch.nn import functional

    def norm_relu(p: Arrays, name: str, x: Any) -> Any:
        gamma, beta = p[f"{name}.gamma"], p[f"{name}.beta"]
        x = functional.batch_norm(x, None, None, gamma, beta, training=True, eps=EPSILON)
        return torch.relu(x)

    def conv(x: Any, kernel: Any) -> Any:
        return functional.conv2d(x, half(kernel).permute(3, 2, 0, 1), padding="same")

    def unit(p: Arrays, name: str, x: Any) -> Any:
        return conv(norm_relu(p, name, x), p[f"{name}.kernel"])

    def loss(p: Arrays, batch: Arrays) -> Any:
        x = conv(half(batch["images"]).permute(0, 3, 1, 2), p["stem"])  # channels last in memory
        for block in range(dims["blocks"]):
            for layer in range(dims["layers"]):
                y = unit(p, f"b{block}l{layer}.narrow", x)
                x = torch.cat([x, unit(p, f"b{block}l{layer}.grow", y)], 1)
            if block < dims["blocks"] - 1:
                x = functional.avg_pool2d(unit(p, f"t{block}", x), 2)
        x = norm_relu(p, "last", x).mean((2, 3))
        logits = (x @ half(p["last.kernel"][0, 0])).to(p["stem"].dtype)
        decay = sum(w.square().sum() for name, w in p.items() if name.endswith("kernel"))
        return functional.cross_entropy(logits, batch["labels"]) + DECAY / 2 * decay

    return loss


def cost(dims: Dims) -> Cost:
    """Three passes over the products; a value and its gradient: one write, two reads."""
    growth, n = dims["growth"], 2 * dims["growth"]
    pixels = dims["batch"] * dims["height"] * dims["width"]
    products, values, inner = pixels * 27 * n, 0, BOTTLENECK * growth
    for block in range(dims["blocks"]):
        for _ in range(dims["layers"]):
            products += pixels * (n * inner + 9 * inner * growth)
            values += pixels * (n + inner)
            n += growth
        if block < dims["blocks"] - 1:
            products += pixels * n * n // 2
            values += pixels * n
            pixels, n = pixels // 4, n // 2
    return Cost(bytes=12.0 * values, operations=6.0 * products)


PROGRAM = Program(
    summary="DenseNet of 3 blocks of 12 layers, growth 24, 64 images of 32 x 32, momentum",
    kind=Kind.TRAINING,
    make=make,
    on_tapegrad=on_tapegrad,
    on_jax=on_jax,
    on_torch=on_torch,
    sizes={
        "check": {
            "batch": 3,
            "height": 6,
            "width": 9,
            "growth": 2,
            "blocks": 2,
            "layers": 2,
            "classes": 5,
        },
        "cpu": {
            "batch": 8,
            "height": 32,
            "width": 32,
            "growth": 6,
            "blocks": 3,
            "layers": 4,
            "classes": 10,
        },
        "cuda": {
            "batch": 64,
            "height": 32,
            "width": 32,
            "growth": 24,
            "blocks": 3,
            "layers": 12,
            "classes": 100,
        },
    },
    cost=cost,
    optimizer=Optimizer("momentum", 0.1),
    dtypes={"cpu": "float32", "cuda": "bfloat16"},
)
