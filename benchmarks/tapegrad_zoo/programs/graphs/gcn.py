"""A graph convolutional network for labels of nodes: gather along edges and sum by segments."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np

from tapegrad_zoo.program import Arrays, Cost, Dims, Half, Kind, Optimizer, Program, Values

DECAY = 5e-4


def _widths(dims: Dims) -> list[int]:
    return [dims["inputs"], dims["hidden"], dims["hidden"], dims["classes"]]


def make(rng: np.random.Generator, dims: Dims) -> tuple[Values, Values]:
    nodes, edges = dims["nodes"], dims["edges"]
    params: Values = {}
    for layer, (n, m) in enumerate(pairwise(_widths(dims))):
        params[f"w{layer}"] = rng.standard_normal((n, m)) * n**-0.5
        params[f"b{layer}"] = rng.standard_normal(m) * 0.1
    # Every node has an edge to itself, and the targets are ordered.
    loops = np.arange(nodes)
    source = np.concatenate([loops, rng.integers(0, nodes, edges - nodes)])
    target = np.concatenate([loops, rng.integers(0, nodes, edges - nodes)])
    order = np.argsort(target, kind="stable")
    batch = {
        "x": rng.standard_normal((nodes, dims["inputs"])),
        "source": source[order],
        "target": target[order],
        "label": rng.integers(0, dims["classes"], nodes),
        "known": (rng.uniform(size=nodes) < 0.5).astype(np.float64),
    }
    batch["known"][0] = 1.0
    return params, batch


def on_tapegrad(dims: Dims, half: Half) -> Callable[[Arrays, Arrays], Any]:
    import tapegrad as tf

    nodes = dims["nodes"]

    def loss(p: Arrays, batch: Arrays) -> Any:
        source, target = batch["source"], batch["target"]
        ones = tf.ones_like(source, dtype=batch["x"].dtype)
        into = tf.math.unsorted_segment_sum(ones, target, nodes)
        out_of = tf.math.unsorted_segment_sum(ones, source, nodes)
        degrees = tf.gather(into, target) * tf.maximum(tf.gather(out_of, source), 1.0)
        weight = tf.expand_dims(tf.math.rsqrt(degrees), 1)
        h = batch["x"]
        for layer in range(3):
            messages = tf.gather(h @ p[f"w{layer}"], source) * weight
            h = tf.math.unsorted_segment_sum(messages, target, nodes) + p[f"b{layer}"]
            if layer < 2:
                h = tf.nn.relu(h)
        losses = tf.nn.sparse_softmax_cross_entropy_with_logits(batch["label"], h)
        fit = tf.reduce_sum(losses * batch["known"]) / tf.reduce_sum(batch["known"])
        return fit + DECAY * tf.nn.l2_loss(p["w0"])

    return loss


def on_jax(dims: Dims, half: Half) -> Callable[[Arrays, Arrays], Any]:
    import jax
    import jax.numpy as jnp

    nodes = dims["nodes"]

    def summed(x: Any, target: Any) -> Any:
        return jax.ops.segment_sum(x, target, nodes, indices_are_sorted=True)

    def loss(p: Arrays, batch: Arrays) -> Any:
        source, target = batch["source"], batch["target"]
        ones = jnp.ones(source.shape, batch["x"].dtype)
        # Both ends take their share of the norm, so that no weight per edge is needed.
        at_target = jax.lax.rsqrt(summed(ones, target))[:, None]
        degree = jax.ops.segment_sum(ones, source, nodes)
        at_source = jax.lax.rsqrt(jnp.maximum(degree, 1.0))[:, None]
        h = batch["x"]
        for layer in range(3):
            messages = (h @ p[f"w{layer}"] * at_source)[source]
            h = summed(messages, target) * at_target + p[f"b{layer}"]
            h = jax.nn.relu(h) if layer < 2 else h
        logs = jax.nn.log_softmax(h)
        losses = -jnp.take_along_axis(logs, batch["label"][:, None], 1)[:, 0]
        fit = jnp.vdot(losses, batch["known"]) / jnp.sum(batch["known"])
        return fit + 0.5 * DECAY * jnp.sum(p["w0"] ** 2)

    return loss


def on_torch(dims: Dims, half: Half) -> Callable[[Arrays, Arrays], Any]:
    import torch
    from torch.nn import functional

    nodes = dims["nodes"]

    def loss(p: Arrays, batch: Arrays) -> Any:
        x, source, target = batch["x"], batch["source"], batch["target"]
        ones = torch.ones(source.shape, dtype=x.dtype, device=x.device)
        into = x.new_zeros(nodes).index_add(0, target, ones)
        out_of = x.new_zeros(nodes).index_add(0, source, ones)
        at_target = torch.rsqrt(into)[:, None]
        at_source = torch.rsqrt(out_of.clamp(min=1.0))[:, None]
        h = x
        for layer in range(3):
            messages = (h @ p[f"w{layer}"] * at_source).index_select(0, source)
            gathered = messages.new_zeros(nodes, messages.shape[1]).index_add(0, target, messages)
            h = gathered * at_target + p[f"b{layer}"]
            h = torch.relu(h) if layer < 2 else h
        losses = functional.cross_entropy(h, batch["label"], reduction="none")
        fit = torch.dot(losses, batch["known"]) / torch.sum(batch["known"])
        return fit + 0.5 * DECAY * torch.sum(p["w0"] ** 2)

    return loss


def cost(dims: Dims) -> Cost:
    """Each layer reads and writes its nodes in each direction; each weight has three products."""
    widths = _widths(dims)
    products = sum(n * m for n, m in pairwise(widths))
    sums = 2 * dims["edges"] * sum(widths[1:])
    return Cost(
        bytes=4.0 * dims["nodes"] * (dims["inputs"] + 4 * sum(widths[1:])),
        operations=6.0 * products * dims["nodes"] + sums,
    )


PROGRAM = Program(
    summary="graph convolutional network: three layers, 170000 nodes and 1.2 million edges, Adam",
    kind=Kind.TRAINING,
    make=make,
    on_tapegrad=on_tapegrad,
    on_jax=on_jax,
    on_torch=on_torch,
    sizes={
        "check": {"nodes": 11, "edges": 31, "inputs": 5, "hidden": 6, "classes": 4},
        "cpu": {"nodes": 2708, "edges": 13_264, "inputs": 128, "hidden": 32, "classes": 7},
        "cuda": {"nodes": 169_343, "edges": 1_335_586, "inputs": 128, "hidden": 256, "classes": 40},
    },
    cost=cost,
    optimizer=Optimizer("adam", 1e-2),
)
