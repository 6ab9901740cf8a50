"""Bessel functions of any real order: plain, modified, and exponentially scaled.

Order and argument are tensors with derivatives of every order; an order that is a Python number
and whole has a recurrence of its own (orders.py), and nothing to differentiate.
"""

from __future__ import annotations

import math
from typing import Any

from tapegrad.core.convert import NUMBERS
from tapegrad.errors import ArgumentError
from tapegrad.scipy.special import orders
from tapegrad.scipy.special.modified import ive_positive, kve_positive
from tapegrad.scipy.special.nodes import cosine_of_pi, sine_of_pi
from tapegrad.scipy.special.slopes import Function, in_double, with_slopes
from tapegrad.scipy.special.waves import waves
from tapegrad.scipy.vocabulary import (
    complex_of,
    exp,
    isnan,
    operands,
    rint,
    sign,
    stop_gradient,
    where,
)

# Whole orders up to this are carried by recurrences.
_WHOLE = 40


def jv(v: Any, z: Any) -> Any:
    """Return the Bessel function J of order v, which may be any real number.

    At negative z it is real for whole orders only, and NaN for others. Good to about 1e-13 of the
    amplitude √(2/πz) for orders up to 1000; beyond z = v the phase is rounded like z itself.

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
    """Return the modified Bessel function I of order v, which may be any real number.

    At negative z it is real for whole orders only, and NaN for others.

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
    """Return the n-th derivative of `jv` by z.

    >>> round(float(jvp(0, 1.0)), 6)
    -0.440051
    """
    return _derived("jvp", jv, -1, v, z, n)


def yvp(v: Any, z: Any, n: int = 1) -> Any:
    """Return the n-th derivative of `yv` by z.

    >>> round(float(yvp(0, 1.0)), 6)
    0.781213
    """
    return _derived("yvp", yv, -1, v, z, n)


def ivp(v: Any, z: Any, n: int = 1) -> Any:
    """Return the n-th derivative of `iv` by z.

    >>> round(float(ivp(0, 1.0)), 6)
    0.565159
    """
    return _derived("ivp", iv, 1, v, z, n)


def kvp(v: Any, z: Any, n: int = 1) -> Any:
    """Return the n-th derivative of `kv` by z.

    >>> round(float(kvp(0, 1.0)), 6)
    -0.601907
    """
    return (-1) ** n * _derived("kvp", kv, 1, v, z, n)


def _derived(name: str, function: Function, sign: int, v: Any, z: Any, n: int) -> Any:
    """The sum of neighbours that the recurrence f' = (f(v - 1) ± f(v + 1)) / 2 makes, n times."""
    if type(n) is not int or n < 0:
        raise ArgumentError(f"{name} needs a whole number of derivatives, at least 0. Got {n!r}.")
    parts = [sign**k * math.comb(n, k) * function(v - n + 2 * k, z) for k in range(n + 1)]
    return sum(parts[1:], parts[0]) * 0.5**n


def _of_order(of_whole: Function | None, of_real: Function, v: Any, z: Any) -> Any:
    if type(v) in NUMBERS and not isinstance(v, complex) and v == int(v) and abs(v) <= _WHOLE:
        z = operands(z)[0]
        if of_whole is not None:
            return of_whole(int(v), z)
    return in_double(lambda v, z: where(isnan(v) | isnan(z), math.nan, of_real(v, z)), v, z)


# Values for all orders and arguments, from those at positive ones


def _positive(v: Any, x: Any) -> tuple[Any, Any]:
    size = abs(stop_gradient(x))
    is_inside = size > 0
    return where(v < 0, 0.0 - v, v), where(is_inside, size, 1.0)


def _parity(v: Any, x: Any) -> Any:
    """What a function of whole order has at -x over that at x: 1, -1, or NaN for other orders."""
    v = stop_gradient(v)
    is_odd = rint(0.5 * v) * 2 != v
    at_negative = where(rint(v) == v, where(is_odd, -1.0, 1.0 + 0.0 * v), math.nan)
    return where(x < 0, at_negative, 1.0)


def _times(factor: Any, y: Any) -> Any:
    """The product, 0 where the factor is 0 and y infinite; a factor of 0 may still have a slope."""
    return factor * where((factor == 0) & (abs(y) == math.inf), 0.0, y)


def _jv_value(v: Any, x: Any) -> Any:
    order, size = _positive(v, x)
    j, y = waves(order, size)
    turned = cosine_of_pi(order) * j - _times(sine_of_pi(order), y)
    is_whole = rint(order) == order
    at_zero = where(v == 0, 1.0, where((v > 0) | is_whole, 0.0, math.inf + 0.0 * v))
    return where(x == 0, at_zero, where(v < 0, turned, j) * _parity(v, x))


def _yv_value(v: Any, x: Any) -> Any:
    order, size = _positive(v, x)
    j, y = waves(order, size)
    turned = sine_of_pi(order) * j + _times(cosine_of_pi(order), y)
    inside = where(v < 0, turned, y)
    at_zero = where((v < 0) & (cosine_of_pi(v) == -1), math.inf, -math.inf)
    return where(x > 0, inside, where(x == 0, at_zero, math.nan))


def _ive_value(v: Any, x: Any) -> Any:
    order, size = _positive(v, x)
    y = ive_positive(order, size)
    is_turned = v < 0
    low, place = where(is_turned, order, 0.5), where(is_turned, size, 1.0)
    lift = 2 / math.pi * exp(-2 * place) * _times(sine_of_pi(low), kve_positive(low, place))
    at_zero = where(v == 0, 1.0, where(is_turned & (rint(v) != v), math.inf, 0.0 * v))
    return where(x == 0, at_zero, where(is_turned, y + lift, y) * _parity(v, x))


def _kve_value(v: Any, x: Any) -> Any:
    order, size = _positive(v, x)
    return where(x > 0, kve_positive(order, size), where(x == 0, math.inf, math.nan))


# The same with derivatives


def _jv(v: Any, x: Any) -> Any:
    return with_slopes(_jv_value, lambda v, x: 0.5 * (_jv(v - 1, x) - _jv(v + 1, x)), (v,), x)


def _yv(v: Any, x: Any) -> Any:
    return with_slopes(_yv_value, lambda v, x: 0.5 * (_yv(v - 1, x) - _yv(v + 1, x)), (v,), x)


def _ive(v: Any, x: Any) -> Any:
    def slope(v: Any, x: Any) -> Any:
        return 0.5 * (_ive(v - 1, x) + _ive(v + 1, x)) - sign(x) * _ive(v, x)

    return with_slopes(_ive_value, slope, (v,), x)


def _kve(v: Any, x: Any) -> Any:
    def slope(v: Any, x: Any) -> Any:
        return _kve(v, x) - 0.5 * (_kve(v - 1, x) + _kve(v + 1, x))

    return with_slopes(_kve_value, slope, (v,), x)


def _iv(v: Any, x: Any) -> Any:
    is_infinite = abs(x) == math.inf
    inside = where(is_infinite, 0.0, x)
    # exp(|x|) in two steps: it overflows before the product does.
    half = exp(0.5 * abs(inside))
    return where(is_infinite, _parity(v, x) * math.inf, _ive(v, inside) * half * half)


def _kv(v: Any, x: Any) -> Any:
    return _kve(v, x) * exp(-x)
