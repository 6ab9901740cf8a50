"""Sliced score matching of an energy: second derivatives along random directions in the loss."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tapegrad_zoo.program import Arrays, Cost, Dims, Half, Kind, Optimizer, Program, Values


def make(rng: np.random.Generator, dims: Dims) -> tuple[Values, Values]:
    width, hidden, batch = dims["width"], dims["hidden"], dims["batch"]
    params = {
        "w1": rng.standard_normal((width, hidden)) * width**-0.5,
        "b1": rng.standard_normal(hidden) * 0.1,
        "w2": rng.standard_normal((hidden, hidden)) * hidden**-0.5,
        "b2": rng.standard_normal(hidden) * 0.1,
        "w3": rng.standard_normal((hidden, hidden)) * hidden**-0.5,
        "centre": rng.standard_normal(width) * 0.3,
    }
    mixing = rng.standard_normal((width, width)) * width**-0.5
    data = {
        "x": rng.standard_normal((batch, width)) @ mixing + 0.1 * rng.standard_normal(width),
        "directions": rng.choice([-1.0, 1.0], (batch, width)),
    }
    return params, data


def on_tapegrad(dims: Dims, half: Half) -> Callable[[Arrays, Arrays], Any]:
    import tapegrad as tf

    def energy(p: Arrays, x: Any) -> Any:
        h = tf.nn.softplus(x @ p["w1"] + p["b1"])
        h = tf.nn.softplus(h @ p["w2"] + p["b2"])
        features = h @ p["w3"]
        distance = tf.reduce_sum(tf.square(x - p["centre"]), axis=1)
        return 0.5 * distance + 0.5 * tf.reduce_mean(tf.square(features), axis=1)

    def loss(p: Arrays, batch: Arrays) -> Any:
        x, v = batch["x"], batch["directions"]
        with tf.GradientTape() as outer:
            outer.watch(x)
            with tf.GradientTape() as inner:
                inner.watch(x)
                log_density = -energy(p, x)
            score = inner.gradient(log_density, x)
            along = tf.reduce_sum(score * v, axis=1)
        curved = tf.reduce_sum(outer.gradient(along, x) * v, axis=1)
        return tf.reduce_mean(curved + 0.5 * tf.square(along))

    return loss


def on_jax(dims: Dims, half: Half) -> Callable[[Arrays, Arrays], Any]:
    import jax
    import jax.numpy as jnp

    def log_density(p: Arrays, x: Any) -> Any:
        h = jax.nn.softplus(x @ p["w1"] + p["b1"])
        h = jax.nn.softplus(h @ p["w2"] + p["b2"])
        distance = jnp.sum((x - p["centre"]) ** 2)
        return -0.5 * distance - 0.5 * jnp.sum(jnp.mean((h @ p["w3"]) ** 2, 1))

    def loss(p: Arrays, batch: Arrays) -> Any:
        x, v = batch["x"], batch["directions"]
        # Forward over reverse: the score and its derivative along v in one pass.
        score, turned = jax.jvp(jax.grad(lambda y: log_density(p, y)), (x,), (v,))
        curved = jnp.einsum("bi,bi->b", turned, v)
        return jnp.mean(curved + 0.5 * jnp.einsum("bi,bi->b", score, v) ** 2)

    return loss


def on_torch(dims: Dims, half: Half) -> Callable[[Arrays, Arrays], Any]:
    import torch
    from torch.nn import functional

    def log_density(p: Arrays, x: Any) -> Any:
        h = functional.softplus(torch.addmm(p["b1"], x, p["w1"]), threshold=1e9)
        h = functional.softplus(torch.addmm(p["b2"], h, p["w2"]), threshold=1e9)
        distance = torch.sum((x - p["centre"]) ** 2)
        return -0.5 * distance - 0.5 * torch.sum(torch.mean((h @ p["w3"]) ** 2, 1))

    def loss(p: Arrays, batch: Arrays) -> Any:
        x, v = batch["x"], batch["directions"]
        slope = torch.func.grad(lambda y: log_density(p, y))
        score, turned = torch.func.jvp(slope, (x,), (v,))
        return torch.mean(torch.sum(turned * v, 1) + 0.5 * torch.sum(score * v, 1) ** 2)

    return loss


def cost(dims: Dims) -> Cost:
    """A value, its gradient and their tangents take four products, and each is pulled back."""
    weights = dims["hidden"] * (dims["width"] + 2 * dims["hidden"])
    return Cost(
        bytes=28.0 * weights + 8.0 * dims["batch"] * dims["width"],
        operations=2.0 * 12 * weights * dims["batch"],
    )


PROGRAM = Program(
    summary="sliced score matching of a dense energy: third derivatives in training, Adam",
    kind=Kind.TRAINING,
    make=make,
    on_tapegrad=on_tapegrad,
    on_jax=on_jax,
    on_torch=on_torch,
    sizes={
        "check": {"batch": 5, "width": 4, "hidden": 7},
        "cpu": {"batch": 128, "width": 50, "hidden": 96},
        "cuda": {"batch": 4096, "width": 784, "hidden": 512},
    },
    cost=cost,
    optimizer=Optimizer("adam", 1e-3),
)
