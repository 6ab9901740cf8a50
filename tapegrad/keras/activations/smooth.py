"""Smooth elementwise activations."""

from __future__ import annotations

from typing import Any

from tapegrad.core.primitive.operand import as_operand
from tapegrad.ops.elementwise import (
    activations,
    sigmoids,
    special_functions,  # noqa: F401  declares the kernel that gelu looks up by name
    trigonometric,
)
from tapegrad.ops.elementwise.exponential import exp


def linear(x: Any) -> Any:
    """Return x.

    >>> linear([-1.0, 2.0]).tolist()
    [-1.0, 2.0]
    """
    return as_operand(x)


def exponential(x: Any) -> Any:
    """Return e to the power of x.

    >>> float(exponential(0.0))
    1.0
    """
    return exp(x)


def sigmoid(x: Any) -> Any:
    """Return 1 / (1 + exp(-x)).

    >>> float(sigmoid(0.0))
    0.5
    """
    return sigmoids.sigmoid(x)


def log_sigmoid(x: Any) -> Any:
    """Return the logarithm of the sigmoid, accurate also where the sigmoid underflows.

    >>> float(log_sigmoid(-1000.0))
    -1000.0
    """
    return sigmoids.log_sigmoid(x)


def tanh(x: Any) -> Any:
    """Return the hyperbolic tangent of x.

    >>> f"{float(tanh(1.0)):.4f}"
    '0.7616'
    """
    return trigonometric.tanh(x)


def softplus(x: Any) -> Any:
    """Return log(1 + exp(x)) without overflow.

    >>> float(softplus(1000.0))
    1000.0
    """
    return sigmoids.softplus(x)


def softsign(x: Any) -> Any:
    """Return x / (1 + |x|).

    >>> float(softsign(-1.0))
    -0.5
    """
    return sigmoids.softsign(x)


def silu(x: Any) -> Any:
    """Return x * sigmoid(x), also called swish.

    >>> f"{float(silu(1.0)):.4f}"
    '0.7311'
    """
    return sigmoids.silu(x)


def mish(x: Any) -> Any:
    """Return x * tanh(softplus(x)).

    >>> f"{float(mish(1.0)):.4f}"
    '0.8651'
    """
    return sigmoids.mish(x)


def gelu(x: Any, approximate: bool = False) -> Any:
    """Return x * Φ(x), with Φ the normal distribution function, or its approximation by tanh.

    >>> f"{float(gelu(1.0)):.4f}"
    '0.8413'
    """
    return sigmoids.gelu(x, approximate)


def elu(x: Any, alpha: float = 1.0) -> Any:
    """Return x where it is positive and alpha * (exp(x) - 1) elsewhere.

    >>> f"{float(elu(-1.0)):.4f}"
    '-0.6321'
    """
    return activations.elu(x, alpha)


def celu(x: Any, alpha: float = 1.0) -> Any:
    """Return x where it is positive and alpha * (exp(x / alpha) - 1) elsewhere.

    >>> f"{float(celu(-1.0, alpha=2.0)):.4f}"
    '-0.7869'
    """
    return activations.celu(x, alpha)


def selu(x: Any) -> Any:
    """Return the scaled ELU, which drives activations towards mean 0 and variance 1.

    >>> f"{float(selu(-1.0)):.4f}"
    '-1.1113'
    """
    return activations.selu(x)
