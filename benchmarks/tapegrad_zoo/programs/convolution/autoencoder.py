"""A denoising autoencoder: strided convolutions to a code, transposed convolutions back."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tapegrad_zoo.program import Arrays, Cost, Dims, Half, Kind, Optimizer, Program, Values

KERNEL, SLOPE, NOISE, SPARSITY = 4, 0.2, 0.3, 1e-3


def _corner(dims: Dims) -> tuple[int, int, int]:
    """Return the shape of the smallest images."""
    levels = dims["levels"]
    return dims["height"] >> levels, dims["width"] >> levels, dims["channels"] << (levels - 1)


def make(rng: np.random.Generator, dims: Dims) -> tuple[Values, Values]:
    levels, code = dims["levels"], dims["code"]
    corner = int(np.prod(_corner(dims)))
    channels = [dims["colours"], *(dims["channels"] << i for i in range(levels))]
    params = {
        "encode": rng.standard_normal((corner, code)) * corner**-0.5,
        "encode_bias": rng.standard_normal(code) * 0.1,
        "decode": rng.standard_normal((code, corner)) * code**-0.5,
        "decode_bias": rng.standard_normal(corner) * 0.1,
    }
    for i in range(levels):
        n, m = channels[i], channels[i + 1]
        down = (2 / (KERNEL**2 * n)) ** 0.5
        up = (2 * 4 / (KERNEL**2 * m)) ** 0.5
        params |= {
            f"down{i}": rng.standard_normal((KERNEL, KERNEL, n, m)) * down,
            f"down_bias{i}": rng.standard_normal(m) * 0.1,
            f"up{i}": rng.standard_normal((KERNEL, KERNEL, n, m)) * up,
            f"up_bias{i}": rng.standard_normal(n) * 0.1,
        }
    shape = dims["batch"], dims["height"], dims["width"], dims["colours"]
    batch = {"images": rng.uniform(size=shape), "noise": rng.standard_normal(shape)}
    return params, batch


def on_tapegrad(dims: Dims, half: Half) -> Callable[[Arrays, Arrays], Any]:
    import tapegrad as tf
    import tapegrad.numpy as np

    def leaky(x: Any) -> Any:
        return np.where(x > 0, x, SLOPE * x)

    def loss(p: Arrays, batch: Arrays) -> Any:
        size = dims["batch"]
        x = half(np.clip(batch["images"] + NOISE * batch["noise"], 0, 1))
        shapes = []
        for i in range(dims["levels"]):
            shapes.append(x.shape)
            x = tf.nn.conv2d(x, half(p[f"down{i}"]), strides=2, padding="SAME")
            x = leaky(x + half(p[f"down_bias{i}"]))
        code = np.tanh(x.reshape(size, -1) @ half(p["encode"]) + half(p["encode_bias"]))
        x = leaky(code @ half(p["decode"]) + half(p["decode_bias"]))
        x = x.reshape(size, *_corner(dims))
        for i in reversed(range(dims["levels"])):
            x = tf.nn.conv2d_transpose(x, half(p[f"up{i}"]), shapes[i], strides=2, padding="SAME")
            x = x + half(p[f"up_bias{i}"])
            x = leaky(x) if i else x
        logits, images = np.astype(x, p["encode"].dtype), batch["images"]
        # The cross entropy of sigmoid(logits), in a form that does not overflow.
        losses = np.maximum(logits, 0) - logits * images + np.log1p(np.exp(-np.abs(logits)))
        return np.mean(losses) + SPARSITY * np.mean(np.abs(np.astype(code, logits.dtype)))

    return loss


def on_jax(dims: Dims, half: Half) -> Callable[[Arrays, Arrays], Any]:
    import jax
    import jax.numpy as jnp
    from jax import lax

    layout = ("NHWC", "HWIO", "NHWC")

    def loss(p: Arrays, batch: Arrays) -> Any:
        x = half(jnp.clip(batch["images"] + NOISE * batch["noise"], 0, 1))
        size = len(x)
        for i in range(dims["levels"]):
            w = half(p[f"down{i}"])
            x = lax.conv_general_dilated(x, w, (2, 2), "SAME", dimension_numbers=layout)
            x = jax.nn.leaky_relu(x + half(p[f"down_bias{i}"]), SLOPE)
        code = jnp.tanh(x.reshape(size, -1) @ half(p["encode"]) + half(p["encode_bias"]))
        x = jax.nn.leaky_relu(code @ half(p["decode"]) + half(p["decode_bias"]), SLOPE)
        x = x.reshape(size, *_corner(dims))
        for i in reversed(range(dims["levels"])):
            w = half(p[f"up{i}"])
            x = lax.conv_transpose(
                x, w, (2, 2), "SAME", dimension_numbers=layout, transpose_kernel=True
            )
            x = x + half(p[f"up_bias{i}"])
            x = jax.nn.leaky_relu(x, SLOPE) if i else x
        logits = x.astype(p["encode"].dtype)
        losses = jax.nn.softplus(logits) - logits * batch["images"]
        return jnp.mean(losses) + SPARSITY * jnp.mean(jnp.abs(code.astype(logits.dtype)))

    return loss


def on_torch(dims: Dims, half: Half) -> Callable[[Arrays, Arrays], Any]:
    import torch
    from torch.nn import functional

    def loss(p: Arrays, batch: Arrays) -> Any:
        x = half(torch.clamp(batch["images"] + NOISE * batch["noise"], 0, 1))
        x = x.permute(0, 3, 1, 2)  # channels last in memory
        for i in range(dims["levels"]):
            w = half(p[f"down{i}"]).permute(3, 2, 0, 1)
            x = functional.conv2d(x, w, half(p[f"down_bias{i}"]), stride=2, padding=1)
            x = functional.leaky_relu(x, SLOPE)
        x = x.permute(0, 2, 3, 1).flatten(1)
        code = torch.tanh(functional.linear(x, half(p["encode"]).T, half(p["encode_bias"])))
        x = functional.linear(code, half(p["decode"]).T, half(p["decode_bias"]))
        x = functional.leaky_relu(x, SLOPE).unflatten(1, _corner(dims)).permute(0, 3, 1, 2)
        for i in reversed(range(dims["levels"])):
            w = half(p[f"up{i}"]).permute(3, 2, 0, 1)
            x = functional.conv_transpose2d(x, w, half(p[f"up_bias{i}"]), stride=2, padding=1)
            x = functional.leaky_relu(x, SLOPE) if i else x
        logits = x.permute(0, 2, 3, 1).to(p["encode"].dtype)
        entropy = functional.binary_cross_entropy_with_logits(logits, batch["images"])
        return entropy + SPARSITY * code.to(logits.dtype).abs().mean()

    return loss


def cost(dims: Dims) -> Cost:
    """Three passes over the products of both halves; a value and its gradient move five times."""
    pixels = dims["batch"] * dims["height"] * dims["width"]
    corner = int(np.prod(_corner(dims)))
    products, values, n = dims["batch"] * corner * dims["code"], 0, dims["colours"]
    for i in range(dims["levels"]):
        m = dims["channels"] << i
        pixels //= 4
        products += pixels * KERNEL**2 * n * m
        values += pixels * m
        n = m
    return Cost(bytes=20.0 * values + 56.0 * corner * dims["code"], operations=12.0 * products)


PROGRAM = Program(
    summary="128 noisy images of 64 x 64, four levels down and up again, Adam",
    kind=Kind.TRAINING,
    make=make,
    on_tapegrad=on_tapegrad,
    on_jax=on_jax,
    on_torch=on_torch,
    sizes={
        "check": {
            "batch": 3,
            "height": 8,
            "width": 12,
            "colours": 2,
            "channels": 5,
            "levels": 2,
            "code": 7,
        },
        "cpu": {
            "batch": 8,
            "height": 32,
            "width": 32,
            "colours": 3,
            "channels": 16,
            "levels": 3,
            "code": 64,
        },
        "cuda": {
            "batch": 128,
            "height": 64,
            "width": 64,
            "colours": 3,
            "channels": 64,
            "levels": 4,
            "code": 256,
        },
    },
    cost=cost,
    optimizer=Optimizer("adam", 1e-3),
    dtypes={"cpu": "float32", "cuda": "bfloat16"},
)
