"""Exponential, sine, cosine and Fresnel integrals, Owen's T function, and spherical harmonics."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tapegrad.autodiff.custom_gradient import custom_gradient
from tapegrad.errors import ArgumentError
from tapegrad.ops.casting.promotion import operand, operands
from tapegrad.ops.control.stop_gradient import stop_gradient
from tapegrad.ops.elementwise.comparison import isnan
from tapegrad.ops.elementwise.complex_numbers import complex as complex_of
from tapegrad.ops.elementwise.exponential import exp, log
from tapegrad.ops.elementwise.magnitude import sign
from tapegrad.ops.elementwise.selection import where
from tapegrad.ops.elementwise.special_functions import erf, expint, fresnel_cos, fresnel_sin, ndtr
from tapegrad.ops.elementwise.trigonometric import cos, sin
from tapegrad.ops.shape.functions import broadcast_arrays
from tapegrad.special_functions.arrays_of_orders import for_each_order, is_array_of_orders
from tapegrad.special_functions.recurrence_limit import check_steps

_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(40)


def exp1(z: Any) -> Any:
    """Return the exponential integral E₁(x) for positive x.

    >>> round(float(exp1(1.0)), 6)
    0.219384
    """
    x = operand(z)
    is_inside = x > 0
    y = -expint(-where(is_inside, x, 1.0))
    return where(is_inside, y, where(x == 0, math.inf, math.nan))


def expn(n: Any, x: Any) -> Any:
    """Return the exponential integral Eₙ(x) of integer order: ∫ exp(-xt) / tⁿ dt over t >= 1.

    >>> round(float(expn(2, 1.0)), 6)
    0.148496
    """
    if is_array_of_orders(n):
        return for_each_order(expn, n, x, "expn")
    x = operand(x)
    if not isinstance(n, int) or n < 0:
        raise ArgumentError(f"expn needs a non-negative integer order. Got {n!r}.")
    check_steps(n, "expn")
    if n == 0:
        return where(x > 0, exp(-x) / where(x > 0, x, 1.0), where(x == 0, math.inf, math.nan))
    if n == 1:
        return exp1(x)

    @custom_gradient
    def call(x: Any) -> Any:
        return _expn(n, stop_gradient(x)), lambda g: -g * expn(n - 1, x)

    return call(x)


def _expn(n: int, x: Any) -> Any:
    """Use a continued fraction for x > 1 and the power series with its logarithm below."""
    is_far, is_near = x > 1, (x > 0) & (x <= 1)
    far = where(is_far, x, 2.0)
    fraction = far + n + 2 * 100
    for k in range(100, 0, -1):
        fraction = far + n + 2 * (k - 1) - k * (n + k - 1) / fraction
    near = where(is_near, x, 0.5)
    harmonic = sum(1 / k for k in range(1, n)) - 0.57721566490153286
    total = (-near) ** (n - 1) / math.factorial(n - 1) * (harmonic - log(near))
    term = 0.0 * near + 1
    for k in range(40):
        if k != n - 1:
            total = total - term / (k - n + 1)
        term = term * (-near) / (k + 1)
    y = where(is_far, exp(-far) / fraction, total)
    at_zero = 0.0 * x + 1 / (n - 1)  # in the dtype of x
    return where(is_far | is_near, y, where(x == 0, at_zero, math.nan))


def fresnel(z: Any) -> tuple[Any, Any]:
    """Return the Fresnel sine and cosine integrals.

    >>> [round(float(y), 6) for y in fresnel(1.0)]
    [0.438259, 0.779893]
    """
    x = operand(z)
    return fresnel_sin(x), fresnel_cos(x)


def sici(x: Any) -> tuple[Any, Any]:
    """Return the sine integral Si(x) and the cosine integral Ci(x).

    >>> [round(float(y), 6) for y in sici(1.0)]
    [0.946083, 0.337404]
    """
    x = operand(x)
    return _si(x), _ci(x)


@custom_gradient
def _si(x: Any) -> Any:
    def slope(g: Any) -> Any:
        is_zero = x == 0
        return g * where(is_zero, 1.0, sin(x) / where(is_zero, 1.0, x))

    return _si_and_ci(stop_gradient(x))[0], slope


@custom_gradient
def _ci(x: Any) -> Any:
    return _si_and_ci(stop_gradient(x))[1], lambda g: g * cos(x) / x


def _si_and_ci(x: Any) -> tuple[Any, Any]:
    """Use power series for |x| <= 4, and beyond it the continued fraction of E₁(ix)."""
    size = abs(x)
    is_far, is_infinite = size > 4, size == math.inf
    si, ci = _series(where(is_far | (size == 0), 1.0, size))
    far = where(is_far & ~is_infinite, size, 5.0)
    p, q = 0.0 * far + 121, far
    for k in range(60, 0, -1):
        square = p * p + q * q
        p, q = 2 * k - 1 - k * k * p / square, far + k * k * q / square
    square = p * p + q * q
    cosine, sine = cos(far), sin(far)
    si = where(is_far, math.pi / 2 - (cosine * q + sine * p) / square, si)
    ci = where(is_far, (sine * q - cosine * p) / square, ci)
    si = where(is_infinite, math.pi / 2, where(size == 0, 0.0, si))
    ci = where(is_infinite, where(x > 0, 0.0, math.nan), where(size == 0, -math.inf, ci))
    return si * sign(x), ci


def _series(x: Any) -> tuple[Any, Any]:
    si = term = x
    ci = 0.57721566490153286 + log(x)
    for k in range(2, 34):
        term = term * x / k
        part = (-1) ** (k // 2) * term / k
        si, ci = (si + part, ci) if k % 2 else (si, ci + part)
    return si, ci


def owens_t(h: Any, a: Any) -> Any:
    """Return Owen's T function: P(X > h and 0 < Y < aX) for independent standard normal X and Y.

    >>> round(float(owens_t(1.0, 0.5)), 6)
    0.043065
    """
    h, a = broadcast_arrays(*operands(h, a))
    # For infinite h the probability is 0; for infinite a the region is a half plane.
    is_none, is_half = abs(h) == math.inf, abs(a) == math.inf
    inside = _owens_t(where(is_none, 1.0, h), where(is_half, 1.0, a))
    half = where(a < 0, -0.5, 0.5) * ndtr(-abs(h))
    return where(is_none & ~isnan(a), 0.0, where(is_half, half, inside))


@custom_gradient
def _owens_t(h: Any, a: Any) -> Any:
    def slopes(g: Any) -> tuple[Any, Any]:
        square = 1 + a * a
        by_h = -exp(-0.5 * h * h) * erf(a * h / math.sqrt(2)) / (2 * math.sqrt(2 * math.pi))
        return g * by_h, g * exp(-0.5 * h * h * square) / (2 * math.pi * square)

    height, slope = abs(stop_gradient(h)), abs(stop_gradient(a))
    is_steep = slope > 1
    flat = where(is_steep, 1 / where(is_steep, slope, 1.0), slope)
    base = where(is_steep, height * slope, height)
    total = 0.0 * base
    for node, weight in zip(_NODES, _WEIGHTS, strict=True):
        square = 1 + (0.5 * (1 + float(node)) * flat) ** 2
        total = total + float(weight) * exp(-0.5 * base * base * square) / square
    inner = total * flat / (4 * math.pi)
    # For a > 1: T(h, a) = (Φ(-h) + Φ(-ah)) / 2 - Φ(-h) Φ(-ah) - T(ah, 1/a).
    low, high = ndtr(-height), ndtr(-height * slope)
    outer = 0.5 * (low + high) - low * high - inner
    return sign(stop_gradient(a)) * where(is_steep, outer, inner), slopes


def sph_harm_y(n: Any, m: Any, theta: Any, phi: Any) -> Any:
    """Return the complex spherical harmonic of degree n and order m, which are Python ints.

    `theta` is the polar angle and `phi` the azimuth; both are differentiable.

    >>> round(float(sph_harm_y(1, 0, 0.0, 0.0).numpy().real), 6)
    0.488603
    """
    if not isinstance(n, int) or not isinstance(m, int) or n < 0:
        raise ArgumentError(
            f"sph_harm_y needs an integer degree n >= 0 and an integer order m. Got {n!r}, {m!r}."
        )
    theta, phi = operands(theta, phi)
    size = abs(m)
    if size > n:
        return complex_of(0.0 * (theta + phi), 0.0 * (theta + phi))
    height = _legendre(n, size, cos(theta), sin(theta))
    if m < 0 and size % 2:
        height = -height
    return complex_of(height * cos(m * phi), height * sin(m * phi))


def _legendre(n: int, m: int, x: Any, s: Any) -> Any:
    """Return the normalized associated Legendre function for cos(theta) = x, sin(theta) = s."""
    scale = math.sqrt(1 / (4 * math.pi))
    for k in range(1, m + 1):
        scale *= -math.sqrt((2 * k + 1) / (2 * k))
    below, y = 0.0 * x, 0.0 * x + scale
    for _ in range(m):
        y = y * s
    for k in range(m + 1, n + 1):
        a = math.sqrt((4 * k * k - 1) / (k * k - m * m))
        b = math.sqrt(((k - 1) ** 2 - m * m) / (4 * (k - 1) ** 2 - 1)) if k > m + 1 else 0.0
        below, y = y, a * (x * y - b * below)
    return y
