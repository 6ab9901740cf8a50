"""Squared differences of probabilities from one-hot labels; gradient by the scores."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from tapegrad_zoo.program import Arrays, Cost, Dims, Half, Kind, Program, Values

SUMMARIES = {
    "library": "by the library's function",
    "comparison": "labels compared with a range",
    "identity_rows": "rows of the identity matrix",
    "scatter": "ones written into zeros",
}


def make(rng: np.random.Generator, dims: Dims) -> tuple[Values, Values]:
    params = {"x": rng.standard_normal((dims["rows"], dims["classes"]))}
    return params, {"labels": rng.integers(0, dims["classes"], dims["rows"])}


def on_tapegrad(spelling: str, dims: Dims, half: Half) -> Callable[[Arrays, Arrays], Any]:
    import tapegrad as tf

    classes = dims["classes"]

    def comparison(labels: Any, dtype: Any) -> Any:
        return tf.cast(labels[:, None] == tf.range(classes, dtype=labels.dtype), dtype)

    def identity_rows(labels: Any, dtype: Any) -> Any:
        return tf.gather(tf.eye(classes, dtype=dtype), labels)

    def scatter(labels: Any, dtype: Any) -> Any:
        places = tf.stack([tf.range(dims["rows"], dtype=labels.dtype), labels], axis=1)
        ones = tf.ones((dims["rows"],), dtype)
        return tf.scatter_nd(places, ones, (dims["rows"], classes))

    spellings: dict[str, Callable[..., Any]] = {
        "library": partial(tf.one_hot, depth=classes),
        "comparison": comparison,
        "identity_rows": identity_rows,
        "scatter": scatter,
    }
    one_hot = spellings[spelling]

    def loss(params: Arrays, batch: Arrays) -> Any:
        x = params["x"]
        return tf.reduce_mean((tf.sigmoid(x) - one_hot(batch["labels"], dtype=x.dtype)) ** 2)

    return loss


def on_jax(spelling: str, dims: Dims, half: Half) -> Callable[[Arrays, Arrays], Any]:
    import jax
    import jax.numpy as jnp

    classes = dims["classes"]

    def comparison(labels: Any, dtype: Any) -> Any:
        return (labels[:, None] == jnp.arange(classes)).astype(dtype)

    def identity_rows(labels: Any, dtype: Any) -> Any:
        return jnp.eye(classes, dtype=dtype)[labels]

    def scatter(labels: Any, dtype: Any) -> Any:
        zeros = jnp.zeros((dims["rows"], classes), dtype)
        return zeros.at[jnp.arange(dims["rows"]), labels].set(1.0)

    spellings: dict[str, Callable[..., Any]] = {
        "library": partial(jax.nn.one_hot, num_classes=classes),
        "comparison": comparison,
        "identity_rows": identity_rows,
        "scatter": scatter,
    }
    one_hot = spellings[spelling]

    def loss(params: Arrays, batch: Arrays) -> Any:
        x = params["x"]
        return jnp.mean((jax.nn.sigmoid(x) - one_hot(batch["labels"], dtype=x.dtype)) ** 2)

    return loss


def on_torch(spelling: str, dims: Dims, half: Half) -> Callable[[Arrays, Arrays], Any]:
    import torch
    from torch.nn import functional

    classes = dims["classes"]

    def comparison(labels: Any, dtype: Any) -> Any:
        return (labels[:, None] == torch.arange(classes, device=labels.device)).to(dtype)

    def identity_rows(labels: Any, dtype: Any) -> Any:
        return torch.eye(classes, dtype=dtype, device=labels.device)[labels]

    def scatter(labels: Any, dtype: Any) -> Any:
        zeros = torch.zeros(dims["rows"], classes, dtype=dtype, device=labels.device)
        return zeros.scatter(1, labels[:, None], 1.0)

    spellings: dict[str, Callable[..., Any]] = {
        "library": lambda labels, dtype: functional.one_hot(labels, classes).to(dtype),
        "comparison": comparison,
        "identity_rows": identity_rows,
        "scatter": scatter,
    }
    one_hot = spellings[spelling]

    def loss(params: Arrays, batch: Arrays) -> Any:
        x = params["x"]
        return torch.mean((torch.sigmoid(x) - one_hot(batch["labels"], dtype=x.dtype)) ** 2)

    return loss


def cost(dims: Dims) -> Cost:
    """The scores are read and their gradient is written once."""
    cells = dims["rows"] * dims["classes"]
    return Cost(bytes=8.0 * cells, operations=10.0 * cells)


SPELLINGS = {
    spelling: Program(
        summary=f"squared error from one-hot labels and its gradient, {summary}",
        kind=Kind.GRADIENT,
        make=make,
        on_tapegrad=partial(on_tapegrad, spelling),
        on_jax=partial(on_jax, spelling),
        on_torch=partial(on_torch, spelling),
        sizes={
            "check": {"rows": 5, "classes": 7},
            "cpu": {"rows": 1024, "classes": 1000},
            "cuda": {"rows": 16384, "classes": 4096},
        },
        cost=cost,
    )
    for spelling, summary in SUMMARIES.items()
}
