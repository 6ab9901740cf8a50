"""A Fourier neural operator that learns the map from a coefficient field to a solution."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tapegrad_zoo.program import Arrays, Cost, Dims, Half, Kind, Optimizer, Program, Values


def make(rng: np.random.Generator, dims: Dims) -> tuple[Values, Values]:
    width, modes = dims["width"], dims["modes"]
    params = {
        "lift": rng.standard_normal((3, width)) * 3**-0.5,
        "lift_bias": np.zeros(width),
        "hidden": rng.standard_normal((width, 2 * width)) * width**-0.5,
        "hidden_bias": np.zeros(2 * width),
        "out": rng.standard_normal((2 * width, 1)) * (2 * width) ** -0.5,
    }
    for layer in range(dims["layers"]):
        corners = 2, width, width, modes, modes
        params[f"real_{layer}"] = rng.standard_normal(corners) / width
        params[f"imaginary_{layer}"] = rng.standard_normal(corners) / width
        params[f"local_{layer}"] = rng.standard_normal((width, width)) * width**-0.5
        params[f"bias_{layer}"] = np.zeros(width)
    shape = dims["batch"], dims["rows"], dims["columns"]
    return params, {"field": rng.standard_normal(shape), "solution": rng.standard_normal(shape)}


def on_tapegrad(dims: Dims, half: Half) -> Callable[[Arrays, Arrays], Any]:
    import tapegrad as tf

    batch_size, rows, columns = dims["batch"], dims["rows"], dims["columns"]
    width, modes = dims["width"], dims["modes"]

    def spectral(x: Any, weights: Any) -> Any:
        """Mix the channels of the lowest frequencies, which lie in two corners of the spectrum."""
        spectrum = tf.signal.rfft2d(x)
        kept = columns // 2 + 1 - modes
        top = tf.einsum("biyx,ioyx->boyx", spectrum[:, :, :modes, :modes], weights[0])
        bottom = tf.einsum("biyx,ioyx->boyx", spectrum[:, :, -modes:, :modes], weights[1])
        between = tf.zeros([batch_size, width, rows - 2 * modes, modes], dtype=top.dtype)
        low = tf.concat([top, between, bottom], axis=2)
        high = tf.zeros([batch_size, width, rows, kept], dtype=top.dtype)
        return tf.signal.irfft2d(tf.concat([low, high], axis=3), fft_length=[rows, columns])

    def with_places(field: Any) -> Any:
        y = tf.linspace(tf.cast(0.0, field.dtype), tf.cast(1.0, field.dtype), rows)
        x = tf.linspace(tf.cast(0.0, field.dtype), tf.cast(1.0, field.dtype), columns)
        y = tf.broadcast_to(y[:, None], field.shape)
        x = tf.broadcast_to(x, field.shape)
        return tf.stack([field, y, x], axis=-1)

    def loss(p: Arrays, batch: Arrays) -> Any:
        x = with_places(batch["field"]) @ p["lift"] + p["lift_bias"]
        x = tf.transpose(x, [0, 3, 1, 2])
        for layer in range(dims["layers"]):
            weights = tf.complex(p[f"real_{layer}"], p[f"imaginary_{layer}"])
            local = tf.einsum("biyx,io->boyx", x, p[f"local_{layer}"])
            x = spectral(x, weights) + local + tf.reshape(p[f"bias_{layer}"], [-1, 1, 1])
            if layer + 1 < dims["layers"]:
                x = tf.nn.gelu(x)
        x = tf.transpose(x, [0, 2, 3, 1])
        x = tf.nn.gelu(x @ p["hidden"] + p["hidden_bias"]) @ p["out"]
        error = tf.reshape(x[..., 0] - batch["solution"], [batch_size, -1])
        size = tf.reshape(batch["solution"], [batch_size, -1])
        return tf.reduce_mean(tf.norm(error, axis=1) / tf.norm(size, axis=1))

    return loss


def on_jax(dims: Dims, half: Half) -> Callable[[Arrays, Arrays], Any]:
    import jax
    import jax.numpy as jnp

    rows, columns, modes = dims["rows"], dims["columns"], dims["modes"]

    def spectral(x: Any, weights: Any) -> Any:
        spectrum = jnp.fft.rfft2(x)
        corners = jnp.stack([spectrum[..., :modes, :modes], spectrum[..., -modes:, :modes]])
        mixed = jnp.einsum("kbiyx,kioyx->kboyx", corners, weights)
        filled = jnp.zeros_like(spectrum)
        filled = filled.at[..., :modes, :modes].set(mixed[0])
        filled = filled.at[..., -modes:, :modes].set(mixed[1])
        return jnp.fft.irfft2(filled, s=(rows, columns))

    def loss(p: Arrays, batch: Arrays) -> Any:
        field = batch["field"]
        y = jnp.broadcast_to(jnp.linspace(0, 1, rows, dtype=field.dtype)[:, None], field.shape)
        x = jnp.broadcast_to(jnp.linspace(0, 1, columns, dtype=field.dtype), field.shape)
        inputs = jnp.stack([field, y, x], axis=1)
        h = jnp.einsum("biyx,io->boyx", inputs, p["lift"]) + p["lift_bias"][:, None, None]
        for layer in range(dims["layers"]):
            weights = jax.lax.complex(p[f"real_{layer}"], p[f"imaginary_{layer}"])
            local = jnp.einsum("biyx,io->boyx", h, p[f"local_{layer}"])
            h = spectral(h, weights) + local + p[f"bias_{layer}"][:, None, None]
            h = jax.nn.gelu(h, approximate=False) if layer + 1 < dims["layers"] else h
        h = jnp.einsum("biyx,io->byxo", h, p["hidden"]) + p["hidden_bias"]
        found = (jax.nn.gelu(h, approximate=False) @ p["out"])[..., 0]
        error = jnp.sqrt(jnp.sum((found - batch["solution"]) ** 2, axis=(1, 2)))
        return jnp.mean(error / jnp.sqrt(jnp.sum(batch["solution"] ** 2, axis=(1, 2))))

    return loss


def on_torch(dims: Dims, half: Half) -> Callable[[Arrays, Arrays], Any]:
    import torch
    from torch.nn import functional

    rows, columns, modes = dims["rows"], dims["columns"], dims["modes"]

    def spectral(x: Any, weights: Any) -> Any:
        spectrum = torch.fft.rfft2(x)
        corners = torch.stack([spectrum[..., :modes, :modes], spectrum[..., -modes:, :modes]])
        mixed = torch.einsum("kbiyx,kioyx->kboyx", corners, weights)
        filled = torch.zeros_like(spectrum)
        filled[..., :modes, :modes] = mixed[0]
        filled[..., -modes:, :modes] = mixed[1]
        return torch.fft.irfft2(filled, s=(rows, columns))

    def loss(p: Arrays, batch: Arrays) -> Any:
        field = batch["field"]
        kind = {"dtype": field.dtype, "device": field.device}
        y = torch.linspace(0, 1, rows, **kind)[:, None].expand_as(field)
        x = torch.linspace(0, 1, columns, **kind).expand_as(field)
        inputs = torch.stack([field, y, x], 1)
        h = functional.conv2d(inputs, p["lift"].T[:, :, None, None], p["lift_bias"])
        for layer in range(dims["layers"]):
            weights = torch.complex(p[f"real_{layer}"], p[f"imaginary_{layer}"])
            kernel = p[f"local_{layer}"].T[:, :, None, None]
            h = spectral(h, weights) + functional.conv2d(h, kernel, p[f"bias_{layer}"])
            h = functional.gelu(h) if layer + 1 < dims["layers"] else h
        h = functional.linear(h.permute(0, 2, 3, 1), p["hidden"].T, p["hidden_bias"])
        found = functional.linear(functional.gelu(h), p["out"].T)[..., 0]
        error = torch.linalg.vector_norm(found - batch["solution"], dim=(1, 2))
        return torch.mean(error / torch.linalg.vector_norm(batch["solution"], dim=(1, 2)))

    return loss


def cost(dims: Dims) -> Cost:
    """Per layer two transforms and the products of channels, once forth and twice back."""
    points = dims["batch"] * dims["rows"] * dims["columns"]
    width, layers = dims["width"], dims["layers"]
    kept = 2 * dims["batch"] * dims["modes"] ** 2
    products = 2.0 * width**2 * points + 8.0 * width**2 * kept
    transforms = 10.0 * width * points * np.log2(dims["rows"] * dims["columns"]) / 2
    operations = layers * (3 * products + 2 * transforms) + 12.0 * width**2 * points
    return Cost(bytes=layers * 20.0 * width * points, operations=operations)


PROGRAM = Program(
    summary="Fourier neural operator in two dimensions, relative error, Adam",
    kind=Kind.TRAINING,
    make=make,
    on_tapegrad=on_tapegrad,
    on_jax=on_jax,
    on_torch=on_torch,
    sizes={
        "check": {"batch": 2, "rows": 9, "columns": 12, "width": 3, "modes": 3, "layers": 2},
        "cpu": {"batch": 4, "rows": 40, "columns": 48, "width": 12, "modes": 8, "layers": 3},
        "cuda": {"batch": 16, "rows": 96, "columns": 128, "width": 32, "modes": 16, "layers": 4},
    },
    cost=cost,
    optimizer=Optimizer("adam", 1e-3),
)
