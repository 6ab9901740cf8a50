"""Bessel functions of any real order: J, Y, modified I and K, exponentially scaled, and Hankel.

They are differentiable to any order in both arguments. An integer order given as a Python number
uses the cheaper recurrences of `bessel_integer_order`.
"""

from __future__ import annotations

import math
from typing import Any

from tapegrad.core.values.convert import NUMBERS
from tapegrad.errors import ArgumentError
from tapegrad.ops.casting.promotion import operands
from tapegrad.ops.control.stop_gradient import stop_gradient
from tapegrad.ops.elementwise.comparison import isnan
from tapegrad.ops.elementwise.complex_numbers import complex as complex_of
from tapegrad.ops.elementwise.exponential import exp
from tapegrad.ops.elementwise.magnitude import sign
from tapegrad.ops.elementwise.rounding import rint
from tapegrad.ops.elementwise.selection import where
from tapegrad.special_functions import bessel_integer_order as orders
from tapegrad.special_functions.bessel_ik import ive_positive, kve_positive
from tapegrad.special_functions.bessel_jy import jy_positive
from tapegrad.special_functions.derivatives import Function, in_double, with_derivatives
from tapegrad.special_functions.quadrature import cospi, sinpi

# Integer orders up to this one are computed by recurrences.
_MAX_RECURRENCE_ORDER = 40


def jv(v: Any, z: Any) -> Any:
    """Return the Bessel function J of real order v.

    At negative z the result is NaN unless v is an integer. For orders up to 1000 the error is about
    1e-13 of the amplitude √(2/πz). For z > v the phase carries the rounding error of z.

    >>> round(float(jv(0.5, 2.0)), 6)
    0.513016
    """
    return _of_order(orders.jn, _jv, v, z)


def yv(v: Any, z: Any) -> Any:
    """Return the Bessel function Y of order v: -inf at 0, NaN at negative z.

    >>> round(float(yv(0.5, 2.0)), 6)
    0.234786
    """
    return _of_order(None, _yv, v, z)


def iv(v: Any, z: Any) -> Any:
    """Return the modified Bessel function I of real order v.

    At negative z the result is NaN unless v is an integer.

    >>> round(float(iv(0.5, 2.0)), 6)
    2.046237
    """
    return _of_order(orders.iv, _iv, v, z)


def ive(v: Any, z: Any) -> Any:
    """Return exp(-|z|) I(z) of order v.

    >>> round(float(ive(0.5, 2.0)), 6)
    0.276928
    """
    return _of_order(orders.ive, _ive, v, z)


def kv(v: Any, z: Any) -> Any:
    """Return the modified Bessel function K of order v: inf at 0, NaN at negative z.

    >>> round(float(kv(0.5, 2.0)), 6)
    0.119938
    """
    return _of_order(None, _kv, v, z)


def kve(v: Any, z: Any) -> Any:
    """Return exp(z) K(z) of order v.

    >>> round(float(kve(0.5, 2.0)), 6)
    0.886227
    """
    return _of_order(None, _kve, v, z)


def hankel1(v: Any, z: Any) -> Any:
    """Return J + iY of order v at positive real z.

    >>> hankel1(0.5, 2.0).numpy().round(6)
    np.complex128(0.513016+0.234786j)
    """
    return complex_of(_if_positive(jv(v, z), z), yv(v, z))


def hankel2(v: Any, z: Any) -> Any:
    """Return J - iY of order v at positive real z.

    >>> hankel2(0.5, 2.0).numpy().round(6)
    np.complex128(0.513016-0.234786j)
    """
    return complex_of(_if_positive(jv(v, z), z), -yv(v, z))


def _if_positive(y: Any, z: Any) -> Any:
    return where(operands(z)[0] < 0, math.nan, y)


def jvp(v: Any, z: Any, n: int = 1) -> Any:
    """Return the n-th derivative of `jv` with respect to z.

    >>> round(float(jvp(0, 1.0)), 6)
    -0.440051
    """
    return _derived("jvp", jv, -1, v, z, n)


def yvp(v: Any, z: Any, n: int = 1) -> Any:
    """Return the n-th derivative of `yv` with respect to z.

    >>> round(float(yvp(0, 1.0)), 6)
    0.781213
    """
    return _derived("yvp", yv, -1, v, z, n)


def ivp(v: Any, z: Any, n: int = 1) -> Any:
    """Return the n-th derivative of `iv` with respect to z.

    >>> round(float(ivp(0, 1.0)), 6)
    0.565159
    """
    return _derived("ivp", iv, 1, v, z, n)


def kvp(v: Any, z: Any, n: int = 1) -> Any:
    """Return the n-th derivative of `kv` with respect to z.

    >>> round(float(kvp(0, 1.0)), 6)
    -0.601907
    """
    return (-1) ** n * _derived("kvp", kv, 1, v, z, n)


def _derived(name: str, function: Function, sign: int, v: Any, z: Any, n: int) -> Any:
    """Apply the recurrence f' = (f(v - 1) ± f(v + 1)) / 2 n times."""
    if type(n) is not int or n < 0:
        raise ArgumentError(f"{name} needs a non-negative integer n. Got {n!r}.")
    parts = [sign**k * math.comb(n, k) * function(v - n + 2 * k, z) for k in range(n + 1)]
    return sum(parts[1:], parts[0]) * 0.5**n


def _of_order(of_integer: Function | None, of_real: Function, v: Any, z: Any) -> Any:
    if (
        type(v) in NUMBERS
        and not isinstance(v, complex)
        and v == int(v)
        and abs(v) <= _MAX_RECURRENCE_ORDER
    ):
        z = operands(z)[0]
        if of_integer is not None:
            return of_integer(int(v), z)
    return in_double(lambda v, z: where(isnan(v) | isnan(z), math.nan, of_real(v, z)), v, z)


# Values for all orders and arguments, reduced to positive ones


def _positive(v: Any, x: Any) -> tuple[Any, Any]:
    size = abs(stop_gradient(x))
    is_inside = size > 0
    return where(v < 0, 0.0 - v, v), where(is_inside, size, 1.0)


def _parity(v: Any, x: Any) -> Any:
    """Return f(-x) / f(x): 1 or -1 for integer orders, NaN for others."""
    v = stop_gradient(v)
    is_odd = rint(0.5 * v) * 2 != v
    at_negative = where(rint(v) == v, where(is_odd, -1.0, 1.0 + 0.0 * v), math.nan)
    return where(x < 0, at_negative, 1.0)


def _times(factor: Any, y: Any) -> Any:
    """Multiply; 0 times infinity is 0, and a zero factor keeps its derivative."""
    return factor * where((factor == 0) & (abs(y) == math.inf), 0.0, y)


def _jv_value(v: Any, x: Any) -> Any:
    order, size = _positive(v, x)
    j, y = jy_positive(order, size)
    reflected = cospi(order) * j - _times(sinpi(order), y)
    is_whole = rint(order) == order
    at_zero = where(v == 0, 1.0, where((v > 0) | is_whole, 0.0, math.inf + 0.0 * v))
    return where(x == 0, at_zero, where(v < 0, reflected, j) * _parity(v, x))


def _yv_value(v: Any, x: Any) -> Any:
    order, size = _positive(v, x)
    j, y = jy_positive(order, size)
    reflected = sinpi(order) * j + _times(cospi(order), y)
    inside = where(v < 0, reflected, y)
    at_zero = where((v < 0) & (cospi(v) == -1), math.inf, -math.inf)
    return where(x > 0, inside, where(x == 0, at_zero, math.nan))


def _ive_value(v: Any, x: Any) -> Any:
    order, size = _positive(v, x)
    y = ive_positive(order, size)
    is_reflected = v < 0
    low, place = where(is_reflected, order, 0.5), where(is_reflected, size, 1.0)
    lift = 2 / math.pi * exp(-2 * place) * _times(sinpi(low), kve_positive(low, place))
    at_zero = where(v == 0, 1.0, where(is_reflected & (rint(v) != v), math.inf, 0.0 * v))
    return where(x == 0, at_zero, where(is_reflected, y + lift, y) * _parity(v, x))


def _kve_value(v: Any, x: Any) -> Any:
    order, size = _positive(v, x)
    return where(x > 0, kve_positive(order, size), where(x == 0, math.inf, math.nan))


# The functions with their derivatives


def _jv(v: Any, x: Any) -> Any:
    return with_derivatives(_jv_value, lambda v, x: 0.5 * (_jv(v - 1, x) - _jv(v + 1, x)), (v,), x)


def _yv(v: Any, x: Any) -> Any:
    return with_derivatives(_yv_value, lambda v, x: 0.5 * (_yv(v - 1, x) - _yv(v + 1, x)), (v,), x)


def _ive(v: Any, x: Any) -> Any:
    def slope(v: Any, x: Any) -> Any:
        return 0.5 * (_ive(v - 1, x) + _ive(v + 1, x)) - sign(x) * _ive(v, x)

    return with_derivatives(_ive_value, slope, (v,), x)


def _kve(v: Any, x: Any) -> Any:
    def slope(v: Any, x: Any) -> Any:
        return _kve(v, x) - 0.5 * (_kve(v - 1, x) + _kve(v + 1, x))

    return with_derivatives(_kve_value, slope, (v,), x)


def _iv(v: Any, x: Any) -> Any:
    is_infinite = abs(x) == math.inf
    inside = where(is_infinite, 0.0, x)
    # Multiply by exp(|x| / 2) twice: exp(|x|) overflows before the product does.
    half = exp(0.5 * abs(inside))
    return where(is_infinite, _parity(v, x) * math.inf, _ive(v, inside) * half * half)


def _kv(v: Any, x: Any) -> Any:
    return _kve(v, x) * exp(-x)
