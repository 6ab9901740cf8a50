"""A neural differential equation: a network gives the slope, and RK4 integrates it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tapegrad_zoo.program import Arrays, Cost, Dims, Half, Kind, Optimizer, Program, Values


def make(rng: np.random.Generator, dims: Dims) -> tuple[Values, Values]:
    axes, hidden = dims["axes"], dims["hidden"]
    params = {
        "w1": rng.standard_normal((axes + 1, hidden)) * (axes + 1) ** -0.5,
        "b1": np.zeros(hidden),
        "w2": rng.standard_normal((hidden, hidden)) * hidden**-0.5,
        "b2": np.zeros(hidden),
        "w3": rng.standard_normal((hidden, axes)) * hidden**-0.5,
        "b3": np.zeros(axes),
    }
    batch = {
        "first": rng.standard_normal((dims["batch"], axes)),
        "path": rng.standard_normal((dims["times"], dims["batch"], axes)),
    }
    return params, batch


def on_tapegrad(dims: Dims, half: Half) -> Callable[[Arrays, Arrays], Any]:
    import tapegrad as tf

    substeps = dims["substeps"]
    h = 1.0 / (dims["times"] * substeps)

    def loss(p: Arrays, batch: Arrays) -> Any:
        def slope(t: float, y: Any) -> Any:
            x = tf.concat([y, tf.fill([dims["batch"], 1], tf.cast(t, y.dtype))], axis=1)
            x = tf.tanh(x @ p["w1"] + p["b1"])
            x = tf.tanh(x @ p["w2"] + p["b2"])
            return x @ p["w3"] + p["b3"]

        y = batch["first"]
        t = 0.0
        error = 0.0
        for observed in tf.unstack(batch["path"]):
            for _ in range(substeps):
                k1 = slope(t, y)
                k2 = slope(t + h / 2, y + h / 2 * k1)
                k3 = slope(t + h / 2, y + h / 2 * k2)
                k4 = slope(t + h, y + h * k3)
                y = y + h / 6 * (k1 + 2.0 * k2 + 2.0 * k3 + k4)
                t = t + h
            error = error + tf.reduce_mean(tf.square(y - observed))
        return error / dims["times"]

    return loss


def on_jax(dims: Dims, half: Half) -> Callable[[Arrays, Arrays], Any]:
    import jax
    import jax.numpy as jnp

    substeps, axes = dims["substeps"], dims["axes"]
    h = 1.0 / (dims["times"] * substeps)

    def loss(p: Arrays, batch: Arrays) -> Any:
        def slope(t: Any, y: Any) -> Any:
            x = jnp.tanh(y @ p["w1"][:axes] + (t * p["w1"][axes] + p["b1"]))
            x = jnp.tanh(x @ p["w2"] + p["b2"])
            return x @ p["w3"] + p["b3"]

        def step(y: Any, t: Any) -> Any:
            k1 = slope(t, y)
            k2 = slope(t + h / 2, y + h / 2 * k1)
            k3 = slope(t + h / 2, y + h / 2 * k2)
            k4 = slope(t + h, y + h * k3)
            return y + h / 6 * (k1 + 2 * k2 + 2 * k3 + k4), None

        def until(y: Any, seen: Any) -> Any:
            times, observed = seen
            y, _ = jax.lax.scan(step, y, times)
            return y, jnp.mean((y - observed) ** 2)

        times = h * jnp.arange(dims["times"] * substeps, dtype=batch["first"].dtype)
        inputs = times.reshape(-1, substeps), batch["path"]
        return jnp.mean(jax.lax.scan(until, batch["first"], inputs)[1])

    return loss


def on_torch(dims: Dims, half: Half) -> Callable[[Arrays, Arrays], Any]:
    import torch
    from torch.nn import functional

    substeps, axes = dims["substeps"], dims["axes"]
    h = 1.0 / (dims["times"] * substeps)

    def loss(p: Arrays, batch: Arrays) -> Any:
        def slope(t: float, y: Any) -> Any:
            bias = torch.add(p["b1"], p["w1"][axes], alpha=t)
            x = torch.tanh(torch.addmm(bias, y, p["w1"][:axes]))
            x = torch.tanh(torch.addmm(p["b2"], x, p["w2"]))
            return torch.addmm(p["b3"], x, p["w3"])

        y, path = batch["first"], []
        for step in range(dims["times"] * substeps):
            t = step * h
            k1 = slope(t, y)
            k2 = slope(t + h / 2, y + h / 2 * k1)
            k3 = slope(t + h / 2, y + h / 2 * k2)
            k4 = slope(t + h, y + h * k3)
            y = y + h / 6 * (k1 + 2 * k2 + 2 * k3 + k4)
            if (step + 1) % substeps == 0:
                path.append(y)
        return functional.mse_loss(torch.stack(path), batch["path"])

    return loss


def cost(dims: Dims) -> Cost:
    """Four evaluations of the network per step, each once forth and twice back."""
    hidden, axes = dims["hidden"], dims["axes"]
    weights = hidden * (2 * axes + 1) + hidden**2
    calls = 4.0 * dims["times"] * dims["substeps"]
    moved = calls * dims["batch"] * (2 * hidden + axes)
    return Cost(
        bytes=28.0 * weights + 8.0 * moved, operations=6.0 * calls * dims["batch"] * weights
    )


PROGRAM = Program(
    summary="a neural differential equation integrated by RK4 and fitted to paths, Adam",
    kind=Kind.TRAINING,
    make=make,
    on_tapegrad=on_tapegrad,
    on_jax=on_jax,
    on_torch=on_torch,
    sizes={
        "check": {"batch": 3, "axes": 2, "hidden": 5, "times": 3, "substeps": 2},
        "cpu": {"batch": 64, "axes": 4, "hidden": 32, "times": 8, "substeps": 4},
        "cuda": {"batch": 2048, "axes": 16, "hidden": 256, "times": 10, "substeps": 4},
    },
    cost=cost,
    optimizer=Optimizer("adam", 1e-3),
)
