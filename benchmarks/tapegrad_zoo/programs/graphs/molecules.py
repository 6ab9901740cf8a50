"""Message passing on molecules: a network makes a matrix per bond; a readout sums each graph."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tapegrad_zoo.program import Arrays, Cost, Dims, Half, Kind, Optimizer, Program, Values

ATOMS, BOND = 9, 5


def make(rng: np.random.Generator, dims: Dims) -> tuple[Values, Values]:
    width, hidden, graphs, size = (dims[k] for k in ("width", "hidden", "graphs", "size"))

    def weights(n: int, m: int) -> Any:
        return rng.standard_normal((n, m)) * n**-0.5

    params = {
        "atoms": rng.standard_normal((ATOMS, width)),
        "bond1": weights(BOND, hidden),
        "bond2": weights(hidden, width * width) * width**-0.5,
        "gates_x": weights(width, 3 * width),
        "gates_h": weights(width, 3 * width),
        "gates_b": rng.standard_normal(3 * width) * 0.1,
        "gate": weights(2 * width, hidden),
        "value": weights(width, hidden),
        "out": weights(hidden, dims["targets"]),
    }
    # Each molecule is a chain of atoms with a few rings; bonds run in both directions.
    first = np.arange(graphs)[:, None] * size
    chain = np.stack([first + np.arange(size - 1), first + np.arange(1, size)], -1).reshape(-1, 2)
    rings = first[:, :, None] + rng.integers(0, size, (graphs, dims["rings"], 2))
    bonds = np.concatenate([chain, rings.reshape(-1, 2)])
    features = rng.standard_normal((len(bonds), BOND))
    batch = {
        "atom": rng.integers(0, ATOMS, graphs * size),
        "graph": np.repeat(np.arange(graphs), size),
        "source": np.concatenate([bonds[:, 0], bonds[:, 1]]),
        "target": np.concatenate([bonds[:, 1], bonds[:, 0]]),
        "bond": np.concatenate([features, features]),
        "property": rng.standard_normal((graphs, dims["targets"])),
    }
    return params, batch


def on_tapegrad(dims: Dims, half: Half) -> Callable[[Arrays, Arrays], Any]:
    import tapegrad as tf

    width, atoms = dims["width"], dims["graphs"] * dims["size"]

    def gru(p: Arrays, x: Any, h: Any) -> Any:
        from_x = tf.split(x @ p["gates_x"] + p["gates_b"], 3, axis=1)
        from_h = tf.split(h @ p["gates_h"], 3, axis=1)
        reset = tf.sigmoid(from_x[0] + from_h[0])
        update = tf.sigmoid(from_x[1] + from_h[1])
        candidate = tf.tanh(from_x[2] + reset * from_h[2])
        return update * h + (1.0 - update) * candidate

    def loss(p: Arrays, batch: Arrays) -> Any:
        start = tf.nn.embedding_lookup(p["atoms"], batch["atom"])
        matrices = tf.nn.relu(batch["bond"] @ p["bond1"]) @ p["bond2"]
        matrices = tf.reshape(matrices, (-1, width, width))
        h = start
        for _ in range(dims["rounds"]):
            near = tf.gather(h, batch["source"])
            messages = tf.squeeze(tf.matmul(matrices, near[:, :, None]), -1)
            incoming = tf.math.unsorted_segment_sum(messages, batch["target"], atoms)
            h = gru(p, incoming, h)
        gate = tf.sigmoid(tf.concat([h, start], axis=1) @ p["gate"])
        values = gate * tf.tanh(h @ p["value"])
        readout = tf.math.unsorted_segment_sum(values, batch["graph"], dims["graphs"])
        predicted = readout @ p["out"]
        return tf.reduce_mean(tf.square(predicted - batch["property"]))

    return loss


def on_jax(dims: Dims, half: Half) -> Callable[[Arrays, Arrays], Any]:
    import jax
    import jax.numpy as jnp

    width, graphs, atoms = dims["width"], dims["graphs"], dims["graphs"] * dims["size"]

    def gru(p: Arrays, x: Any, h: Any) -> Any:
        from_x, from_h = x @ p["gates_x"] + p["gates_b"], h @ p["gates_h"]
        gates = jax.nn.sigmoid(from_x[:, : 2 * width] + from_h[:, : 2 * width])
        reset, update = gates[:, :width], gates[:, width:]
        candidate = jnp.tanh(from_x[:, 2 * width :] + reset * from_h[:, 2 * width :])
        return candidate + update * (h - candidate)

    def loss(p: Arrays, batch: Arrays) -> Any:
        start = p["atoms"][batch["atom"]]
        matrices = jax.nn.relu(batch["bond"] @ p["bond1"]) @ p["bond2"]
        matrices = matrices.reshape(-1, width, width)
        h = start
        for _ in range(dims["rounds"]):
            messages = jnp.einsum("eij,ej->ei", matrices, h[batch["source"]])
            h = gru(p, jax.ops.segment_sum(messages, batch["target"], atoms), h)
        gate = jax.nn.sigmoid(jnp.concatenate([h, start], 1) @ p["gate"])
        values = gate * jnp.tanh(h @ p["value"])
        readout = jax.ops.segment_sum(values, batch["graph"], graphs, indices_are_sorted=True)
        return jnp.mean((readout @ p["out"] - batch["property"]) ** 2)

    return loss


def on_torch(dims: Dims, half: Half) -> Callable[[Arrays, Arrays], Any]:
    import torch
    from torch.nn import functional

    width, graphs = dims["width"], dims["graphs"]

    def gru(p: Arrays, x: Any, h: Any) -> Any:
        from_x = torch.addmm(p["gates_b"], x, p["gates_x"]).chunk(3, 1)
        from_h = (h @ p["gates_h"]).chunk(3, 1)
        reset = torch.sigmoid(from_x[0] + from_h[0])
        update = torch.sigmoid(from_x[1] + from_h[1])
        candidate = torch.tanh(from_x[2] + reset * from_h[2])
        return torch.lerp(candidate, h, update)

    def loss(p: Arrays, batch: Arrays) -> Any:
        start = functional.embedding(batch["atom"], p["atoms"])
        matrices = torch.relu(batch["bond"] @ p["bond1"]) @ p["bond2"]
        matrices = matrices.view(-1, width, width)
        h = start
        for _ in range(dims["rounds"]):
            near = h.index_select(0, batch["source"])
            messages = torch.bmm(matrices, near[:, :, None])[:, :, 0]
            h = gru(p, torch.zeros_like(h).index_add(0, batch["target"], messages), h)
        gate = torch.sigmoid(torch.cat([h, start], 1) @ p["gate"])
        values = gate * torch.tanh(h @ p["value"])
        readout = values.new_zeros(graphs, values.shape[1]).index_add(0, batch["graph"], values)
        return functional.mse_loss(readout @ p["out"], batch["property"])

    return loss


def cost(dims: Dims) -> Cost:
    """Matrices of bonds are made once and read in every round, in each direction."""
    width, rounds = dims["width"], dims["rounds"]
    edges = 2 * dims["graphs"] * (dims["size"] - 1 + dims["rings"])
    atoms = dims["graphs"] * dims["size"]
    products = edges * width**2 * (dims["hidden"] + rounds) + atoms * rounds * 6 * width**2
    return Cost(bytes=8.0 * edges * width**2 * (1 + rounds), operations=6.0 * products)


PROGRAM = Program(
    summary="message passing with edge networks, gated updates and readout on 256 molecules, Adam",
    kind=Kind.TRAINING,
    make=make,
    on_tapegrad=on_tapegrad,
    on_jax=on_jax,
    on_torch=on_torch,
    sizes={
        "check": {
            "graphs": 3,
            "size": 5,
            "rings": 1,
            "width": 4,
            "hidden": 7,
            "rounds": 2,
            "targets": 2,
        },
        "cpu": {
            "graphs": 32,
            "size": 18,
            "rings": 2,
            "width": 16,
            "hidden": 32,
            "rounds": 3,
            "targets": 12,
        },
        "cuda": {
            "graphs": 256,
            "size": 18,
            "rings": 2,
            "width": 64,
            "hidden": 128,
            "rounds": 4,
            "targets": 12,
        },
    },
    cost=cost,
    optimizer=Optimizer("adam", 1e-3),
)
