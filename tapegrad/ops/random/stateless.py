"""TensorFlow's `tf.random.stateless_*` functions: a seed pair determines the numbers.

Inside vmap all examples get the same numbers unless the seed is batched.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tapegrad.core.primitive.operand import as_operand
from tapegrad.core.values.convert import to_tensor
from tapegrad.errors import ShapeError
from tapegrad.ops.casting.cast import cast
from tapegrad.ops.random import primitives as random_primitives

_WORD = 1 << 64


class SeedPair:
    """A seed pair as the source of one draw."""

    spreads = False

    def __init__(self, seed: Any) -> None:
        if isinstance(seed, list | tuple) and all(isinstance(n, int) for n in seed):
            seed = np.array([n % _WORD for n in seed], np.uint64)
        pair = as_operand(seed)
        if pair.shape != (2,):
            raise ShapeError(
                f"A stateless seed must be a pair of integers. Got shape {pair.shape}."
            )
        self.state = pair if pair.dtype == np.uint64 else cast(pair, "uint64")

    def take(self) -> Any:
        return self.state


def stateless_normal(
    shape: Any,
    seed: Any,
    mean: Any = 0.0,
    stddev: Any = 1.0,
    dtype: Any = "float32",
    name: str | None = None,
    alg: Any = "auto_select",
) -> Any:
    """Draw from normal distributions.

    >>> stateless_normal([2], seed=[1, 2]).shape
    (2,)
    """
    return random_primitives.draw_normal(SeedPair(seed), shape, mean, stddev, dtype)


def stateless_truncated_normal(
    shape: Any,
    seed: Any,
    mean: Any = 0.0,
    stddev: Any = 1.0,
    dtype: Any = "float32",
    name: str | None = None,
    alg: Any = "auto_select",
) -> Any:
    """Draw from normal distributions truncated at two standard deviations.

    >>> stateless_truncated_normal([2], seed=[1, 2]).shape
    (2,)
    """
    return random_primitives.draw_truncated_normal(SeedPair(seed), shape, mean, stddev, dtype)


def stateless_uniform(
    shape: Any,
    seed: Any,
    minval: Any = 0,
    maxval: Any = None,
    dtype: Any = "float32",
    name: str | None = None,
    alg: Any = "auto_select",
) -> Any:
    """Draw uniformly from [minval, maxval); with both None, from all values of an integer dtype.

    >>> stateless_uniform([2], seed=[1, 2], maxval=9, dtype="int32").dtype
    <dtype: 'int32'>
    """
    if minval is None and maxval is None:
        return random_primitives.draw_full_int(SeedPair(seed), shape, dtype)
    return random_primitives.draw_uniform(SeedPair(seed), shape, minval, maxval, dtype)


def stateless_gamma(
    shape: Any,
    seed: Any,
    alpha: Any,
    beta: Any = None,
    dtype: Any = "float32",
    name: str | None = None,
) -> Any:
    """Draw a tensor of `shape` from gamma distributions; alpha and beta broadcast to it.

    >>> stateless_gamma([10, 2], seed=[1, 2], alpha=[0.5, 1.5]).shape
    (10, 2)
    """
    return random_primitives.draw_gamma(
        SeedPair(seed), random_primitives.as_shape(shape), alpha, beta, dtype
    )


def stateless_poisson(
    shape: Any, seed: Any, lam: Any, dtype: Any = "int32", name: str | None = None
) -> Any:
    """Draw a tensor of `shape` from Poisson distributions; the rates broadcast to it.

    >>> stateless_poisson([10, 2], seed=[1, 2], lam=[0.5, 1.5]).dtype
    <dtype: 'int32'>
    """
    return random_primitives.draw_poisson(
        SeedPair(seed), random_primitives.as_shape(shape), lam, dtype
    )


def stateless_categorical(
    logits: Any, num_samples: int, seed: Any, dtype: Any = "int64", name: str | None = None
) -> Any:
    """Draw `[..., num_samples]` class indices with the probabilities softmax(logits).

    >>> stateless_categorical([[0.0, -float("inf")]], 3, seed=[1, 2]).tolist()
    [[0, 0, 0]]
    """
    return random_primitives.draw_categorical(SeedPair(seed), logits, num_samples, dtype)


def stateless_shuffle(
    value: Any, seed: Any, alg: Any = "auto_select", name: str | None = None
) -> Any:
    """Return the rows of `value` in a random order determined by the seed.

    >>> sorted(stateless_shuffle([3, 1, 2], seed=[1, 2]).tolist())
    [1, 2, 3]
    """
    return random_primitives.shuffled(SeedPair(seed), value)


def split(seed: Any, num: int = 2, alg: Any = "auto_select") -> Any:
    """Return `num` new seed pairs as rows, independent of each other and of `seed`.

    >>> split([1, 2], num=3).shape
    (3, 2)
    """
    return random_primitives.draw_full_int(SeedPair(seed), (num, 2), "int64")


def fold_in(seed: Any, data: Any, alg: Any = "auto_select") -> Any:
    """Return a new seed pair that depends on `seed` and on a number, such as a step count.

    >>> fold_in([1, 2], 5).shape
    (2,)
    """
    scattered = random_primitives.draw_full_int(SeedPair(seed), (2,), "uint64")
    number = data if not isinstance(data, int) else np.array(data % _WORD, np.uint64)
    number = cast(as_operand(number), "uint64")
    # Add to the first word only: the result is then a draw with another key at the same offset.
    mask = to_tensor(np.array([1, 0], np.uint64), like=None)
    return random_primitives.draw_full_int(SeedPair(scattered + number * mask), (2,), "int64")
