"""A hidden Markov model of symbols, trained by the scaled forward algorithm."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tapegrad_zoo.program import Arrays, Cost, Dims, Half, Kind, Optimizer, Program, Values


def make(rng: np.random.Generator, dims: Dims) -> tuple[Values, Values]:
    states, symbols = dims["states"], dims["symbols"]
    params = {
        "first": rng.standard_normal(states),
        "moves": rng.standard_normal((states, states)),
        "emits": rng.standard_normal((states, symbols)),
    }
    return params, {"symbols": rng.integers(0, symbols, (dims["batch"], dims["steps"]))}


def on_tapegrad(dims: Dims, half: Half) -> Callable[[Arrays, Arrays], Any]:
    import tapegrad.numpy as np

    def softmax(x: Any) -> Any:
        e = np.exp(x - np.max(x, axis=-1, keepdims=True))
        return e / np.sum(e, axis=-1, keepdims=True)

    def loss(p: Arrays, batch: Arrays) -> Any:
        first, moves, emits = softmax(p["first"]), softmax(p["moves"]), softmax(p["emits"])
        symbols = batch["symbols"]
        alpha = first * emits[:, symbols[:, 0]].T
        total = 0.0
        for t in range(1, dims["steps"] + 1):
            scale = np.sum(alpha, axis=1, keepdims=True)
            total = total + np.mean(np.log(scale))
            if t < dims["steps"]:
                alpha = ((alpha / scale) @ moves) * emits[:, symbols[:, t]].T
        return -total / dims["steps"]

    return loss


def on_jax(dims: Dims, half: Half) -> Callable[[Arrays, Arrays], Any]:
    import jax
    import jax.numpy as jnp

    def loss(p: Arrays, batch: Arrays) -> Any:
        moves, emits = jax.nn.softmax(p["moves"]), jax.nn.softmax(p["emits"]).T

        def step(alpha: Any, symbols: Any) -> Any:
            alpha = (alpha @ moves) * emits[symbols]
            scale = jnp.sum(alpha, axis=1, keepdims=True)
            return alpha / scale, jnp.mean(jnp.log(scale))

        symbols = batch["symbols"].T
        alpha = jax.nn.softmax(p["first"]) * emits[symbols[0]]
        scale = jnp.sum(alpha, axis=1, keepdims=True)
        _, logs = jax.lax.scan(step, alpha / scale, symbols[1:])
        return -(jnp.mean(jnp.log(scale)) + jnp.sum(logs)) / dims["steps"]

    return loss


def on_torch(dims: Dims, half: Half) -> Callable[[Arrays, Arrays], Any]:
    import torch
    from torch.nn import functional

    def loss(p: Arrays, batch: Arrays) -> Any:
        moves, emits = torch.softmax(p["moves"], 1), torch.softmax(p["emits"], 1).T.contiguous()
        seen = functional.embedding(batch["symbols"].T, emits).unbind()
        alpha = torch.softmax(p["first"], 0) * seen[0]
        scales = [alpha.sum(1, keepdim=True)]
        for emission in seen[1:]:
            alpha = (alpha / scales[-1]) @ moves * emission
            scales.append(alpha.sum(1, keepdim=True))
        return -torch.log(torch.stack(scales)).mean()

    return loss


def cost(dims: Dims) -> Cost:
    """A product with the moves per step, once forth and twice back."""
    rows = dims["batch"] * dims["steps"]
    states = dims["states"]
    weights = states**2 + states * dims["symbols"]
    return Cost(bytes=28.0 * weights + 16.0 * rows * states, operations=6.0 * rows * states**2)


PROGRAM = Program(
    summary="the scaled forward algorithm of a hidden Markov model, Adam",
    kind=Kind.TRAINING,
    make=make,
    on_tapegrad=on_tapegrad,
    on_jax=on_jax,
    on_torch=on_torch,
    sizes={
        "check": {"batch": 3, "steps": 6, "states": 4, "symbols": 5},
        "cpu": {"batch": 16, "steps": 64, "states": 64, "symbols": 100},
        "cuda": {"batch": 256, "steps": 128, "states": 512, "symbols": 1000},
    },
    cost=cost,
    optimizer=Optimizer("adam", 1e-2),
)
