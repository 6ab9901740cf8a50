"""A neural radiance field: density and color along rays are composed to the colors of pixels."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tapegrad_zoo.program import Arrays, Cost, Dims, Half, Kind, Optimizer, Program, Values

NEAR, SPAN = 0.2, 0.8


def make(rng: np.random.Generator, dims: Dims) -> tuple[Values, Values]:
    width, rays, samples = dims["width"], dims["rays"], dims["samples"]
    places, views = 3 + 6 * dims["frequencies"], 3

    def weights(n: int, m: int) -> Any:
        return rng.standard_normal((n, m)) * (2 / n) ** 0.5

    params = {}
    for layer in range(dims["layers"]):
        inputs = places if layer == 0 else width
        inputs += places if layer == dims["layers"] // 2 else 0
        params[f"w{layer}"], params[f"b{layer}"] = weights(inputs, width), np.zeros(width)
    params |= {
        "density": weights(width, 1),
        "feature": weights(width, width),
        "view": weights(width + views, width // 2),
        "view_bias": np.zeros(width // 2),
        "color": weights(width // 2, 3),
        "color_bias": np.zeros(3),
    }
    direction = rng.standard_normal((rays, 3))
    batch = {
        "origin": 0.1 * rng.standard_normal((rays, 3)),
        "direction": direction / np.linalg.norm(direction, axis=1, keepdims=True),
        "jitter": rng.random((rays, samples)),
        "pixels": rng.random((rays, 3)),
    }
    return params, batch


def on_tapegrad(dims: Dims, half: Half) -> Callable[[Arrays, Arrays], Any]:
    import tapegrad as tf

    layers, samples = dims["layers"], dims["samples"]

    def encode(x: Any) -> Any:
        parts = [x]
        for octave in range(dims["frequencies"]):
            parts += [tf.sin(2.0**octave * x), tf.cos(2.0**octave * x)]
        return tf.concat(parts, axis=-1)

    def field(p: Arrays, points: Any, directions: Any) -> Any:
        places = encode(points)
        h = places
        for layer in range(layers):
            if layer == layers // 2:
                h = tf.concat([h, places], axis=-1)
            h = tf.nn.relu(h @ p[f"w{layer}"] + p[f"b{layer}"])
        density = tf.nn.softplus(h @ p["density"])[..., 0]
        views = tf.broadcast_to(directions[:, None, :], points.shape)
        h = tf.concat([h @ p["feature"], views], axis=-1)
        h = tf.nn.relu(h @ p["view"] + p["view_bias"])
        return density, tf.sigmoid(h @ p["color"] + p["color_bias"])

    def loss(p: Arrays, batch: Arrays) -> Any:
        bins = tf.range(samples, dtype=batch["jitter"].dtype)
        depth = NEAR + SPAN * (bins + batch["jitter"]) / samples
        points = batch["origin"][:, None, :] + depth[..., None] * batch["direction"][:, None, :]
        density, color = field(p, points, batch["direction"])
        gaps = tf.concat([depth[:, 1:] - depth[:, :-1], NEAR + SPAN - depth[:, -1:]], axis=1)
        opacity = 1.0 - tf.exp(-density * gaps)
        clear = tf.math.cumprod(1.0 - opacity + 1e-10, axis=1, exclusive=True)
        weights = opacity * clear
        seen = tf.reduce_sum(weights[..., None] * color, axis=1)
        seen = seen + (1.0 - tf.reduce_sum(weights, axis=1, keepdims=True))
        return tf.reduce_mean(tf.square(seen - batch["pixels"]))

    return loss


def on_jax(dims: Dims, half: Half) -> Callable[[Arrays, Arrays], Any]:
    import jax
    import jax.numpy as jnp

    layers, samples = dims["layers"], dims["samples"]

    def encode(x: Any) -> Any:
        scaled = x[..., None, :] * 2.0 ** jnp.arange(dims["frequencies"], dtype=x.dtype)[:, None]
        waves = jnp.concatenate([jnp.sin(scaled), jnp.cos(scaled)], axis=-1)
        return jnp.concatenate([x, waves.reshape(*x.shape[:-1], -1)], axis=-1)

    def loss(p: Arrays, batch: Arrays) -> Any:
        direction = batch["direction"][:, None, :]
        depth = jnp.arange(samples, dtype=direction.dtype) + batch["jitter"]
        depth = NEAR + SPAN * depth / samples
        places = encode(batch["origin"][:, None, :] + depth[..., None] * direction)
        h = places
        for layer in range(layers):
            h = jnp.concatenate([h, places], axis=-1) if layer == layers // 2 else h
            h = jax.nn.relu(h @ p[f"w{layer}"] + p[f"b{layer}"])
        density = jax.nn.softplus(h @ p["density"])[..., 0]
        views = jnp.broadcast_to(direction, (*depth.shape, 3))
        h = jnp.concatenate([h @ p["feature"], views], axis=-1)
        h = jax.nn.relu(h @ p["view"] + p["view_bias"])
        color = jax.nn.sigmoid(h @ p["color"] + p["color_bias"])
        gaps = jnp.diff(depth, axis=1, append=jnp.full_like(depth[:, :1], NEAR + SPAN))
        opacity = -jnp.expm1(-density * gaps)
        clear = jnp.cumprod(1 - opacity + 1e-10, axis=1)
        clear = jnp.concatenate([jnp.ones_like(clear[:, :1]), clear[:, :-1]], axis=1)
        weights = opacity * clear
        seen = jnp.einsum("rs,rsc->rc", weights, color) + 1 - jnp.sum(weights, 1, keepdims=True)
        return jnp.mean((seen - batch["pixels"]) ** 2)

    return loss


def on_torch(dims: Dims, half: Half) -> Callable[[Arrays, Arrays], Any]:
    import torch
    from torch.nn import functional

    layers, samples = dims["layers"], dims["samples"]

    def encode(x: Any) -> Any:
        octaves = torch.arange(dims["frequencies"], dtype=x.dtype, device=x.device)[:, None]
        scaled = x[..., None, :] * 2.0**octaves
        waves = torch.cat([torch.sin(scaled), torch.cos(scaled)], -1)
        return torch.cat([x, waves.flatten(-2)], -1)

    def loss(p: Arrays, batch: Arrays) -> Any:
        direction, jitter = batch["direction"], batch["jitter"]
        bins = torch.arange(samples, dtype=jitter.dtype, device=jitter.device)
        depth = NEAR + SPAN * (bins + jitter) / samples
        places = encode(batch["origin"][:, None] + depth[..., None] * direction[:, None])
        h = places = places.flatten(0, 1)
        for layer in range(layers):
            h = torch.cat([h, places], -1) if layer == layers // 2 else h
            h = torch.relu(torch.addmm(p[f"b{layer}"], h, p[f"w{layer}"]))
        density = functional.softplus(h @ p["density"]).view_as(depth)
        views = direction.repeat_interleave(samples, 0)
        h = torch.cat([h @ p["feature"], views], -1)
        h = torch.relu(torch.addmm(p["view_bias"], h, p["view"]))
        color = torch.sigmoid(torch.addmm(p["color_bias"], h, p["color"]))
        gaps = torch.diff(depth, append=torch.full_like(depth[:, :1], NEAR + SPAN))
        opacity = -torch.expm1(-density * gaps)
        clear = torch.cumprod(1 - opacity + 1e-10, 1)
        weights = opacity * functional.pad(clear[:, :-1], (1, 0), value=1.0)
        seen = torch.bmm(weights[:, None, :], color.view(-1, samples, 3))[:, 0]
        return functional.mse_loss(seen + 1 - weights.sum(1, keepdim=True), batch["pixels"])

    return loss


def cost(dims: Dims) -> Cost:
    """Three passes over all products, with weights that Adam updates."""
    width, places = dims["width"], 3 + 6 * dims["frequencies"]
    weights = (dims["layers"] - 1) * width**2 + 2 * places * width + 1.5 * width**2
    points = dims["rays"] * dims["samples"]
    return Cost(bytes=28.0 * weights, operations=6.0 * weights * points)


PROGRAM = Program(
    summary="NeRF: positional encoding, a network with a skip, volume rendering, Adam",
    kind=Kind.TRAINING,
    make=make,
    on_tapegrad=on_tapegrad,
    on_jax=on_jax,
    on_torch=on_torch,
    sizes={
        "check": {"rays": 3, "samples": 5, "width": 8, "layers": 4, "frequencies": 2},
        "cpu": {"rays": 64, "samples": 24, "width": 64, "layers": 6, "frequencies": 6},
        "cuda": {"rays": 1024, "samples": 128, "width": 256, "layers": 8, "frequencies": 10},
    },
    cost=cost,
    optimizer=Optimizer("adam", 5e-4),
)
