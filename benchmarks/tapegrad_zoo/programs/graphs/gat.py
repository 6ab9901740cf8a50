"""Graph attention: several heads weigh the neighbours of each node by a softmax over its edges."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tapegrad_zoo.program import Arrays, Cost, Dims, Half, Kind, Optimizer, Program, Values

SLOPE = 0.2


def make(rng: np.random.Generator, dims: Dims) -> tuple[Values, Values]:
    nodes, heads, width, classes = (dims[k] for k in ("nodes", "heads", "width", "classes"))
    params: Values = {}
    for layer, (n, m) in enumerate([(dims["inputs"], width), (heads * width, classes)]):
        params[f"w{layer}"] = rng.standard_normal((n, heads, m)) * n**-0.5
        params[f"from{layer}"] = rng.standard_normal((heads, m)) * m**-0.5
        params[f"to{layer}"] = rng.standard_normal((heads, m)) * m**-0.5
        params[f"skip{layer}"] = rng.standard_normal((n, heads, m)) * n**-0.5
    loops = np.arange(nodes)
    others = rng.integers(0, nodes, (2, dims["edges"] - nodes))
    batch = {
        "x": rng.standard_normal((nodes, dims["inputs"])),
        "source": np.concatenate([loops, others[0]]),
        "target": np.concatenate([loops, others[1]]),
        "tags": rng.integers(0, 2, (nodes, classes)).astype(np.float64),
    }
    return params, batch


def on_tapegrad(dims: Dims, half: Half) -> Callable[[Arrays, Arrays], Any]:
    import tapegrad as tf

    nodes = dims["nodes"]

    def layer(p: Arrays, number: int, x: Any, source: Any, target: Any) -> Any:
        h = tf.tensordot(x, p[f"w{number}"], 1)
        score_from = tf.reduce_sum(h * p[f"from{number}"], axis=-1)
        score_to = tf.reduce_sum(h * p[f"to{number}"], axis=-1)
        scores = tf.gather(score_from, source) + tf.gather(score_to, target)
        scores = tf.nn.leaky_relu(scores, alpha=SLOPE)
        top = tf.stop_gradient(tf.math.unsorted_segment_max(scores, target, nodes))
        powers = tf.exp(scores - tf.gather(top, target))
        total = tf.math.unsorted_segment_sum(powers, target, nodes)
        weights = powers / tf.gather(total, target)
        messages = tf.gather(h, source) * weights[:, :, None]
        return tf.math.unsorted_segment_sum(messages, target, nodes)

    def loss(p: Arrays, batch: Arrays) -> Any:
        x, source, target = batch["x"], batch["source"], batch["target"]
        h = layer(p, 0, x, source, target) + tf.tensordot(x, p["skip0"], 1)
        h = tf.reshape(tf.nn.elu(h), (nodes, dims["heads"] * dims["width"]))
        out = layer(p, 1, h, source, target) + tf.tensordot(h, p["skip1"], 1)
        logits = tf.reduce_mean(out, axis=1)
        losses = tf.nn.sigmoid_cross_entropy_with_logits(labels=batch["tags"], logits=logits)
        return tf.reduce_mean(losses)

    return loss


def on_jax(dims: Dims, half: Half) -> Callable[[Arrays, Arrays], Any]:
    import jax
    import jax.numpy as jnp

    nodes = dims["nodes"]

    def layer(p: Arrays, number: int, x: Any, source: Any, target: Any) -> Any:
        h = jnp.einsum("ni,ihd->nhd", x, p[f"w{number}"])
        score_from = jnp.einsum("nhd,hd->nh", h, p[f"from{number}"])
        score_to = jnp.einsum("nhd,hd->nh", h, p[f"to{number}"])
        scores = jax.nn.leaky_relu(score_from[source] + score_to[target], SLOPE)
        top = jax.ops.segment_max(jax.lax.stop_gradient(scores), target, nodes)
        powers = jnp.exp(scores - top[target])
        # The division by the total commutes with the sum over edges.
        total = jax.ops.segment_sum(powers, target, nodes)
        summed = jax.ops.segment_sum(h[source] * powers[:, :, None], target, nodes)
        return summed / total[:, :, None]

    def loss(p: Arrays, batch: Arrays) -> Any:
        x, source, target = batch["x"], batch["source"], batch["target"]
        h = layer(p, 0, x, source, target) + jnp.einsum("ni,ihd->nhd", x, p["skip0"])
        h = jax.nn.elu(h).reshape(nodes, -1)
        out = layer(p, 1, h, source, target) + jnp.einsum("ni,ihd->nhd", h, p["skip1"])
        logits = jnp.mean(out, 1)
        return jnp.mean(jax.nn.softplus(logits) - batch["tags"] * logits)

    return loss


def on_torch(dims: Dims, half: Half) -> Callable[[Arrays, Arrays], Any]:
    import torch
    from torch.nn import functional

    nodes = dims["nodes"]

    def layer(p: Arrays, number: int, x: Any, source: Any, target: Any) -> Any:
        heads, width = p[f"to{number}"].shape
        h = (x @ p[f"w{number}"].flatten(1)).view(nodes, heads, width)
        score_from = torch.sum(h * p[f"from{number}"], -1)
        score_to = torch.sum(h * p[f"to{number}"], -1)
        scores = functional.leaky_relu(score_from[source] + score_to[target], SLOPE)
        place = target[:, None].expand_as(scores)
        top = scores.new_zeros(nodes, heads)
        top = top.scatter_reduce(0, place, scores.detach(), "amax", include_self=False)
        powers = torch.exp(scores - top[target])
        total = powers.new_zeros(nodes, heads).index_add(0, target, powers)
        messages = h.index_select(0, source) * powers[:, :, None]
        summed = messages.new_zeros(nodes, heads, width).index_add(0, target, messages)
        return summed / total[:, :, None]

    def loss(p: Arrays, batch: Arrays) -> Any:
        x, source, target = batch["x"], batch["source"], batch["target"]
        h = layer(p, 0, x, source, target)
        h = functional.elu(h + (x @ p["skip0"].flatten(1)).view(h.shape)).flatten(1)
        out = layer(p, 1, h, source, target)
        logits = torch.mean(out + (h @ p["skip1"].flatten(1)).view(out.shape), 1)
        return functional.binary_cross_entropy_with_logits(logits, batch["tags"])

    return loss


def cost(dims: Dims) -> Cost:
    """Each edge reads a row of its source per head and layer; each weight has three products."""
    first, second = dims["heads"] * dims["width"], dims["heads"] * dims["classes"]
    products = 2 * dims["nodes"] * (dims["inputs"] * first + first * second)
    return Cost(
        bytes=16.0 * dims["nodes"] * (first + second),
        operations=6.0 * products + 8.0 * dims["edges"] * (first + second),
    )


PROGRAM = Program(
    summary="graph attention with edge softmax: 2 layers, 4 heads, 57000 nodes, 820000 edges, Adam",
    kind=Kind.TRAINING,
    make=make,
    on_tapegrad=on_tapegrad,
    on_jax=on_jax,
    on_torch=on_torch,
    sizes={
        "check": {"nodes": 9, "edges": 25, "inputs": 5, "heads": 3, "width": 4, "classes": 2},
        "cpu": {"nodes": 1000, "edges": 8000, "inputs": 50, "heads": 4, "width": 16, "classes": 8},
        "cuda": {
            "nodes": 56_944,
            "edges": 818_716,
            "inputs": 50,
            "heads": 4,
            "width": 64,
            "classes": 121,
        },
    },
    cost=cost,
    optimizer=Optimizer("adam", 5e-3),
)
