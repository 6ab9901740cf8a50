"""Layer normalisation of rows with gain and bias; gradients by all three."""

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
    "in_single": "with moments in float32",
    "squares": "with the mean of squares minus the square of the mean",
}


def make(rng: np.random.Generator, dims: Dims) -> tuple[Values, Values]:
    params = {
        "x": rng.standard_normal((dims["rows"], dims["width"])) + 0.5,
        "gain": 1 + 0.1 * rng.standard_normal(dims["width"]),
        "bias": 0.5 + 0.1 * rng.standard_normal(dims["width"]),
    }
    return params, {"weights": 0.5 + rng.standard_normal((dims["rows"], dims["width"]))}


def on_tapegrad(spelling: str, dims: Dims, half: Half) -> Callable[[Arrays, Arrays], Any]:
    import tapegrad as tf

    def divide(x: Any, gain: Any, bias: Any) -> Any:
        mean = tf.reduce_mean(x, axis=-1, keepdims=True)
        variance = tf.reduce_mean(tf.square(x - mean), axis=-1, keepdims=True)
        return gain * (x - mean) / tf.sqrt(variance + EPSILON) + bias

    def rsqrt(x: Any, gain: Any, bias: Any) -> Any:
        centered = x - tf.reduce_mean(x, axis=-1, keepdims=True)
        variance = tf.reduce_mean(centered * centered, axis=-1, keepdims=True)
        return centered * tf.math.rsqrt(variance + EPSILON) * gain + bias

    def moments(x: Any, gain: Any, bias: Any) -> Any:
        mean, variance = tf.nn.moments(x, axes=-1, keepdims=True)
        return (x - mean) * tf.math.rsqrt(variance + EPSILON) * gain + bias

    def in_single(x: Any, gain: Any, bias: Any) -> Any:
        wide = x if x.dtype == tf.float64 else tf.cast(x, tf.float32)
        mean, variance = tf.nn.moments(wide, axes=-1, keepdims=True)
        normal = (wide - mean) * tf.math.rsqrt(variance + EPSILON)
        return tf.cast(normal, x.dtype) * gain + bias

    def squares(x: Any, gain: Any, bias: Any) -> Any:
        mean = tf.reduce_mean(x, axis=-1, keepdims=True)
        variance = tf.reduce_mean(x * x, axis=-1, keepdims=True) - mean * mean
        return (x - mean) / tf.sqrt(variance + EPSILON) * gain + bias

    spellings: dict[str, Callable[..., Any]] = {
        "library": partial(tf.nn.layer_norm, epsilon=EPSILON),
        "divide": divide,
        "rsqrt": rsqrt,
        "moments": moments,
        "in_single": in_single,
        "squares": squares,
    }
    layer_norm = spellings[spelling]

    def loss(params: Arrays, batch: Arrays) -> Any:
        result = layer_norm(half(params["x"]), half(params["gain"]), half(params["bias"]))
        return tf.reduce_mean(tf.cast(result, batch["weights"].dtype) * batch["weights"])

    return loss


def on_jax(spelling: str, dims: Dims, half: Half) -> Callable[[Arrays, Arrays], Any]:
    import jax
    import jax.numpy as jnp

    def library(x: Any, gain: Any, bias: Any) -> Any:
        return jax.nn.standardize(x, epsilon=EPSILON) * gain + bias

    def divide(x: Any, gain: Any, bias: Any) -> Any:
        mean = jnp.mean(x, axis=-1, keepdims=True)
        variance = jnp.mean(jnp.square(x - mean), axis=-1, keepdims=True)
        return gain * (x - mean) / jnp.sqrt(variance + EPSILON) + bias

    def rsqrt(x: Any, gain: Any, bias: Any) -> Any:
        centered = x - jnp.mean(x, axis=-1, keepdims=True)
        variance = jnp.mean(centered * centered, axis=-1, keepdims=True)
        return centered * jax.lax.rsqrt(variance + EPSILON) * gain + bias

    def moments(x: Any, gain: Any, bias: Any) -> Any:
        mean = jnp.mean(x, axis=-1, keepdims=True)
        variance = jnp.var(x, axis=-1, keepdims=True)
        return (x - mean) * jax.lax.rsqrt(variance + EPSILON) * gain + bias

    def in_single(x: Any, gain: Any, bias: Any) -> Any:
        wide = x if x.dtype == jnp.float64 else x.astype(jnp.float32)
        mean = jnp.mean(wide, axis=-1, keepdims=True)
        variance = jnp.var(wide, axis=-1, keepdims=True)
        normal = (wide - mean) * jax.lax.rsqrt(variance + EPSILON)
        return normal.astype(x.dtype) * gain + bias

    def squares(x: Any, gain: Any, bias: Any) -> Any:
        mean = jnp.mean(x, axis=-1, keepdims=True)
        variance = jnp.mean(x * x, axis=-1, keepdims=True) - mean * mean
        return (x - mean) / jnp.sqrt(variance + EPSILON) * gain + bias

    spellings: dict[str, Callable[..., Any]] = {
        "library": library,
        "divide": divide,
        "rsqrt": rsqrt,
        "moments": moments,
        "in_single": in_single,
        "squares": squares,
    }
    layer_norm = spellings[spelling]

    def loss(params: Arrays, batch: Arrays) -> Any:
        result = layer_norm(half(params["x"]), half(params["gain"]), half(params["bias"]))
        return jnp.mean(result.astype(batch["weights"].dtype) * batch["weights"])

    return loss


def on_torch(spelling: str, dims: Dims, half: Half) -> Callable[[Arrays, Arrays], Any]:
    import torch
    from torch.nn import functional

    def library(x: Any, gain: Any, bias: Any) -> Any:
        return functional.layer_norm(x, (dims["width"],), gain, bias, EPSILON)

    def divide(x: Any, gain: Any, bias: Any) -> Any:
        mean = torch.mean(x, -1, keepdim=True)
        variance = torch.mean(torch.square(x - mean), -1, keepdim=True)
        return gain * (x - mean) / torch.sqrt(variance + EPSILON) + bias

    def rsqrt(x: Any, gain: Any, bias: Any) -> Any:
        centered = x - torch.mean(x, -1, keepdim=True)
        variance = torch.mean(centered * centered, -1, keepdim=True)
        return centered * torch.rsqrt(variance + EPSILON) * gain + bias

    def moments(x: Any, gain: Any, bias: Any) -> Any:
        variance, mean = torch.var_mean(x, -1, correction=0, keepdim=True)
        return (x - mean) * torch.rsqrt(variance + EPSILON) * gain + bias

    def in_single(x: Any, gain: Any, bias: Any) -> Any:
        wide = x if x.dtype == torch.float64 else x.float()
        variance, mean = torch.var_mean(wide, -1, correction=0, keepdim=True)
        normal = (wide - mean) * torch.rsqrt(variance + EPSILON)
        return normal.to(x.dtype) * gain + bias

    def squares(x: Any, gain: Any, bias: Any) -> Any:
        mean = torch.mean(x, -1, keepdim=True)
        variance = torch.mean(x * x, -1, keepdim=True) - mean * mean
        return (x - mean) / torch.sqrt(variance + EPSILON) * gain + bias

    spellings: dict[str, Callable[..., Any]] = {
        "library": library,
        "divide": divide,
        "rsqrt": rsqrt,
        "moments": moments,
        "in_single": in_single,
        "squares": squares,
    }
    layer_norm = spellings[spelling]

    def loss(params: Arrays, batch: Arrays) -> Any:
        result = layer_norm(half(params["x"]), half(params["gain"]), half(params["bias"]))
        return torch.mean(result.to(batch["weights"].dtype) * batch["weights"])

    return loss


def cost(dims: Dims) -> Cost:
    """The rows and weights are read and the gradient is written once."""
    cells = dims["rows"] * dims["width"]
    return Cost(bytes=12.0 * cells, operations=16.0 * cells)


SPELLINGS = {
    spelling: Program(
        summary=f"layer normalisation and its gradients, {summary}",
        kind=Kind.GRADIENT,
        make=make,
        on_tapegrad=partial(on_tapegrad, spelling),
        on_jax=partial(on_jax, spelling),
        on_torch=partial(on_torch, spelling),
        sizes={
            "check": {"rows": 5, "width": 7},
            "cpu": {"rows": 2048, "width": 512},
            "cuda": {"rows": 16384, "width": 4096},
        },
        cost=cost,
        dtypes={"cpu": "float32", "cuda": "bfloat16"},
    )
    for spelling, summary in SUMMARIES.items()
}
