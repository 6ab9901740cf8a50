"""A language model of two LSTM layers that is written step by step, with tied embeddings."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tapegrad_zoo.program import Arrays, Cost, Dims, Half, Kind, Optimizer, Program, Values

LAYERS = 2


def make(rng: np.random.Generator, dims: Dims) -> tuple[Values, Values]:
    n, words = dims["units"], dims["words"]
    params = {
        "words": rng.standard_normal((words, n)) * 0.5,
        "bias": rng.standard_normal(words) * 0.1,
    }
    for layer in range(LAYERS):
        forget = np.repeat([0.0, 1.0, 0.0, 0.0], n)  # remember at the start
        params |= {
            f"inputs{layer}": rng.standard_normal((n, 4 * n)) * n**-0.5,
            f"states{layer}": rng.standard_normal((n, 4 * n)) * n**-0.5,
            f"bias{layer}": rng.standard_normal(4 * n) * 0.1 + forget,
        }
    batch = {
        "text": rng.integers(0, words, (dims["batch"], dims["steps"] + 1)),
        "state": rng.standard_normal((LAYERS, 2, dims["batch"], n)) * 0.1,
    }
    return params, batch


def on_tapegrad(dims: Dims, half: Half) -> Callable[[Arrays, Arrays], Any]:
    import tapegrad as tf

    def cell(p: Arrays, layer: int, x: Any, h: Any, c: Any) -> Any:
        z = tf.matmul(x, p[f"inputs{layer}"]) + tf.matmul(h, p[f"states{layer}"])
        i, f, g, o = tf.split(z + p[f"bias{layer}"], 4, axis=1)
        c = tf.sigmoid(f) * c + tf.sigmoid(i) * tf.tanh(g)
        return tf.sigmoid(o) * tf.tanh(c), c

    def loss(p: Arrays, batch: Arrays) -> Any:
        inputs = tf.nn.embedding_lookup(p["words"], batch["text"][:, :-1])
        h = [batch["state"][layer, 0] for layer in range(LAYERS)]
        c = [batch["state"][layer, 1] for layer in range(LAYERS)]
        outputs = []
        for t in range(dims["steps"]):
            x = inputs[:, t]
            for layer in range(LAYERS):
                h[layer], c[layer] = cell(p, layer, x, h[layer], c[layer])
                x = h[layer]
            outputs.append(x)
        logits = tf.matmul(tf.stack(outputs, axis=1), p["words"], transpose_b=True) + p["bias"]
        losses = tf.nn.sparse_softmax_cross_entropy_with_logits(batch["text"][:, 1:], logits)
        return tf.reduce_mean(losses)

    return loss


def on_jax(dims: Dims, half: Half) -> Callable[[Arrays, Arrays], Any]:
    import jax
    import jax.numpy as jnp

    def run(p: Arrays, layer: int, xs: Any, state: Any) -> Any:
        projected = xs @ p[f"inputs{layer}"] + p[f"bias{layer}"]

        def step(carry: Any, z: Any) -> Any:
            h, c = carry
            i, f, g, o = jnp.split(z + h @ p[f"states{layer}"], 4, 1)
            c = jax.nn.sigmoid(f) * c + jax.nn.sigmoid(i) * jnp.tanh(g)
            h = jax.nn.sigmoid(o) * jnp.tanh(c)
            return (h, c), h

        return jax.lax.scan(step, (state[0], state[1]), projected)[1]

    def loss(p: Arrays, batch: Arrays) -> Any:
        xs = p["words"][batch["text"][:, :-1].T]
        for layer in range(LAYERS):
            xs = run(p, layer, xs, batch["state"][layer])
        logits = xs @ p["words"].T + p["bias"]
        right = jnp.take_along_axis(logits, batch["text"][:, 1:].T[..., None], -1)[..., 0]
        return jnp.mean(jax.nn.logsumexp(logits, -1) - right)

    return loss


def on_torch(dims: Dims, half: Half) -> Callable[[Arrays, Arrays], Any]:
    import torch
    from torch.nn import functional

    def loss(p: Arrays, batch: Arrays) -> Any:
        xs = functional.embedding(batch["text"][:, :-1].T, p["words"])
        weights = []
        for layer in range(LAYERS):
            bias = p[f"bias{layer}"]
            # cuDNN takes no transposed views.
            matrices = [p[f"{kind}{layer}"].T.contiguous() for kind in ("inputs", "states")]
            weights += [*matrices, bias, torch.zeros_like(bias)]
        h, c = batch["state"].transpose(0, 1).contiguous()
        xs, _, _ = torch.lstm(xs, (h, c), weights, True, LAYERS, 0.0, True, False, False)
        logits = xs @ p["words"].T + p["bias"]
        return functional.cross_entropy(logits.flatten(0, 1), batch["text"][:, 1:].T.flatten())

    return loss


def cost(dims: Dims) -> Cost:
    """Three passes over the products; Adam moves seven times the size of the weights."""
    n = dims["units"]
    cells, words = 8 * LAYERS * n**2, n * dims["words"]
    products = (cells + words) * dims["batch"] * dims["steps"]
    return Cost(bytes=28.0 * (cells + words), operations=6.0 * products)


PROGRAM = Program(
    summary="two LSTM layers of 512 units, 64 texts of 96 tokens, a loop in Python, Adam",
    kind=Kind.TRAINING,
    make=make,
    on_tapegrad=on_tapegrad,
    on_jax=on_jax,
    on_torch=on_torch,
    sizes={
        "check": {"batch": 3, "steps": 5, "units": 7, "words": 11},
        "cpu": {"batch": 16, "steps": 24, "units": 64, "words": 500},
        "cuda": {"batch": 64, "steps": 96, "units": 512, "words": 10000},
    },
    cost=cost,
    optimizer=Optimizer("adam", 1e-3),
)
