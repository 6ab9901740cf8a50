"""Random draws of keras.backend, whose default dtype is the one of weights."""

from __future__ import annotations

from typing import Any

from tapegrad.core.values.variable import Variable
from tapegrad.keras.config import floatx
from tapegrad.ops.casting.cast import cast
from tapegrad.ops.nn.dropout import dropout as drop
from tapegrad.ops.random import functions as draws


def random_normal(
    shape: Any, mean: Any = 0.0, stddev: Any = 1.0, dtype: Any = None, seed: int | None = None
) -> Any:
    """Draw from normal distributions.

    >>> random_normal((2, 3)).shape
    (2, 3)
    """
    return draws.normal(shape, mean, stddev, dtype or floatx(), seed)


def truncated_normal(
    shape: Any, mean: Any = 0.0, stddev: Any = 1.0, dtype: Any = None, seed: int | None = None
) -> Any:
    """Draw from normal distributions truncated at two standard deviations.

    >>> truncated_normal((2, 3)).shape
    (2, 3)
    """
    return draws.truncated_normal(shape, mean, stddev, dtype or floatx(), seed)


def random_uniform(
    shape: Any, minval: Any = 0.0, maxval: Any = 1.0, dtype: Any = None, seed: int | None = None
) -> Any:
    """Draw uniformly from [minval, maxval).

    >>> random_uniform((2, 3)).shape
    (2, 3)
    """
    return draws.uniform(shape, minval, maxval, dtype or floatx(), seed)


def random_bernoulli(shape: Any, p: Any = 0.0, dtype: Any = None, seed: int | None = None) -> Any:
    """Draw 1 with probability `p`, and otherwise 0.

    >>> random_bernoulli((3,), p=1.0).tolist()
    [1.0, 1.0, 1.0]
    """
    return cast(draws.uniform(shape, seed=seed) < p, dtype or floatx())


def random_normal_variable(
    shape: Any,
    mean: float,
    scale: float,
    dtype: Any = None,
    name: str | None = None,
    seed: int | None = None,
) -> Any:
    """Create a variable with values from a normal distribution.

    >>> random_normal_variable((2, 3), 0.0, 1.0).shape
    (2, 3)
    """
    return Variable(random_normal(shape, mean, scale, dtype, seed), name=name)


def random_uniform_variable(
    shape: Any,
    low: float,
    high: float,
    dtype: Any = None,
    name: str | None = None,
    seed: int | None = None,
) -> Any:
    """Create a variable with values from a uniform distribution.

    >>> random_uniform_variable((2, 3), 0.0, 1.0).shape
    (2, 3)
    """
    return Variable(random_uniform(shape, low, high, dtype, seed), name=name)


def dropout(x: Any, level: float, noise_shape: Any = None, seed: int | None = None) -> Any:
    """Set elements to 0 with probability `level` and scale the others up.

    >>> dropout([1.0, 2.0], 0.0).tolist()
    [1.0, 2.0]
    """
    return drop(x, level, noise_shape, seed)
