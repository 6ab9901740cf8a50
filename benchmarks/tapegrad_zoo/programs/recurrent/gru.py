"""A bidirectional GRU that classifies sequences of different lengths."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tapegrad_zoo.program import Arrays, Cost, Dims, Half, Kind, Optimizer, Program, Values

CLASSES, DIRECTIONS = 6, ("there", "back")


def make(rng: np.random.Generator, dims: Dims) -> tuple[Values, Values]:
    n, m = dims["inputs"], dims["units"]
    params: Values = {}
    for name in DIRECTIONS:
        params |= {
            f"w_{name}": rng.standard_normal((n, 3 * m)) * n**-0.5,
            f"u_{name}": rng.standard_normal((m, 3 * m)) * m**-0.5,
            f"b_{name}": rng.standard_normal(3 * m) * 0.1,
            f"c_{name}": rng.standard_normal(m) * 0.1,
        }
    params["head"] = rng.standard_normal((2 * m, CLASSES)) * (2 * m) ** -0.5
    params["head_bias"] = rng.standard_normal(CLASSES) * 0.1
    batch = {
        "x": rng.standard_normal((dims["batch"], dims["steps"], n)),
        "lengths": rng.integers(dims["steps"] // 2, dims["steps"] + 1, dims["batch"]),
        "labels": rng.integers(0, CLASSES, dims["batch"]),
    }
    return params, batch


def on_tapegrad(dims: Dims, half: Half) -> Callable[[Arrays, Arrays], Any]:
    import tapegrad.numpy as np

    units, steps = dims["units"], dims["steps"]

    def sigmoid(x: Any) -> Any:
        return 1.0 / (1.0 + np.exp(-x))

    def cell(p: Arrays, name: str, x: Any, h: Any) -> Any:
        a = x @ p[f"w_{name}"] + p[f"b_{name}"]
        b = h @ p[f"u_{name}"]
        r = sigmoid(a[:, :units] + b[:, :units])
        z = sigmoid(a[:, units : 2 * units] + b[:, units : 2 * units])
        n = np.tanh(a[:, 2 * units :] + r * (b[:, 2 * units :] + p[f"c_{name}"]))
        return (1 - z) * n + z * h

    def run(p: Arrays, name: str, batch: Arrays, order: Any) -> Any:
        x = batch["x"]
        h = np.zeros((dims["batch"], units), dtype=x.dtype)
        total = np.zeros_like(h)
        for t in order:
            present = (t < batch["lengths"])[:, None]
            h = np.where(present, cell(p, name, x[:, t], h), h)
            total = total + np.where(present, h, 0)
        return total / np.astype(batch["lengths"], x.dtype)[:, None]

    def loss(p: Arrays, batch: Arrays) -> Any:
        there = run(p, "there", batch, range(steps))
        back = run(p, "back", batch, reversed(range(steps)))
        logits = np.concatenate([there, back], axis=1) @ p["head"] + p["head_bias"]
        top = np.max(logits, axis=1, keepdims=True)
        totals = top[:, 0] + np.log(np.sum(np.exp(logits - top), axis=1))
        return np.mean(totals - logits[np.arange(dims["batch"]), batch["labels"]])

    return loss


def on_jax(dims: Dims, half: Half) -> Callable[[Arrays, Arrays], Any]:
    import jax
    import jax.numpy as jnp

    units, steps = dims["units"], dims["steps"]

    def run(p: Arrays, name: str, batch: Arrays, reverse: bool) -> Any:
        inputs = batch["x"].swapaxes(0, 1) @ p[f"w_{name}"] + p[f"b_{name}"]
        present = jnp.arange(steps)[:, None, None] < batch["lengths"][:, None]

        def step(h: Any, given: Any) -> Any:
            a, here = given
            b = h @ p[f"u_{name}"]
            r, z = jnp.split(jax.nn.sigmoid(a[:, : 2 * units] + b[:, : 2 * units]), 2, 1)
            n = jnp.tanh(a[:, 2 * units :] + r * (b[:, 2 * units :] + p[f"c_{name}"]))
            h = jnp.where(here, (1 - z) * n + z * h, h)
            return h, h

        start = jnp.zeros((dims["batch"], units), inputs.dtype)
        states = jax.lax.scan(step, start, (inputs, present), reverse=reverse)[1]
        return jnp.sum(jnp.where(present, states, 0), 0) / batch["lengths"][:, None]

    def loss(p: Arrays, batch: Arrays) -> Any:
        found = [run(p, name, batch, name == "back") for name in DIRECTIONS]
        logits = jnp.concatenate(found, 1) @ p["head"] + p["head_bias"]
        log_shares = jax.nn.log_softmax(logits)
        return -jnp.mean(jnp.take_along_axis(log_shares, batch["labels"][:, None], 1))

    return loss


def on_torch(dims: Dims, half: Half) -> Callable[[Arrays, Arrays], Any]:
    import torch
    from torch.nn import functional

    units, steps = dims["units"], dims["steps"]

    def run(p: Arrays, name: str, x: Any) -> Any:
        """Return the states of a GRU that starts with zeros; the time is the first axis."""
        c = functional.pad(p[f"c_{name}"], (2 * units, 0))
        # cuDNN takes no transposed views.
        matrices = [p[f"{kind}_{name}"].T.contiguous() for kind in "wu"]
        weights = [*matrices, p[f"b_{name}"], c]
        start = x.new_zeros(1, x.shape[1], units)
        return torch.gru(x, start, weights, True, 1, 0.0, True, False, False)[0]

    def loss(p: Arrays, batch: Arrays) -> Any:
        x, lengths = batch["x"].transpose(0, 1), batch["lengths"]
        times = torch.arange(steps, device=x.device)[:, None]
        present = (times < lengths)[..., None]
        # Each sequence is reversed within its length, so that the padding stays at its end.
        turned = (lengths - 1 - times).clamp(min=0)[..., None]
        reverse = torch.take_along_dim(x, turned, 0)
        found = [run(p, "there", x), run(p, "back", reverse)]
        means = [torch.where(present, h, 0).sum(0) / lengths[:, None] for h in found]
        logits = torch.cat(means, 1) @ p["head"] + p["head_bias"]
        return functional.cross_entropy(logits, batch["labels"])

    return loss


def cost(dims: Dims) -> Cost:
    """Three passes over the products of both directions; the inputs are read in each pass."""
    n, m, rows = dims["inputs"], dims["units"], dims["batch"] * dims["steps"]
    weights = 2 * 3 * m * (n + m)
    return Cost(bytes=28.0 * weights + 12.0 * rows * n, operations=6.0 * weights * rows)


PROGRAM = Program(
    summary="a bidirectional GRU of 256 units over 128 padded sequences of 100 steps, Adam",
    kind=Kind.TRAINING,
    make=make,
    on_tapegrad=on_tapegrad,
    on_jax=on_jax,
    on_torch=on_torch,
    sizes={
        "check": {"batch": 4, "steps": 6, "inputs": 3, "units": 5},
        "cpu": {"batch": 16, "steps": 32, "inputs": 24, "units": 48},
        "cuda": {"batch": 128, "steps": 100, "inputs": 128, "units": 256},
    },
    cost=cost,
    optimizer=Optimizer("adam", 1e-3),
)
