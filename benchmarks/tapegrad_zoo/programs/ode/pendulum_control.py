"""Train a network to swing up and hold a pendulum on a cart, through the simulation itself."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tapegrad_zoo.program import Arrays, Cost, Dims, Half, Kind, Optimizer, Program, Values

GRAVITY, CART, POLE, LENGTH, STEP, STRENGTH = 9.8, 1.0, 0.2, 0.6, 0.02, 10.0


def make(rng: np.random.Generator, dims: Dims) -> tuple[Values, Values]:
    hidden = dims["hidden"]
    params = {
        "w1": rng.standard_normal((5, hidden)) * 5**-0.5,
        "b1": 0.1 * rng.standard_normal(hidden),
        "w2": rng.standard_normal((hidden, hidden)) * hidden**-0.5,
        "b2": np.zeros(hidden),
        "w3": rng.standard_normal((hidden, 1)) * hidden**-0.5,
    }
    batch = {
        "state": 0.3 * rng.standard_normal((dims["batch"], 4)),
        "gusts": 0.1 * rng.standard_normal((dims["steps"], dims["batch"])),
    }
    return params, batch


def on_tapegrad(dims: Dims, half: Half) -> Callable[[Arrays, Arrays], Any]:
    import tapegrad as tf

    def policy(p: Arrays, x: Any, speed: Any, angle: Any, spin: Any) -> Any:
        seen = tf.stack([x, speed, tf.sin(angle), tf.cos(angle), spin], axis=1)
        h = tf.nn.elu(seen @ p["w1"] + p["b1"])
        h = tf.nn.elu(h @ p["w2"] + p["b2"])
        return STRENGTH * tf.tanh(h @ p["w3"])[:, 0]

    def loss(p: Arrays, batch: Arrays) -> Any:
        x, speed, angle, spin = tf.unstack(batch["state"], axis=1)
        total = 0.0
        for t in range(dims["steps"]):
            force = policy(p, x, speed, angle, spin)
            push = force + batch["gusts"][t]
            s, c = tf.sin(angle), tf.cos(angle)
            mass = CART + POLE * s**2
            acceleration = (push + POLE * s * (LENGTH * spin**2 - GRAVITY * c)) / mass
            turn = (GRAVITY * s - acceleration * c) / LENGTH
            speed = speed + STEP * acceleration
            spin = spin + STEP * turn
            x = x + STEP * speed
            angle = angle + STEP * spin
            price = 1.0 - tf.cos(angle) + 0.1 * x**2 + 0.01 * spin**2 + 0.001 * force**2
            total = total + tf.reduce_mean(price)
        return total / dims["steps"]

    return loss


def on_jax(dims: Dims, half: Half) -> Callable[[Arrays, Arrays], Any]:
    import jax
    import jax.numpy as jnp

    def loss(p: Arrays, batch: Arrays) -> Any:
        def step(state: Any, gust: Any) -> Any:
            x, speed, angle, spin = state
            s, c = jnp.sin(angle), jnp.cos(angle)
            h = jax.nn.elu(jnp.stack([x, speed, s, c, spin], axis=1) @ p["w1"] + p["b1"])
            h = jax.nn.elu(h @ p["w2"] + p["b2"])
            force = STRENGTH * jnp.tanh(h @ p["w3"])[:, 0]
            swing = POLE * s * (LENGTH * spin**2 - GRAVITY * c)
            acceleration = (force + gust + swing) / (CART + POLE * s**2)
            speed = speed + STEP * acceleration
            spin = spin + STEP * (GRAVITY * s - acceleration * c) / LENGTH
            x, angle = x + STEP * speed, angle + STEP * spin
            price = 1 - jnp.cos(angle) + 0.1 * x**2 + 0.01 * spin**2 + 0.001 * force**2
            return (x, speed, angle, spin), jnp.mean(price)

        first = tuple(batch["state"][:, i] for i in range(4))
        return jnp.mean(jax.lax.scan(step, first, batch["gusts"])[1])

    return loss


def on_torch(dims: Dims, half: Half) -> Callable[[Arrays, Arrays], Any]:
    import torch
    from torch.nn import functional

    def loss(p: Arrays, batch: Arrays) -> Any:
        x, speed, angle, spin = batch["state"].unbind(1)
        prices = []
        for gust in batch["gusts"].unbind():
            s, c = torch.sin(angle), torch.cos(angle)
            seen = torch.stack([x, speed, s, c, spin], 1)
            h = functional.elu(torch.addmm(p["b1"], seen, p["w1"]))
            h = functional.elu(torch.addmm(p["b2"], h, p["w2"]))
            force = STRENGTH * torch.tanh(h @ p["w3"])[:, 0]
            swing = POLE * s * (LENGTH * spin**2 - GRAVITY * c)
            acceleration = (force + gust + swing) / (CART + POLE * s**2)
            speed = speed + STEP * acceleration
            spin = spin + STEP * (GRAVITY * s - acceleration * c) / LENGTH
            x, angle = x + STEP * speed, angle + STEP * spin
            prices.append(1 - torch.cos(angle) + 0.1 * x**2 + 0.01 * spin**2 + 0.001 * force**2)
        return torch.stack(prices).mean()

    return loss


def cost(dims: Dims) -> Cost:
    """The products of the network at every step, once forth and twice back."""
    hidden = dims["hidden"]
    weights = hidden**2 + 6 * hidden
    calls = dims["batch"] * dims["steps"]
    return Cost(bytes=28.0 * weights + 16.0 * calls * hidden, operations=6.0 * calls * weights)


PROGRAM = Program(
    summary="a controller of a pendulum on a cart, trained through its simulation, Adam",
    kind=Kind.TRAINING,
    make=make,
    on_tapegrad=on_tapegrad,
    on_jax=on_jax,
    on_torch=on_torch,
    sizes={
        "check": {"batch": 3, "hidden": 6, "steps": 5},
        "cpu": {"batch": 64, "hidden": 32, "steps": 50},
        "cuda": {"batch": 4096, "hidden": 256, "steps": 50},
    },
    cost=cost,
    optimizer=Optimizer("adam", 1e-3),
)
