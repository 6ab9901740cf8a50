"""A variational autoencoder with a Bernoulli likelihood and a diagonal Gaussian code."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tapegrad_zoo.program import Arrays, Cost, Dims, Half, Kind, Optimizer, Program, Values


def _layers(dims: Dims) -> dict[str, tuple[int, int]]:
    pixels, hidden, code = dims["pixels"], dims["hidden"], dims["code"]
    return {
        "enc1": (pixels, hidden),
        "enc2": (hidden, hidden),
        "mean": (hidden, code),
        "spread": (hidden, code),
        "dec1": (code, hidden),
        "dec2": (hidden, hidden),
        "out": (hidden, pixels),
    }


def make(rng: np.random.Generator, dims: Dims) -> tuple[Values, Values]:
    params: Values = {}
    for name, (n, m) in _layers(dims).items():
        params[f"{name}_w"] = rng.standard_normal((n, m)) * n**-0.5
        params[f"{name}_b"] = rng.standard_normal(m) * 0.05
    batch = {
        "x": (rng.uniform(size=(dims["batch"], dims["pixels"])) < 0.3).astype(np.float64),
        "noise": rng.standard_normal((dims["batch"], dims["code"])),
    }
    return params, batch


def on_tapegrad(dims: Dims, half: Half) -> Callable[[Arrays, Arrays], Any]:
    import tapegrad.numpy as np

    def loss(p: Arrays, batch: Arrays) -> Any:
        def dense(name: str, x: Any) -> Any:
            return np.dot(x, p[f"{name}_w"]) + p[f"{name}_b"]

        def swish(x: Any) -> Any:
            return x / (1 + np.exp(-x))

        x = batch["x"]
        h = swish(dense("enc2", swish(dense("enc1", x))))
        mean, log_variance = dense("mean", h), dense("spread", h)
        code = mean + np.exp(0.5 * log_variance) * batch["noise"]
        logits = dense("out", swish(dense("dec2", swish(dense("dec1", code)))))
        rebuilt = np.sum(x * logits - np.logaddexp(0.0, logits), axis=1)
        divergence = 0.5 * np.sum(mean**2 + np.exp(log_variance) - log_variance - 1, axis=1)
        return np.mean(divergence - rebuilt)

    return loss


def on_jax(dims: Dims, half: Half) -> Callable[[Arrays, Arrays], Any]:
    import jax
    import jax.numpy as jnp

    def loss(p: Arrays, batch: Arrays) -> Any:
        def dense(name: str, x: Any) -> Any:
            return x @ p[f"{name}_w"] + p[f"{name}_b"]

        x = batch["x"]
        h = jax.nn.silu(dense("enc2", jax.nn.silu(dense("enc1", x))))
        mean, log_variance = dense("mean", h), dense("spread", h)
        code = mean + jnp.exp(0.5 * log_variance) * batch["noise"]
        h = jax.nn.silu(dense("dec2", jax.nn.silu(dense("dec1", code))))
        logits = dense("out", h)
        crossed = jnp.sum(jax.nn.softplus(logits) - x * logits)
        divergence = 0.5 * jnp.sum(mean**2 + jnp.exp(log_variance) - log_variance - 1)
        return (divergence + crossed) / len(x)

    return loss


def on_torch(dims: Dims, half: Half) -> Callable[[Arrays, Arrays], Any]:
    import torch
    from torch.nn import functional

    def loss(p: Arrays, batch: Arrays) -> Any:
        def dense(name: str, x: Any) -> Any:
            return torch.addmm(p[f"{name}_b"], x, p[f"{name}_w"])

        x = batch["x"]
        h = functional.silu(dense("enc2", functional.silu(dense("enc1", x))))
        mean, log_variance = dense("mean", h), dense("spread", h)
        code = torch.addcmul(mean, torch.exp(0.5 * log_variance), batch["noise"])
        h = functional.silu(dense("dec2", functional.silu(dense("dec1", code))))
        logits = dense("out", h)
        crossed = functional.binary_cross_entropy_with_logits(logits, x, reduction="sum")
        divergence = 0.5 * torch.sum(mean**2 + torch.exp(log_variance) - log_variance - 1)
        return (divergence + crossed) / len(x)

    return loss


def cost(dims: Dims) -> Cost:
    """Three products per layer; Adam reads and writes three arrays and reads a gradient."""
    weights = sum(n * m for n, m in _layers(dims).values())
    return Cost(
        bytes=28.0 * weights + 4.0 * dims["batch"] * dims["pixels"],
        operations=6.0 * weights * dims["batch"],
    )


PROGRAM = Program(
    summary="variational autoencoder of 784 pixels, dense layers 1024 wide, code 64, Adam",
    kind=Kind.TRAINING,
    make=make,
    on_tapegrad=on_tapegrad,
    on_jax=on_jax,
    on_torch=on_torch,
    sizes={
        "check": {"batch": 5, "pixels": 12, "hidden": 7, "code": 3},
        "cpu": {"batch": 64, "pixels": 784, "hidden": 256, "code": 16},
        "cuda": {"batch": 2048, "pixels": 784, "hidden": 1024, "code": 64},
    },
    cost=cost,
    optimizer=Optimizer("adam", 1e-3),
)
