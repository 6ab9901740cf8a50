"""The cross entropy of independent labels, weighted and averaged; gradient by the logits."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from tapegrad_zoo.program import Arrays, Cost, Dims, Half, Kind, Program, Values

SUMMARIES = {
    "library": "by the library's function",
    "by_softplus": "as softplus minus a product",
    "by_log_sigmoid": "with two log-sigmoids",
    "by_hand": "by hand: maximum, absolute value, exp, log1p",
    "by_probability": "with logarithms of the probability",
}


def make(rng: np.random.Generator, dims: Dims) -> tuple[Values, Values]:
    shape = dims["rows"], dims["columns"]
    batch = {"labels": rng.uniform(0.0, 1.0, shape), "weights": rng.uniform(0.5, 1.5, shape)}
    return {"logits": rng.standard_normal(shape)}, batch


def on_tapegrad(spelling: str, dims: Dims, half: Half) -> Callable[[Arrays, Arrays], Any]:
    import tapegrad as tf

    def library(x: Any, labels: Any) -> Any:
        return tf.nn.sigmoid_cross_entropy_with_logits(labels=labels, logits=x)

    def by_softplus(x: Any, labels: Any) -> Any:
        return tf.nn.softplus(x) - x * labels

    def by_log_sigmoid(x: Any, labels: Any) -> Any:
        return -labels * tf.math.log_sigmoid(x) - (1.0 - labels) * tf.math.log_sigmoid(-x)

    def by_hand(x: Any, labels: Any) -> Any:
        return tf.maximum(x, 0.0) - x * labels + tf.math.log1p(tf.exp(-tf.abs(x)))

    def by_probability(x: Any, labels: Any) -> Any:
        p = tf.sigmoid(x)
        return -labels * tf.math.log(p) - (1.0 - labels) * tf.math.log(1.0 - p)

    spellings: dict[str, Callable[..., Any]] = {
        "library": library,
        "by_softplus": by_softplus,
        "by_log_sigmoid": by_log_sigmoid,
        "by_hand": by_hand,
        "by_probability": by_probability,
    }
    cross_entropy = spellings[spelling]

    def loss(params: Arrays, batch: Arrays) -> Any:
        return tf.reduce_mean(cross_entropy(params["logits"], batch["labels"]) * batch["weights"])

    return loss


def on_jax(spelling: str, dims: Dims, half: Half) -> Callable[[Arrays, Arrays], Any]:
    import jax
    import jax.numpy as jnp

    def by_softplus(x: Any, labels: Any) -> Any:
        return jax.nn.softplus(x) - x * labels

    def by_log_sigmoid(x: Any, labels: Any) -> Any:
        return -labels * jax.nn.log_sigmoid(x) - (1.0 - labels) * jax.nn.log_sigmoid(-x)

    def by_hand(x: Any, labels: Any) -> Any:
        return jnp.maximum(x, 0.0) - x * labels + jnp.log1p(jnp.exp(-jnp.abs(x)))

    def by_probability(x: Any, labels: Any) -> Any:
        p = jax.nn.sigmoid(x)
        return -labels * jnp.log(p) - (1.0 - labels) * jnp.log(1.0 - p)

    spellings: dict[str, Callable[..., Any]] = {
        "library": by_softplus,  # JAX has no function of this kind
        "by_softplus": by_softplus,
        "by_log_sigmoid": by_log_sigmoid,
        "by_hand": by_hand,
        "by_probability": by_probability,
    }
    cross_entropy = spellings[spelling]

    def loss(params: Arrays, batch: Arrays) -> Any:
        return jnp.mean(cross_entropy(params["logits"], batch["labels"]) * batch["weights"])

    return loss


def on_torch(spelling: str, dims: Dims, half: Half) -> Callable[[Arrays, Arrays], Any]:
    import torch
    from torch.nn import functional

    def by_softplus(x: Any, labels: Any) -> Any:
        return functional.softplus(x) - x * labels

    def by_log_sigmoid(x: Any, labels: Any) -> Any:
        return -labels * functional.logsigmoid(x) - (1.0 - labels) * functional.logsigmoid(-x)

    def by_hand(x: Any, labels: Any) -> Any:
        return torch.clamp_min(x, 0.0) - x * labels + torch.log1p(torch.exp(-torch.abs(x)))

    def by_probability(x: Any, labels: Any) -> Any:
        p = torch.sigmoid(x)
        return -labels * torch.log(p) - (1.0 - labels) * torch.log(1.0 - p)

    spellings: dict[str, Callable[..., Any]] = {
        "library": partial(functional.binary_cross_entropy_with_logits, reduction="none"),
        "by_softplus": by_softplus,
        "by_log_sigmoid": by_log_sigmoid,
        "by_hand": by_hand,
        "by_probability": by_probability,
    }
    cross_entropy = spellings[spelling]

    def loss(params: Arrays, batch: Arrays) -> Any:
        return torch.mean(cross_entropy(params["logits"], batch["labels"]) * batch["weights"])

    return loss


def cost(dims: Dims) -> Cost:
    """Logits, labels and weights are read and the gradient is written once."""
    cells = dims["rows"] * dims["columns"]
    return Cost(bytes=16.0 * cells, operations=16.0 * cells)


SPELLINGS = {
    spelling: Program(
        summary=f"sigmoid cross entropy and its gradient, {summary}",
        kind=Kind.GRADIENT,
        make=make,
        on_tapegrad=partial(on_tapegrad, spelling),
        on_jax=partial(on_jax, spelling),
        on_torch=partial(on_torch, spelling),
        sizes={
            "check": {"rows": 5, "columns": 7},
            "cpu": {"rows": 1024, "columns": 768},
            "cuda": {"rows": 8192, "columns": 3072},
        },
        cost=cost,
    )
    for spelling, summary in SUMMARIES.items()
}
