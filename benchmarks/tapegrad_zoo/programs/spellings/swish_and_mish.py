"""A gate: swish of one array times mish of another; gradients by both."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from tapegrad_zoo.program import Arrays, Cost, Dims, Half, Kind, Program, Values

SUMMARIES = {
    "library": "by the library's functions",
    "by_hand": "with sigmoid, tanh and softplus",
    "by_exp": "with exp, log and tanh",
    "rational": "swish with tanh, mish with one exp",
}


def make(rng: np.random.Generator, dims: Dims) -> tuple[Values, Values]:
    shape = dims["rows"], dims["width"]
    params = {"x": rng.standard_normal(shape), "y": rng.standard_normal(shape)}
    return params, {"weights": 0.5 + rng.standard_normal(shape)}


def on_tapegrad(spelling: str, dims: Dims, half: Half) -> Callable[[Arrays, Arrays], Any]:
    import tapegrad as tf

    def by_hand(x: Any, y: Any) -> Any:
        return (x * tf.sigmoid(x)) * (y * tf.tanh(tf.nn.softplus(y)))

    def by_exp(x: Any, y: Any) -> Any:
        return x / (1.0 + tf.exp(-x)) * (y * tf.tanh(tf.math.log(1.0 + tf.exp(y))))

    def rational(x: Any, y: Any) -> Any:
        e = tf.exp(y)
        n = e * (e + 2.0)
        return 0.5 * x * (1.0 + tf.tanh(0.5 * x)) * y * n / (n + 2.0)

    spellings: dict[str, Callable[..., Any]] = {
        "library": lambda x, y: tf.nn.swish(x) * tf.nn.mish(y),
        "by_hand": by_hand,
        "by_exp": by_exp,
        "rational": rational,
    }
    gate = spellings[spelling]

    def loss(params: Arrays, batch: Arrays) -> Any:
        result = gate(half(params["x"]), half(params["y"]))
        return tf.reduce_mean(tf.cast(result, batch["weights"].dtype) * batch["weights"])

    return loss


def on_jax(spelling: str, dims: Dims, half: Half) -> Callable[[Arrays, Arrays], Any]:
    import jax
    import jax.numpy as jnp

    def by_hand(x: Any, y: Any) -> Any:
        return (x * jax.nn.sigmoid(x)) * (y * jnp.tanh(jax.nn.softplus(y)))

    def by_exp(x: Any, y: Any) -> Any:
        return x / (1.0 + jnp.exp(-x)) * (y * jnp.tanh(jnp.log(1.0 + jnp.exp(y))))

    def rational(x: Any, y: Any) -> Any:
        e = jnp.exp(y)
        n = e * (e + 2.0)
        return 0.5 * x * (1.0 + jnp.tanh(0.5 * x)) * y * n / (n + 2.0)

    spellings: dict[str, Callable[..., Any]] = {
        "library": lambda x, y: jax.nn.swish(x) * jax.nn.mish(y),
        "by_hand": by_hand,
        "by_exp": by_exp,
        "rational": rational,
    }
    gate = spellings[spelling]

    def loss(params: Arrays, batch: Arrays) -> Any:
        result = gate(half(params["x"]), half(params["y"]))
        return jnp.mean(result.astype(batch["weights"].dtype) * batch["weights"])

    return loss


def on_torch(spelling: str, dims: Dims, half: Half) -> Callable[[Arrays, Arrays], Any]:
    import torch
    from torch.nn import functional

    def by_hand(x: Any, y: Any) -> Any:
        return (x * torch.sigmoid(x)) * (y * torch.tanh(functional.softplus(y)))

    def by_exp(x: Any, y: Any) -> Any:
        return x / (1.0 + torch.exp(-x)) * (y * torch.tanh(torch.log(1.0 + torch.exp(y))))

    def rational(x: Any, y: Any) -> Any:
        e = torch.exp(y)
        n = e * (e + 2.0)
        return 0.5 * x * (1.0 + torch.tanh(0.5 * x)) * y * n / (n + 2.0)

    spellings: dict[str, Callable[..., Any]] = {
        "library": lambda x, y: functional.silu(x) * functional.mish(y),
        "by_hand": by_hand,
        "by_exp": by_exp,
        "rational": rational,
    }
    gate = spellings[spelling]

    def loss(params: Arrays, batch: Arrays) -> Any:
        result = gate(half(params["x"]), half(params["y"]))
        return torch.mean(result.to(batch["weights"].dtype) * batch["weights"])

    return loss


def cost(dims: Dims) -> Cost:
    """Both arrays and the weights are read and two gradients are written once."""
    cells = dims["rows"] * dims["width"]
    return Cost(bytes=20.0 * cells, operations=30.0 * cells)


SPELLINGS = {
    spelling: Program(
        summary=f"swish times mish and its gradients, {summary}",
        kind=Kind.GRADIENT,
        make=make,
        on_tapegrad=partial(on_tapegrad, spelling),
        on_jax=partial(on_jax, spelling),
        on_torch=partial(on_torch, spelling),
        sizes={
            "check": {"rows": 5, "width": 7},
            "cpu": {"rows": 512, "width": 768},
            "cuda": {"rows": 8192, "width": 3072},
        },
        cost=cost,
        dtypes={"cpu": "float32", "cuda": "bfloat16"},
    )
    for spelling, summary in SUMMARIES.items()
}
