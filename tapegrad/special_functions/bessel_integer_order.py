"""Bessel functions of integer order; the order is a Python int.

Each recurrence runs in its numerically stable direction. The derivatives use the neighbouring
orders and do not differentiate the recurrence.
"""

from __future__ import annotations

import math
from typing import Any

from tapegrad.errors import ArgumentError
from tapegrad.ops.casting.promotion import operand
from tapegrad.ops.elementwise.bessel import (
    bessel_i0e,
    bessel_j0,
    bessel_j1,
    bessel_k0,
    bessel_k1,
    bessel_y0,
    bessel_y1,
)
from tapegrad.ops.elementwise.comparison import isnan
from tapegrad.ops.elementwise.exponential import exp, log
from tapegrad.ops.elementwise.magnitude import sign
from tapegrad.ops.elementwise.selection import maximum, where
from tapegrad.special_functions.arrays_of_orders import for_each_order, is_array_of_orders
from tapegrad.special_functions.derivatives import with_derivatives
from tapegrad.special_functions.recurrence_limit import check_steps


def _order(n: Any, name: str) -> int:
    if not isinstance(n, int | float) or int(n) != n:
        raise ArgumentError(f"{name} needs an integer order. Got {n!r}.")
    return check_steps(int(n), name)


def _upwards(n: int, x: Any, first: Any, second: Any, sign_of_last: float) -> Any:
    """Run f(k + 1) = 2k/x f(k) ± f(k - 1) upwards from orders 0 and 1 to n."""
    if n == 0:
        return first
    for k in range(1, n):
        first, second = second, 2 * k / x * second + sign_of_last * first
    return second


def yn(n: Any, x: Any) -> Any:
    """Return the Bessel function Yₙ of integer order.

    >>> round(float(yn(2, 1.0)), 6)
    -1.650683
    """
    if is_array_of_orders(n):
        return for_each_order(yn, n, x, "yn")
    n, x = _order(n, "yn"), operand(x)
    if n < 0:
        return (-1) ** n * yn(-n, x)
    is_zero = x == 0
    inside = where(is_zero, 1.0, x)
    y = _upwards(n, inside, bessel_y0(inside), bessel_y1(inside), -1.0)
    # The recurrence subtracts infinities at 0, and where it overflows.
    return where(is_zero | ((x > 0) & isnan(y)), -math.inf, y)


def kn(n: int, x: Any) -> Any:
    """Return the modified Bessel function Kₙ of integer order.

    >>> round(float(kn(2, 1.0)), 6)
    1.624839
    """
    n, x = abs(_order(n, "kn")), operand(x)
    x = where(x == 0, 0.0, x)  # without the sign of a zero
    return _upwards(n, x, bessel_k0(x), bessel_k1(x), 1.0)


def jn(v: int, z: Any) -> Any:
    """Return the Bessel function Jₙ of integer order.

    >>> round(float(jn(3, 2.0)), 6)
    0.128943
    """
    n, x = _order(v, "jn"), operand(z)
    if n < 0:
        return (-1) ** n * jn(-n, x)
    if n < 2:
        return bessel_j1(x) if n else bessel_j0(x)
    return with_derivatives(
        lambda x: _jn(n, x), lambda x: 0.5 * (jn(n - 1, x) - jn(n + 1, x)), (), x
    )


def _jn(n: int, x: Any) -> Any:
    """Use the upward recurrence for |x| > n, the downward one below, and a power series near 0."""
    size = abs(x)
    is_far, is_tiny = size > n, size < 1e-3
    far = _upwards(n, where(is_far, x, 1.0), bessel_j0(x), bessel_j1(x), -1.0)
    near = _jn_downwards(n, where(is_far | is_tiny, 1.0, x))
    log_size = log(0.5 * where(is_tiny & (size > 0), size, 1.0))
    tiny = exp(n * log_size - math.lgamma(n + 1)) * (1 - 0.25 * x * x / (n + 1))
    tiny = where(size > 0, tiny * sign(x) ** n, 0.0)
    return where(is_far, far, where(is_tiny, tiny, near))


def _jn_downwards(n: int, x: Any) -> Any:
    """Run the recurrence down from an order far above n >= |x| and normalize (Miller's algorithm).

    The normalization is J₀ + 2 J₂ + 2 J₄ + ... = 1. Large terms are rescaled on the way.
    """
    above, term, total, found = 0.0 * x, 0.0 * x + 1e-30, 0.0 * x, 0.0 * x
    start = n + 30 + int(6 * math.sqrt(n))
    for k in range(start + start % 2, 0, -1):
        above, term = term, 2 * k / x * term - above
        if (k - 1) % 2 == 0:
            total = total + (2 * term if k > 1 else term)
        if k - 1 == n:
            found = term
        factor = where(abs(term) > 1e10, 1e-10, 1.0)
        above, term, total, found = above * factor, term * factor, total * factor, found * factor
    return found / total


def iv(v: int, z: Any) -> Any:
    """Return the modified Bessel function Iₙ of integer order.

    >>> round(float(iv(2, 1.0)), 6)
    0.135748
    """
    x = operand(z)
    return ive(v, x) * exp(abs(x))


def ive(v: int, z: Any) -> Any:
    """Return exp(-|x|) Iₙ(x) of integer order.

    >>> round(float(ive(2, 1.0)), 6)
    0.049939
    """
    n, x = abs(_order(v, "ive")), operand(z)
    if n == 0:
        return bessel_i0e(x)

    def slope(x: Any) -> Any:
        return 0.5 * (ive(n - 1, x) + ive(n + 1, x)) - sign(x) * ive(n, x)

    return with_derivatives(lambda x: _ive(n, x), slope, (), x)


def _ive(n: int, x: Any) -> Any:
    """Multiply I₀ by the ratios of neighbouring orders, which come from a continued fraction.

    Where |x| is much larger than n², the fraction converges slowly and the asymptotic series is
    used instead.
    """
    edge = 60.0 + 2 * n * n
    size = abs(x)
    is_far = size > edge
    near = where(is_far | (size == 0), 1.0, size)
    quotient, product = 0.0 * near, 0.0 * near + 1
    for k in range(n + 20 + int(math.sqrt(40 * edge)), 0, -1):
        quotient = near / (2 * k + near * quotient)
        if k <= n:
            product = product * quotient
    term = total = 0.0 * x + 1
    far = maximum(size, edge)
    for k in range(1, 25):
        term = term * ((2 * k - 1) ** 2 - 4 * n * n) / (8 * k * far)
        total = total + term
    y = where(is_far, total / (math.sqrt(2 * math.pi) * far**0.5), bessel_i0e(near) * product)
    return where(size == 0, 0.0, y * sign(x) ** n)
