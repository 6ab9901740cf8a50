"""Full-waveform inversion: find the velocities under the ground from what receivers recorded."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tapegrad_zoo.program import Arrays, Cost, Dims, Half, Kind, Program, Values

RECEIVER_ROW, SOURCE_ROW = 1, 2
STEP = 0.4
"""Time step times the unit of velocity over the grid spacing; below 0.6 the scheme is stable."""


def make(rng: np.random.Generator, dims: Dims) -> tuple[Values, Values]:
    depth, width, shots, steps = dims["depth"], dims["width"], dims["shots"], dims["steps"]
    velocity = 1.0 + 0.3 * np.linspace(0, 1, depth)[:, None]
    params = {"velocity": velocity + 0.02 * rng.standard_normal((depth, width))}
    border = np.minimum(np.arange(width), np.arange(width)[::-1])[None, :]
    border = np.minimum(border, np.arange(depth)[::-1][:, None])
    phase = (np.pi * 0.12 * (np.arange(steps) - min(12, steps / 2))) ** 2
    batch = {
        "damping": np.exp(-((0.1 * np.maximum(0, 6 - border)) ** 2)),
        "wavelet": (1 - 2 * phase) * np.exp(-phase),
        "columns": rng.integers(2, width - 2, shots),
        "recorded": 0.1 * rng.standard_normal((steps, shots, width)),
    }
    return params, batch


def on_tapegrad(dims: Dims, half: Half) -> Callable[[Arrays, Arrays], Any]:
    import tapegrad as tf

    depth, width, shots = dims["depth"], dims["width"], dims["shots"]

    def laplacian(u: Any) -> Any:
        p = tf.pad(u, [[0, 0], [2, 2], [2, 2]])
        near = p[:, 1:-3, 2:-2] + p[:, 3:-1, 2:-2] + p[:, 2:-2, 1:-3] + p[:, 2:-2, 3:-1]
        far = p[:, :-4, 2:-2] + p[:, 4:, 2:-2] + p[:, 2:-2, :-4] + p[:, 2:-2, 4:]
        return (16.0 * near - far) / 12.0 - 5.0 * u

    def loss(params: Arrays, batch: Arrays) -> Any:
        speed = tf.square(STEP * params["velocity"])
        damping = batch["damping"]
        columns = tf.cast(batch["columns"], tf.int32)
        places = tf.stack([tf.range(shots), tf.fill([shots], SOURCE_ROW), columns], axis=1)
        before = tf.zeros([shots, depth, width], dtype=damping.dtype)
        now = before
        seen = []
        for t in range(dims["steps"]):
            after = 2.0 * now - before + speed * laplacian(now)
            shot = tf.broadcast_to(batch["wavelet"][t], [shots])
            after = tf.tensor_scatter_nd_add(after, places, shot)
            before, now = damping * now, damping * after
            seen.append(now[:, RECEIVER_ROW, :])
        return tf.reduce_mean(tf.square(tf.stack(seen) - batch["recorded"]))

    return loss


def on_jax(dims: Dims, half: Half) -> Callable[[Arrays, Arrays], Any]:
    import jax
    import jax.numpy as jnp

    depth, width, shots = dims["depth"], dims["width"], dims["shots"]

    def laplacian(u: Any) -> Any:
        p = jnp.pad(u, ((0, 0), (2, 2), (2, 2)))
        near = p[:, 1:-3, 2:-2] + p[:, 3:-1, 2:-2] + p[:, 2:-2, 1:-3] + p[:, 2:-2, 3:-1]
        far = p[:, :-4, 2:-2] + p[:, 4:, 2:-2] + p[:, 2:-2, :-4] + p[:, 2:-2, 4:]
        return (16 * near - far) / 12 - 5 * u

    def loss(params: Arrays, batch: Arrays) -> Any:
        speed, damping = (STEP * params["velocity"]) ** 2, batch["damping"]
        every = jnp.arange(shots)

        def step(carry: Any, pulse: Any) -> Any:
            before, now = carry
            after = 2 * now - before + speed * laplacian(now)
            after = after.at[every, SOURCE_ROW, batch["columns"]].add(pulse)
            after = damping * after
            return (damping * now, after), after[:, RECEIVER_ROW, :]

        rest = jnp.zeros((shots, depth, width), damping.dtype)
        _, seen = jax.lax.scan(step, (rest, rest), batch["wavelet"])
        return jnp.mean((seen - batch["recorded"]) ** 2)

    return loss


def on_torch(dims: Dims, half: Half) -> Callable[[Arrays, Arrays], Any]:
    import torch
    from torch.nn import functional

    depth, width, shots = dims["depth"], dims["width"], dims["shots"]

    def laplacian(u: Any) -> Any:
        p = functional.pad(u, (2, 2, 2, 2))
        near = p[:, 1:-3, 2:-2] + p[:, 3:-1, 2:-2] + p[:, 2:-2, 1:-3] + p[:, 2:-2, 3:-1]
        far = p[:, :-4, 2:-2] + p[:, 4:, 2:-2] + p[:, 2:-2, :-4] + p[:, 2:-2, 4:]
        return (16 * near - far) / 12 - 5 * u

    def loss(params: Arrays, batch: Arrays) -> Any:
        speed, damping = (STEP * params["velocity"]) ** 2, batch["damping"]
        row = functional.one_hot(batch["columns"], width).to(damping.dtype)
        source = functional.pad(row[:, None, :], (0, 0, SOURCE_ROW, depth - SOURCE_ROW - 1))
        before = now = damping.new_zeros(shots, depth, width)
        seen = []
        for pulse in batch["wavelet"].unbind():
            after = 2 * now - before + speed * laplacian(now) + pulse * source
            before, now = damping * now, damping * after
            seen.append(now[:, RECEIVER_ROW])
        return functional.mse_loss(torch.stack(seen), batch["recorded"])

    return loss


def cost(dims: Dims) -> Cost:
    """A step reads two fields and writes one, going forth and going back."""
    cells = dims["shots"] * dims["depth"] * dims["width"] * dims["steps"]
    return Cost(bytes=24.0 * cells, operations=40.0 * cells)


PROGRAM = Program(
    summary="acoustic waves of several shots, 9-point cross stencil; gradient by the velocities",
    kind=Kind.GRADIENT,
    make=make,
    on_tapegrad=on_tapegrad,
    on_jax=on_jax,
    on_torch=on_torch,
    sizes={
        "check": {"shots": 2, "depth": 9, "width": 13, "steps": 11},
        "cpu": {"shots": 2, "depth": 64, "width": 96, "steps": 60},
        "cuda": {"shots": 8, "depth": 256, "width": 384, "steps": 200},
    },
    cost=cost,
)
