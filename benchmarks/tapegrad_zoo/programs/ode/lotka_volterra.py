"""Fit the rates of predators and prey to counts from many habitats, by the midpoint rule."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tapegrad_zoo.program import Arrays, Cost, Dims, Half, Kind, Program, Values

STEP = 0.05


def make(rng: np.random.Generator, dims: Dims) -> tuple[Values, Values]:
    habitats, steps = dims["habitats"], dims["steps"]
    params = {
        "log_rates": np.log(np.array([0.9, 0.5, 0.6, 0.4])),
        "log_first": 0.3 * rng.standard_normal((2, habitats)),
    }
    return params, {"counts": np.exp(0.4 * rng.standard_normal((steps + 1, 2, habitats)))}


def on_tapegrad(dims: Dims, half: Half) -> Callable[[Arrays, Arrays], Any]:
    import tapegrad.numpy as np

    steps = dims["steps"]

    def loss(params: Arrays, batch: Arrays) -> Any:
        birth, eaten, growth, death = np.exp(params["log_rates"])

        def slope(state: Any) -> Any:
            prey, predators = state
            met = prey * predators
            return np.stack([birth * prey - eaten * met, growth * met - death * predators])

        path = np.zeros((steps + 1, 2, dims["habitats"]), dtype=batch["counts"].dtype)
        path[0] = np.exp(params["log_first"])
        for i in range(steps):
            middle = path[i] + 0.5 * STEP * slope(path[i])
            path[i + 1] = path[i] + STEP * slope(middle)
        return np.mean((np.log(path) - np.log(batch["counts"])) ** 2)

    return loss


def on_jax(dims: Dims, half: Half) -> Callable[[Arrays, Arrays], Any]:
    import jax
    import jax.numpy as jnp

    def loss(params: Arrays, batch: Arrays) -> Any:
        birth, eaten, growth, death = jnp.exp(params["log_rates"])

        def slope(prey: Any, predators: Any) -> Any:
            return prey * (birth - eaten * predators), predators * (growth * prey - death)

        def step(state: Any, _: Any) -> Any:
            change = slope(*state)
            middle = [x + 0.5 * STEP * d for x, d in zip(state, change)]
            after = tuple(x + STEP * d for x, d in zip(state, slope(*middle)))
            return after, jnp.stack(after)

        first = jnp.exp(params["log_first"])
        _, path = jax.lax.scan(step, (first[0], first[1]), None, length=dims["steps"])
        path = jnp.concatenate([first[None], path])
        return jnp.mean((jnp.log(path) - jnp.log(batch["counts"])) ** 2)

    return loss


def on_torch(dims: Dims, half: Half) -> Callable[[Arrays, Arrays], Any]:
    import torch
    from torch.nn import functional

    def loss(params: Arrays, batch: Arrays) -> Any:
        birth, eaten, growth, death = torch.exp(params["log_rates"]).unbind()

        def slope(state: Any) -> Any:
            prey, predators = state.unbind()
            met = prey * predators
            return torch.stack([birth * prey - eaten * met, growth * met - death * predators])

        path = [torch.exp(params["log_first"])]
        for _ in range(dims["steps"]):
            middle = path[-1] + 0.5 * STEP * slope(path[-1])
            path.append(path[-1] + STEP * slope(middle))
        return functional.mse_loss(torch.log(torch.stack(path)), torch.log(batch["counts"]))

    return loss


def cost(dims: Dims) -> Cost:
    """The path is written going forth and read with the counts going back."""
    states = 2.0 * dims["habitats"] * dims["steps"]
    return Cost(bytes=12.0 * states, operations=60.0 * states)


PROGRAM = Program(
    summary="Lotka-Volterra by the midpoint rule, path written step by step; gradient by rates",
    kind=Kind.GRADIENT,
    make=make,
    on_tapegrad=on_tapegrad,
    on_jax=on_jax,
    on_torch=on_torch,
    sizes={
        "check": {"habitats": 3, "steps": 7},
        "cpu": {"habitats": 4000, "steps": 60},
        "cuda": {"habitats": 200000, "steps": 100},
    },
    cost=cost,
)
