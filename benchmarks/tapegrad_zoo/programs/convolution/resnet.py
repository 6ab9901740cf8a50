"""A residual network of bottlenecks with batch norm, trained with smoothed labels."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tapegrad_zoo.program import Arrays, Cost, Dims, Half, Kind, Optimizer, Program, Values

EPSILON, SMOOTHING, EXPANSION = 1e-5, 0.1, 4


def _blocks(dims: Dims) -> list[tuple[str, int, int, int]]:
    """Return the name, the inputs, the inner channels and the stride of each bottleneck."""
    found, n = [], dims["channels"]
    for stage in range(dims["stages"]):
        for block in range(dims["blocks"]):
            inner, stride = dims["channels"] << stage, 2 if stage and not block else 1
            found.append((f"s{stage}b{block}", n, inner, stride))
            n = EXPANSION * inner
    return found


def make(rng: np.random.Generator, dims: Dims) -> tuple[Values, Values]:
    params: Values = {}

    def convolution(name: str, size: int, n: int, m: int) -> None:
        params[f"{name}/w"] = rng.standard_normal((size, size, n, m)) * (2 / (size**2 * n)) ** 0.5
        params[f"{name}/gain"] = 1 + 0.1 * rng.standard_normal(m)
        params[f"{name}/bias"] = 0.1 * rng.standard_normal(m)

    convolution("stem", 7, 3, dims["channels"])
    for name, n, inner, _ in _blocks(dims):
        convolution(f"{name}/1", 1, n, inner)
        convolution(f"{name}/2", 3, inner, inner)
        convolution(f"{name}/3", 1, inner, EXPANSION * inner)
        if n != EXPANSION * inner:
            convolution(f"{name}/short", 1, n, EXPANSION * inner)
    last = EXPANSION * dims["channels"] << (dims["stages"] - 1)
    params["head"] = rng.standard_normal((last, dims["classes"])) * last**-0.5
    batch = {
        "images": rng.standard_normal((dims["batch"], dims["height"], dims["width"], 3)),
        "labels": rng.integers(0, dims["classes"], dims["batch"]),
    }
    return params, batch


def on_tapegrad(dims: Dims, half: Half) -> Callable[[Arrays, Arrays], Any]:
    import tapegrad as tf
    import tapegrad.numpy as np

    def around(n: int) -> Any:
        return [[0, 0], [n, n], [n, n], [0, 0]]

    def normed(p: Arrays, name: str, x: Any, stride: int = 1) -> Any:
        w = p[f"{name}/w"]
        x = tf.nn.conv2d(x, half(w), stride, around(w.shape[0] // 2))
        x = np.astype(x, w.dtype)
        mean, variance = np.mean(x, axis=(0, 1, 2)), np.var(x, axis=(0, 1, 2))
        x = (x - mean) / np.sqrt(variance + EPSILON)
        return half(x * p[f"{name}/gain"] + p[f"{name}/bias"])

    def relu(x: Any) -> Any:
        return np.maximum(x, 0)

    def loss(p: Arrays, batch: Arrays) -> Any:
        x = relu(normed(p, "stem", half(batch["images"]), 2))
        x = tf.nn.max_pool2d(x, 3, 2, around(1))
        for name, n, inner, stride in _blocks(dims):
            y = relu(normed(p, f"{name}/1", x))
            y = relu(normed(p, f"{name}/2", y, stride))
            y = normed(p, f"{name}/3", y)
            if n != EXPANSION * inner:
                x = normed(p, f"{name}/short", x, stride)
            x = relu(x + y)
        logits = np.astype(np.mean(x, axis=(1, 2)) @ half(p["head"]), p["head"].dtype)
        logits = logits - np.max(logits, axis=1, keepdims=True)
        log_shares = logits - np.log(np.sum(np.exp(logits), axis=1, keepdims=True))
        right = log_shares[np.arange(dims["batch"]), batch["labels"]]
        return -np.mean((1 - SMOOTHING) * right + SMOOTHING * np.mean(log_shares, axis=1))

    return loss


def on_jax(dims: Dims, half: Half) -> Callable[[Arrays, Arrays], Any]:
    import jax
    import jax.numpy as jnp
    from jax import lax

    def normed(p: Arrays, name: str, x: Any, stride: int = 1) -> Any:
        w = p[f"{name}/w"]
        n = w.shape[0] // 2
        x = lax.conv_general_dilated(
            x,
            half(w),
            (stride, stride),
            ((n, n), (n, n)),
            dimension_numbers=("NHWC", "HWIO", "NHWC"),
        )
        x = jax.nn.standardize(x.astype(w.dtype), (0, 1, 2), epsilon=EPSILON)
        return half(x * p[f"{name}/gain"] + p[f"{name}/bias"])

    def pool(x: Any) -> Any:
        edges = ((0, 0), (1, 1), (1, 1), (0, 0))
        return lax.reduce_window(x, -jnp.inf, lax.max, (1, 3, 3, 1), (1, 2, 2, 1), edges)

    def loss(p: Arrays, batch: Arrays) -> Any:
        x = pool(jax.nn.relu(normed(p, "stem", half(batch["images"]), 2)))
        for name, n, inner, stride in _blocks(dims):
            y = jax.nn.relu(normed(p, f"{name}/1", x))
            y = jax.nn.relu(normed(p, f"{name}/2", y, stride))
            y = normed(p, f"{name}/3", y)
            if n != EXPANSION * inner:
                x = normed(p, f"{name}/short", x, stride)
            x = jax.nn.relu(x + y)
        logits = (jnp.mean(x, (1, 2)) @ half(p["head"])).astype(p["head"].dtype)
        log_shares = jax.nn.log_softmax(logits)
        right = jnp.take_along_axis(log_shares, batch["labels"][:, None], 1)
        return -(1 - SMOOTHING) * jnp.mean(right) - SMOOTHING * jnp.mean(log_shares)

    return loss


def on_torch(dims: Dims, half: Half) -> Callable[[Arrays, Arrays], Any]:
    import torch
    from torch.nn import functional

    def normed(p: Arrays, name: str, x: Any, stride: int = 1) -> Any:
        w = half(p[f"{name}/w"]).permute(3, 2, 0, 1)
        x = functional.conv2d(x, w, None, stride, w.shape[-1] // 2)
        gain, bias = p[f"{name}/gain"], p[f"{name}/bias"]
        return functional.batch_norm(x, None, None, gain, bias, training=True, eps=EPSILON)

    def loss(p: Arrays, batch: Arrays) -> Any:
        x = half(batch["images"]).permute(0, 3, 1, 2)  # channels last in memory
        x = functional.max_pool2d(torch.relu(normed(p, "stem", x, 2)), 3, 2, 1)
        for name, n, inner, stride in _blocks(dims):
            y = torch.relu(normed(p, f"{name}/1", x))
            y = torch.relu(normed(p, f"{name}/2", y, stride))
            y = normed(p, f"{name}/3", y)
            if n != EXPANSION * inner:
                x = normed(p, f"{name}/short", x, stride)
            x = torch.relu(x + y)
        logits = (x.mean((2, 3)) @ half(p["head"])).to(p["head"].dtype)
        return functional.cross_entropy(logits, batch["labels"], label_smoothing=SMOOTHING)

    return loss


def cost(dims: Dims) -> Cost:
    """Three passes over the products; a value and its gradient: one write, two reads."""
    pixels = dims["batch"] * dims["height"] * dims["width"] // 4
    products, values = pixels * 147 * dims["channels"], pixels * dims["channels"]
    pixels //= 4
    for _, n, inner, stride in _blocks(dims):
        before, pixels = pixels, pixels // stride**2
        wide = EXPANSION * inner
        products += before * n * inner + pixels * (9 * inner**2 + inner * wide)
        products += pixels * n * wide if n != wide else 0
        values += before * inner + pixels * (inner + wide)
    return Cost(bytes=12.0 * values, operations=6.0 * products)


PROGRAM = Program(
    summary="ResNet of 16 bottlenecks, 32 images of 224 x 224, batch norm, momentum",
    kind=Kind.TRAINING,
    make=make,
    on_tapegrad=on_tapegrad,
    on_jax=on_jax,
    on_torch=on_torch,
    sizes={
        "check": {
            "batch": 3,
            "height": 18,
            "width": 22,
            "channels": 3,
            "stages": 2,
            "blocks": 2,
            "classes": 5,
        },
        "cpu": {
            "batch": 4,
            "height": 64,
            "width": 64,
            "channels": 8,
            "stages": 3,
            "blocks": 2,
            "classes": 10,
        },
        "cuda": {
            "batch": 32,
            "height": 224,
            "width": 224,
            "channels": 64,
            "stages": 4,
            "blocks": 4,
            "classes": 1000,
        },
    },
    cost=cost,
    optimizer=Optimizer("momentum", 0.1),
    dtypes={"cpu": "float32", "cuda": "bfloat16"},
)
