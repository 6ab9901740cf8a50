"""Rows divided by their root mean square, times a gain; gradients by both."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from tapegrad_zoo.program import Arrays, Cost, Dims, Half, Kind, Program, Values

EPSILON = 1e-6
SUMMARIES = {
    "library": "by the library's function",
    "divide": "by hand, divided by a square root",
    "rsqrt": "by hand, times a reciprocal square root",
    "power": "by hand, times a power of -1/2",
    "in_single": "by hand, in float32",
}


def make(rng: np.random.Generator, dims: Dims) -> tuple[Values, Values]:
    params = {
        "x": rng.standard_normal((dims["rows"], dims["width"])) + 0.5,
        "gain": 1 + 0.1 * rng.standard_normal(dims["width"]),
    }
    return params, {"weights": 0.5 + rng.standard_normal((dims["rows"], dims["width"]))}


def on_tapegrad(spelling: str, dims: Dims, half: Half) -> Callable[[Arrays, Arrays], Any]:
    import tapegrad as tf

    def divide(x: Any, gain: Any) -> Any:
        return x / tf.sqrt(tf.reduce_mean(x**2, axis=-1, keepdims=True) + EPSILON) * gain

    def rsqrt(x: Any, gain: Any) -> Any:
        return x * tf.math.rsqrt(tf.reduce_mean(x * x, axis=-1, keepdims=True) + EPSILON) * gain

    def power(x: Any, gain: Any) -> Any:
        squares = tf.reduce_sum(x * x, axis=-1, keepdims=True) / dims["width"]
        return gain * x * (squares + EPSILON) ** -0.5

    def in_single(x: Any, gain: Any) -> Any:
        wide = x if x.dtype == tf.float64 else tf.cast(x, tf.float32)
        variance = tf.reduce_mean(tf.square(wide), axis=-1, keepdims=True)
        normal = wide * tf.math.rsqrt(variance + EPSILON)
        return tf.cast(normal, x.dtype) * gain

    spellings: dict[str, Callable[..., Any]] = {
        "library": partial(tf.nn.rms_norm, epsilon=EPSILON),
        "divide": divide,
        "rsqrt": rsqrt,
        "power": power,
        "in_single": in_single,
    }
    rms_norm = spellings[spelling]

    def loss(params: Arrays, batch: Arrays) -> Any:
        result = rms_norm(half(params["x"]), half(params["gain"]))
        return tf.reduce_mean(tf.cast(result, batch["weights"].dtype) * batch["weights"])

    return loss


def on_jax(spelling: str, dims: Dims, half: Half) -> Callable[[Arrays, Arrays], Any]:
    import jax
    import jax.numpy as jnp

    def library(x: Any, gain: Any) -> Any:
        return jax.nn.standardize(x, mean=0.0, epsilon=EPSILON) * gain

    def divide(x: Any, gain: Any) -> Any:
        return x / jnp.sqrt(jnp.mean(x**2, axis=-1, keepdims=True) + EPSILON) * gain

    def rsqrt(x: Any, gain: Any) -> Any:
        return x * jax.lax.rsqrt(jnp.mean(x * x, axis=-1, keepdims=True) + EPSILON) * gain

    def power(x: Any, gain: Any) -> Any:
        squares = jnp.sum(x * x, axis=-1, keepdims=True) / dims["width"]
        return gain * x * (squares + EPSILON) ** -0.5

    def in_single(x: Any, gain: Any) -> Any:
        wide = x if x.dtype == jnp.float64 else x.astype(jnp.float32)
        variance = jnp.mean(jnp.square(wide), axis=-1, keepdims=True)
        normal = wide * jax.lax.rsqrt(variance + EPSILON)
        return normal.astype(x.dtype) * gain

    spellings: dict[str, Callable[..., Any]] = {
        "library": library,
        "divide": divide,
        "rsqrt": rsqrt,
        "power": power,
        "in_single": in_single,
    }
    rms_norm = spellings[spelling]

    def loss(params: Arrays, batch: Arrays) -> Any:
        result = rms_norm(half(params["x"]), half(params["gain"]))
        return jnp.mean(result.astype(batch["weights"].dtype) * batch["weights"])

    return loss


def on_torch(spelling: str, dims: Dims, half: Half) -> Callable[[Arrays, Arrays], Any]:
    import torch
    from torch.nn import functional

    def library(x: Any, gain: Any) -> Any:
        return functional.rms_norm(x, (dims["width"],), gain, EPSILON)

    def divide(x: Any, gain: Any) -> Any:
        return x / torch.sqrt(torch.mean(x**2, -1, keepdim=True) + EPSILON) * gain

    def rsqrt(x: Any, gain: Any) -> Any:
        return x * torch.rsqrt(torch.mean(x * x, -1, keepdim=True) + EPSILON) * gain

    def power(x: Any, gain: Any) -> Any:
        squares = torch.sum(x * x, -1, keepdim=True) / dims["width"]
        return gain * x * (squares + EPSILON) ** -0.5

    def in_single(x: Any, gain: Any) -> Any:
        wide = x if x.dtype == torch.float64 else x.float()
        variance = torch.mean(torch.square(wide), -1, keepdim=True)
        normal = wide * torch.rsqrt(variance + EPSILON)
        return normal.to(x.dtype) * gain

    spellings: dict[str, Callable[..., Any]] = {
        "library": library,
        "divide": divide,
        "rsqrt": rsqrt,
        "power": power,
        "in_single": in_single,
    }
    rms_norm = spellings[spelling]

    def loss(params: Arrays, batch: Arrays) -> Any:
        result = rms_norm(half(params["x"]), half(params["gain"]))
        return torch.mean(result.to(batch["weights"].dtype) * batch["weights"])

    return loss


def cost(dims: Dims) -> Cost:
    """The rows and weights are read and the gradient is written once."""
    cells = dims["rows"] * dims["width"]
    return Cost(bytes=12.0 * cells, operations=12.0 * cells)


SPELLINGS = {
    spelling: Program(
        summary=f"root-mean-square normalisation and its gradients, {summary}",
        kind=Kind.GRADIENT,
        make=make,
        on_tapegrad=partial(on_tapegrad, spelling),
        on_jax=partial(on_jax, spelling),
        on_torch=partial(on_torch, spelling),
        sizes={
            "check": {"rows": 7, "width": 5},
            "cpu": {"rows": 2048, "width": 512},
            "cuda": {"rows": 16384, "width": 4096},
        },
        cost=cost,
        dtypes={"cpu": "float32", "cuda": "bfloat16"},
    )
    for spelling, summary in SUMMARIES.items()
}
