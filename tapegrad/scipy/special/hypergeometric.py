"""The hypergeometric functions 1F1 and 2F1 of real numbers."""

from __future__ import annotations

import math
from typing import Any

from tapegrad.scipy.special.euler import euler_mean
from tapegrad.scipy.special.factorials import gamma, is_pole, rgamma
from tapegrad.scipy.special.nodes import power_sum
from tapegrad.scipy.special.slopes import in_double, with_slopes
from tapegrad.scipy.vocabulary import exp, log, maximum, minimum, rint, sqrt, where

# Euler's integral is taken where both its exponents are at least this.
_LEAST = 0.5
_TERMS_1F1, _FAR = 340, 160.0
_TERMS_2F1, _NEAR_ONE = 420, 0.9


def hyp1f1(a: Any, b: Any, x: Any) -> Any:
    """Return Kummer's function 1F1(a; b; x); all arguments have derivatives.

    For 0.5 <= a <= b - 0.5 it is exact to about 1e-13 for every x. Elsewhere it is a power series
    (|x| up to 160; for whole a <= 0 any x) or its asymptotic form: good where |a| and |b| are
    small beside these, with a loss near the zeros of the function. At a whole a <= 0 with |x| > 160
    the derivative by a is that of the polynomial's own terms.

    >>> round(float(hyp1f1(1.0, 2.0, 1.0)), 6)
    1.718282
    """
    return in_double(_hyp1f1, a, b, x)


def _hyp1f1(a: Any, b: Any, x: Any) -> Any:
    return with_slopes(_hyp1f1_value, lambda a, b, x: a / b * _hyp1f1(a + 1, b + 1, x), (a, b), x)


def _hyp1f1_value(a: Any, b: Any, x: Any) -> Any:
    is_inner = (a >= _LEAST) & (b - a >= _LEAST) & (abs(x) < math.inf)
    inner = _kummer_integral(
        where(is_inner, a, 1.0), where(is_inner, b, 2.0), where(is_inner, x, 0.0)
    )
    is_safe = is_inner | is_pole(b)
    other = _kummer_series(where(is_safe, 1.0, a), where(is_safe, 1.0, b), where(is_safe, 0.0, x))
    y = where(is_inner, inner, other)
    return where(is_pole(b), _at_pole(a, x), where(x == 0, 1.0, y))


def _at_pole(a: Any, x: Any) -> Any:
    """The limits at b = 0, -1, ...: infinite, unless the series ends before."""
    return where((a == 0) | (x == 0), 1.0 + 0.0 * x, math.inf)


def _kummer_integral(a: Any, b: Any, x: Any) -> Any:
    root = sqrt((b - x) * (b - x) + 4 * a * x)
    upper = _sum_of(b + x, root, -4 * (b - a) * x)
    lower = _sum_of(b - x, root, 4 * a * x)
    top = log(a / (b - a)) + log(upper / lower)
    above, below = maximum(x, 0.0), minimum(x, 0.0)

    def log_kernel(t: Any, rest: Any, above: Any, below: Any) -> Any:
        return below * t - above * rest

    y = euler_mean(a, b - a, log_kernel, top, abs(top) + 3, 124, above, below)
    return exp(above) * y


def _sum_of(first: Any, root: Any, product: Any) -> Any:
    """first + root, where root² - first² is the product: without cancellation for first < 0."""
    is_low = first < 0
    return where(is_low, product, first + root) / where(is_low, root - first, 1.0)


def _kummer_series(a: Any, b: Any, x: Any) -> Any:
    """The power series of 1F1(a; b; x), or of exp(x) 1F1(b - a; b; -x) for negative x."""
    ends = is_pole(a)
    is_turned = (x < 0) & ~ends
    a, y = where(is_turned, b - a, a), where(is_turned, -x, x)
    is_far = (y > _FAR) & ~is_pole(a)
    near = where(is_far, 1.0, y)

    def ratio(k: Any, a: Any, b: Any, x: Any) -> Any:
        # What would follow the end of a polynomial grows large far out.
        is_over = (abs(x) > _FAR) & (a + k >= 0)
        return where(is_over, 0.0, (a + k) / (b + k) * (x / (k + 1)))

    total = power_sum(ratio, _TERMS_1F1, a, b, near)
    series = exp(where(is_turned, x, 0.0)) * total
    return where(is_far, _kummer_far(a, b, where(is_far, y, _FAR), is_turned), series)


def _kummer_far(a: Any, b: Any, x: Any, is_turned: Any) -> Any:
    """exp(x) x^(a-b) Γ(b) / Γ(a) times a series in 1/x; without exp(x) where that was taken out."""
    term = total = 1.0 + 0.0 * x
    turn = abs(b - a) + abs(1 - a)
    for k in range(40):
        factor = (b - a + k) * (1 - a + k) / ((k + 1) * x)
        # Past its smallest term the series grows: there it has ended.
        term = where((abs(factor) > 1) & (turn < k), 0.0, term * factor)
        total = total + term
    power = exp(where(is_turned, 0.0, x) + (a - b) * log(x))
    return power * gamma(b) * rgamma(a) * total


def hyp2f1(a: Any, b: Any, c: Any, z: Any) -> Any:
    """Return Gauss' function 2F1(a, b; c; z) for z <= 1; all arguments have derivatives.

    Where a or b is between 0.5 and c - 0.5 it is exact to about 1e-13 for every z < 1. Elsewhere
    power series in z, z / (z - 1) or 1 - z are summed. They lose digits beyond z = 0.9 when
    c - a - b is near a whole number, and at negative z when |a| and |b| are large. It is NaN for
    z > 1 unless the series ends.

    >>> round(float(hyp2f1(1.0, 1.0, 2.0, 0.5)), 6)
    1.386294
    """
    return in_double(_hyp2f1, a, b, c, z)


def _hyp2f1(a: Any, b: Any, c: Any, z: Any) -> Any:
    def slope(a: Any, b: Any, c: Any, z: Any) -> Any:
        return a * b / c * _hyp2f1(a + 1, b + 1, c + 1, z)

    return with_slopes(_hyp2f1_value, slope, (a, b, c), z)


def _hyp2f1_value(a: Any, b: Any, c: Any, z: Any) -> Any:
    # The second parameter is the one that lies deeper inside (0, c).
    is_swapped = minimum(a, c - a) > minimum(b, c - b)
    a, b = where(is_swapped, b, a), where(is_swapped, a, b)
    is_inner = (minimum(b, c - b) >= _LEAST) & (z < 1) & (z > -math.inf)
    inner = _gauss_integral(
        where(is_inner, a, 1.0),
        where(is_inner, b, 1.0),
        where(is_inner, c, 2.0),
        where(is_inner, z, 0.0),
    )
    ends = is_pole(a) | is_pole(b)
    is_outer = ~is_inner & ~is_pole(c) & ((z < 1) | ends)
    other = _gauss_series(
        where(is_outer, a, 1.0),
        where(is_outer, b, 1.0),
        where(is_outer, c, 2.0),
        where(is_outer, z, 0.0),
    )
    at_one = _gauss_at_one(a, b, c)
    beyond = where(z == 1, at_one, where(ends, other, math.nan))
    y = where(is_inner, inner, where(z < 1, other, beyond))
    return where(z == 0, 1.0, where(is_pole(c), math.inf, y))


def _gauss_integral(a: Any, b: Any, c: Any, z: Any) -> Any:
    rest = 1 - z
    # The peak's t is the root in (0, 1) of b - m t + (c - a) z t²; 1 - t solves its mirror image.
    middle, end = c + (b - a) * z, (c - a) * z
    root = sqrt(maximum(middle * middle - 4 * b * end, 0.0))
    t = 2 * b / (middle + root)
    mirror = middle - 2 * end
    other = 2 * (c - b) * rest / (mirror + root)
    top = log(t / maximum(other, 1e-300))
    span = abs(log(rest)) + abs(top) + 3

    def log_kernel(t: Any, below: Any, a: Any, rest: Any) -> Any:
        return -a * log(below + rest * t)

    return euler_mean(b, c - b, log_kernel, top, span, 152, a, rest)


def _gauss_at_one(a: Any, b: Any, c: Any) -> Any:
    left = c - a - b
    y = gamma(c) * gamma(where(left > 0, left, 1.0)) * rgamma(c - a) * rgamma(c - b)
    return where(left > 0, y, math.inf)


def _gauss_series(a: Any, b: Any, c: Any, z: Any) -> Any:
    """Sum in z, or for z < -0.9 in z / (z - 1), or in 1 less that where it is near 1."""
    ends = is_pole(a) | is_pole(b)
    # (1 - z)^-a 2F1(a, c - b; c; z / (z - 1))
    falls_fast = (z >= -1) & (abs(c - a - b) > 6)
    is_low = (z < -_NEAR_ONE) & ~ends & ~falls_fast
    below = where(is_low, 1 - z, 1.0)
    b, rest = where(is_low, c - b, b), where(is_low, 1 / below, 1 - z)
    z = where(is_low, z / (0.0 - below), z)
    is_high = (z > _NEAR_ONE) & ~ends & ~_is_close(c - a - b)
    near = _gauss_near_one(a, b, c, where(is_high, rest, 0.05), is_high)
    # c < a + b: (1 - z)^(c - a - b) 2F1(c - a, c - b; c; z), whose terms fall faster.
    is_steep = (c - a - b < 0) & ~ends
    power = where(is_steep, c - a - b, 0.0) * log(where(is_steep, rest, 1.0))
    first, second = where(is_steep, c - a, a), where(is_steep, c - b, b)
    y = exp(power) * _gauss_sum(first, second, c, where(is_high, 0.0, z), _TERMS_2F1)
    return exp(where(is_low, 0.0 - a, 0.0) * log(below)) * where(is_high, near, y)


def _is_close(left: Any) -> Any:
    return abs(left - rint(left)) < 1e-3


def _gauss_near_one(a: Any, b: Any, c: Any, rest: Any, is_used: Any) -> Any:
    """The two series in rest = 1 - z."""
    left = where(is_used, c - a - b, 0.5)
    first = gamma(c) * gamma(left) * rgamma(c - a) * rgamma(c - b)
    second = gamma(c) * gamma(-left) * rgamma(a) * rgamma(b) * exp(left * log(rest))
    y = first * _gauss_sum(a, b, 1 - left, rest, 40)
    return y + second * _gauss_sum(c - a, c - b, 1 + left, rest, 40)


def _gauss_sum(a: Any, b: Any, c: Any, z: Any, count: int) -> Any:
    def ratio(k: Any, a: Any, b: Any, c: Any, z: Any) -> Any:
        # What would follow the end of a polynomial grows large outside the circle.
        is_end = (is_pole(a) & (a + k >= 0)) | (is_pole(b) & (b + k >= 0))
        is_over = (abs(z) > 1) & is_end
        return where(is_over, 0.0, (a + k) * (b + k) / ((c + k) * (k + 1)) * z)

    return power_sum(ratio, count, a, b, c, z)
