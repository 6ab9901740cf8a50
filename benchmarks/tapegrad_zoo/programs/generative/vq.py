"""A vector-quantised autoencoder: nearest codes, and gradients that pass straight through them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tapegrad_zoo.program import Arrays, Cost, Dims, Half, Kind, Optimizer, Program, Values

COMMITMENT = 0.25


def make(rng: np.random.Generator, dims: Dims) -> tuple[Values, Values]:
    frame, hidden, width = dims["frame"], dims["hidden"], dims["width"]

    def weights(n: int, m: int) -> Any:
        return rng.standard_normal((n, m)) * n**-0.5

    params = {
        "enc1": weights(frame, hidden),
        "enc1_b": rng.standard_normal(hidden) * 0.1,
        "enc2": weights(hidden, width),
        "codes": rng.standard_normal((dims["codes"], width)),
        "dec1": weights(width, hidden),
        "dec1_b": rng.standard_normal(hidden) * 0.1,
        "dec2": weights(hidden, frame),
    }
    return params, {"sound": rng.standard_normal((dims["batch"], dims["frames"] * frame))}


def on_tapegrad(dims: Dims, half: Half) -> Callable[[Arrays, Arrays], Any]:
    import tapegrad
    import tapegrad.numpy as np

    def loss(p: Arrays, batch: Arrays) -> Any:
        x = batch["sound"].reshape(dims["batch"], dims["frames"], dims["frame"])
        h = np.maximum(x @ p["enc1"] + p["enc1_b"], 0)
        encoded = h @ p["enc2"]
        flat = encoded.reshape(-1, dims["width"])
        squares = np.sum(flat**2, axis=1)[:, None] + np.sum(p["codes"] ** 2, axis=1)
        distances = squares - 2 * flat @ p["codes"].T
        nearest = np.argmin(distances, axis=1)
        quantized = np.take(p["codes"], nearest, axis=0).reshape(encoded.shape)
        fixed = tapegrad.stop_gradient
        codebook = np.mean((fixed(encoded) - quantized) ** 2)
        commitment = np.mean((encoded - fixed(quantized)) ** 2)
        through = encoded + fixed(quantized - encoded)
        h = np.maximum(through @ p["dec1"] + p["dec1_b"], 0)
        rebuilt = np.mean((h @ p["dec2"] - x) ** 2)
        return rebuilt + codebook + COMMITMENT * commitment

    return loss


def on_jax(dims: Dims, half: Half) -> Callable[[Arrays, Arrays], Any]:
    import jax
    import jax.numpy as jnp

    def loss(p: Arrays, batch: Arrays) -> Any:
        x = batch["sound"].reshape(-1, dims["frame"])
        encoded = jax.nn.relu(x @ p["enc1"] + p["enc1_b"]) @ p["enc2"]
        # The square of the encoded vector is the same for all codes.
        sizes = jnp.sum(p["codes"] ** 2, 1)
        nearest = jnp.argmin(jax.lax.stop_gradient(sizes - 2 * encoded @ p["codes"].T), 1)
        quantized = p["codes"][nearest]
        codebook = jnp.mean((jax.lax.stop_gradient(encoded) - quantized) ** 2)
        commitment = jnp.mean((encoded - jax.lax.stop_gradient(quantized)) ** 2)
        through = encoded + jax.lax.stop_gradient(quantized - encoded)
        h = jax.nn.relu(through @ p["dec1"] + p["dec1_b"])
        return jnp.mean((h @ p["dec2"] - x) ** 2) + codebook + COMMITMENT * commitment

    return loss


def on_torch(dims: Dims, half: Half) -> Callable[[Arrays, Arrays], Any]:
    import torch
    from torch.nn import functional

    def loss(p: Arrays, batch: Arrays) -> Any:
        x = batch["sound"].view(-1, dims["frame"])
        encoded = torch.relu(torch.addmm(p["enc1_b"], x, p["enc1"])) @ p["enc2"]
        with torch.no_grad():
            sizes = torch.sum(p["codes"] ** 2, 1)
            nearest = torch.argmin(torch.addmm(sizes, encoded, p["codes"].T, alpha=-2), 1)
        quantized = functional.embedding(nearest, p["codes"])
        codebook = functional.mse_loss(quantized, encoded.detach())
        commitment = functional.mse_loss(encoded, quantized.detach())
        through = encoded + (quantized - encoded).detach()
        h = torch.relu(torch.addmm(p["dec1_b"], through, p["dec1"]))
        rebuilt = functional.mse_loss(h @ p["dec2"], x)
        return rebuilt + codebook + COMMITMENT * commitment

    return loss


def cost(dims: Dims) -> Cost:
    """Distances take one product and layers three; the distances need not be stored."""
    rows = dims["batch"] * dims["frames"]
    layers = 2 * dims["hidden"] * (dims["frame"] + dims["width"])
    products = 3 * layers + dims["codes"] * dims["width"]
    return Cost(bytes=4.0 * rows * dims["frame"], operations=2.0 * products * rows)


PROGRAM = Program(
    summary="VQ-VAE of sound frames: 1024 codes, straight-through gradients, Adam",
    kind=Kind.TRAINING,
    make=make,
    on_tapegrad=on_tapegrad,
    on_jax=on_jax,
    on_torch=on_torch,
    sizes={
        "check": {
            "batch": 3,
            "frames": 5,
            "frame": 6,
            "hidden": 9,
            "width": 4,
            "codes": 7,
        },
        "cpu": {
            "batch": 16,
            "frames": 25,
            "frame": 80,
            "hidden": 128,
            "width": 32,
            "codes": 256,
        },
        "cuda": {
            "batch": 128,
            "frames": 100,
            "frame": 320,
            "hidden": 1024,
            "width": 64,
            "codes": 1024,
        },
    },
    cost=cost,
    optimizer=Optimizer("adam", 1e-3),
)
