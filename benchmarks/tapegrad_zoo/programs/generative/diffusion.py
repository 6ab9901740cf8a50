"""Denoising diffusion: a convolutional network predicts the noise added at a random time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tapegrad_zoo.program import Arrays, Cost, Dims, Half, Kind, Optimizer, Program, Values

CHANNELS, GROUPS, EPSILON, STEPS = 3, 4, 1e-5, 1000


def _kernels(dims: Dims) -> dict[str, tuple[int, int]]:
    width = dims["width"]
    return {
        "first": (CHANNELS, width),
        "high_in": (width, width),
        "down": (width, 2 * width),
        "low_in": (2 * width, 2 * width),
        "low_out": (2 * width, 2 * width),
        "up": (2 * width, width),
        "high_out": (2 * width, width),
        "last": (width, CHANNELS),
    }


def make(rng: np.random.Generator, dims: Dims) -> tuple[Values, Values]:
    width, side = dims["width"], dims["side"]
    params: Values = {}
    for name, (n, m) in _kernels(dims).items():
        params[name] = rng.standard_normal((3, 3, n, m)) * (9 * n) ** -0.5
        if name != "first":
            params[f"{name}_gain"] = rng.uniform(0.8, 1.2, n)
            params[f"{name}_shift"] = rng.standard_normal(n) * 0.1
    params["time_1"] = rng.standard_normal((width, 4 * width)) * width**-0.5
    params["time_2"] = rng.standard_normal((4 * width, 2 * width)) * (4 * width) ** -0.5
    images = dims["batch"], side, side, CHANNELS
    time = rng.integers(0, STEPS, dims["batch"])
    kept = np.cos(0.5 * np.pi * (time + 0.5) / STEPS) ** 2
    batch = {
        "image": np.tanh(rng.standard_normal(images)),
        "noise": rng.standard_normal(images),
        "time": time.astype(np.float64),
        "kept": kept,
    }
    return params, batch


def on_tapegrad(dims: Dims, half: Half) -> Callable[[Arrays, Arrays], Any]:
    import tapegrad as tf

    width = dims["width"]

    def loss(p: Arrays, batch: Arrays) -> Any:
        def block(name: str, x: Any, strides: int = 1) -> Any:
            # Group norm and swish before each convolution, in the precision of parameters.
            x = tf.cast(x, batch["image"].dtype)
            n, h, w, c = x.shape
            grouped = tf.reshape(x, (n, h * w, GROUPS, c // GROUPS))
            mean = tf.reduce_mean(grouped, axis=[1, 3], keepdims=True)
            variance = tf.reduce_mean(tf.square(grouped - mean), axis=[1, 3], keepdims=True)
            normed = (grouped - mean) / tf.sqrt(variance + EPSILON)
            normed = tf.reshape(normed, (n, h, w, c)) * p[f"{name}_gain"] + p[f"{name}_shift"]
            return tf.nn.conv2d(half(normed * tf.sigmoid(normed)), half(p[name]), strides, "SAME")

        kept = tf.reshape(batch["kept"], (-1, 1, 1, 1))
        noisy = tf.sqrt(kept) * batch["image"] + tf.sqrt(1 - kept) * batch["noise"]
        rates = tf.exp(-9.0 * tf.range(width // 2, dtype=batch["time"].dtype) / (width // 2))
        angles = batch["time"][:, None] * rates
        waves = tf.concat([tf.sin(angles), tf.cos(angles)], axis=1)
        time = tf.nn.silu(half(waves) @ half(p["time_1"])) @ half(p["time_2"])
        time = time[:, None, None, :]

        first = tf.nn.conv2d(half(noisy), half(p["first"]), 1, "SAME") + time[..., :width]
        high = first + block("high_in", first)
        low = block("down", high, 2) + time
        low = low + block("low_out", block("low_in", low))
        large = tf.repeat(tf.repeat(low, 2, axis=1), 2, axis=2)
        joined = tf.concat([block("up", large), high], axis=3)
        predicted = block("last", block("high_out", joined) + first)
        return tf.reduce_mean(tf.square(tf.cast(predicted, noisy.dtype) - batch["noise"]))

    return loss


def on_jax(dims: Dims, half: Half) -> Callable[[Arrays, Arrays], Any]:
    import jax
    import jax.numpy as jnp

    width = dims["width"]

    def convolution(x: Any, kernel: Any, stride: int = 1) -> Any:
        return jax.lax.conv_general_dilated(
            half(x),
            half(kernel),
            (stride, stride),
            "SAME",
            dimension_numbers=("NHWC", "HWIO", "NHWC"),
        )

    def loss(p: Arrays, batch: Arrays) -> Any:
        def block(name: str, x: Any, stride: int = 1) -> Any:
            grouped = x.astype(kept.dtype).reshape(len(x), -1, GROUPS, x.shape[-1] // GROUPS)
            normed = jax.nn.standardize(grouped, (1, 3), epsilon=EPSILON).reshape(x.shape)
            normed = normed * p[f"{name}_gain"] + p[f"{name}_shift"]
            return convolution(jax.nn.silu(normed), p[name], stride)

        kept = batch["kept"][:, None, None, None]
        noisy = jnp.sqrt(kept) * batch["image"] + jnp.sqrt(1 - kept) * batch["noise"]
        rates = jnp.exp(-9.0 * jnp.arange(width // 2, dtype=kept.dtype) / (width // 2))
        angles = batch["time"][:, None] * rates
        waves = jnp.concatenate([jnp.sin(angles), jnp.cos(angles)], 1)
        time = jax.nn.silu(half(waves) @ half(p["time_1"])) @ half(p["time_2"])
        time = time[:, None, None, :]

        first = convolution(noisy, p["first"]) + time[..., :width]
        high = first + block("high_in", first)
        low = block("down", high, 2) + time
        low = low + block("low_out", block("low_in", low))
        large = jnp.repeat(jnp.repeat(low, 2, 1), 2, 2)
        joined = jnp.concatenate([block("up", large), high], 3)
        predicted = block("last", block("high_out", joined) + first)
        return jnp.mean((predicted.astype(noisy.dtype) - batch["noise"]) ** 2)

    return loss


def on_torch(dims: Dims, half: Half) -> Callable[[Arrays, Arrays], Any]:
    import torch
    from torch.nn import functional

    width = dims["width"]

    def convolution(x: Any, kernel: Any, stride: int = 1) -> Any:
        kernel = half(kernel).permute(3, 2, 0, 1)
        if stride == 1:
            return functional.conv2d(half(x), kernel, padding=1)
        # TensorFlow's padding for a stride of two on an even side is at the end only.
        return functional.conv2d(functional.pad(half(x), (0, 1, 0, 1)), kernel, stride=stride)

    def loss(p: Arrays, batch: Arrays) -> Any:
        def block(name: str, x: Any, stride: int = 1) -> Any:
            x = x.to(batch["image"].dtype)
            gain, shift = p[f"{name}_gain"], p[f"{name}_shift"]
            normed = functional.group_norm(x, GROUPS, gain, shift, EPSILON)
            return convolution(functional.silu(normed), p[name], stride)

        image, noise = (batch[name].permute(0, 3, 1, 2) for name in ("image", "noise"))
        kept = batch["kept"][:, None, None, None]
        noisy = torch.sqrt(kept) * image + torch.sqrt(1 - kept) * noise
        steps = torch.arange(width // 2, dtype=kept.dtype, device=kept.device)
        angles = batch["time"][:, None] * torch.exp(-9.0 * steps / (width // 2))
        waves = torch.cat([torch.sin(angles), torch.cos(angles)], 1)
        time = functional.silu(half(waves) @ half(p["time_1"])) @ half(p["time_2"])
        time = time[:, :, None, None]

        first = convolution(noisy, p["first"]) + time[:, :width]
        high = first + block("high_in", first)
        low = block("down", high, 2) + time
        low = low + block("low_out", block("low_in", low))
        large = functional.interpolate(low, scale_factor=2, mode="nearest")
        joined = torch.cat([block("up", large), high], 1)
        predicted = block("last", block("high_out", joined) + first)
        return functional.mse_loss(predicted.to(noise.dtype), noise)

    return loss


def cost(dims: Dims) -> Cost:
    """Three products per convolution, of which three are at half of the resolution."""
    pixels, kernels = dims["side"] ** 2, _kernels(dims)
    share = {"down": 0.25, "low_in": 0.25, "low_out": 0.25}
    products = sum(9 * n * m * pixels * share.get(k, 1.0) for k, (n, m) in kernels.items())
    weights = sum(9 * n * m for n, m in kernels.values())
    activations = 12 * pixels * dims["width"] * dims["batch"]
    return Cost(bytes=28.0 * weights + 8.0 * activations, operations=6.0 * products * dims["batch"])


PROGRAM = Program(
    summary="noise prediction with group norms, times and a skip at two resolutions, Adam",
    kind=Kind.TRAINING,
    make=make,
    on_tapegrad=on_tapegrad,
    on_jax=on_jax,
    on_torch=on_torch,
    sizes={
        "check": {"batch": 3, "side": 6, "width": 8},
        "cpu": {"batch": 4, "side": 32, "width": 16},
        "cuda": {"batch": 64, "side": 64, "width": 128},
    },
    cost=cost,
    optimizer=Optimizer("adam", 1e-3),
    dtypes={"cpu": "float32", "cuda": "bfloat16"},
)
