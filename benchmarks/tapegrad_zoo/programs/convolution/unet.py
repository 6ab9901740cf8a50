"""A U-Net that labels each pixel, trained by cross entropy and the overlap of each class."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tapegrad_zoo.program import Arrays, Cost, Dims, Half, Kind, Optimizer, Program, Values

COLOURS, SMOOTH = 3, 1.0


def make(rng: np.random.Generator, dims: Dims) -> tuple[Values, Values]:
    levels, base = dims["levels"], dims["channels"]
    params: Values = {}

    def convolution(name: str, size: int, n: int, m: int) -> None:
        params[f"{name}_w"] = rng.standard_normal((size, size, n, m)) * (2 / (size**2 * n)) ** 0.5
        params[f"{name}_b"] = rng.standard_normal(m) * 0.1

    n = COLOURS
    for level in range(levels + 1):
        convolution(f"down{level}a", 3, n, base << level)
        convolution(f"down{level}b", 3, base << level, base << level)
        n = base << level
    for level in reversed(range(levels)):
        m = base << level
        # Filters of transposed convolutions have the outputs before the inputs.
        params[f"grow{level}_w"] = rng.standard_normal((2, 2, m, 2 * m)) * (1 / m) ** 0.5
        params[f"grow{level}_b"] = rng.standard_normal(m) * 0.1
        convolution(f"up{level}a", 3, 2 * m, m)
        convolution(f"up{level}b", 3, m, m)
    convolution("last", 1, base, dims["classes"])
    shape = dims["batch"], dims["height"], dims["width"]
    batch = {
        "images": rng.standard_normal((*shape, COLOURS)),
        "labels": rng.integers(0, dims["classes"], shape),
    }
    return params, batch


def on_tapegrad(dims: Dims, half: Half) -> Callable[[Arrays, Arrays], Any]:
    import tapegrad as tf

    levels = dims["levels"]

    def conv(p: Arrays, name: str, x: Any) -> Any:
        x = tf.nn.conv2d(x, half(p[f"{name}_w"]), strides=1, padding="SAME")
        return tf.nn.bias_add(x, half(p[f"{name}_b"]))

    def two(p: Arrays, name: str, x: Any) -> Any:
        return tf.nn.relu(conv(p, f"{name}b", tf.nn.relu(conv(p, f"{name}a", x))))

    def grow(p: Arrays, name: str, x: Any) -> Any:
        size, height, width, channels = x.shape
        shape = (size, 2 * height, 2 * width, channels // 2)
        x = tf.nn.conv2d_transpose(x, half(p[f"{name}_w"]), shape, strides=2, padding="SAME")
        return x + half(p[f"{name}_b"])

    def loss(p: Arrays, batch: Arrays) -> Any:
        x, kept = half(batch["images"]), []
        for level in range(levels):
            x = two(p, f"down{level}", x)
            kept.append(x)
            x = tf.nn.max_pool2d(x, 2, 2, "VALID")
        x = two(p, f"down{levels}", x)
        for level in reversed(range(levels)):
            x = tf.concat([kept[level], grow(p, f"grow{level}", x)], axis=-1)
            x = two(p, f"up{level}", x)
        logits = tf.cast(conv(p, "last", x), p["last_w"].dtype)
        losses = tf.nn.sparse_softmax_cross_entropy_with_logits(batch["labels"], logits)
        shares = tf.nn.softmax(logits)
        truth = tf.one_hot(batch["labels"], dims["classes"], dtype=shares.dtype)
        both = tf.reduce_sum(shares * truth, axis=(1, 2))
        either = tf.reduce_sum(shares + truth, axis=(1, 2))
        overlap = tf.reduce_mean((2 * both + SMOOTH) / (either + SMOOTH))
        return tf.reduce_mean(losses) + 1 - overlap

    return loss


def on_jax(dims: Dims, half: Half) -> Callable[[Arrays, Arrays], Any]:
    import jax
    import jax.numpy as jnp
    from jax import lax

    levels, layout = dims["levels"], ("NHWC", "HWIO", "NHWC")

    def conv(p: Arrays, name: str, x: Any) -> Any:
        w, b = half(p[f"{name}_w"]), half(p[f"{name}_b"])
        return lax.conv_general_dilated(x, w, (1, 1), "SAME", dimension_numbers=layout) + b

    def two(p: Arrays, name: str, x: Any) -> Any:
        return jax.nn.relu(conv(p, f"{name}b", jax.nn.relu(conv(p, f"{name}a", x))))

    def grow(p: Arrays, name: str, x: Any) -> Any:
        w, b = half(p[f"{name}_w"]), half(p[f"{name}_b"])
        return b + lax.conv_transpose(
            x, w, (2, 2), "VALID", dimension_numbers=layout, transpose_kernel=True
        )

    def pool(x: Any) -> Any:
        return lax.reduce_window(x, -jnp.inf, lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")

    def loss(p: Arrays, batch: Arrays) -> Any:
        x, kept = half(batch["images"]), []
        for level in range(levels):
            x = two(p, f"down{level}", x)
            kept.append(x)
            x = pool(x)
        x = two(p, f"down{levels}", x)
        for level in reversed(range(levels)):
            x = jnp.concatenate([kept[level], grow(p, f"grow{level}", x)], -1)
            x = two(p, f"up{level}", x)
        logits = jax.nn.log_softmax(conv(p, "last", x).astype(p["last_w"].dtype))
        shares = jnp.exp(logits)
        truth = jax.nn.one_hot(batch["labels"], dims["classes"], dtype=shares.dtype)
        both, either = jnp.sum(shares * truth, (1, 2)), jnp.sum(shares + truth, (1, 2))
        overlap = jnp.mean((2 * both + SMOOTH) / (either + SMOOTH))
        return 1 - overlap - jnp.mean(jnp.sum(truth * logits, -1))

    return loss


def on_torch(dims: Dims, half: Half) -> Callable[[Arrays, Arrays], Any]:
    import torch
    from torch.nn import functional

    levels = dims["levels"]

    def conv(p: Arrays, name: str, x: Any) -> Any:
        w = half(p[f"{name}_w"]).permute(3, 2, 0, 1)
        return functional.conv2d(x, w, half(p[f"{name}_b"]), padding="same")

    def two(p: Arrays, name: str, x: Any) -> Any:
        return torch.relu(conv(p, f"{name}b", torch.relu(conv(p, f"{name}a", x))))

    def grow(p: Arrays, name: str, x: Any) -> Any:
        w = half(p[f"{name}_w"]).permute(3, 2, 0, 1)
        return functional.conv_transpose2d(x, w, half(p[f"{name}_b"]), stride=2)

    def loss(p: Arrays, batch: Arrays) -> Any:
        x, kept = half(batch["images"]).permute(0, 3, 1, 2), []  # channels last in memory
        for level in range(levels):
            x = two(p, f"down{level}", x)
            kept.append(x)
            x = functional.max_pool2d(x, 2)
        x = two(p, f"down{levels}", x)
        for level in reversed(range(levels)):
            x = torch.cat([kept[level], grow(p, f"grow{level}", x)], 1)
            x = two(p, f"up{level}", x)
        logits = conv(p, "last", x).to(p["last_w"].dtype)
        shares = torch.softmax(logits, 1)
        truth = functional.one_hot(batch["labels"], dims["classes"]).movedim(-1, 1)
        both, either = (shares * truth).sum((2, 3)), (shares + truth).sum((2, 3))
        overlap = ((2 * both + SMOOTH) / (either + SMOOTH)).mean()
        return functional.cross_entropy(logits, batch["labels"]) + 1 - overlap

    return loss


def cost(dims: Dims) -> Cost:
    """Three passes over the products; a value: one write, two reads; its gradient: one of each."""
    levels, base = dims["levels"], dims["channels"]
    pixels = dims["batch"] * dims["height"] * dims["width"]
    products, values = pixels * (9 * COLOURS * base + base * dims["classes"]), 0
    for level in range(levels + 1):
        here, m = pixels >> 2 * level, base << level
        products += here * 9 * m * m + (here * 9 * (m // 2) * m if level else 0)
        products += here * (27 + 2) * m * m if level < levels else 0
        values += here * m * (6 if level < levels else 2)
    return Cost(bytes=10.0 * values, operations=6.0 * products)


PROGRAM = Program(
    summary="U-Net with four levels from 64 channels, 8 images of 256 x 256, Adam",
    kind=Kind.TRAINING,
    make=make,
    on_tapegrad=on_tapegrad,
    on_jax=on_jax,
    on_torch=on_torch,
    sizes={
        "check": {"batch": 2, "height": 8, "width": 12, "channels": 3, "levels": 2, "classes": 4},
        "cpu": {"batch": 2, "height": 48, "width": 64, "channels": 8, "levels": 3, "classes": 5},
        "cuda": {
            "batch": 8,
            "height": 256,
            "width": 256,
            "channels": 64,
            "levels": 4,
            "classes": 21,
        },
    },
    cost=cost,
    optimizer=Optimizer("adam", 1e-4),
    dtypes={"cpu": "float32", "cuda": "bfloat16"},
)
