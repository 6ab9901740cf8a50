"""Spherical Bessel functions of integer order; the order is a Python int."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from tapegrad.errors import ArgumentError
from tapegrad.ops.elementwise.exponential import exp
from tapegrad.ops.elementwise.powers import sqrt
from tapegrad.ops.elementwise.selection import where
from tapegrad.ops.elementwise.trigonometric import cos, sin
from tapegrad.special_functions.bessel_ik import ive_positive
from tapegrad.special_functions.derivatives import in_double, with_derivatives
from tapegrad.special_functions.recurrence_limit import check_steps

Function = Callable[[int, Any], Any]


def spherical_jn(n: int, z: Any, derivative: bool = False) -> Any:
    """Return the spherical Bessel function of the first kind, or its derivative.

    >>> round(float(spherical_jn(1, 2.0)), 6)
    0.435398
    """
    return _evaluate("spherical_jn", _jn, -1, n, z, derivative)


def spherical_yn(n: int, z: Any, derivative: bool = False) -> Any:
    """Return the spherical Bessel function of the second kind, or its derivative.

    >>> round(float(spherical_yn(1, 2.0)), 6)
    -0.350612
    """
    return _evaluate("spherical_yn", _yn, -1, n, z, derivative)


def spherical_in(n: int, z: Any, derivative: bool = False) -> Any:
    """Return the modified spherical Bessel function of the first kind, or its derivative.

    >>> round(float(spherical_in(1, 2.0)), 6)
    0.974383
    """
    return _evaluate("spherical_in", _in, 1, n, z, derivative)


def spherical_kn(n: int, z: Any, derivative: bool = False) -> Any:
    """Return the modified spherical Bessel function of the second kind, or its derivative.

    >>> round(float(spherical_kn(1, 2.0)), 6)
    0.159438
    """
    return _evaluate("spherical_kn", _kn, 0, n, z, derivative)


def _evaluate(name: str, value: Function, sign: int, n: int, z: Any, derivative: bool) -> Any:
    if type(n) is not int or n < 0:
        raise ArgumentError(f"{name} needs a non-negative integer order. Got {n!r}.")
    check_steps(n, name)

    def function(n: int, x: Any) -> Any:
        return with_derivatives(lambda x: value(n, x), lambda x: slope(n, x), (), x)

    def slope(n: int, x: Any) -> Any:
        """Return (n f(n-1) ± (n+1) f(n+1)) / (2n + 1); both terms are negative for K."""
        above = function(n + 1, x)
        if n == 0:
            return above if sign > 0 else -above
        below, upper = n * function(n - 1, x), (n + 1) * above
        joined = below + upper if sign else -below - upper
        return (joined if sign >= 0 else below - upper) / (2 * n + 1)

    return in_double(lambda x: slope(n, x) if derivative else function(n, x), z)


def _upwards(n: int, x: Any, first: Any, second: Any, sign: float) -> Any:
    """Run f(k + 1) = (2k + 1)/x f(k) ± f(k - 1) upwards to order n."""
    for k in range(1, n + 1):
        first, second = second, (2 * k + 1) / x * second + sign * first
    return first


def _jn(n: int, x: Any) -> Any:
    """Use the upward recurrence for |x| > n, the downward one below, and a power series near 0."""
    size = abs(x)
    is_far, is_tiny = size > n + 0.5, size < 0.05
    far = where(is_far & (size < math.inf), size, n + 1.0)
    sine, cosine = sin(far), cos(far)
    upper = _upwards(n, far, sine / far, sine / (far * far) - cosine / far, -1.0)
    near = _jn_downwards(n, where(is_far | is_tiny, 0.5, size))
    tiny = _power_series(n, where(is_tiny, size, 0.0))
    y = where(is_far, upper, where(is_tiny, tiny, near))
    y = where(size == math.inf, 0.0, y)
    return where(x < 0, -y, y) if n % 2 else y


def _power_series(n: int, x: Any) -> Any:
    term = total = 1.0 + 0.0 * x
    for k in range(n):
        term = term * x / (2 * k + 3)
    total = term
    for k in range(1, 7):
        term = term * (-0.5 * x * x) / (k * (2 * n + 2 * k + 1))
        total = total + term
    return total


def _jn_downwards(n: int, x: Any) -> Any:
    """Run the recurrence down and normalize by the known value of order 0 or 1."""
    above, term, found = 0.0 * x, 0.0 * x + 1e-30, 0.0 * x
    for k in range(n + 30 + int(6 * math.sqrt(n)), 0, -1):
        above, term = term, (2 * k + 1) / x * term - above
        if k - 1 == n:
            found = term
        factor = where(abs(term) > 1e10, 1e-10, 1.0)
        above, term, found = above * factor, term * factor, found * factor
    sine = sin(x)
    zeroth, first = sine / x, (sine / x - cos(x)) / x
    is_zeroth = abs(zeroth) > abs(first)
    return found * where(is_zeroth, zeroth, first) / where(is_zeroth, term, above)


def _yn(n: int, x: Any) -> Any:
    size = abs(x)
    is_outside = (size == 0) | (size == math.inf)
    inside = where(is_outside, 1.0, size)
    sine, cosine = sin(inside), cos(inside)
    second = -cosine / (inside * inside) - sine / inside
    y = _upwards(n, inside, -cosine / inside, second, -1.0)
    y = where(size == 0, -math.inf, where(size == math.inf, 0.0, y))
    return y if n % 2 else where(x < 0, -y, y)


def _in(n: int, x: Any) -> Any:
    size = abs(x)
    is_tiny = size < 1e-8
    inside = where(is_tiny, 1.0, size)
    half = exp(0.5 * inside)
    y = sqrt(0.5 * math.pi / inside) * ive_positive(0.0 * x + (n + 0.5), inside) * half * half
    tiny = _power_series(n, where(is_tiny, size, 0.0))
    y = where(is_tiny, tiny, where(size == math.inf, math.inf, y))
    return where(x < 0, -y, y) if n % 2 else y


def _kn(n: int, x: Any) -> Any:
    is_inside = (x != 0) & (abs(x) < math.inf)
    inside = where(is_inside, x, 1.0)
    first = 0.5 * math.pi * exp(-inside) / inside
    y = _upwards(n, inside, first, first * (1 + 1 / inside), 1.0)
    at_ends = where(x == 0, math.inf, where(x > 0, 0.0, math.nan + 0.0 * y))
    return where(is_inside, y, at_ends)
