"""A diagonal state space model: complex states turn and decay linearly, between gated layers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tapegrad_zoo.program import Arrays, Cost, Dims, Half, Kind, Optimizer, Program, Values

EPSILON = 1e-6


def make(rng: np.random.Generator, dims: Dims) -> tuple[Values, Values]:
    n, states, inputs = dims["width"], dims["states"], dims["inputs"]

    def weights(n: int, m: int) -> Any:
        return rng.standard_normal((n, m)) * n**-0.5

    params = {"encode": weights(inputs, n), "decode": weights(n, inputs)}
    for layer in range(dims["layers"]):
        radius, angle = rng.uniform(0.8, 0.99, states), rng.uniform(0.1, np.pi, states)
        params |= {
            f"decay{layer}": np.log(-np.log(radius)),
            f"angle{layer}": np.log(angle),
            f"in_real{layer}": weights(n, states) * 0.5,
            f"in_imag{layer}": weights(n, states) * 0.5,
            f"out_real{layer}": weights(states, n),
            f"out_imag{layer}": weights(states, n),
            f"direct{layer}": rng.standard_normal(n),
            f"gate{layer}": weights(n, n),
            f"norm{layer}": 1 + 0.1 * rng.standard_normal(n),
        }
    shape = dims["batch"], dims["steps"], inputs
    return params, {"x": rng.standard_normal(shape), "y": rng.standard_normal(shape)}


def on_tapegrad(dims: Dims, half: Half) -> Callable[[Arrays, Arrays], Any]:
    import tapegrad.numpy as np

    def norm(x: Any, gain: Any) -> Any:
        return x / np.sqrt(np.mean(x**2, axis=-1, keepdims=True) + EPSILON) * gain

    def layer(p: Arrays, i: int, x: Any) -> Any:
        u = norm(x, p[f"norm{i}"])
        rate = np.exp(-np.exp(p[f"decay{i}"]) + 1j * np.exp(p[f"angle{i}"]))
        scale = np.sqrt(1 - np.abs(rate) ** 2)
        driven = scale * (u @ p[f"in_real{i}"] + 1j * (u @ p[f"in_imag{i}"]))
        h = np.zeros_like(driven[:, 0])
        states = []
        for t in range(dims["steps"]):
            h = rate * h + driven[:, t]
            states.append(h)
        states = np.stack(states, axis=1)
        y = np.real(states @ (p[f"out_real{i}"] + 1j * p[f"out_imag{i}"]))
        y = np.tanh(y + u * p[f"direct{i}"])
        return x + y / (1 + np.exp(-(y @ p[f"gate{i}"])))

    def loss(p: Arrays, batch: Arrays) -> Any:
        x = batch["x"] @ p["encode"]
        for i in range(dims["layers"]):
            x = layer(p, i, x)
        return np.mean((x @ p["decode"] - batch["y"]) ** 2)

    return loss


def on_jax(dims: Dims, half: Half) -> Callable[[Arrays, Arrays], Any]:
    import jax
    import jax.numpy as jnp
    from jax import lax

    def joined(first: Any, second: Any) -> Any:
        return second[0] * first[0], second[0] * first[1] + second[1]

    def layer(p: Arrays, i: int, x: Any) -> Any:
        mean = jnp.mean(x**2, -1, keepdims=True)
        u = x * lax.rsqrt(mean + EPSILON) * p[f"norm{i}"]
        decay = jnp.exp(p[f"decay{i}"])
        rate = jnp.exp(lax.complex(-decay, jnp.exp(p[f"angle{i}"])))
        scale = jnp.sqrt(1 - jnp.exp(-2 * decay))
        driven = scale * lax.complex(u @ p[f"in_real{i}"], u @ p[f"in_imag{i}"])
        rates = jnp.broadcast_to(rate, driven.shape)
        states = lax.associative_scan(joined, (rates, driven), axis=1)[1]
        y = states.real @ p[f"out_real{i}"] - states.imag @ p[f"out_imag{i}"]
        y = jnp.tanh(y + u * p[f"direct{i}"])
        return x + y * jax.nn.sigmoid(y @ p[f"gate{i}"])

    def loss(p: Arrays, batch: Arrays) -> Any:
        x = batch["x"] @ p["encode"]
        for i in range(dims["layers"]):
            x = layer(p, i, x)
        return jnp.mean((x @ p["decode"] - batch["y"]) ** 2)

    return loss


def on_torch(dims: Dims, half: Half) -> Callable[[Arrays, Arrays], Any]:
    import torch
    from torch.nn import functional

    steps = dims["steps"]

    def recurrence(exponent: Any, driven: Any) -> Any:
        """Return sum over s <= t of exp((t - s) exponent) driven[s], by Fourier transforms."""
        times = torch.arange(steps, device=driven.device, dtype=exponent.real.dtype)
        powers = torch.fft.fft(torch.exp(times[:, None] * exponent), 2 * steps, 0)
        return torch.fft.ifft(torch.fft.fft(driven, 2 * steps, 1) * powers, dim=1)[:, :steps]

    def layer(p: Arrays, i: int, x: Any) -> Any:
        u = functional.rms_norm(x, (dims["width"],), p[f"norm{i}"], EPSILON)
        decay, angle = torch.exp(p[f"decay{i}"]), torch.exp(p[f"angle{i}"])
        scale = torch.sqrt(-torch.expm1(-2 * decay))
        driven = torch.complex(u @ p[f"in_real{i}"] * scale, u @ p[f"in_imag{i}"] * scale)
        states = recurrence(torch.complex(-decay, angle), driven)
        y = states.real @ p[f"out_real{i}"] - states.imag @ p[f"out_imag{i}"]
        y = torch.tanh(y + u * p[f"direct{i}"])
        return x + y * torch.sigmoid(y @ p[f"gate{i}"])

    def loss(p: Arrays, batch: Arrays) -> Any:
        x = batch["x"] @ p["encode"]
        for i in range(dims["layers"]):
            x = layer(p, i, x)
        return functional.mse_loss(x @ p["decode"], batch["y"])

    return loss


def cost(dims: Dims) -> Cost:
    """Three passes over the products; the states are written and read once in each direction."""
    n, states, rows = dims["width"], dims["states"], dims["batch"] * dims["steps"]
    products = dims["layers"] * (4 * n * states + n * n) + 2 * n * dims["inputs"]
    return Cost(
        bytes=32.0 * rows * states * dims["layers"],
        operations=rows * (6.0 * products + 24.0 * states * dims["layers"]),
    )


PROGRAM = Program(
    summary="two layers of 256 complex states over 16 sequences of 512 steps, a loop, Adam",
    kind=Kind.TRAINING,
    make=make,
    on_tapegrad=on_tapegrad,
    on_jax=on_jax,
    on_torch=on_torch,
    sizes={
        "check": {"batch": 2, "steps": 7, "inputs": 3, "width": 5, "states": 4, "layers": 2},
        "cpu": {"batch": 4, "steps": 64, "inputs": 8, "width": 32, "states": 48, "layers": 2},
        "cuda": {"batch": 16, "steps": 512, "inputs": 16, "width": 256, "states": 256, "layers": 2},
    },
    cost=cost,
    optimizer=Optimizer("adam", 1e-3),
)
