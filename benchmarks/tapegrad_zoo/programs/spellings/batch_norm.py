"""Batch normalisation of images with gain and bias; gradients by all three."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from tapegrad_zoo.program import Arrays, Cost, Dims, Half, Kind, Program, Values

EPSILON = 1e-5
SUMMARIES = {
    "library": "by the library's function",
    "divide": "by hand, divided by a square root",
    "rsqrt": "by hand, times a reciprocal square root",
    "moments": "with the library's mean and variance",
    "folded": "as one product and one sum per pixel",
    "flat": "by hand on rows of channels",
}


def make(rng: np.random.Generator, dims: Dims) -> tuple[Values, Values]:
    shape = dims["batch"], dims["height"], dims["width"], dims["channels"]
    params = {
        "x": rng.standard_normal(shape) + 0.5,
        "gain": 1 + 0.1 * rng.standard_normal(dims["channels"]),
        "bias": 0.5 + 0.1 * rng.standard_normal(dims["channels"]),
    }
    return params, {"weights": 0.5 + rng.standard_normal(shape)}


def on_tapegrad(spelling: str, dims: Dims, half: Half) -> Callable[[Arrays, Arrays], Any]:
    import tapegrad as tf

    def divide(x: Any, gain: Any, bias: Any) -> Any:
        mean = tf.reduce_mean(x, axis=(0, 1, 2))
        variance = tf.reduce_mean((x - mean) ** 2, axis=(0, 1, 2))
        return gain * (x - mean) / tf.sqrt(variance + EPSILON) + bias

    def rsqrt(x: Any, gain: Any, bias: Any) -> Any:
        centered = x - tf.reduce_mean(x, axis=(0, 1, 2))
        variance = tf.reduce_mean(tf.square(centered), axis=(0, 1, 2))
        return centered * (tf.math.rsqrt(variance + EPSILON) * gain) + bias

    def moments(x: Any, gain: Any, bias: Any) -> Any:
        mean, variance = tf.nn.moments(x, axes=(0, 1, 2))
        return tf.nn.batch_normalization(x, mean, variance, bias, gain, EPSILON)

    def folded(x: Any, gain: Any, bias: Any) -> Any:
        mean = tf.reduce_mean(x, axis=(0, 1, 2))
        variance = tf.reduce_mean(x * x, axis=(0, 1, 2)) - mean * mean
        scale = gain / tf.sqrt(variance + EPSILON)
        return x * scale + (bias - mean * scale)

    def flat(x: Any, gain: Any, bias: Any) -> Any:
        rows = tf.reshape(x, (-1, dims["channels"]))
        mean = tf.reduce_mean(rows, axis=0)
        variance = tf.reduce_mean((rows - mean) ** 2, axis=0)
        return tf.reshape((rows - mean) / tf.sqrt(variance + EPSILON) * gain + bias, x.shape)

    spellings: dict[str, Callable[..., Any]] = {
        "library": partial(tf.nn.batch_norm, epsilon=EPSILON),
        "divide": divide,
        "rsqrt": rsqrt,
        "moments": moments,
        "folded": folded,
        "flat": flat,
    }
    batch_norm = spellings[spelling]

    def loss(params: Arrays, batch: Arrays) -> Any:
        result = batch_norm(half(params["x"]), half(params["gain"]), half(params["bias"]))
        return tf.reduce_mean(tf.cast(result, batch["weights"].dtype) * batch["weights"])

    return loss


def on_jax(spelling: str, dims: Dims, half: Half) -> Callable[[Arrays, Arrays], Any]:
    import jax
    import jax.numpy as jnp

    def library(x: Any, gain: Any, bias: Any) -> Any:
        return jax.nn.standardize(x, axis=(0, 1, 2), epsilon=EPSILON) * gain + bias

    def divide(x: Any, gain: Any, bias: Any) -> Any:
        mean = jnp.mean(x, axis=(0, 1, 2))
        variance = jnp.mean((x - mean) ** 2, axis=(0, 1, 2))
        return gain * (x - mean) / jnp.sqrt(variance + EPSILON) + bias

    def rsqrt(x: Any, gain: Any, bias: Any) -> Any:
        centered = x - jnp.mean(x, axis=(0, 1, 2))
        variance = jnp.mean(jnp.square(centered), axis=(0, 1, 2))
        return centered * (jax.lax.rsqrt(variance + EPSILON) * gain) + bias

    def moments(x: Any, gain: Any, bias: Any) -> Any:
        mean, variance = jnp.mean(x, axis=(0, 1, 2)), jnp.var(x, axis=(0, 1, 2))
        return (x - mean) * (jax.lax.rsqrt(variance + EPSILON) * gain) + bias

    def folded(x: Any, gain: Any, bias: Any) -> Any:
        mean = jnp.mean(x, axis=(0, 1, 2))
        variance = jnp.mean(x * x, axis=(0, 1, 2)) - mean * mean
        scale = gain / jnp.sqrt(variance + EPSILON)
        return x * scale + (bias - mean * scale)

    def flat(x: Any, gain: Any, bias: Any) -> Any:
        rows = jnp.reshape(x, (-1, dims["channels"]))
        mean = jnp.mean(rows, axis=0)
        variance = jnp.mean((rows - mean) ** 2, axis=0)
        return jnp.reshape((rows - mean) / jnp.sqrt(variance + EPSILON) * gain + bias, x.shape)

    spellings: dict[str, Callable[..., Any]] = {
        "library": library,
        "divide": divide,
        "rsqrt": rsqrt,
        "moments": moments,
        "folded": folded,
        "flat": flat,
    }
    batch_norm = spellings[spelling]

    def loss(params: Arrays, batch: Arrays) -> Any:
        result = batch_norm(half(params["x"]), half(params["gain"]), half(params["bias"]))
        return jnp.mean(result.astype(batch["weights"].dtype) * batch["weights"])

    return loss


def on_torch(spelling: str, dims: Dims, half: Half) -> Callable[[Arrays, Arrays], Any]:
    import torch
    from torch.nn import functional

    def library(x: Any, gain: Any, bias: Any) -> Any:
        first = x.permute(0, 3, 1, 2)
        normal = functional.batch_norm(first, None, None, gain, bias, training=True, eps=EPSILON)
        return normal.permute(0, 2, 3, 1)

    def divide(x: Any, gain: Any, bias: Any) -> Any:
        mean = torch.mean(x, (0, 1, 2))
        variance = torch.mean((x - mean) ** 2, (0, 1, 2))
        return gain * (x - mean) / torch.sqrt(variance + EPSILON) + bias

    def rsqrt(x: Any, gain: Any, bias: Any) -> Any:
        centered = x - torch.mean(x, (0, 1, 2))
        variance = torch.mean(torch.square(centered), (0, 1, 2))
        return centered * (torch.rsqrt(variance + EPSILON) * gain) + bias

    def moments(x: Any, gain: Any, bias: Any) -> Any:
        variance, mean = torch.var_mean(x, (0, 1, 2), correction=0)
        return (x - mean) * (torch.rsqrt(variance + EPSILON) * gain) + bias

    def folded(x: Any, gain: Any, bias: Any) -> Any:
        mean = torch.mean(x, (0, 1, 2))
        variance = torch.mean(x * x, (0, 1, 2)) - mean * mean
        scale = gain / torch.sqrt(variance + EPSILON)
        return x * scale + (bias - mean * scale)

    def flat(x: Any, gain: Any, bias: Any) -> Any:
        rows = torch.reshape(x, (-1, dims["channels"]))
        mean = torch.mean(rows, 0)
        variance = torch.mean((rows - mean) ** 2, 0)
        return torch.reshape((rows - mean) / torch.sqrt(variance + EPSILON) * gain + bias, x.shape)

    spellings: dict[str, Callable[..., Any]] = {
        "library": library,
        "divide": divide,
        "rsqrt": rsqrt,
        "moments": moments,
        "folded": folded,
        "flat": flat,
    }
    batch_norm = spellings[spelling]

    def loss(params: Arrays, batch: Arrays) -> Any:
        result = batch_norm(half(params["x"]), half(params["gain"]), half(params["bias"]))
        return torch.mean(result.to(batch["weights"].dtype) * batch["weights"])

    return loss


def cost(dims: Dims) -> Cost:
    """The images and weights are read and the gradient is written once."""
    cells = dims["batch"] * dims["height"] * dims["width"] * dims["channels"]
    return Cost(bytes=12.0 * cells, operations=16.0 * cells)


SPELLINGS = {
    spelling: Program(
        summary=f"batch normalisation and its gradients, {summary}",
        kind=Kind.GRADIENT,
        make=make,
        on_tapegrad=partial(on_tapegrad, spelling),
        on_jax=partial(on_jax, spelling),
        on_torch=partial(on_torch, spelling),
        sizes={
            "check": {"batch": 3, "height": 4, "width": 5, "channels": 7},
            "cpu": {"batch": 64, "height": 14, "width": 14, "channels": 64},
            "cuda": {"batch": 256, "height": 28, "width": 28, "channels": 128},
        },
        cost=cost,
        dtypes={"cpu": "float32", "cuda": "bfloat16"},
    )
    for spelling, summary in SUMMARIES.items()
}
