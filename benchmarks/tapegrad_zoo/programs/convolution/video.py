"""Videos are classified by 3-D convolutions, split into one over space and one over time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tapegrad_zoo.program import Arrays, Cost, Dims, Half, Kind, Optimizer, Program, Values

EPSILON = 1e-5


def make(rng: np.random.Generator, dims: Dims) -> tuple[Values, Values]:
    params: Values = {}
    n = 3
    for stage in range(dims["stages"]):
        m = dims["channels"] << stage
        params |= {
            f"space{stage}": rng.standard_normal((1, 3, 3, n, m)) * (2 / (9 * n)) ** 0.5,
            f"time{stage}": rng.standard_normal((3, 1, 1, m, m)) * (2 / (3 * m)) ** 0.5,
            f"full{stage}": rng.standard_normal((3, 3, 3, m, m)) * (2 / (27 * m)) ** 0.5,
        }
        for name in ("space", "time", "full"):
            params[f"{name}_gain{stage}"] = 1 + 0.1 * rng.standard_normal(m)
            params[f"{name}_bias{stage}"] = 0.1 * rng.standard_normal(m)
        n = m
    params["head"] = rng.standard_normal((n, dims["classes"])) * n**-0.5
    shape = dims["batch"], dims["frames"], dims["height"], dims["width"], 3
    batch = {
        "videos": rng.standard_normal(shape),
        "labels": rng.integers(0, dims["classes"], dims["batch"]),
    }
    return params, batch


def on_tapegrad(dims: Dims, half: Half) -> Callable[[Arrays, Arrays], Any]:
    import tapegrad as tf

    def norm(x: Any, gain: Any, bias: Any) -> Any:
        x = tf.cast(x, gain.dtype)
        mean, variance = tf.nn.moments(x, axes=[1, 2, 3], keepdims=True)
        return half((x - mean) / tf.sqrt(variance + EPSILON) * gain + bias)

    def layer(p: Arrays, name: str, stage: int, x: Any) -> Any:
        w = half(p[f"{name}{stage}"])
        x = tf.nn.conv3d(x, w, strides=[1, 1, 1, 1, 1], padding="SAME")
        return norm(x, p[f"{name}_gain{stage}"], p[f"{name}_bias{stage}"])

    def loss(p: Arrays, batch: Arrays) -> Any:
        x = half(batch["videos"])
        for stage in range(dims["stages"]):
            x = tf.nn.relu(layer(p, "space", stage, x))
            x = tf.nn.relu(layer(p, "time", stage, x))
            x = tf.nn.relu(x + layer(p, "full", stage, x))
            if stage < dims["stages"] - 1:
                x = tf.nn.avg_pool3d(x, 2, 2, "VALID")
        x = tf.reduce_mean(x, axis=[1, 2, 3])
        logits = tf.cast(x @ half(p["head"]), p["head"].dtype)
        labels = tf.one_hot(batch["labels"], dims["classes"], dtype=logits.dtype)
        return tf.reduce_mean(tf.nn.softmax_cross_entropy_with_logits(labels, logits))

    return loss


def on_jax(dims: Dims, half: Half) -> Callable[[Arrays, Arrays], Any]:
    import jax
    import jax.numpy as jnp
    from jax import lax

    layout = ("NDHWC", "DHWIO", "NDHWC")

    def layer(p: Arrays, name: str, stage: int, x: Any) -> Any:
        w, gain = p[f"{name}{stage}"], p[f"{name}_gain{stage}"]
        x = lax.conv_general_dilated(x, half(w), (1, 1, 1), "SAME", dimension_numbers=layout)
        x = jax.nn.standardize(x.astype(w.dtype), (1, 2, 3), epsilon=EPSILON)
        return half(x * gain + p[f"{name}_bias{stage}"])

    def pool(x: Any) -> Any:
        window = (1, 2, 2, 2, 1)
        return lax.reduce_window(x, 0.0, lax.add, window, window, "VALID") / 8

    def loss(p: Arrays, batch: Arrays) -> Any:
        x = half(batch["videos"])
        for stage in range(dims["stages"]):
            x = jax.nn.relu(layer(p, "space", stage, x))
            x = jax.nn.relu(layer(p, "time", stage, x))
            x = jax.nn.relu(x + layer(p, "full", stage, x))
            x = pool(x) if stage < dims["stages"] - 1 else x
        logits = (jnp.mean(x, (1, 2, 3)) @ half(p["head"])).astype(p["head"].dtype)
        log_shares = jax.nn.log_softmax(logits)
        return -jnp.mean(jnp.take_along_axis(log_shares, batch["labels"][:, None], 1))

    return loss


def on_torch(dims: Dims, half: Half) -> Callable[[Arrays, Arrays], Any]:
    import torch
    from torch.nn import functional

    def layer(p: Arrays, name: str, stage: int, x: Any) -> Any:
        w = half(p[f"{name}{stage}"]).permute(4, 3, 0, 1, 2)
        x = functional.conv3d(x, w, padding=[n // 2 for n in w.shape[2:]])
        gain, bias = p[f"{name}_gain{stage}"], p[f"{name}_bias{stage}"]
        # One group per channel: the statistics of each example and channel.
        return half(functional.group_norm(x.to(gain.dtype), len(gain), gain, bias, EPSILON))

    def loss(p: Arrays, batch: Arrays) -> Any:
        x = half(batch["videos"]).permute(0, 4, 1, 2, 3)  # channels last in memory
        for stage in range(dims["stages"]):
            x = torch.relu(layer(p, "space", stage, x))
            x = torch.relu(layer(p, "time", stage, x))
            x = torch.relu(x + layer(p, "full", stage, x))
            x = functional.avg_pool3d(x, 2) if stage < dims["stages"] - 1 else x
        logits = (x.mean((2, 3, 4)) @ half(p["head"])).to(p["head"].dtype)
        return functional.cross_entropy(logits, batch["labels"])

    return loss


def cost(dims: Dims) -> Cost:
    """Three passes over the products; a value and its gradient: one write, two reads."""
    voxels = dims["batch"] * dims["frames"] * dims["height"] * dims["width"]
    n, products, values = 3, 0, 0
    for stage in range(dims["stages"]):
        m, here = dims["channels"] << stage, voxels >> 3 * stage
        products += here * (9 * n * m + 30 * m * m)
        values += here * 3 * m
        n = m
    return Cost(bytes=12.0 * values, operations=6.0 * products)


PROGRAM = Program(
    summary="8 videos of 16 frames of 112 x 112, (2+1)-D and 3-D convolutions, momentum",
    kind=Kind.TRAINING,
    make=make,
    on_tapegrad=on_tapegrad,
    on_jax=on_jax,
    on_torch=on_torch,
    sizes={
        "check": {
            "batch": 2,
            "frames": 5,
            "height": 8,
            "width": 7,
            "channels": 3,
            "stages": 2,
            "classes": 5,
        },
        "cpu": {
            "batch": 2,
            "frames": 8,
            "height": 24,
            "width": 24,
            "channels": 8,
            "stages": 2,
            "classes": 10,
        },
        "cuda": {
            "batch": 8,
            "frames": 16,
            "height": 112,
            "width": 112,
            "channels": 32,
            "stages": 4,
            "classes": 101,
        },
    },
    cost=cost,
    optimizer=Optimizer("momentum", 0.01),
    dtypes={"cpu": "float32", "cuda": "bfloat16"},
)
