"""A cloth of masses and springs that falls: find stiffnesses and the first throw."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tapegrad_zoo.program import Arrays, Cost, Dims, Half, Kind, Program, Values

STEP, GRAVITY, DRAG = 0.01, 9.8, 0.2


def make(rng: np.random.Generator, dims: Dims) -> tuple[Values, Values]:
    rows, columns = dims["rows"], dims["columns"]
    y, x = np.meshgrid(np.arange(rows), np.arange(columns), indexing="ij")
    flat = np.stack([x, y, np.zeros_like(x)], -1).astype(float)
    params = {
        "across": 100 + 5 * rng.standard_normal((rows, columns - 1)),
        "down": 100 + 5 * rng.standard_normal((rows - 1, columns)),
        "falling": 30 + 2 * rng.standard_normal((rows - 1, columns - 1)),
        "rising": 30 + 2 * rng.standard_normal((rows - 1, columns - 1)),
        "throw": rng.standard_normal(3),
    }
    batch = {
        "position": flat + 0.1 * rng.standard_normal(flat.shape),
        "seen": flat + rng.standard_normal(flat.shape),
    }
    return params, batch


def on_tapegrad(dims: Dims, half: Half) -> Callable[[Arrays, Arrays], Any]:
    import tapegrad.numpy as np

    def pull(start: Any, end: Any, stiffness: Any, rest: float) -> Any:
        apart = end - start
        length = np.linalg.norm(apart, axis=-1, keepdims=True)
        return stiffness[..., None] * (1 - rest / length) * apart

    def forces(params: Arrays, x: Any, v: Any) -> Any:
        f = -DRAG * v
        f[..., 2] -= GRAVITY
        spring = pull(x[:, :-1], x[:, 1:], params["across"], 1.0)
        f[:, :-1] += spring
        f[:, 1:] -= spring
        spring = pull(x[:-1], x[1:], params["down"], 1.0)
        f[:-1] += spring
        f[1:] -= spring
        spring = pull(x[:-1, :-1], x[1:, 1:], params["falling"], 2**0.5)
        f[:-1, :-1] += spring
        f[1:, 1:] -= spring
        spring = pull(x[1:, :-1], x[:-1, 1:], params["rising"], 2**0.5)
        f[1:, :-1] += spring
        f[:-1, 1:] -= spring
        f[0] = 0.0  # the first row is nailed to the wall
        return f

    def loss(params: Arrays, batch: Arrays) -> Any:
        x = batch["position"]
        v = np.zeros_like(x)
        v[1:] += params["throw"]
        for _ in range(dims["steps"]):
            v = v + STEP * forces(params, x, v)
            x = x + STEP * v
        return np.mean((x - batch["seen"]) ** 2)

    return loss


def on_jax(dims: Dims, half: Half) -> Callable[[Arrays, Arrays], Any]:
    import jax
    import jax.numpy as jnp

    def pull(start: Any, end: Any, stiffness: Any, rest: float) -> Any:
        apart = end - start
        inverse = jax.lax.rsqrt(jnp.sum(apart**2, axis=-1, keepdims=True))
        return stiffness[..., None] * (1 - rest * inverse) * apart

    def spread(spring: Any, start: Any, end: Any) -> Any:
        """Return the force of springs on the masses at both ends; padding shifts the rows."""
        return jnp.pad(spring, (*start, (0, 0))) - jnp.pad(spring, (*end, (0, 0)))

    def loss(params: Arrays, batch: Arrays) -> Any:
        x = batch["position"]
        none, low, high = (0, 0), (0, 1), (1, 0)
        free = jnp.ones((dims["rows"], 1, 1), x.dtype).at[0].set(0)
        gravity = jnp.array([0, 0, -GRAVITY], x.dtype)

        def forces(x: Any, v: Any) -> Any:
            across = pull(x[:, :-1], x[:, 1:], params["across"], 1.0)
            down = pull(x[:-1], x[1:], params["down"], 1.0)
            falling = pull(x[:-1, :-1], x[1:, 1:], params["falling"], 2**0.5)
            rising = pull(x[1:, :-1], x[:-1, 1:], params["rising"], 2**0.5)
            inner = spread(across, (none, low), (none, high)) + spread(
                down, (low, none), (high, none)
            )
            inner += spread(falling, (low, low), (high, high))
            inner += spread(rising, (high, low), (low, high))
            return free * (inner - DRAG * v + gravity)

        def step(_: Any, state: Any) -> Any:
            x, v = state
            v = v + STEP * forces(x, v)
            return x + STEP * v, v

        v = free * jnp.broadcast_to(params["throw"], x.shape)
        x, _ = jax.lax.fori_loop(0, dims["steps"], step, (x, v))
        return jnp.mean((x - batch["seen"]) ** 2)

    return loss


def on_torch(dims: Dims, half: Half) -> Callable[[Arrays, Arrays], Any]:
    import torch
    from torch.nn import functional

    def pull(start: Any, end: Any, stiffness: Any, rest: float) -> Any:
        apart = end - start
        length = torch.linalg.vector_norm(apart, dim=-1, keepdim=True)
        return stiffness[..., None] * (1 - rest / length) * apart

    def loss(params: Arrays, batch: Arrays) -> Any:
        x = batch["position"]
        free = torch.ones_like(x[:, :1, :1])
        free[0] = 0
        gravity = torch.zeros_like(x[0, 0])
        gravity[2] = -GRAVITY
        pad = functional.pad

        def forces(x: Any, v: Any) -> Any:
            across = pull(x[:, :-1], x[:, 1:], params["across"], 1.0)
            down = pull(x[:-1], x[1:], params["down"], 1.0)
            falling = pull(x[:-1, :-1], x[1:, 1:], params["falling"], 2**0.5)
            rising = pull(x[1:, :-1], x[:-1, 1:], params["rising"], 2**0.5)
            inner = pad(across, (0, 0, 0, 1)) - pad(across, (0, 0, 1, 0))
            inner = inner + pad(down, (0, 0, 0, 0, 0, 1)) - pad(down, (0, 0, 0, 0, 1, 0))
            inner = inner + pad(falling, (0, 0, 0, 1, 0, 1)) - pad(falling, (0, 0, 1, 0, 1, 0))
            inner = inner + pad(rising, (0, 0, 0, 1, 1, 0)) - pad(rising, (0, 0, 1, 0, 0, 1))
            return free * (inner - DRAG * v + gravity)

        v = free * params["throw"].expand_as(x)
        for _ in range(dims["steps"]):
            v = v + STEP * forces(x, v)
            x = x + STEP * v
        return functional.mse_loss(x, batch["seen"])

    return loss


def cost(dims: Dims) -> Cost:
    """A step reads four springs per mass and reads and writes positions and velocities."""
    masses = dims["rows"] * dims["columns"] * dims["steps"]
    return Cost(bytes=2 * 64.0 * masses, operations=3 * 4 * 25.0 * masses)


PROGRAM = Program(
    summary="a cloth of springs with forces added through slices; gradient by stiffness and throw",
    kind=Kind.GRADIENT,
    make=make,
    on_tapegrad=on_tapegrad,
    on_jax=on_jax,
    on_torch=on_torch,
    sizes={
        "check": {"rows": 4, "columns": 6, "steps": 4},
        "cpu": {"rows": 32, "columns": 48, "steps": 20},
        "cuda": {"rows": 256, "columns": 384, "steps": 60},
    },
    cost=cost,
)
