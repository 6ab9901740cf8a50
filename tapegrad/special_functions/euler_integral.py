"""Euler's integral of t^(p-1) (1-t)^(q-1) k(t) over [0, 1] for positive p, q and k.

With t = 1 / (1 + exp(-u)) the integrand is analytic in a strip around the real axis and vanishes at
both ends, so the trapezoidal rule integrates it to full precision for all parameters. Its logarithm
is a small difference of large numbers if p and q are large, so it is computed relative to its value
at the peak, and that value relative to Stirling's formula.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from tapegrad.ops.control.stop_gradient import stop_gradient
from tapegrad.ops.elementwise.exponential import exp, expm1, log
from tapegrad.ops.elementwise.selection import maximum, minimum, where
from tapegrad.ops.elementwise.special_functions import lgamma
from tapegrad.ops.elementwise.trigonometric import asinh
from tapegrad.special_functions.quadrature import CUTOFF, bisect_to_cutoff, integrate

# The steps grow in the exponential tails: u = w + _WEIGHT sinh(w / _STRETCH).
_STRETCH, _WEIGHT = 4.0, 0.5
# Beyond this u or below its negative, exp(-u) or exp(u) is taken as constant.
_MOST = 700.0
# exp of this number is finite. From here on exp(x) - 1 grows as exp(x).
_FINITE = 700.0
_STIRLING = (1 / 12, -1 / 360, 1 / 1260, -1 / 1680, 1 / 1188, -691 / 360360, 1 / 156)
_FROM_STIRLING = 10.0

Kernel = Callable[..., Any]


def beta_expectation(
    p: Any, q: Any, log_kernel: Kernel, top: Any, span: Any, count: int, *params: Any
) -> Any:
    """Return the mean of exp(log_kernel(t, 1 - t, *params)) under the beta distribution (p, q).

    `top` is the u where the integrand peaks, `span` bounds the distance from the peak that the
    integral covers besides the tails, and `count` is the number of steps.
    """
    fixed = [stop_gradient(value) for value in (p, q, *params)]
    top = stop_gradient(minimum(maximum(top, -_MOST), _MOST))
    height = _log_kernel_at(top, log_kernel, params)
    level = stop_gradient(height)

    def fall(d: Any) -> Any:
        return level - _exponent(d, top, log_kernel, *fixed)

    left = bisect_to_cutoff(lambda s: fall(0.0 - s), 0.0, CUTOFF / fixed[0] + span)
    right = bisect_to_cutoff(fall, 0.0, CUTOFF / fixed[1] + span)

    def integrand(w: Any, p: Any, q: Any, top: Any, height: Any, *params: Any) -> tuple[Any]:
        more = exp(w / _STRETCH)
        less = 1 / more
        d = w + 0.5 * _WEIGHT * (more - less)
        stretch = 1 + 0.5 * _WEIGHT / _STRETCH * (more + less)
        return (stretch * exp(_exponent(d, top, log_kernel, p, q, *params) - height),)

    ends = -_bound_in_w(left), _bound_in_w(right)
    (total,) = integrate(integrand, *ends, count, p, q, top, height, *params)
    return total * exp(height + _log_density(top, p, q))


def _bound_in_w(reach: Any) -> Any:
    """Return a bound for the w where w + _WEIGHT sinh(w / _STRETCH) equals the reach."""
    return minimum(reach, _STRETCH * asinh(reach / _WEIGHT))


def _log_kernel_at(u: Any, log_kernel: Kernel, params: Any) -> Any:
    odds = exp(0.0 - u)
    t = 1 / (1 + odds)
    return log_kernel(t, odds * t, *params)


def _exponent(d: Any, top: Any, log_kernel: Kernel, p: Any, q: Any, *params: Any) -> Any:
    """Return the log kernel at u = top + d plus the logarithm of t^p (1-t)^q relative to u = top.

    With s = t at the top, log((1 + exp(u)) / (1 + exp(top))) = log(1 + s (exp(d) - 1)), which is
    exact for small s. If s is above 1/2, the mirrored formula has 1 - s instead.
    """
    is_left = top <= 0
    d = minimum(maximum(d, -_MOST - top), _MOST - top)
    x, slope = where(is_left, d, 0.0 - d), where(is_left, p, q)
    size = exp(0.0 - abs(top))
    size = size / (1 + size)
    beyond = maximum(x - _FINITE, 0.0)
    more = size * expm1(x - beyond)
    growth = log_of_sum(more, 1 + more) + beyond
    return _log_kernel_at(top + d, log_kernel, params) + slope * x - (p + q) * growth


def log_of_sum(x: Any, y: Any) -> Any:
    """Return log(1 + x) for a finite x, given the rounded sum y.

    This is as accurate as `log1p` and faster: y - 1 and log(y) are off by the same factor (Kahan).

    >>> from tapegrad.ops.creation import constant
    >>> x = constant(1e-20, "float64")
    >>> float(log_of_sum(x, 1 + x))
    1e-20
    """
    is_one = y == 1
    factor = stop_gradient(where(is_one, 1.0, x) / where(is_one, 1.0, y - 1))
    return where(is_one, x, factor * log(y))


def _log_density(u: Any, p: Any, q: Any) -> Any:
    """Return the logarithm of t^p (1-t)^q / B(p, q) at t = 1 / (1 + exp(-u))."""
    size = exp(0.0 - abs(u))
    less, more = size / (1 + size), 1 / (1 + size)
    t, rest = where(u <= 0, less, more), where(u <= 0, more, less)
    # At the mean p / (p + q) the density is 1 up to a factor by Stirling's formula. The linear
    # terms of both logarithms cancel.
    n, excess = p + q, t * q - rest * p
    deviance = p * _log_minus_linear(excess / p, t * (n / p))
    deviance = deviance + q * _log_minus_linear(0.0 - excess / q, rest * (n / q))
    scale = 0.5 * log(p * (q / n)) - 0.5 * math.log(2 * math.pi)
    return deviance + scale - _stirling_rest(p) - _stirling_rest(q) + _stirling_rest(n)


def _log_minus_linear(e: Any, whole: Any) -> Any:
    """Return log(1 + e) - e, given 1 + e."""
    is_small = abs(e) < 0.25
    small = where(is_small, e, 0.0)
    # log(1 + e) = 2 (v + v³ / 3 + ...) with v = e / (2 + e), and 2 v - e = -e v
    v = small / (2 + small)
    square, series = v * v, 0.0
    for k in range(10, 0, -1):
        series = (series + 1 / (2 * k + 1)) * square
    return where(is_small, 2 * v * series - small * v, log(where(is_small, 1.0, whole)) - e)


def _stirling_rest(x: Any) -> Any:
    """Return log Γ(x) minus Stirling's formula for it, (x - 1/2) log(x) - x + log(2π) / 2."""
    is_large = x > _FROM_STIRLING
    large, small = where(is_large, x, _FROM_STIRLING), where(is_large, 1.0, x)
    inverse = 1 / large
    series = 0.0
    for coefficient in reversed(_STIRLING):
        series = series * inverse * inverse + coefficient
    formula = (small - 0.5) * log(small) - small + 0.5 * math.log(2 * math.pi)
    return where(is_large, series * inverse, lgamma(small) - formula)
