"""A diffractive network: light passes trained phase masks and falls on one detector per class."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tapegrad_zoo.program import Arrays, Cost, Dims, Half, Kind, Optimizer, Program, Values

CLASSES, DISTANCE, GAIN = 10, 3.0, 20.0


def make(rng: np.random.Generator, dims: Dims) -> tuple[Values, Values]:
    rows, columns = dims["rows"], dims["columns"]
    params = {"phases": rng.uniform(0, 1, (dims["layers"], rows, columns))}
    batch = {
        "images": rng.random((dims["batch"], rows, columns)),
        "labels": rng.integers(0, CLASSES, dims["batch"]),
        "detectors": (rng.random((CLASSES, rows, columns)) < 0.2).astype(float),
    }
    return params, batch


def on_tapegrad(dims: Dims, half: Half) -> Callable[[Arrays, Arrays], Any]:
    import tapegrad as tf

    rows, columns = dims["rows"], dims["columns"]

    def transfer(dtype: Any) -> Any:
        """Fresnel's factor for free space between two masks."""
        fy = tf.constant(np.fft.fftfreq(rows)[:, None], dtype=dtype)
        fx = tf.constant(np.fft.fftfreq(columns)[None, :], dtype=dtype)
        angle = -np.pi * DISTANCE * (fx**2 + fy**2)
        return tf.complex(tf.cos(angle), tf.sin(angle))

    def loss(params: Arrays, batch: Arrays) -> Any:
        images = batch["images"]
        space = transfer(images.dtype)
        field = tf.complex(images, tf.zeros_like(images))
        for layer in range(dims["layers"]):
            field = tf.signal.ifft2d(tf.signal.fft2d(field) * space)
            phase = params["phases"][layer]
            field = field * tf.complex(tf.cos(phase), tf.sin(phase))
        field = tf.signal.ifft2d(tf.signal.fft2d(field) * space)
        intensity = tf.square(tf.abs(field))
        energy = tf.einsum("bij,cij->bc", intensity, batch["detectors"])
        share = energy / tf.reduce_sum(energy, axis=1, keepdims=True)
        losses = tf.nn.sparse_softmax_cross_entropy_with_logits(batch["labels"], GAIN * share)
        return tf.reduce_mean(losses)

    return loss


def on_jax(dims: Dims, half: Half) -> Callable[[Arrays, Arrays], Any]:
    import jax
    import jax.numpy as jnp

    def loss(params: Arrays, batch: Arrays) -> Any:
        images = batch["images"]
        fy = jnp.fft.fftfreq(dims["rows"], dtype=images.dtype)[:, None]
        fx = jnp.fft.fftfreq(dims["columns"], dtype=images.dtype)
        space = jnp.exp(-1j * jnp.pi * DISTANCE * (fx**2 + fy**2))

        def layer(field: Any, phase: Any) -> Any:
            field = jnp.fft.ifft2(jnp.fft.fft2(field) * space)
            return field * jax.lax.complex(jnp.cos(phase), jnp.sin(phase)), None

        start = jax.lax.complex(images, jnp.zeros_like(images))
        field, _ = jax.lax.scan(layer, start, params["phases"])
        field = jnp.fft.ifft2(jnp.fft.fft2(field) * space)
        intensity = field.real**2 + field.imag**2
        energy = jnp.einsum("bij,cij->bc", intensity, batch["detectors"])
        logits = GAIN * energy / jnp.sum(energy, axis=1, keepdims=True)
        picked = jnp.take_along_axis(jax.nn.log_softmax(logits), batch["labels"][:, None], 1)
        return -jnp.mean(picked)

    return loss


def on_torch(dims: Dims, half: Half) -> Callable[[Arrays, Arrays], Any]:
    import torch
    from torch.nn import functional

    def loss(params: Arrays, batch: Arrays) -> Any:
        images = batch["images"]
        kind = {"dtype": images.dtype, "device": images.device}
        fy = torch.fft.fftfreq(dims["rows"], **kind)[:, None]
        fx = torch.fft.fftfreq(dims["columns"], **kind)
        angle = -torch.pi * DISTANCE * (fx**2 + fy**2)
        space = torch.polar(torch.ones_like(angle), angle)
        field = images.to(space.dtype)
        for phase in params["phases"].unbind():
            field = torch.fft.ifft2(torch.fft.fft2(field) * space)
            field = field * torch.complex(torch.cos(phase), torch.sin(phase))
        field = torch.fft.ifft2(torch.fft.fft2(field) * space)
        intensity = field.real**2 + field.imag**2
        energy = intensity.flatten(1) @ batch["detectors"].flatten(1).T
        logits = GAIN * energy / energy.sum(1, keepdim=True)
        return functional.cross_entropy(logits, batch["labels"])

    return loss


def cost(dims: Dims) -> Cost:
    """Two transforms between masks, going forth and going back; each reads and writes a field."""
    pixels = dims["rows"] * dims["columns"]
    transformed = 4.0 * (dims["layers"] + 1) * dims["batch"] * pixels
    return Cost(bytes=16.0 * transformed, operations=5.0 * np.log2(pixels) * transformed)


PROGRAM = Program(
    summary="Fresnel propagation through trained phase masks, read by detectors; Adam",
    kind=Kind.TRAINING,
    make=make,
    on_tapegrad=on_tapegrad,
    on_jax=on_jax,
    on_torch=on_torch,
    sizes={
        "check": {"batch": 2, "rows": 6, "columns": 9, "layers": 2},
        "cpu": {"batch": 4, "rows": 64, "columns": 80, "layers": 3},
        "cuda": {"batch": 64, "rows": 200, "columns": 256, "layers": 5},
    },
    cost=cost,
    optimizer=Optimizer("adam", 1e-2),
)
