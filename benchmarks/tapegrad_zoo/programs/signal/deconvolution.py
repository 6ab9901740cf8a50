"""Blind deconvolution: find a signal with few spikes and the filters through which it was heard."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tapegrad_zoo.program import Arrays, Cost, Dims, Half, Kind, Program, Values

SPARSITY, ROUNDING, DECAY = 0.05, 1e-2, 1e-3


def make(rng: np.random.Generator, dims: Dims) -> tuple[Values, Values]:
    channels, taps, length = dims["channels"], dims["taps"], dims["length"]
    params = {
        "spikes": 0.3 * rng.standard_normal(length),
        "filters": rng.standard_normal((channels, taps)) * taps**-0.5,
        "gains": 1 + 0.1 * rng.standard_normal(channels),
    }
    return params, {"heard": rng.standard_normal((channels, length + taps - 1))}


def on_tapegrad(dims: Dims, half: Half) -> Callable[[Arrays, Arrays], Any]:
    import tapegrad.numpy as np

    def loss(params: Arrays, batch: Arrays) -> Any:
        spikes = params["spikes"]
        error = 0.0
        for channel in range(dims["channels"]):
            fir = params["filters"][channel]
            fir = params["gains"][channel] * fir / np.sqrt(np.sum(fir**2))
            predicted = np.convolve(spikes, fir)
            error = error + np.mean((predicted - batch["heard"][channel]) ** 2)
        sparse = np.mean(np.sqrt(spikes**2 + ROUNDING))
        late = np.arange(dims["taps"], dtype=batch["heard"].dtype)
        tail = np.sum(late * params["filters"] ** 2)
        return error / dims["channels"] + SPARSITY * sparse + DECAY * tail

    return loss


def on_jax(dims: Dims, half: Half) -> Callable[[Arrays, Arrays], Any]:
    import jax
    import jax.numpy as jnp

    def loss(params: Arrays, batch: Arrays) -> Any:
        spikes, filters, taps = params["spikes"], params["filters"], dims["taps"]
        norms = jnp.linalg.norm(filters, axis=1)
        scaled = (params["gains"] / norms)[:, None] * filters
        predicted = jax.lax.conv_general_dilated(
            spikes[None, None], scaled[:, None, ::-1], (1,), ((taps - 1, taps - 1),)
        )
        error = jnp.mean((predicted[0] - batch["heard"]) ** 2)
        sparse = jnp.mean(jnp.sqrt(spikes**2 + ROUNDING))
        tail = jnp.sum(jnp.arange(taps, dtype=filters.dtype) * filters**2)
        return error + SPARSITY * sparse + DECAY * tail

    return loss


def on_torch(dims: Dims, half: Half) -> Callable[[Arrays, Arrays], Any]:
    import torch
    from torch.nn import functional

    def loss(params: Arrays, batch: Arrays) -> Any:
        spikes, filters, taps = params["spikes"], params["filters"], dims["taps"]
        scaled = params["gains"][:, None] * functional.normalize(filters, dim=1)
        kernel = scaled.flip(1)[:, None]
        predicted = functional.conv1d(spikes[None, None], kernel, padding=taps - 1)[0]
        error = functional.mse_loss(predicted, batch["heard"])
        sparse = torch.sqrt(spikes**2 + ROUNDING).mean()
        late = torch.arange(taps, dtype=filters.dtype, device=filters.device)
        return error + SPARSITY * sparse + DECAY * torch.sum(late * filters**2)

    return loss


def cost(dims: Dims) -> Cost:
    """A multiplication and an addition per tap and sample, once forth and twice back."""
    samples = dims["channels"] * dims["length"]
    return Cost(bytes=8.0 * samples, operations=6.0 * samples * dims["taps"])


PROGRAM = Program(
    summary="blind deconvolution with FIR filters; gradient by signal, filters and gains",
    kind=Kind.GRADIENT,
    make=make,
    on_tapegrad=on_tapegrad,
    on_jax=on_jax,
    on_torch=on_torch,
    sizes={
        "check": {"channels": 3, "taps": 5, "length": 17},
        "cpu": {"channels": 4, "taps": 64, "length": 20000},
        "cuda": {"channels": 8, "taps": 128, "length": 500000},
    },
    cost=cost,
)
