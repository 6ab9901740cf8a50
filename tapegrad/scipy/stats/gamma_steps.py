"""Differences of log-gamma and digamma functions, without cancellation for large numbers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from tapegrad.scipy.vocabulary import (
    digamma,
    lgamma,
    log,
    log1p,
    maximum,
    minimum,
    where,
)

_FAR = 100.0
"""Above this, differences of gamma functions come from their asymptotic series."""


def _series(x: Any, step: float, coefficients: Sequence[float], first: int) -> Any:
    """Return the sum of c_k ((x + step)^-k - x^-k) with k = first, first + 2, ..."""
    one, two = 1 / (x + step), 1 / x
    parts = [
        c * (one ** (first + 2 * k) - two ** (first + 2 * k)) for k, c in enumerate(coefficients)
    ]
    return sum(parts[1:], parts[0])


def _log1p_lack(u: Any) -> Any:
    """Return log1p(u) / u - 1 for positive u."""
    low, high = minimum(u, 1e-3), maximum(u, 1e-3)
    small = low * (-1 / 2 + low * (1 / 3 - low * (1 / 4 - low * (1 / 5 - low / 6))))
    return where(u < 1e-3, small, log1p(high) / high - 1)


def gamma_step(x: Any, step: float) -> Any:
    """Return log Γ(x + step) - log Γ(x) - step log(x), which is small for large x.

    >>> from tapegrad.ops.casting.promotion import operand
    >>> float(gamma_step(operand(1e20), 0.5))
    -1.25e-21
    """
    far, near = maximum(x, _FAR), minimum(x, _FAR)
    large = (step - 0.5) * log1p(step / far) + step * _log1p_lack(step / far)
    large = large + _series(far, step, (1 / 12, -1 / 360, 1 / 1260), 1)
    return where(x > _FAR, large, lgamma(near + step) - lgamma(near) - step * log(near))


def digamma_step(x: Any, step: float) -> Any:
    """Return ψ(x + step) - ψ(x).

    >>> from tapegrad.ops.casting.promotion import operand
    >>> float(digamma_step(operand(1e20), 0.5))
    5e-21
    """
    far, near = maximum(x, _FAR), minimum(x, _FAR)
    large = log1p(step / far) - 0.5 * _series(far, step, (1.0,), 1)
    large = large - _series(far, step, (1 / 12, -1 / 120, 1 / 252), 2)
    return where(x > _FAR, large, digamma(near + step) - digamma(near))


def chi_entropy(half: Any) -> Any:
    """Return log Γ(x) + x - log(2) / 2 - (x - 1/2) ψ(x), the entropy of the chi distribution.

    >>> from tapegrad.ops.casting.promotion import operand
    >>> round(float(chi_entropy(operand(1e20))), 6)
    1.072365
    """
    far, near = maximum(half, _FAR), minimum(half, _FAR)
    one = 1 / far
    square = one * one
    large = 0.5 * math.log(math.pi) + one * (1 / 12 - square * (1 / 360 - square / 1260))
    slope = 0.5 * one + square * (1 / 12 - square * (1 / 120 - square / 252))
    large = large + (far - 0.5) * slope
    small = lgamma(near) + near - 0.5 * math.log(2) - (near - 0.5) * digamma(near)
    return where(half > _FAR, large, small)
