"""Bessel functions J and Y of non-negative order at positive arguments.

Both come from Sommerfeld's integral of exp(x sinh t - vt) over t = s + iφ(s), a path close to
steepest descent on which the integrand does not oscillate. For x < v, where J is much smaller than
Y, J follows from the Wronskian and the continued fraction for J(v + 1) / J(v).
"""

from __future__ import annotations

import math
from typing import Any

from tapegrad.ops.control.stop_gradient import stop_gradient
from tapegrad.ops.elementwise.exponential import exp, log
from tapegrad.ops.elementwise.powers import cbrt, sqrt
from tapegrad.ops.elementwise.selection import maximum, minimum, where
from tapegrad.ops.elementwise.special_functions import lgamma
from tapegrad.ops.elementwise.trigonometric import acos, asinh, atan, cos, sin, tanh
from tapegrad.special_functions.quadrature import CUTOFF, bisect_to_cutoff, cospi, integrate, sinpi
from tapegrad.special_functions.temme_series import is_small, y_small

_NODES, _LEVELS = 120, 120


def jy_positive(v: Any, x: Any) -> tuple[Any, Any]:
    """Return J and Y of order v >= 0 at x > 0.

    >>> from tapegrad.ops.casting.promotion import operands
    >>> [round(float(y), 6) for y in jy_positive(*operands(0.5, 2.0))]
    [0.513016, 0.234786]
    """
    is_far, is_near = x > maximum(25.0, 0.5 * v * v), is_small(v, x)
    is_else = ~(is_far | is_near)
    j, y = _middle(where(is_else, v, 1.0), where(is_else, x, 1.0))
    j_far, y_far = _far(where(is_far, v, 0.0), where(is_far, x, 30.0))
    low, tiny = where(is_near, v, 0.0), where(is_near, x, 0.25)
    j = where(is_far, j_far, where(is_near, _power_series(low, tiny), j))
    return j, where(is_far, y_far, where(is_near, y_small(low, tiny), y))


def _power_series(v: Any, x: Any) -> Any:
    term = total = exp(v * log(0.5 * x) - lgamma(v + 1))
    for k in range(1, 9):
        term = term * (-0.25 * x * x) / (k * (v + k))
        total = total + term
    return total


def _far(v: Any, x: Any) -> tuple[Any, Any]:
    """Sum Hankel's asymptotic series in 1 / x."""
    is_infinite = x == math.inf
    x = where(is_infinite, 30.0, x)
    square, term = 4 * v * v, 1.0
    even, odd = 1.0, 0.0
    for k in range(1, 25):
        term = term * (square - (2 * k - 1) ** 2) / (8 * k * x)
        sign = -1.0 if k % 4 in (2, 3) else 1.0
        even, odd = (even, odd + sign * term) if k % 2 else (even + sign * term, odd)
    turn, height = 0.5 * v + 0.25, sqrt(2 / (math.pi * x))
    # Forming the phase x - π(v/2 + 1/4) would round x, so its sine and cosine are expanded.
    down, up, cosine, sine = cospi(turn), sinpi(turn), cos(x), sin(x)
    along, across = cosine * down + sine * up, sine * down - cosine * up
    j, y = height * (even * along - odd * across), height * (even * across + odd * along)
    return where(is_infinite, 0.0, j), where(is_infinite, 0.0, y)


def _middle(v: Any, x: Any) -> tuple[Any, Any]:
    # For the orders that reach this branch, J is 0 and Y infinite well before x is this small.
    x = maximum(x, 1e-280)
    peak, *path = _path(stop_gradient(v), stop_gradient(x))
    slope, place, low, high = path
    real, imaginary, following = integrate(_integrand, low, high, _NODES, v, x, peak, slope, place)
    rise = exp(peak) / math.pi
    j, y = imaginary * rise, -real * rise
    quotient = _quotient(v, x)
    # From the Wronskian J' Y - J Y' = -2 / πx, with the large factors divided out.
    small = 2 / x * exp(-peak) / (following - quotient * real)
    is_oscillating = x >= v
    return where(is_oscillating, j, where(following > 0, small, 0.0)), y


def _integrand(s: Any, v: Any, x: Any, peak: Any, slope: Any, place: Any) -> tuple[Any, Any, Any]:
    """Return real and imaginary part of exp(x sinh t - vt) dt/ds, and the real part at v + 1."""
    rise = exp(s)
    grown, fallen = 0.5 * x * rise, 0.5 * x / rise
    turn = exp(minimum(slope * (s - place), 300.0))
    below = 1 / (1 + turn * turn)
    upright, cosine = 2 * turn * below, 2 * below - 1  # the sine and cosine of φ
    size = exp((grown - fallen) * cosine - v * s - peak)
    phase = (grown + fallen) * upright - 2 * v * atan(turn)
    along, across = size * cos(phase), size * sin(phase)
    bend = slope * upright
    real, imaginary = along - bend * across, across + bend * along
    following = (real * cosine + imaginary * upright) / rise
    return real, imaginary, following


def _path(v: Any, x: Any) -> tuple[Any, ...]:
    """Return the peak's height, k and s₀ of φ = 2 atan(e^(k (s - s₀))), and the integration limits.

    For x > v the path crosses the saddle t = i acos(v/x) at 45 degrees. For x < v the peak is at
    s = -acosh(v/x) on the real axis, and the path leaves the axis at positive s.
    """
    root = sqrt(maximum((v - x) * (v + x), 0.0))
    depth = where(x < v, log(maximum(v + root, 1e-300)) - log(x), 0.0)
    peak = v * depth - root
    angle = maximum(acos(minimum(v / maximum(x, v), 1.0)), 1 / cbrt(1 + maximum(x, v)))
    slope = 1 / sin(angle)
    place = -log(sin(0.5 * angle) / cos(0.5 * angle)) / slope
    gap = maximum(x - v, 0.0)
    reach = depth + _reach(v, root, gap) + where(gap > 0, sqrt(2 * CUTOFF * slope / x), 0.0)

    def height(s: Any) -> Any:
        swing = 0.5 * (exp(log(x) + s) - exp(log(x) - s))
        return swing * tanh(slope * (s - place)) + v * s + peak

    far = minimum(asinh(1.5 * CUTOFF / maximum(x, 1e-6)), 1.5 * CUTOFF / maximum(v, 1e-3))
    low = bisect_to_cutoff(lambda u: height(-u), depth, reach)
    high = bisect_to_cutoff(height, -depth, far + place + 2 / slope)
    return peak, slope, place, -low, high


def _reach(v: Any, root: Any, gap: Any) -> Any:
    """Return a bound for the part of the integrand to the left of the peak.

    At distance d its exponent has dropped by root (cosh d - 1) + gap sinh d + v (sinh d - d).
    """
    ratio = CUTOFF / maximum(root, 1e-3)
    by_root = log(1 + ratio + sqrt(ratio * (ratio + 2)))
    by_gap = asinh(CUTOFF / maximum(gap, 1e-3))
    return minimum(minimum(by_root, by_gap), cbrt(6 * CUTOFF / maximum(v, 1e-3)))


def _quotient(v: Any, x: Any) -> Any:
    """Return J(v + 1) / J(v) for x < v by its continued fraction."""
    y = 0.0 * x
    for k in range(_LEVELS, 0, -1):
        y = 1 / (2 * (v + k) / x - y)
    return y
