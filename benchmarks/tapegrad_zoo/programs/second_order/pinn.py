"""A physics-informed network for Burgers' equation: derivatives of its output in the loss."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from tapegrad_zoo.program import Arrays, Cost, Dims, Half, Kind, Optimizer, Program, Values

VISCOSITY = 0.01 / math.pi


def make(rng: np.random.Generator, dims: Dims) -> tuple[Values, Values]:
    widths = [2] + [dims["hidden"]] * dims["layers"] + [1]
    params: Values = {}
    for layer in range(len(widths) - 1):
        n, m = widths[layer], widths[layer + 1]
        params[f"w{layer}"] = rng.standard_normal((n, m)) * n**-0.5
        params[f"b{layer}"] = rng.standard_normal(m) * 0.1
    start = rng.uniform(-1, 1, dims["border"])
    batch = {
        "time": rng.uniform(0, 1, dims["points"]),
        "place": rng.uniform(-1, 1, dims["points"]),
        "start": start,
        "start_value": -np.sin(np.pi * start),
        "wall_time": rng.uniform(0, 1, dims["border"]),
        "wall": rng.choice([-1.0, 1.0], dims["border"]),
    }
    return params, batch


def on_tapegrad(dims: Dims, half: Half) -> Callable[[Arrays, Arrays], Any]:
    import tapegrad as tf

    def network(p: Arrays, t: Any, x: Any) -> Any:
        h = tf.stack([t, x], axis=1)
        for layer in range(dims["layers"]):
            h = tf.tanh(h @ p[f"w{layer}"] + p[f"b{layer}"])
        last = dims["layers"]
        return tf.squeeze(h @ p[f"w{last}"] + p[f"b{last}"], 1)

    def loss(p: Arrays, batch: Arrays) -> Any:
        t, x = batch["time"], batch["place"]
        with tf.GradientTape() as second:
            second.watch(x)
            with tf.GradientTape(persistent=True) as first:
                first.watch([t, x])
                u = network(p, t, x)
            u_x = first.gradient(u, x)
            u_t = first.gradient(u, t)
        u_xx = second.gradient(u_x, x)
        residual = u_t + u * u_x - VISCOSITY * u_xx
        begin = network(p, tf.zeros_like(batch["start"]), batch["start"])
        wall = network(p, batch["wall_time"], batch["wall"])
        return (
            tf.reduce_mean(tf.square(residual))
            + tf.reduce_mean(tf.square(begin - batch["start_value"]))
            + tf.reduce_mean(tf.square(wall))
        )

    return loss


def on_jax(dims: Dims, half: Half) -> Callable[[Arrays, Arrays], Any]:
    import jax
    import jax.numpy as jnp

    last = dims["layers"]

    def network(p: Arrays, t: Any, x: Any) -> Any:
        h = jnp.stack([t, x], -1)
        for layer in range(last):
            h = jnp.tanh(h @ p[f"w{layer}"] + p[f"b{layer}"])
        return (h @ p[f"w{last}"] + p[f"b{last}"])[..., 0]

    def loss(p: Arrays, batch: Arrays) -> Any:
        t, x = batch["time"], batch["place"]
        one = jnp.ones_like(x)

        # Forward mode: points do not depend on each other, so one tangent serves all of them.
        def slope(place: Any) -> Any:
            value, found = jax.jvp(lambda y: network(p, t, y), (place,), (one,))
            return found, value

        u_x, u_xx, u = jax.jvp(slope, (x,), (one,), has_aux=True)
        _, u_t = jax.jvp(lambda time: network(p, time, x), (t,), (one,))
        residual = u_t + u * u_x - VISCOSITY * u_xx
        begin = network(p, jnp.zeros_like(batch["start"]), batch["start"])
        wall = network(p, batch["wall_time"], batch["wall"])
        errors = jnp.mean((begin - batch["start_value"]) ** 2) + jnp.mean(wall**2)
        return jnp.mean(residual**2) + errors

    return loss


def on_torch(dims: Dims, half: Half) -> Callable[[Arrays, Arrays], Any]:
    import torch
    from torch.nn import functional

    last = dims["layers"]

    def network(p: Arrays, t: Any, x: Any) -> Any:
        h = torch.stack([t, x], 1)
        for layer in range(last):
            h = torch.tanh(torch.addmm(p[f"b{layer}"], h, p[f"w{layer}"]))
        return torch.addmm(p[f"b{last}"], h, p[f"w{last}"])[:, 0]

    def loss(p: Arrays, batch: Arrays) -> Any:
        t, x = batch["time"], batch["place"]
        one = torch.ones_like(x)

        def slope(place: Any) -> Any:
            value, found = torch.func.jvp(lambda y: network(p, t, y), (place,), (one,))
            return found, value

        u_x, u_xx, u = torch.func.jvp(slope, (x,), (one,), has_aux=True)
        _, u_t = torch.func.jvp(lambda time: network(p, time, x), (t,), (one,))
        residual = u_t + u * u_x - VISCOSITY * u_xx
        places = torch.cat([batch["start"], batch["wall"]])
        times = torch.cat([torch.zeros_like(batch["start"]), batch["wall_time"]])
        begin, wall = network(p, times, places).chunk(2)
        errors = functional.mse_loss(begin, batch["start_value"]) + torch.mean(wall**2)
        return torch.mean(residual**2) + errors

    return loss


def cost(dims: Dims) -> Cost:
    """The value and three derivatives take four products per weight, and each is pulled back."""
    weights = dims["hidden"] * (3 + dims["hidden"] * (dims["layers"] - 1))
    rows = 4 * dims["points"] + 2 * dims["border"]
    return Cost(bytes=28.0 * weights + 8.0 * dims["points"], operations=6.0 * weights * rows)


PROGRAM = Program(
    summary="Burgers' equation: a network of 8 layers at 16384 points, second derivatives, Adam",
    kind=Kind.TRAINING,
    make=make,
    on_tapegrad=on_tapegrad,
    on_jax=on_jax,
    on_torch=on_torch,
    sizes={
        "check": {"points": 7, "border": 5, "hidden": 6, "layers": 2},
        "cpu": {"points": 1024, "border": 64, "hidden": 32, "layers": 4},
        "cuda": {"points": 16_384, "border": 1024, "hidden": 128, "layers": 8},
    },
    cost=cost,
    optimizer=Optimizer("adam", 1e-3),
)
