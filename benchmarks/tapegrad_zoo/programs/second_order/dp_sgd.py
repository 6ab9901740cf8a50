"""Differentially private training: the gradient of each example is clipped, then averaged."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np

from tapegrad_zoo.program import Arrays, Cost, Dims, Half, Kind, Program, Values

RATE, LIMIT = 0.1, 1.0
CLASSES = 10


def make(rng: np.random.Generator, dims: Dims) -> tuple[Values, Values]:
    widths = [dims["inputs"], dims["hidden"], dims["hidden"], CLASSES]
    params: Values = {}
    for layer, (n, m) in enumerate(pairwise(widths)):
        params[f"w{layer}"] = rng.standard_normal((n, m)) * n**-0.5
        params[f"b{layer}"] = np.zeros(m)
    batch = {
        "x": rng.standard_normal((dims["batch"], dims["inputs"])),
        "labels": rng.integers(0, CLASSES, dims["batch"]),
    }
    return params, batch


def on_tapegrad(dims: Dims, half: Half) -> Callable[[Arrays, Arrays], Any]:
    import tapegrad as tf

    def loss(params: Arrays, x: Any, label: Any) -> Any:
        h = x[None, :]
        for layer in range(3):
            h = h @ params[f"w{layer}"] + params[f"b{layer}"]
            h = tf.nn.relu(h) if layer < 2 else h
        return tf.nn.sparse_softmax_cross_entropy_with_logits(label[None], h)[0]

    def clipped(params: Arrays, x: Any, label: Any) -> Arrays:
        found = tf.grad(loss)(params, x, label)
        norm = tf.sqrt(tf.add_n([tf.reduce_sum(g * g) for g in found.values()]))
        factor = tf.minimum(1.0, LIMIT / norm)
        return {name: g * factor for name, g in found.items()}

    def step(params: Arrays, batch: Arrays) -> Arrays:
        values = {name: tf.convert_to_tensor(p) for name, p in params.items()}
        each = tf.vmap(lambda x, label: clipped(values, x, label))(batch["x"], batch["labels"])
        return {name: p - RATE * tf.reduce_mean(each[name], 0) for name, p in values.items()}

    return step


def on_jax(dims: Dims, half: Half) -> Callable[[Arrays, Arrays], Any]:
    import jax
    import jax.numpy as jnp

    def loss(params: Arrays, x: Any, label: Any) -> Any:
        h = x
        for layer in range(3):
            h = h @ params[f"w{layer}"] + params[f"b{layer}"]
            h = jax.nn.relu(h) if layer < 2 else h
        return -jax.nn.log_softmax(h)[label]

    def clipped(params: Arrays, x: Any, label: Any) -> Arrays:
        found = jax.grad(loss)(params, x, label)
        norm = jnp.sqrt(sum(jnp.sum(g * g) for g in found.values()))
        factor = jnp.minimum(1.0, LIMIT / norm)
        return {name: g * factor for name, g in found.items()}

    def step(params: Arrays, batch: Arrays) -> Arrays:
        each = jax.vmap(clipped, (None, 0, 0))(params, batch["x"], batch["labels"])
        return {name: p - RATE * jnp.mean(each[name], 0) for name, p in params.items()}

    return step


def on_torch(dims: Dims, half: Half) -> Callable[[Arrays, Arrays], Any]:
    import torch
    from torch.nn import functional

    def loss(params: Arrays, x: Any, label: Any) -> Any:
        h = x[None, :]
        for layer in range(3):
            h = h @ params[f"w{layer}"] + params[f"b{layer}"]
            h = torch.relu(h) if layer < 2 else h
        return functional.cross_entropy(h, label[None])

    def clipped(params: Arrays, x: Any, label: Any) -> Arrays:
        found = torch.func.grad(loss)(params, x, label)
        norm = torch.sqrt(sum(torch.sum(g * g) for g in found.values()))
        factor = torch.clamp(LIMIT / norm, max=1.0)
        return {name: g * factor for name, g in found.items()}

    def step(params: Arrays, batch: Arrays) -> Arrays:
        values = {name: p.detach() for name, p in params.items()}
        each = torch.func.vmap(clipped, (None, 0, 0))(values, batch["x"], batch["labels"])
        return {name: p - RATE * torch.mean(each[name], 0) for name, p in values.items()}

    return step


def cost(dims: Dims) -> Cost:
    """Three products per layer and example; the gradients need not be stored one by one."""
    weights = dims["inputs"] * dims["hidden"] + dims["hidden"] ** 2 + dims["hidden"] * CLASSES
    return Cost(bytes=8.0 * weights, operations=6.0 * weights * dims["batch"])


PROGRAM = Program(
    summary="per-example gradients by vmap(grad), clipped and averaged, of a dense network",
    kind=Kind.STEP,
    make=make,
    on_tapegrad=on_tapegrad,
    on_jax=on_jax,
    on_torch=on_torch,
    sizes={
        "check": {"batch": 5, "inputs": 7, "hidden": 6},
        "cpu": {"batch": 32, "inputs": 64, "hidden": 64},
        "cuda": {"batch": 512, "inputs": 784, "hidden": 512},
    },
    cost=cost,
)
