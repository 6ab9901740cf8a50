"""Elliptic integrals of Legendre and Carlson, and the arithmetic-geometric mean.

Carlson's integrals apply the duplication theorem a fixed number of times. Each step first takes the
square root of the ratio of the arguments, then divides their differences by 4.
"""

from __future__ import annotations

import functools
import math
from typing import Any

from tapegrad.ops.control.stop_gradient import stop_gradient
from tapegrad.ops.elementwise.comparison import isnan
from tapegrad.ops.elementwise.complex_numbers import imag, real
from tapegrad.ops.elementwise.exponential import log
from tapegrad.ops.elementwise.powers import sqrt
from tapegrad.ops.elementwise.rounding import rint
from tapegrad.ops.elementwise.selection import maximum, minimum, where
from tapegrad.ops.elementwise.trigonometric import atan, cos, sin
from tapegrad.ops.kinds import is_complex
from tapegrad.special_functions.derivatives import Function, in_double, with_derivatives

_STEPS = 15
# In RJ a large fourth argument only approaches the others by a factor of 4 per step. Beyond this
# multiple of the largest of the others it is replaced by one near that.
_FAR = 16.0
# For complex arguments there are more steps instead.
_STEPS_COMPLEX = 28


def agm(a: Any, b: Any) -> Any:
    """Return the arithmetic-geometric mean: NaN where the signs differ.

    >>> round(float(agm(1.0, 2.0)), 6)
    1.456791
    """
    return in_double(_agm, a, b)


def _agm(a: Any, b: Any) -> Any:
    is_zero = (a == 0) | (b == 0)
    is_negative = (a < 0) & (b < 0)
    # isnan covers 0 times infinity.
    is_mixed = ((a < 0) & (b > 0)) | ((a > 0) & (b < 0)) | isnan(a * b)
    x, y = (where(is_zero | is_mixed, 1.0, abs(value)) for value in (a, b))
    y = _mean(x, y)
    return where(is_mixed, math.nan, where(is_zero, 0.0, where(is_negative, 0.0 - y, y)))


def _mean(x: Any, y: Any) -> Any:
    """Return the arithmetic-geometric mean of positive numbers."""
    for _ in range(_STEPS):
        x, y = 0.5 * (x + y), sqrt(x) * sqrt(y)
    return x


def ellipk(m: Any) -> Any:
    """Return the complete elliptic integral of the first kind, for m <= 1.

    >>> round(float(ellipk(0.5)), 6)
    1.854075
    """
    return in_double(lambda m: _complete(1 - m), m)


def ellipkm1(p: Any) -> Any:
    """Return ellipk(1 - p), accurate near p = 0.

    >>> round(float(ellipkm1(0.5)), 6)
    1.854075
    """
    return in_double(_complete, p)


def _complete(p: Any) -> Any:
    is_inside = (p > 0) & (p < math.inf)
    inside = where(is_inside, p, 1.0)
    y = 0.5 * math.pi / _mean(0.0 * inside + 1, sqrt(inside))
    at_ends = where(p == 0, math.inf, where(p == math.inf, 0.0, math.nan + 0.0 * p))
    return where(is_inside, y, at_ends)


def ellipe(m: Any) -> Any:
    """Return the complete elliptic integral of the second kind, for m <= 1.

    >>> round(float(ellipe(0.5)), 6)
    1.350644
    """
    return in_double(_second, m)


def _second(m: Any) -> Any:
    is_inside = (m < 1) & (m > -math.inf)
    p = where(is_inside, 1 - m, 1.0)
    zero = 0.0 * p
    y = p / 3 * (_rd(zero, p, zero + 1) + _rd(zero, zero + 1, p))
    at_ends = where(m == 1, 1.0, where(m < 1, math.inf, math.nan + 0.0 * m))
    return where(is_inside, y, at_ends)


def ellipkinc(phi: Any, m: Any) -> Any:
    """Return the incomplete elliptic integral of the first kind, where m sin²(phi) <= 1.

    >>> round(float(ellipkinc(1.0, 0.5)), 6)
    1.083217
    """

    def value(m: Any, phi: Any) -> Any:
        turns, sine, cosine, inner = _parts(phi, m)
        y = sine * _rf(cosine * cosine, inner, 0.0 * inner + 1)
        return y + 2 * turns * _complete(where(turns == 0, 1.0, 1 - m))

    def slope(m: Any, phi: Any) -> Any:
        return 1 / sqrt(1 - m * sin(phi) ** 2)

    return in_double(lambda phi, m: with_derivatives(value, slope, (m,), phi), phi, m)


def ellipeinc(phi: Any, m: Any) -> Any:
    """Return the incomplete elliptic integral of the second kind, where m sin²(phi) <= 1.

    >>> round(float(ellipeinc(1.0, 0.5)), 6)
    0.92733
    """

    def value(m: Any, phi: Any) -> Any:
        turns, sine, cosine, inner = _parts(phi, m)
        first = sine * _rf(cosine * cosine, inner, 0.0 * inner + 1)
        y = first - m / 3 * sine**3 * _rd(cosine * cosine, inner, 0.0 * inner + 1)
        return y + 2 * turns * _second(where(turns == 0, 0.0, m))

    def slope(m: Any, phi: Any) -> Any:
        return sqrt(1 - m * sin(phi) ** 2)

    return in_double(lambda phi, m: with_derivatives(value, slope, (m,), phi), phi, m)


def _parts(phi: Any, m: Any) -> tuple[Any, Any, Any, Any]:
    """Return the half turns in phi, sine and cosine of the remainder, and 1 - m sin²."""
    phi = stop_gradient(phi)
    turns = rint(phi / math.pi)
    sine, cosine = sin(phi - turns * math.pi), cos(phi - turns * math.pi)
    # cos² + (1 - m) sin² is accurate where m and the sine are near 1. For m > 1 the domain ends
    # where it reaches 0.
    inner = cosine * cosine + (1 - m) * (sine * sine)
    is_past = (inner < 0) | ((m > 1) & (turns != 0))
    return turns, sine, cosine, where(is_past, math.nan, inner)


# Carlson's symmetric integrals


def elliprc(x: Any, y: Any) -> Any:
    """Return Carlson's degenerate integral RC, for x >= 0; for y < 0 the principal value.

    Complex arguments lie anywhere but on the negative real axis.

    >>> round(float(elliprc(1.0, 2.0)), 6)
    0.785398
    """

    def ends(x: Any, y: Any) -> Any:
        if is_complex(x):
            far = maximum(abs(x), abs(y)) == math.inf
            return where(far & _is_allowed(x) & (y == y), 0.0, math.nan)
        is_zero = (x >= 0) & ((y > 0) | ((y == -math.inf) & (x < math.inf)))
        return where(is_zero, 0.0, math.nan)  # x or y is infinite

    return _inside(_rc, lambda x, y: _is_allowed(x) & (y != 0), ends, x, y)


def elliprf(x: Any, y: Any, z: Any) -> Any:
    """Return Carlson's integral RF of the first kind; at most one argument may be 0.

    >>> round(float(elliprf(0.0, 1.0, 2.0)), 6)
    1.311029
    """

    def ends(x: Any, y: Any, z: Any) -> Any:
        return where(_largest(abs(x), abs(y), abs(z)) == math.inf, 0.0, math.inf)

    return _inside(_rf, _are_inside, _not_negative(ends), x, y, z)


def elliprd(x: Any, y: Any, z: Any) -> Any:
    """Return Carlson's integral RD of the second kind, for z > 0; x or y may be 0.

    >>> round(float(elliprd(0.0, 2.0, 1.0)), 6)
    1.79721
    """

    def ends(x: Any, y: Any, z: Any) -> Any:
        is_far = _largest(abs(x), abs(y), abs(z)) == math.inf
        return where((z != 0) & is_far, 0.0, math.inf)

    def are_inside(x: Any, y: Any, z: Any) -> Any:
        return _are_inside(x, y, z) & (z != 0)

    return _inside(_rd, are_inside, _not_negative(ends), x, y, z)


def elliprj(x: Any, y: Any, z: Any, p: Any) -> Any:
    """Return Carlson's integral RJ of the third kind; one of x, y and z may be 0.

    For p < 0 it is the principal value. Complex arguments with real parts of 0 or more are accurate
    if the nonzero ones are within a factor of 1e12 of p.

    >>> round(float(elliprj(0.0, 1.0, 2.0, 3.0)), 6)
    0.776886
    """

    def ends(x: Any, y: Any, z: Any, p: Any) -> Any:
        is_infinite = _largest(abs(x), abs(y), abs(z), abs(p)) == math.inf
        is_pole = (p != 0) & ~_are_inside(x, y, z)
        return where(is_pole, math.inf, where(is_infinite, 0.0, math.nan))

    def are_inside(x: Any, y: Any, z: Any, p: Any) -> Any:
        is_inside = _are_inside(x, y, z) & (p != 0)
        if is_complex(x):
            return is_inside & (real(x) >= 0) & (real(y) >= 0) & (real(z) >= 0)
        return is_inside

    return _inside(_rj_of_any_sign, are_inside, _not_negative(ends), x, y, z, p)


def _inside(formula: Function, are_inside: Function, ends: Function, *args: Any) -> Any:
    """Evaluate the formula for finite arguments inside its domain, and elsewhere `ends`."""

    def value(*args: Any) -> Any:
        is_inside = are_inside(*args) & (_largest(*[abs(x) for x in args]) < math.inf)
        found = formula(*(where(is_inside, x, 1.0) for x in args))
        return where(is_inside, found, ends(*args))

    return in_double(value, *args)


def _not_negative(ends: Function) -> Function:
    """Return `ends` with NaN where x, y or z is negative or an argument is NaN."""

    def value(x: Any, y: Any, z: Any, *rest: Any) -> Any:
        is_valid = _is_allowed(x) & _is_allowed(y) & _is_allowed(z)
        for other in rest:
            is_valid = is_valid & (other == other)
        return where(is_valid, ends(x, y, z, *rest), math.nan)

    return value


def _largest(*args: Any) -> Any:
    return functools.reduce(maximum, args)


def _is_allowed(x: Any) -> Any:
    """Return where a number is not negative, or complex and not on the negative real axis."""
    return ~_is_negative(x) & (x == x) if is_complex(x) else x >= 0


def _are_inside(x: Any, y: Any, z: Any) -> Any:
    """Return where the arguments are allowed and at most one of them is 0."""
    if is_complex(x):
        zeros = ((x == 0) & (y == 0)) | ((x == 0) & (z == 0)) | ((y == 0) & (z == 0))
        return _is_allowed(x) & _is_allowed(y) & _is_allowed(z) & ~zeros
    least = minimum(minimum(x, y), z)
    return (least >= 0) & (maximum(minimum(x, y), minimum(maximum(x, y), z)) > 0)


def _root(x: Any) -> Any:
    """Return √x with derivative 0 at 0, where that of the integrals is infinite."""
    is_zero = x == 0
    return where(is_zero, 0.0, sqrt(where(is_zero, 1.0, x)))


def _is_negative(x: Any) -> Any:
    """Return where a number is real and negative."""
    return (real(x) < 0) & (imag(x) == 0) if is_complex(x) else x < 0


def _rc(x: Any, y: Any) -> Any:
    is_negative = _is_negative(y)
    size = where(is_negative, 0.0 - y, y)
    whole = where(is_negative, x + size, x)
    found = _rf(whole, size, size)
    return where(is_negative, _root(x / where(is_negative, whole, 1.0)) * found, found)


def _rf(x: Any, y: Any, z: Any) -> Any:
    for _ in range(_STEPS):
        u, v, w = _root(x), _root(y), _root(z)
        shift = u * v + u * w + v * w
        x, y, z = 0.25 * (x + shift), 0.25 * (y + shift), 0.25 * (z + shift)
    mean = (x + y + z) / 3
    a, b = 1 - x / mean, 1 - y / mean
    c = -a - b
    e2, e3 = a * b - c * c, a * b * c
    return (1 - e2 / 10 + e3 / 14 + e2 * e2 / 24 - 3 * e2 * e3 / 44) / sqrt(mean)


def _rd(x: Any, y: Any, z: Any) -> Any:
    total, weight = 0.0, 1.0
    for _ in range(_STEPS):
        u, v, w = _root(x), _root(y), _root(z)
        shift = u * v + u * w + v * w
        total = total + weight / (w * (z + shift))
        x, y, z = 0.25 * (x + shift), 0.25 * (y + shift), 0.25 * (z + shift)
        weight *= 0.25
    mean = 0.2 * (x + y + 3 * z)
    return weight * _third_kind(x, y, z, mean) + 3 * total


def _rj_of_any_sign(x: Any, y: Any, z: Any, p: Any) -> Any:
    """Return RJ; for p < 0 by formula 19.20.14 of the Digital Library of Mathematical Functions."""
    is_negative = _is_negative(p)
    x, y = _in_order(x, y)
    y, z = _in_order(y, z)
    x, y = _in_order(x, y)
    q = where(is_negative, 0.0 - p, p)
    other = where(is_negative, (z * (x + y + q) - x * y) / (z + q), q)
    found = _rj(x, y, z, other)
    whole = x * y + other * q
    rest = _root(x * y * z / whole) * _rf(whole, other * q, other * q) - _rf(x, y, z)
    return where(is_negative, ((other - z) * found + 3 * rest) / (q + z), found)


def _in_order(x: Any, y: Any) -> tuple[Any, Any]:
    """Return the smaller and the larger number. Equal numbers keep separate derivatives."""
    is_wrong = x > y
    return where(is_wrong, y, x), where(is_wrong, x, y)


def _rj(x: Any, y: Any, z: Any, p: Any) -> Any:
    """Return RJ for x <= y <= z and p > 0, a large p by formula 19.21.12 of the same library."""
    if is_complex(x):
        # The formula would need other branches of the roots.
        return _rj_by_duplication(x, y, z, p, _STEPS_COMPLEX)
    is_far = p > _FAR * z
    far = where(is_far, p, _FAR * z)
    beyond = (z - x) * ((z - y) / (far - z))
    found = _rj_by_duplication(x, y, z, where(is_far, z + beyond, p))
    rest = 3 * (_rf(x, y, z) - _rc(x * (y / z), far * ((z + beyond) / z))) - beyond * found
    return where(is_far, rest / (far - z), found)


def _rj_by_duplication(x: Any, y: Any, z: Any, p: Any, steps: int = _STEPS) -> Any:
    total, weight = 0.0, 1.0
    differences = [p - x, p - y, p - z]
    for _ in range(steps):
        u, v, w, s = _root(x), _root(y), _root(z), _root(p)
        shift = u * v + u * w + v * w
        sums = s + u, s + v, s + w
        height = sums[0] * sums[1] * sums[2]
        # The product of ratios, because third powers of the arguments may overflow.
        ratios = [d / (root * root) for d, root in zip(differences, sums, strict=True)]
        arc = _arc(ratios[0] * ratios[1] * ratios[2], 2 * s * (p + shift) / height)
        total = total + weight / height * arc
        x, y, z, p = (0.25 * (value + shift) for value in (x, y, z, p))
        weight, differences = 0.25 * weight, [0.25 * d for d in differences]
    return weight * _third_kind(x, y, z, 0.2 * (x + y + z + 2 * p)) + 6 * total


def _third_kind(x: Any, y: Any, z: Any, mean: Any) -> Any:
    """Return the series of RJ around equal arguments; RD is RJ with p = z.

    Its value has a small weight: terms of the third order would vanish in rounding.
    """
    a, b, c = 1 - x / mean, 1 - y / mean, 1 - z / mean
    d = -0.5 * (a + b + c)
    e2 = a * b + a * c + b * c - 3 * d * d
    return (1 - 3 * e2 / 14) / (mean * sqrt(mean))


def _arc(e: Any, whole: Any) -> Any:
    """Return RC(1, 1 + e), given 1 + e: atan(√e) / √e or atanh(√-e) / √-e, a series near e = 0."""
    is_small = abs(e) < 0.05
    small, series = where(is_small, e, 0.0), 0.0
    for k in range(12, -1, -1):
        series = 1 / (2 * k + 1) - series * small
    is_above = (real(e) if is_complex(e) else e) > 0
    is_below = ~is_small & ~is_above
    above, root = where(~is_small & is_above, e, 1.0), sqrt(where(is_below, 0.0 - e, 0.25))
    # atanh(root) = log((1 + root) / √(1 - root²)) without the difference, which may be near 0.
    logarithm = log(1 + root) - 0.5 * log(where(is_below, whole, 0.75))
    outer = where(is_above, atan(sqrt(above)) / sqrt(above), logarithm / root)
    return where(is_small, series, outer)
