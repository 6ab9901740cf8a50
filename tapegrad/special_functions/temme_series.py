"""Temme's series: the Bessel functions Y and K at small arguments, for orders up to 3/2.

Both are built from [a(-v) - a(v)] / v with a(v) = (x/2)^v / Γ(1 + v). Splitting log Γ(1 + v) into
its odd and even part avoids the 0/0 at v = 0.
"""

from __future__ import annotations

import math
from typing import Any

from tapegrad.ops.control.stop_gradient import stop_gradient
from tapegrad.ops.elementwise.exponential import exp, log
from tapegrad.ops.elementwise.powers import sqrt
from tapegrad.ops.elementwise.selection import where
from tapegrad.ops.elementwise.trigonometric import sin, sinc
from tapegrad.special_functions.quadrature import sinhc

# For arguments below SMALL and orders up to LOW_ORDER, _TERMS terms give full precision.
SMALL, LOW_ORDER = 0.5, 1.5
_TERMS = 9


def _zeta(s: int) -> float:
    """Return the Riemann zeta function by the Euler-Maclaurin formula."""
    n = 100
    tail = n ** (1 - s) / (s - 1) + 0.5 * n**-s + s * n ** (-s - 1) / 12
    tail -= s * (s + 1) * (s + 2) * n ** (-s - 3) / 720
    return float(sum(k**-s for k in range(1, n)) + tail)


# Coefficients of [log Γ(1 + v) - log Γ(1 - v)] / (2v) as a series in v².
_ODD_PART = [-0.57721566490153286, *(-_zeta(2 * j + 1) / (2 * j + 1) for j in range(1, 28))]


def is_small(v: Any, x: Any) -> Any:
    """Return where the series apply, for non-negative orders.

    >>> from tapegrad.ops.casting.promotion import operands
    >>> bool(is_small(*operands(0.5, 0.1)))
    True
    """
    return (x < SMALL) & (v <= LOW_ORDER)


def _start(u: Any, x: Any) -> tuple[Any, Any, Any]:
    """Return a(-u), a(u) and [a(-u) - a(u)] / u for |u| <= 1/2."""
    square, odd = u * u, 0.0
    for coefficient in reversed(_ODD_PART):
        odd = odd * square + coefficient
    rate = odd - log(0.5 * x)
    height = sqrt(sinc(u))
    difference = 2 * rate * sinhc(u * rate)
    return height * exp(u * rate), height * exp(-u * rate), height * difference


def _split(v: Any) -> tuple[Any, Any]:
    """Return whether v is above 1/2, and v reduced to [-1/2, 1/2]."""
    is_upper = stop_gradient(v) > 0.5
    return is_upper, where(is_upper, v - 1.0, v)


def y_small(v: Any, x: Any) -> Any:
    """Return Y of order v in [0, 3/2].

    >>> from tapegrad.ops.casting.promotion import operands
    >>> round(float(y_small(*operands(0.0, 0.25))), 6)
    -0.931573
    """
    is_upper, u = _split(v)
    down, up, difference = _start(u, x)
    lift = sin(0.5 * math.pi * u) * math.pi * sinc(0.5 * u)
    factor, first, second = 1.0, 0.0, 0.0
    for k in range(_TERMS):
        part = difference + lift * up
        first, second = first - factor * part, second - factor * (down - k * part)
        factor = factor * (-0.25 * x * x) / (k + 1)
        down, up, difference = _next(k + 1, u, down, up, difference)
    scale = 1 / (math.pi * sinc(u))
    return scale * where(is_upper, 2 / x * second, first)


def k_small(v: Any, x: Any) -> Any:
    """Return K of order v in [0, 3/2].

    >>> from tapegrad.ops.casting.promotion import operands
    >>> round(float(k_small(*operands(1.0, 0.25))), 6)
    3.747026
    """
    is_upper, u = _split(v)
    down, up, difference = _start(u, x)
    factor, first, second = 1.0, 0.0, 0.0
    for k in range(_TERMS):
        first, second = first + factor * difference, second + factor * (down - k * difference)
        factor = factor * (0.25 * x * x) / (k + 1)
        down, up, difference = _next(k + 1, u, down, up, difference)
    return 0.5 / sinc(u) * where(is_upper, 2 / x * second, first)


def _next(k: int, u: Any, down: Any, up: Any, difference: Any) -> tuple[Any, Any, Any]:
    """Advance the three values from Γ(k ± u) to Γ(k + 1 ± u)."""
    joined = (k * difference + down + up) / (k * k - u * u)
    return down / (k - u), up / (k + u), joined
