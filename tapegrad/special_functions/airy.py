"""Airy functions, from power series near 0 and Bessel functions of order 1/3 and 2/3."""

from __future__ import annotations

import math
from typing import Any

from tapegrad.autodiff.custom_gradient import custom_gradient
from tapegrad.ops.control.stop_gradient import stop_gradient
from tapegrad.ops.elementwise.exponential import exp
from tapegrad.ops.elementwise.powers import sqrt
from tapegrad.ops.elementwise.selection import where
from tapegrad.special_functions.bessel_ik import ive_positive, kve_positive
from tapegrad.special_functions.bessel_jy import jy_positive
from tapegrad.special_functions.derivatives import in_double

_AI, _SLOPE = 0.35502805388781723926, 0.25881940379280679841
_ROOT_THREE = math.sqrt(3)


def airy(z: Any) -> tuple[Any, Any, Any, Any]:
    """Return the Airy functions and their derivatives: Ai, Ai', Bi and Bi'.

    >>> [round(float(y), 6) for y in airy(1.0)]
    [0.135292, -0.159147, 1.207424, 0.932436]
    """
    values: tuple[Any, Any, Any, Any] = in_double(_airy, z)
    return values


@custom_gradient
def _airy(x: Any) -> Any:
    def slope(first: Any, second: Any, third: Any, fourth: Any) -> Any:
        ai, ai_slope, bi, bi_slope = _airy(x)
        return first * ai_slope + second * x * ai + third * bi_slope + fourth * x * bi

    return _values(stop_gradient(x)), slope


def _values(x: Any) -> tuple[Any, Any, Any, Any]:
    size = abs(x)
    is_near, is_infinite = size < 1, size == math.inf
    near = _near(where(is_near, x, 0.0))
    outside = where(is_near | is_infinite, 2.0, size)
    right, left = _right(outside), _left(outside)
    at_infinity = (0.0, 0.0, math.inf, math.inf)
    at_left_end = (0.0, math.nan, 0.0, math.nan)
    parts = [
        where(is_infinite, where(x > 0, end, left_end), where(is_near, a, where(x > 0, b, c)))
        for a, b, c, end, left_end in zip(near, right, left, at_infinity, at_left_end, strict=True)
    ]
    return parts[0], parts[1], parts[2], parts[3]


def _near(x: Any) -> tuple[Any, Any, Any, Any]:
    """Sum the power series in x³ of Ai, Ai', Bi and Bi'."""
    cube = x * x * x
    even, odd, even_slope, odd_slope = 1.0, 1.0, 1.0, 1.0
    for k in range(9, 0, -1):
        even = 1 + even * cube / ((3 * k - 1) * (3 * k))
        odd = 1 + odd * cube / ((3 * k) * (3 * k + 1))
        even_slope = 1 + even_slope * cube / ((3 * k) * (3 * k + 2))
        odd_slope = 1 + odd_slope * cube / ((3 * k - 2) * (3 * k))
    f, g = _AI * even, _SLOPE * x * odd
    f_slope, g_slope = _AI * 0.5 * x * x * even_slope, _SLOPE * odd_slope
    return f - g, f_slope - g_slope, _ROOT_THREE * (f + g), _ROOT_THREE * (f_slope + g_slope)


def _right(x: Any) -> tuple[Any, Any, Any, Any]:
    root = sqrt(x)
    zeta = 2 / 3 * x * root
    third, two_thirds = 0.0 * x + 1 / 3, 0.0 * x + 2 / 3
    k, k_slope = kve_positive(third, zeta), kve_positive(two_thirds, zeta)
    # I(-v) = I(v) + 2/π sin(πv) K(v), and 2 sin(πv) is √3 for both orders.
    lift = _ROOT_THREE / math.pi * exp(-2 * zeta)
    i, i_slope = ive_positive(third, zeta), ive_positive(two_thirds, zeta)
    # Multiply by exp(zeta / 2) twice: exp(zeta) overflows before the products do.
    fallen, half = exp(-zeta), exp(0.5 * zeta)
    ai, ai_slope = root * k * fallen, -x * k_slope * fallen
    bi, bi_slope = root * (2 * i + lift * k), x * (2 * i_slope + lift * k_slope)
    scale = 1 / (math.pi * _ROOT_THREE)
    return scale * ai, scale * ai_slope, *(y / _ROOT_THREE * half * half for y in (bi, bi_slope))


def _left(x: Any) -> tuple[Any, Any, Any, Any]:
    """Return the values at -x; the reflection formula gives the functions of order -v."""
    root = sqrt(x)
    zeta = 2 / 3 * x * root
    j, y = jy_positive(0.0 * x + 1 / 3, zeta)
    j_slope, y_slope = jy_positive(0.0 * x + 2 / 3, zeta)
    half, high = 0.5, 0.5 * _ROOT_THREE
    reflected, reflected_slope = half * j - high * y, -half * j_slope - high * y_slope
    ai, bi = root / 3 * (reflected + j), root / _ROOT_THREE * (reflected - j)
    ai_slope, bi_slope = (
        x / 3 * (j_slope - reflected_slope),
        x / _ROOT_THREE * (reflected_slope + j_slope),
    )
    return ai, ai_slope, bi, bi_slope
