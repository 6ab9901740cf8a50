"""Burgers' equation by a pseudo-spectral method: find first states and the viscosity."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tapegrad_zoo.program import Arrays, Cost, Dims, Half, Kind, Program, Values


def make(rng: np.random.Generator, dims: Dims) -> tuple[Values, Values]:
    shape = dims["batch"], dims["points"]
    x = np.linspace(0, 2 * np.pi, dims["points"], endpoint=False)
    shift = rng.uniform(0, 2 * np.pi, (dims["batch"], 1))
    params = {
        "first": np.sin(x + shift) + 0.01 * rng.standard_normal(shape),
        "log_viscosity": np.full((), -5.0),
    }
    return params, {"last": np.cos(x + shift) + 0.1 * rng.standard_normal(shape)}


def on_tapegrad(dims: Dims, half: Half) -> Callable[[Arrays, Arrays], Any]:
    import tapegrad.numpy as np

    n = dims["points"]
    h = 1 / n

    def loss(params: Arrays, batch: Arrays) -> Any:
        dtype = batch["last"].dtype
        k = np.arange(n // 2 + 1, dtype=dtype)
        low = (k < n / 3).astype(dtype)
        viscosity = np.exp(params["log_viscosity"])

        def slope(spectrum: Any) -> Any:
            u = np.fft.irfft(spectrum * low, n)
            advection = 0.5j * k * low * np.fft.rfft(u**2)
            return -advection - viscosity * k**2 * spectrum

        state = np.fft.rfft(params["first"])
        for _ in range(dims["steps"]):
            k1 = slope(state)
            k2 = slope(state + 0.5 * h * k1)
            k3 = slope(state + 0.5 * h * k2)
            k4 = slope(state + h * k3)
            state = state + h / 6 * (k1 + 2 * k2 + 2 * k3 + k4)
        return np.mean((np.fft.irfft(state, n) - batch["last"]) ** 2)

    return loss


def on_jax(dims: Dims, half: Half) -> Callable[[Arrays, Arrays], Any]:
    import jax
    import jax.numpy as jnp

    n = dims["points"]
    h = 1 / n

    def loss(params: Arrays, batch: Arrays) -> Any:
        k = jnp.arange(n // 2 + 1, dtype=batch["last"].dtype)
        low = k < n / 3
        decay = -jnp.exp(params["log_viscosity"]) * k**2

        def slope(spectrum: Any) -> Any:
            u = jnp.fft.irfft(jnp.where(low, spectrum, 0), n)
            return decay * spectrum - jnp.where(low, 0.5j * k, 0) * jnp.fft.rfft(u * u)

        def step(_: Any, state: Any) -> Any:
            k1 = slope(state)
            k2 = slope(state + 0.5 * h * k1)
            k3 = slope(state + 0.5 * h * k2)
            k4 = slope(state + h * k3)
            return state + h / 6 * (k1 + 2 * k2 + 2 * k3 + k4)

        state = jax.lax.fori_loop(0, dims["steps"], step, jnp.fft.rfft(params["first"]))
        return jnp.mean((jnp.fft.irfft(state, n) - batch["last"]) ** 2)

    return loss


def on_torch(dims: Dims, half: Half) -> Callable[[Arrays, Arrays], Any]:
    import torch
    from torch.nn import functional

    n = dims["points"]
    h = 1 / n

    def loss(params: Arrays, batch: Arrays) -> Any:
        last = batch["last"]
        k = torch.arange(n // 2 + 1, dtype=last.dtype, device=last.device)
        low = (k < n / 3).to(last.dtype)
        advect = -0.5j * k * low
        decay = -torch.exp(params["log_viscosity"]) * k**2

        def slope(spectrum: Any) -> Any:
            u = torch.fft.irfft(spectrum * low, n)
            return decay * spectrum + advect * torch.fft.rfft(u * u)

        state = torch.fft.rfft(params["first"])
        for _ in range(dims["steps"]):
            k1 = slope(state)
            k2 = slope(state + 0.5 * h * k1)
            k3 = slope(state + 0.5 * h * k2)
            k4 = slope(state + h * k3)
            state = state + h / 6 * (k1 + 2 * k2 + 2 * k3 + k4)
        return functional.mse_loss(torch.fft.irfft(state, n), last)

    return loss


def cost(dims: Dims) -> Cost:
    """Two transforms per stage, of which a step has four, going forth and going back."""
    points = dims["batch"] * dims["points"]
    stages = 8.0 * dims["steps"] * points
    return Cost(bytes=16.0 * stages, operations=5.0 * np.log2(dims["points"]) * stages)


PROGRAM = Program(
    summary="pseudo-spectral Burgers equation with RK4; gradient by first states and viscosity",
    kind=Kind.GRADIENT,
    make=make,
    on_tapegrad=on_tapegrad,
    on_jax=on_jax,
    on_torch=on_torch,
    sizes={
        "check": {"batch": 3, "points": 18, "steps": 3},
        "cpu": {"batch": 8, "points": 256, "steps": 20},
        "cuda": {"batch": 256, "points": 1024, "steps": 50},
    },
    cost=cost,
)
