"""A leaky recurrent network with layer norm, whose units learn how fast they forget."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tapegrad_zoo.program import Arrays, Cost, Dims, Half, Kind, Optimizer, Program, Values

EPSILON, ACTIVITY, NOISE = 1e-5, 1e-3, 0.1


def make(rng: np.random.Generator, dims: Dims) -> tuple[Values, Values]:
    n, inputs, outputs, steps = dims["units"], dims["inputs"], dims["outputs"], dims["steps"]
    params = {
        "inputs": rng.standard_normal((inputs, n)) * inputs**-0.5,
        "states": rng.standard_normal((n, n)) * n**-0.5,
        "gain": 1 + 0.1 * rng.standard_normal(n),
        "bias": 0.1 * rng.standard_normal(n),
        "leak": rng.standard_normal(n),
        "start": 0.1 * rng.standard_normal(n),
        "readout": rng.standard_normal((n, outputs)) * n**-0.5,
    }
    batch = {
        "stimulus": rng.standard_normal((steps, dims["batch"], inputs)),
        "noise": rng.standard_normal((steps, dims["batch"], n)),
        "wanted": rng.standard_normal((steps, dims["batch"], outputs)),
        "counts": (rng.uniform(size=(steps, dims["batch"])) < 0.7).astype(np.float64),
    }
    return params, batch


def on_tapegrad(dims: Dims, half: Half) -> Callable[[Arrays, Arrays], Any]:
    import tapegrad.numpy as np

    def norm(x: Any, gain: Any, bias: Any) -> Any:
        mean = np.mean(x, axis=1, keepdims=True)
        deviation = np.sqrt(np.mean((x - mean) ** 2, axis=1, keepdims=True) + EPSILON)
        return gain * (x - mean) / deviation + bias

    def loss(p: Arrays, batch: Arrays) -> Any:
        leak = 1 / (1 + np.exp(-p["leak"]))
        h = np.tile(p["start"], (dims["batch"], 1))
        errors, activity = 0, 0
        for t in range(dims["steps"]):
            drive = batch["stimulus"][t] @ p["inputs"] + np.tanh(h) @ p["states"]
            drive = norm(drive, p["gain"], p["bias"]) + NOISE * batch["noise"][t]
            h = (1 - leak) * h + leak * drive
            rate = np.tanh(h)
            error = np.mean((rate @ p["readout"] - batch["wanted"][t]) ** 2, axis=1)
            errors = errors + np.sum(batch["counts"][t] * error)
            activity = activity + np.mean(rate**2)
        return errors / np.sum(batch["counts"]) + ACTIVITY * activity / dims["steps"]

    return loss


def on_jax(dims: Dims, half: Half) -> Callable[[Arrays, Arrays], Any]:
    import jax
    import jax.numpy as jnp

    def loss(p: Arrays, batch: Arrays) -> Any:
        leak = jax.nn.sigmoid(p["leak"])

        def step(h: Any, given: Any) -> Any:
            stimulus, noise = given
            drive = jax.nn.standardize(stimulus + jnp.tanh(h) @ p["states"], epsilon=EPSILON)
            drive = p["gain"] * drive + p["bias"] + NOISE * noise
            h = (1 - leak) * h + leak * drive
            return h, h

        start = jnp.broadcast_to(p["start"], (dims["batch"], dims["units"]))
        states = jax.lax.scan(step, start, (batch["stimulus"] @ p["inputs"], batch["noise"]))[1]
        rates = jnp.tanh(states)
        errors = jnp.mean((rates @ p["readout"] - batch["wanted"]) ** 2, -1)
        error = jnp.sum(batch["counts"] * errors) / jnp.sum(batch["counts"])
        return error + ACTIVITY * jnp.mean(rates**2)

    return loss


def on_torch(dims: Dims, half: Half) -> Callable[[Arrays, Arrays], Any]:
    import torch
    from torch.nn import functional

    def loss(p: Arrays, batch: Arrays) -> Any:
        leak = torch.sigmoid(p["leak"])
        rate = torch.tanh(p["start"]).expand(dims["batch"], -1)
        h, rates = p["start"], []
        noises = (NOISE * batch["noise"]).unbind()
        for stimulus, noise in zip((batch["stimulus"] @ p["inputs"]).unbind(), noises):
            drive = torch.addmm(stimulus, rate, p["states"])
            drive = functional.layer_norm(drive, (dims["units"],), p["gain"], p["bias"], EPSILON)
            h = torch.lerp(h.expand_as(drive), drive + noise, leak)
            rate = torch.tanh(h)
            rates.append(rate)
        found = torch.stack(rates)
        errors = (found @ p["readout"] - batch["wanted"]).square().mean(-1)
        error = (batch["counts"] * errors).sum() / batch["counts"].sum()
        return error + ACTIVITY * found.square().mean()

    return loss


def cost(dims: Dims) -> Cost:
    """Three passes over the products; the noise is read, the states are written and read."""
    n, rows = dims["units"], dims["batch"] * dims["steps"]
    weights = n * (n + dims["inputs"] + dims["outputs"])
    return Cost(bytes=28.0 * weights + 12.0 * rows * n, operations=6.0 * weights * rows)


PROGRAM = Program(
    summary="256 leaky units with layer norm and noise, 128 trials of 200 steps, Adam",
    kind=Kind.TRAINING,
    make=make,
    on_tapegrad=on_tapegrad,
    on_jax=on_jax,
    on_torch=on_torch,
    sizes={
        "check": {"batch": 3, "steps": 7, "inputs": 2, "units": 6, "outputs": 4},
        "cpu": {"batch": 16, "steps": 50, "inputs": 8, "units": 64, "outputs": 4},
        "cuda": {"batch": 128, "steps": 200, "inputs": 32, "units": 256, "outputs": 16},
    },
    cost=cost,
    optimizer=Optimizer("adam", 1e-3),
)
