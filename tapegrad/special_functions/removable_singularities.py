"""Ratios with a removable singularity at 0, where a power series replaces 0 / 0."""

from __future__ import annotations

import math
from typing import Any

from tapegrad.ops.elementwise.exponential import expm1, log1p
from tapegrad.ops.elementwise.selection import where

SMALL = 0.02
"""The series replace the ratios for |x| below this."""


def power_series(x: Any, coefficients: list[float]) -> Any:
    """Evaluate a polynomial in x; the constant coefficient comes first.

    >>> power_series(2.0, [1.0, 10.0])
    21.0
    """
    y = 0.0 * x + coefficients[-1]
    for coefficient in reversed(coefficients[:-1]):
        y = y * x + coefficient
    return y


def log1p_ratio(x: Any) -> Any:
    """Return log(1 + x) / x and 1 at 0, differentiable to any order.

    >>> import tapegrad
    >>> log1p_ratio(tapegrad.constant([0.0, 1.0], "float64")).round(4).tolist()
    [1.0, 0.6931]
    """
    is_small = (x < SMALL) & (x > -SMALL)
    far = where(is_small, 1.0, x)
    near = power_series(where(is_small, x, 0.0), [(-1) ** k / (k + 1) for k in range(12)])
    return where(is_small, near, log1p(far) / far)


def expm1_ratio(x: Any) -> Any:
    """Return (exp(x) - 1) / x and 1 at 0, differentiable to any order.

    >>> import tapegrad
    >>> expm1_ratio(tapegrad.constant([0.0, 1.0], "float64")).round(4).tolist()
    [1.0, 1.7183]
    """
    is_small = (x < SMALL) & (x > -SMALL)
    far = where(is_small, 1.0, x)
    near = power_series(where(is_small, x, 0.0), [1 / math.factorial(k + 1) for k in range(9)])
    return where(is_small, near, expm1(far) / far)
