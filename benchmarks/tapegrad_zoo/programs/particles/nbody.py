"""Gravity between all pairs of bodies: find masses and first velocities from later positions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tapegrad_zoo.program import Arrays, Cost, Dims, Half, Kind, Program, Values

STEP, SOFTENING = 0.01, 0.1


def make(rng: np.random.Generator, dims: Dims) -> tuple[Values, Values]:
    bodies = dims["bodies"]
    params = {
        "log_mass": 0.1 * rng.standard_normal(bodies) - np.log(bodies),
        "velocity": 0.3 * rng.standard_normal((bodies, 3)),
    }
    batch = {
        "position": rng.standard_normal((bodies, 3)),
        "later": rng.standard_normal((bodies, 3)),
    }
    return params, batch


def on_tapegrad(dims: Dims, half: Half) -> Callable[[Arrays, Arrays], Any]:
    import tapegrad.numpy as np

    def acceleration(x: Any, mass: Any) -> Any:
        apart = x[None, :, :] - x[:, None, :]
        distance = np.sqrt(np.sum(apart**2, axis=-1) + SOFTENING**2)
        return np.sum(mass[None, :, None] * apart / distance[:, :, None] ** 3, axis=1)

    def loss(params: Arrays, batch: Arrays) -> Any:
        mass = np.exp(params["log_mass"])
        x, v = batch["position"], params["velocity"]
        pull = acceleration(x, mass)
        for _ in range(dims["steps"]):
            v = v + 0.5 * STEP * pull
            x = x + STEP * v
            pull = acceleration(x, mass)
            v = v + 0.5 * STEP * pull
        return np.mean(np.sum((x - batch["later"]) ** 2, axis=1))

    return loss


def on_jax(dims: Dims, half: Half) -> Callable[[Arrays, Arrays], Any]:
    import jax
    import jax.numpy as jnp

    def acceleration(x: Any, mass: Any) -> Any:
        apart = x[None, :, :] - x[:, None, :]
        factor = mass * jax.lax.rsqrt(jnp.sum(apart**2, axis=-1) + SOFTENING**2) ** 3
        return jnp.sum(factor[:, :, None] * apart, axis=1)

    def loss(params: Arrays, batch: Arrays) -> Any:
        mass = jnp.exp(params["log_mass"])

        def step(carry: Any, _: Any) -> Any:
            x, v, pull = carry
            v = v + 0.5 * STEP * pull
            x = x + STEP * v
            pull = acceleration(x, mass)
            return (x, v + 0.5 * STEP * pull, pull), None

        start = batch["position"], params["velocity"], acceleration(batch["position"], mass)
        (x, _, _), _ = jax.lax.scan(jax.checkpoint(step), start, None, length=dims["steps"])
        return jnp.mean(jnp.sum((x - batch["later"]) ** 2, axis=1))

    return loss


def on_torch(dims: Dims, half: Half) -> Callable[[Arrays, Arrays], Any]:
    import torch

    def acceleration(x: Any, mass: Any) -> Any:
        apart = x[None, :, :] - x[:, None, :]
        factor = mass * torch.rsqrt(apart.square().sum(-1) + SOFTENING**2) ** 3
        return (factor[:, :, None] * apart).sum(1)

    def loss(params: Arrays, batch: Arrays) -> Any:
        mass = torch.exp(params["log_mass"])
        x, v = batch["position"], params["velocity"]
        pull = acceleration(x, mass)
        for _ in range(dims["steps"]):
            v = v + 0.5 * STEP * pull
            x = x + STEP * v
            pull = acceleration(x, mass)
            v = v + 0.5 * STEP * pull
        return (x - batch["later"]).square().sum(1).mean()

    return loss


def cost(dims: Dims) -> Cost:
    """About 20 operations per pair forth and twice as many back; no pair need be stored."""
    pairs = dims["bodies"] ** 2 * (dims["steps"] + 1)
    return Cost(bytes=48.0 * dims["bodies"] * dims["steps"], operations=60.0 * pairs)


PROGRAM = Program(
    summary="gravity of all pairs with leapfrog steps; gradient by masses and velocities",
    kind=Kind.GRADIENT,
    make=make,
    on_tapegrad=on_tapegrad,
    on_jax=on_jax,
    on_torch=on_torch,
    sizes={
        "check": {"bodies": 7, "steps": 3},
        "cpu": {"bodies": 200, "steps": 8},
        "cuda": {"bodies": 2048, "steps": 10},
    },
    cost=cost,
)
