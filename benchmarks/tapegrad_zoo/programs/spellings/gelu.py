"""The Gaussian error linear unit of rows with a bias; gradients by both."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from tapegrad_zoo.program import Arrays, Cost, Dims, Half, Kind, Program, Values

SUMMARIES = {
    "library": "by the library's function with tanh",
    "tanh": "by hand with tanh",
    "library_erf": "by the library's function with erf",
    "erf": "by hand with erf",
    "sigmoid": "as x times a sigmoid of 1.702 x",
}


def make(rng: np.random.Generator, dims: Dims) -> tuple[Values, Values]:
    shape = dims["rows"], dims["width"]
    params = {"x": rng.standard_normal(shape), "bias": 0.1 * rng.standard_normal(dims["width"])}
    return params, {"weights": 0.5 + rng.standard_normal(shape)}


def on_tapegrad(spelling: str, dims: Dims, half: Half) -> Callable[[Arrays, Arrays], Any]:
    import tapegrad as tf

    def tanh(x: Any) -> Any:
        inner = math.sqrt(2 / math.pi) * (x + 0.044715 * tf.pow(x, 3))
        return 0.5 * x * (1.0 + tf.tanh(inner))

    def erf(x: Any) -> Any:
        return 0.5 * x * (1.0 + tf.math.erf(x / math.sqrt(2.0)))

    spellings: dict[str, Callable[..., Any]] = {
        "library": partial(tf.nn.gelu, approximate=True),
        "tanh": tanh,
        "library_erf": partial(tf.nn.gelu, approximate=False),
        "erf": erf,
        "sigmoid": lambda x: x * tf.sigmoid(1.702 * x),
    }
    gelu = spellings[spelling]

    def loss(params: Arrays, batch: Arrays) -> Any:
        result = gelu(half(params["x"]) + half(params["bias"]))
        return tf.reduce_mean(tf.cast(result, batch["weights"].dtype) * batch["weights"])

    return loss


def on_jax(spelling: str, dims: Dims, half: Half) -> Callable[[Arrays, Arrays], Any]:
    import jax
    import jax.numpy as jnp

    def tanh(x: Any) -> Any:
        inner = math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)
        return 0.5 * x * (1.0 + jnp.tanh(inner))

    def erf(x: Any) -> Any:
        return 0.5 * x * (1.0 + jax.scipy.special.erf(x / math.sqrt(2.0)))

    spellings: dict[str, Callable[..., Any]] = {
        "library": partial(jax.nn.gelu, approximate=True),
        "tanh": tanh,
        "library_erf": partial(jax.nn.gelu, approximate=False),
        "erf": erf,
        "sigmoid": lambda x: x * jax.nn.sigmoid(1.702 * x),
    }
    gelu = spellings[spelling]

    def loss(params: Arrays, batch: Arrays) -> Any:
        result = gelu(half(params["x"]) + half(params["bias"]))
        return jnp.mean(result.astype(batch["weights"].dtype) * batch["weights"])

    return loss


def on_torch(spelling: str, dims: Dims, half: Half) -> Callable[[Arrays, Arrays], Any]:
    import torch
    from torch.nn import functional

    def tanh(x: Any) -> Any:
        inner = math.sqrt(2 / math.pi) * (x + 0.044715 * torch.pow(x, 3))
        return 0.5 * x * (1.0 + torch.tanh(inner))

    def erf(x: Any) -> Any:
        return 0.5 * x * (1.0 + torch.erf(x / math.sqrt(2.0)))

    spellings: dict[str, Callable[..., Any]] = {
        "library": partial(functional.gelu, approximate="tanh"),
        "tanh": tanh,
        "library_erf": functional.gelu,
        "erf": erf,
        "sigmoid": lambda x: x * torch.sigmoid(1.702 * x),
    }
    gelu = spellings[spelling]

    def loss(params: Arrays, batch: Arrays) -> Any:
        result = gelu(half(params["x"]) + half(params["bias"]))
        return torch.mean(result.to(batch["weights"].dtype) * batch["weights"])

    return loss


def cost(dims: Dims) -> Cost:
    """The rows and weights are read and the gradient is written once."""
    cells = dims["rows"] * dims["width"]
    return Cost(bytes=12.0 * cells, operations=20.0 * cells)


SPELLINGS = {
    spelling: Program(
        summary=f"GELU with a bias and its gradients, {summary}",
        kind=Kind.GRADIENT,
        make=make,
        on_tapegrad=partial(on_tapegrad, spelling),
        on_jax=partial(on_jax, spelling),
        on_torch=partial(on_torch, spelling),
        sizes={
            "check": {"rows": 5, "width": 7},
            "cpu": {"rows": 1024, "width": 768},
            "cuda": {"rows": 8192, "width": 3072},
        },
        cost=cost,
        dtypes={"cpu": "float32", "cuda": "bfloat16"},
    )
    for spelling, summary in SUMMARIES.items()
}
