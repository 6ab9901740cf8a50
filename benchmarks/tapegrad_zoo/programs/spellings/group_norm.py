"""Group normalisation of images with gain and bias; gradients by all three."""

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
    "split": "group by group",
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

    groups = dims["groups"]

    def grouped(x: Any) -> Any:
        return tf.reshape(x, (*x.shape[:-1], groups, dims["channels"] // groups))

    def divide(x: Any, gain: Any, bias: Any) -> Any:
        g = grouped(x)
        mean = tf.reduce_mean(g, axis=(1, 2, 4), keepdims=True)
        variance = tf.reduce_mean((g - mean) ** 2, axis=(1, 2, 4), keepdims=True)
        return tf.reshape((g - mean) / tf.sqrt(variance + EPSILON), x.shape) * gain + bias

    def rsqrt(x: Any, gain: Any, bias: Any) -> Any:
        g = grouped(x)
        centered = g - tf.reduce_mean(g, axis=(1, 2, 4), keepdims=True)
        variance = tf.reduce_mean(tf.square(centered), axis=(1, 2, 4), keepdims=True)
        return tf.reshape(centered * tf.math.rsqrt(variance + EPSILON), x.shape) * gain + bias

    def moments(x: Any, gain: Any, bias: Any) -> Any:
        g = grouped(x)
        mean, variance = tf.nn.moments(g, axes=(1, 2, 4), keepdims=True)
        return tf.reshape((g - mean) * tf.math.rsqrt(variance + EPSILON), x.shape) * gain + bias

    def split(x: Any, gain: Any, bias: Any) -> Any:
        results = []
        for part in tf.split(x, groups, axis=-1):
            centered = part - tf.reduce_mean(part, axis=(1, 2, 3), keepdims=True)
            variance = tf.reduce_mean(tf.square(centered), axis=(1, 2, 3), keepdims=True)
            results.append(centered / tf.sqrt(variance + EPSILON))
        return tf.concat(results, axis=-1) * gain + bias

    spellings: dict[str, Callable[..., Any]] = {
        "library": partial(tf.nn.group_norm, groups=groups, epsilon=EPSILON),
        "divide": divide,
        "rsqrt": rsqrt,
        "moments": moments,
        "split": split,
    }
    group_norm = spellings[spelling]

    def loss(params: Arrays, batch: Arrays) -> Any:
        result = group_norm(half(params["x"]), gain=half(params["gain"]), bias=half(params["bias"]))
        return tf.reduce_mean(tf.cast(result, batch["weights"].dtype) * batch["weights"])

    return loss


def on_jax(spelling: str, dims: Dims, half: Half) -> Callable[[Arrays, Arrays], Any]:
    import jax
    import jax.numpy as jnp

    groups = dims["groups"]

    def library(x: Any, gain: Any, bias: Any) -> Any:
        normal = jax.nn.standardize(grouped(x), axis=(1, 2, 4), epsilon=EPSILON)
        return jnp.reshape(normal, x.shape) * gain + bias

    def grouped(x: Any) -> Any:
        return jnp.reshape(x, (*x.shape[:-1], groups, dims["channels"] // groups))

    def divide(x: Any, gain: Any, bias: Any) -> Any:
        g = grouped(x)
        mean = jnp.mean(g, axis=(1, 2, 4), keepdims=True)
        variance = jnp.mean((g - mean) ** 2, axis=(1, 2, 4), keepdims=True)
        return jnp.reshape((g - mean) / jnp.sqrt(variance + EPSILON), x.shape) * gain + bias

    def rsqrt(x: Any, gain: Any, bias: Any) -> Any:
        g = grouped(x)
        centered = g - jnp.mean(g, axis=(1, 2, 4), keepdims=True)
        variance = jnp.mean(jnp.square(centered), axis=(1, 2, 4), keepdims=True)
        return jnp.reshape(centered * jax.lax.rsqrt(variance + EPSILON), x.shape) * gain + bias

    def moments(x: Any, gain: Any, bias: Any) -> Any:
        g = grouped(x)
        mean = jnp.mean(g, axis=(1, 2, 4), keepdims=True)
        variance = jnp.var(g, axis=(1, 2, 4), keepdims=True)
        return jnp.reshape((g - mean) * jax.lax.rsqrt(variance + EPSILON), x.shape) * gain + bias

    def split(x: Any, gain: Any, bias: Any) -> Any:
        results = []
        for part in jnp.split(x, groups, axis=-1):
            centered = part - jnp.mean(part, axis=(1, 2, 3), keepdims=True)
            variance = jnp.mean(jnp.square(centered), axis=(1, 2, 3), keepdims=True)
            results.append(centered / jnp.sqrt(variance + EPSILON))
        return jnp.concatenate(results, axis=-1) * gain + bias

    spellings: dict[str, Callable[..., Any]] = {
        "library": library,
        "divide": divide,
        "rsqrt": rsqrt,
        "moments": moments,
        "split": split,
    }
    group_norm = spellings[spelling]

    def loss(params: Arrays, batch: Arrays) -> Any:
        result = group_norm(half(params["x"]), half(params["gain"]), half(params["bias"]))
        return jnp.mean(result.astype(batch["weights"].dtype) * batch["weights"])

    return loss


def on_torch(spelling: str, dims: Dims, half: Half) -> Callable[[Arrays, Arrays], Any]:
    import torch
    from torch.nn import functional

    groups = dims["groups"]

    def library(x: Any, gain: Any, bias: Any) -> Any:
        first = x.permute(0, 3, 1, 2)
        return functional.group_norm(first, groups, gain, bias, EPSILON).permute(0, 2, 3, 1)

    def grouped(x: Any) -> Any:
        return torch.reshape(x, (*x.shape[:-1], groups, dims["channels"] // groups))

    def divide(x: Any, gain: Any, bias: Any) -> Any:
        g = grouped(x)
        mean = torch.mean(g, (1, 2, 4), keepdim=True)
        variance = torch.mean((g - mean) ** 2, (1, 2, 4), keepdim=True)
        return torch.reshape((g - mean) / torch.sqrt(variance + EPSILON), x.shape) * gain + bias

    def rsqrt(x: Any, gain: Any, bias: Any) -> Any:
        g = grouped(x)
        centered = g - torch.mean(g, (1, 2, 4), keepdim=True)
        variance = torch.mean(torch.square(centered), (1, 2, 4), keepdim=True)
        return torch.reshape(centered * torch.rsqrt(variance + EPSILON), x.shape) * gain + bias

    def moments(x: Any, gain: Any, bias: Any) -> Any:
        g = grouped(x)
        variance, mean = torch.var_mean(g, (1, 2, 4), correction=0, keepdim=True)
        return torch.reshape((g - mean) * torch.rsqrt(variance + EPSILON), x.shape) * gain + bias

    def split(x: Any, gain: Any, bias: Any) -> Any:
        results = []
        for part in torch.chunk(x, groups, -1):
            centered = part - torch.mean(part, (1, 2, 3), keepdim=True)
            variance = torch.mean(torch.square(centered), (1, 2, 3), keepdim=True)
            results.append(centered / torch.sqrt(variance + EPSILON))
        return torch.cat(results, -1) * gain + bias

    spellings: dict[str, Callable[..., Any]] = {
        "library": library,
        "divide": divide,
        "rsqrt": rsqrt,
        "moments": moments,
        "split": split,
    }
    group_norm = spellings[spelling]

    def loss(params: Arrays, batch: Arrays) -> Any:
        result = group_norm(half(params["x"]), half(params["gain"]), half(params["bias"]))
        return torch.mean(result.to(batch["weights"].dtype) * batch["weights"])

    return loss


def cost(dims: Dims) -> Cost:
    """The images and weights are read and the gradient is written once."""
    cells = dims["batch"] * dims["height"] * dims["width"] * dims["channels"]
    return Cost(bytes=12.0 * cells, operations=16.0 * cells)


SPELLINGS = {
    spelling: Program(
        summary=f"group normalisation and its gradients, {summary}",
        kind=Kind.GRADIENT,
        make=make,
        on_tapegrad=partial(on_tapegrad, spelling),
        on_jax=partial(on_jax, spelling),
        on_torch=partial(on_torch, spelling),
        sizes={
            "check": {"batch": 3, "height": 4, "width": 5, "channels": 6, "groups": 2},
            "cpu": {"batch": 32, "height": 16, "width": 16, "channels": 128, "groups": 8},
            "cuda": {"batch": 64, "height": 32, "width": 32, "channels": 256, "groups": 32},
        },
        cost=cost,
        dtypes={"cpu": "float32", "cuda": "bfloat16"},
    )
    for spelling, summary in SUMMARIES.items()
}
