"""A normalising flow: affine couplings with permutations; the loss is the exact likelihood."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tapegrad_zoo.program import Arrays, Cost, Dims, Half, Kind, Optimizer, Program, Values

LOG_TAU = float(np.log(2 * np.pi))


def _halves(dims: Dims) -> tuple[int, int]:
    kept = dims["width"] // 2
    return kept, dims["width"] - kept


def make(rng: np.random.Generator, dims: Dims) -> tuple[Values, Values]:
    kept, moved = _halves(dims)
    hidden, layers = dims["hidden"], dims["layers"]
    params: Values = {
        "log_scale": rng.standard_normal((layers, dims["width"])) * 0.1,
        "shift": rng.standard_normal((layers, dims["width"])) * 0.1,
    }
    for layer in range(layers):
        params |= {
            f"in_{layer}": rng.standard_normal((kept, hidden)) * kept**-0.5,
            f"in_bias_{layer}": rng.standard_normal(hidden) * 0.1,
            f"mid_{layer}": rng.standard_normal((hidden, hidden)) * hidden**-0.5,
            f"out_{layer}": rng.standard_normal((hidden, 2 * moved)) * 0.2 * hidden**-0.5,
        }
    return params, {"x": rng.standard_normal((dims["batch"], dims["width"]))}


def on_tapegrad(dims: Dims, half: Half) -> Callable[[Arrays, Arrays], Any]:
    import tapegrad as tf

    kept, _moved = _halves(dims)

    def loss(p: Arrays, batch: Arrays) -> Any:
        z = batch["x"]
        log_det = tf.zeros(dims["batch"], dtype=z.dtype)
        for layer in range(dims["layers"]):
            log_scale = p["log_scale"][layer]
            z = (z + p["shift"][layer]) * tf.exp(log_scale)
            log_det += tf.reduce_sum(log_scale)
            left, right = z[:, :kept], z[:, kept:]
            h = tf.nn.leaky_relu(left @ p[f"in_{layer}"] + p[f"in_bias_{layer}"])
            h = h + tf.nn.leaky_relu(h @ p[f"mid_{layer}"])
            scale, shift = tf.split(h @ p[f"out_{layer}"], 2, axis=1)
            scale = tf.tanh(scale)
            right = right * tf.exp(scale) + shift
            log_det += tf.reduce_sum(scale, axis=1)
            z = tf.reverse(tf.concat([left, right], axis=1), [1])
        log_normal = -0.5 * tf.reduce_sum(tf.square(z) + LOG_TAU, axis=1)
        return -tf.reduce_mean(log_normal + log_det) / dims["width"]

    return loss


def on_jax(dims: Dims, half: Half) -> Callable[[Arrays, Arrays], Any]:
    import jax
    import jax.numpy as jnp

    kept, _ = _halves(dims)

    def loss(p: Arrays, batch: Arrays) -> Any:
        z, log_det = batch["x"], jnp.sum(p["log_scale"])
        for layer in range(dims["layers"]):
            z = (z + p["shift"][layer]) * jnp.exp(p["log_scale"][layer])
            left, right = z[:, :kept], z[:, kept:]
            h = jax.nn.leaky_relu(left @ p[f"in_{layer}"] + p[f"in_bias_{layer}"], 0.2)
            h = h + jax.nn.leaky_relu(h @ p[f"mid_{layer}"], 0.2)
            scale, shift = jnp.split(h @ p[f"out_{layer}"], 2, 1)
            scale = jnp.tanh(scale)
            log_det = log_det + jnp.sum(scale, 1)
            z = jnp.concatenate([left, right * jnp.exp(scale) + shift], 1)[:, ::-1]
        log_normal = jnp.sum(jax.scipy.stats.norm.logpdf(z), 1)
        return -jnp.mean(log_normal + log_det) / dims["width"]

    return loss


def on_torch(dims: Dims, half: Half) -> Callable[[Arrays, Arrays], Any]:
    import torch
    from torch.nn import functional

    kept, moved = _halves(dims)

    def loss(p: Arrays, batch: Arrays) -> Any:
        z = batch["x"]
        log_det = torch.sum(p["log_scale"])
        for layer in range(dims["layers"]):
            z = (z + p["shift"][layer]) * torch.exp(p["log_scale"][layer])
            left, right = z.split((kept, moved), 1)
            h = torch.addmm(p[f"in_bias_{layer}"], left, p[f"in_{layer}"])
            h = functional.leaky_relu(h, 0.2)
            h = h + functional.leaky_relu(h @ p[f"mid_{layer}"], 0.2)
            scale, shift = (h @ p[f"out_{layer}"]).chunk(2, 1)
            scale = torch.tanh(scale)
            right = torch.addcmul(shift, right, torch.exp(scale))
            log_det = log_det + torch.sum(scale, 1)
            z = torch.cat([left, right], 1).flip(1)
        log_normal = -0.5 * torch.sum(z * z, 1) - 0.5 * LOG_TAU * dims["width"]
        return -torch.mean(log_normal + log_det) / dims["width"]

    return loss


def cost(dims: Dims) -> Cost:
    """Three products per weight; Adam reads and writes three arrays and reads a gradient."""
    kept, moved = _halves(dims)
    hidden = dims["hidden"]
    weights = dims["layers"] * hidden * (kept + hidden + 2 * moved)
    return Cost(
        bytes=28.0 * weights + 4.0 * dims["batch"] * dims["width"],
        operations=6.0 * weights * dims["batch"],
    )


PROGRAM = Program(
    summary="RealNVP: 12 affine couplings of 64 dimensions with activation norms, Adam",
    kind=Kind.TRAINING,
    make=make,
    on_tapegrad=on_tapegrad,
    on_jax=on_jax,
    on_torch=on_torch,
    sizes={
        "check": {"batch": 6, "width": 5, "hidden": 7, "layers": 3},
        "cpu": {"batch": 512, "width": 21, "hidden": 64, "layers": 6},
        "cuda": {"batch": 8192, "width": 63, "hidden": 512, "layers": 12},
    },
    cost=cost,
    optimizer=Optimizer("adam", 1e-3),
)
