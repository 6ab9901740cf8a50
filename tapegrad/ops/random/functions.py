"""TensorFlow's `tf.random` functions that draw from the global generator.

Parameters such as `mean` and `maxval` may be tensors and have gradients (reparameterization). Each
`seed` selects a separate stream, which `set_seed` restarts. Inside vmap every example gets
different numbers, by one draw of `[examples, *shape]`.
"""

from __future__ import annotations

from typing import Any

from tapegrad.ops.random import primitives as random_primitives
from tapegrad.ops.random.generator import source_for


def normal(
    shape: Any,
    mean: Any = 0.0,
    stddev: Any = 1.0,
    dtype: Any = "float32",
    seed: int | None = None,
    name: str | None = None,
) -> Any:
    """Draw from normal distributions; mean and stddev broadcast and have gradients.

    >>> normal([2, 3]).shape
    (2, 3)
    """
    return random_primitives.draw_normal(source_for(seed), shape, mean, stddev, dtype)


def truncated_normal(
    shape: Any,
    mean: Any = 0.0,
    stddev: Any = 1.0,
    dtype: Any = "float32",
    seed: int | None = None,
    name: str | None = None,
) -> Any:
    """Draw from normal distributions truncated at two standard deviations.

    >>> bool(abs(truncated_normal([100]).numpy()).max() <= 2)
    True
    """
    return random_primitives.draw_truncated_normal(source_for(seed), shape, mean, stddev, dtype)


def uniform(
    shape: Any,
    minval: Any = 0,
    maxval: Any = None,
    dtype: Any = "float32",
    seed: int | None = None,
    name: str | None = None,
) -> Any:
    """Draw uniformly from [minval, maxval), by default [0, 1); integer dtypes need a maxval.

    >>> uniform([2], maxval=5, dtype="int32").dtype
    <dtype: 'int32'>
    """
    return random_primitives.draw_uniform(source_for(seed), shape, minval, maxval, dtype)


def gamma(
    shape: Any,
    alpha: Any,
    beta: Any = None,
    dtype: Any = "float32",
    seed: int | None = None,
    name: str | None = None,
) -> Any:
    """Draw `shape` gamma samples for each alpha and beta (rate); both have gradients.

    >>> gamma([10], alpha=[0.5, 1.5]).shape
    (10, 2)
    """
    full = (*random_primitives.as_shape(shape), *random_primitives.parameter_shape(alpha, beta))
    return random_primitives.draw_gamma(source_for(seed), full, alpha, beta, dtype)


def poisson(
    shape: Any, lam: Any, dtype: Any = "float32", seed: int | None = None, name: str | None = None
) -> Any:
    """Draw `shape` Poisson samples for each rate in `lam`.

    >>> poisson([10], lam=[0.5, 1.5]).shape
    (10, 2)
    """
    full = (*random_primitives.as_shape(shape), *random_primitives.parameter_shape(lam))
    return random_primitives.draw_poisson(source_for(seed), full, lam, dtype)


def categorical(
    logits: Any,
    num_samples: int,
    dtype: Any = None,
    seed: int | None = None,
    name: str | None = None,
) -> Any:
    """Draw `[..., num_samples]` class indices with the probabilities softmax(logits).

    >>> categorical([[0.0, -float("inf")]], 4).tolist()
    [[0, 0, 0, 0]]
    """
    return random_primitives.draw_categorical(source_for(seed), logits, num_samples, dtype)


def shuffle(value: Any, seed: int | None = None, name: str | None = None) -> Any:
    """Return the rows of `value` in random order.

    >>> sorted(shuffle([3, 1, 2]).tolist())
    [1, 2, 3]
    """
    return random_primitives.shuffled(source_for(seed), value)
