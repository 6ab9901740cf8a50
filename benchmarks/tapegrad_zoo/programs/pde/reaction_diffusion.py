"""Fit the rates of a Gray-Scott reaction with diffusion to patterns that were photographed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tapegrad_zoo.program import Arrays, Cost, Dims, Half, Kind, Program, Values

STEP = 0.5
STENCIL = ((0.05, 0.2, 0.05), (0.2, -1.0, 0.2), (0.05, 0.2, 0.05))


def make(rng: np.random.Generator, dims: Dims) -> tuple[Values, Values]:
    shape = dims["batch"], dims["side"], dims["side"] + 1
    params = {
        "diffusion": np.array([1.0, 0.5]),
        "feed": 0.055 + 0.005 * rng.standard_normal(shape[1:]),
        "kill": 0.062 + 0.005 * rng.standard_normal(shape[1:]),
    }
    seeds = rng.random(shape) < 0.15
    first: Any = np.stack([1 - 0.5 * seeds, 0.25 * seeds], axis=-1)
    batch = {
        "first": first + 0.01 * rng.standard_normal(first.shape),
        "last": rng.random(first.shape),
    }
    return params, batch


def on_tapegrad(dims: Dims, half: Half) -> Callable[[Arrays, Arrays], Any]:
    import tapegrad as tf

    def loss(params: Arrays, batch: Arrays) -> Any:
        state = batch["first"]
        stencil = tf.constant(STENCIL, dtype=state.dtype)
        kernel = tf.tile(stencil[:, :, None, None], [1, 1, 2, 1])
        feed, kill = params["feed"], params["kill"]
        for _ in range(dims["steps"]):
            padded = tf.pad(state, [[0, 0], [1, 1], [1, 1], [0, 0]], mode="SYMMETRIC")
            spread = tf.nn.depthwise_conv2d(padded, kernel, strides=[1, 1, 1, 1], padding="VALID")
            u, v = tf.unstack(state, axis=-1)
            reaction = u * v * v
            du = feed * (1.0 - u) - reaction
            dv = reaction - (feed + kill) * v
            state = state + STEP * (params["diffusion"] * spread + tf.stack([du, dv], axis=-1))
        return tf.reduce_mean(tf.square(state - batch["last"]))

    return loss


def on_jax(dims: Dims, half: Half) -> Callable[[Arrays, Arrays], Any]:
    import jax
    import jax.numpy as jnp

    def spread(x: Any) -> Any:
        p = jnp.pad(x, ((0, 0), (1, 1), (1, 1)), mode="edge")
        rows = p[:, :-2] + p[:, 2:]
        corners = rows[:, :, :-2] + rows[:, :, 2:]
        sides = rows[:, :, 1:-1] + p[:, 1:-1, :-2] + p[:, 1:-1, 2:]
        return 0.05 * corners + 0.2 * sides - x

    def loss(params: Arrays, batch: Arrays) -> Any:
        feed, kill, diffusion = params["feed"], params["kill"], params["diffusion"]

        def step(_: Any, state: Any) -> Any:
            u, v = state
            reaction = u * v * v
            du = diffusion[0] * spread(u) + feed * (1 - u) - reaction
            dv = diffusion[1] * spread(v) + reaction - (feed + kill) * v
            return u + STEP * du, v + STEP * dv

        first, last = batch["first"], batch["last"]
        u, v = jax.lax.fori_loop(0, dims["steps"], step, (first[..., 0], first[..., 1]))
        return 0.5 * (jnp.mean((u - last[..., 0]) ** 2) + jnp.mean((v - last[..., 1]) ** 2))

    return loss


def on_torch(dims: Dims, half: Half) -> Callable[[Arrays, Arrays], Any]:
    import torch
    from torch.nn import functional

    def spread(x: Any) -> Any:
        p = functional.pad(x, (1, 1, 1, 1), mode="replicate")
        rows = p[:, :-2] + p[:, 2:]
        corners = rows[:, :, :-2] + rows[:, :, 2:]
        sides = rows[:, :, 1:-1] + p[:, 1:-1, :-2] + p[:, 1:-1, 2:]
        return 0.05 * corners + 0.2 * sides - x

    def loss(params: Arrays, batch: Arrays) -> Any:
        u, v = (x.contiguous() for x in batch["first"].unbind(-1))
        of_u, of_v = params["diffusion"].unbind()
        feed, both = params["feed"], params["feed"] + params["kill"]
        for _ in range(dims["steps"]):
            reaction = u * v * v
            du = of_u * spread(u) + feed * (1 - u) - reaction
            dv = of_v * spread(v) + reaction - both * v
            u, v = u + STEP * du, v + STEP * dv
        return functional.mse_loss(torch.stack([u, v], -1), batch["last"])

    return loss


def cost(dims: Dims) -> Cost:
    """A step reads and writes two fields, going forth and going back."""
    cells = dims["batch"] * dims["side"] * (dims["side"] + 1) * dims["steps"]
    return Cost(bytes=32.0 * cells, operations=80.0 * cells)


PROGRAM = Program(
    summary="Gray-Scott reaction and diffusion by a 3x3 convolution; gradient by fields of rates",
    kind=Kind.GRADIENT,
    make=make,
    on_tapegrad=on_tapegrad,
    on_jax=on_jax,
    on_torch=on_torch,
    sizes={
        "check": {"batch": 2, "side": 8, "steps": 5},
        "cpu": {"batch": 2, "side": 63, "steps": 30},
        "cuda": {"batch": 16, "side": 255, "steps": 100},
    },
    cost=cost,
)
