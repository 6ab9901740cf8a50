"""The hypergeometric functions 1F1 and 2F1 of real arguments."""

from __future__ import annotations

import math
from typing import Any

from tapegrad.ops.control.stop_gradient import stop_gradient
from tapegrad.ops.elementwise.exponential import exp, log
from tapegrad.ops.elementwise.powers import sqrt
from tapegrad.ops.elementwise.rounding import rint
from tapegrad.ops.elementwise.selection import maximum, minimum, where
from tapegrad.special_functions.derivatives import in_double, with_derivatives
from tapegrad.special_functions.euler_integral import beta_expectation, log_of_sum
from tapegrad.special_functions.gamma_functions import betaln, gamma, is_pole, rgamma
from tapegrad.special_functions.quadrature import power_sum

# Euler's integral is used where both of its exponents are at least this.
_MIN_EXPONENT = 0.5
_MOST_RECURRED = 40
"""Polynomials up to this degree are computed by a recurrence."""
_TERMS_1F1, _FAR = 340, 160.0
_TERMS_2F1, _NEAR_ONE = 420, 0.9


def hyp1f1(a: Any, b: Any, x: Any) -> Any:
    """Return Kummer's function 1F1(a; b; x), differentiable in all arguments.

    For 0.5 <= a <= b - 0.5 the relative error is about 1e-13 for every x. Elsewhere the result is a
    power series (|x| up to 160, or any x for an integer a <= 0) or an asymptotic series. Both need
    |a| and |b| small compared with 160, and lose digits near the zeros of the function. Polynomials
    of a degree up to 40 with positive b lose none to cancellation. For an integer a <= 0 and
    |x| > 160, the derivative with respect to a only includes the terms of the polynomial.

    >>> round(float(hyp1f1(1.0, 2.0, 1.0)), 6)
    1.718282
    """
    return in_double(_hyp1f1, a, b, x)


def _hyp1f1(a: Any, b: Any, x: Any) -> Any:
    return with_derivatives(
        _hyp1f1_value, lambda a, b, x: a / b * _hyp1f1(a + 1, b + 1, x), (a, b), x
    )


def _hyp1f1_value(a: Any, b: Any, x: Any) -> Any:
    is_inner = (a >= _MIN_EXPONENT) & (b - a >= _MIN_EXPONENT) & (abs(x) < math.inf)
    inner = _kummer_integral(
        where(is_inner, a, 1.0), where(is_inner, b, 2.0), where(is_inner, x, 0.0)
    )
    # With b = -m, the series ends before its division by 0 if a is 0, -1, ..., -m.
    has_pole = is_pole(b) & ~(is_pole(a) & (a >= b))
    is_safe = is_inner | has_pole
    other = _kummer_series(where(is_safe, 1.0, a), where(is_safe, 1.0, b), where(is_safe, 0.0, x))
    is_short = is_pole(a) & (a >= -_MOST_RECURRED) & (b > 0) & (x > 0) & (abs(other) < math.inf)
    exact = _laguerre(where(is_short, -a, 0.0), where(is_short, b, 1.0), where(is_short, x, 0.0))
    other = other + stop_gradient(where(is_short, exact - other, 0.0))  # the derivatives stay
    y = where(is_inner, inner, other)
    return where(has_pole, _at_pole(a, x), where(x == 0, 1.0, y))


def _laguerre(degree: Any, b: Any, x: Any) -> Any:
    """Return 1F1(-degree; b; x) by its recurrence, in which the terms of the series do not cancel.

    >>> float(_laguerre(2.0, 2.0, 3.0)) == 1 - 3 + 1.5
    True
    """
    degree, b, x = (stop_gradient(value) for value in (degree, b, x))
    before, last = 0.0 * x, 1.0 + 0.0 * x
    found = last
    for k in range(_MOST_RECURRED):
        before, last = last, ((2 * k + b - x) * last - k * before) / (b + k)
        found = where(degree == k + 1, last, found)
    return found


def _at_pole(a: Any, x: Any) -> Any:
    """Return the limits at b = 0, -1, ...: infinite unless the series terminates first."""
    return where((a == 0) | (x == 0), 1.0 + 0.0 * x, math.inf)


def _kummer_integral(a: Any, b: Any, x: Any) -> Any:
    root = sqrt((b - x) * (b - x) + 4 * a * x)
    upper = _sum_of(b + x, root, -4 * (b - a) * x)
    lower = _sum_of(b - x, root, 4 * a * x)
    top = log(a / (b - a)) + log(upper / lower)
    above, below = maximum(x, 0.0), minimum(x, 0.0)

    def log_kernel(t: Any, rest: Any, above: Any, below: Any) -> Any:
        return below * t - above * rest

    y = beta_expectation(a, b - a, log_kernel, top, abs(top) + 3, 124, above, below)
    return exp(above) * y


def _sum_of(first: Any, root: Any, product: Any) -> Any:
    """Return first + root without cancellation, given product = root² - first²."""
    is_low = first < 0
    return where(is_low, product, first + root) / where(is_low, root - first, 1.0)


def _kummer_series(a: Any, b: Any, x: Any) -> Any:
    """Sum the power series of 1F1(a; b; x), or of exp(x) 1F1(b - a; b; -x) for negative x."""
    ends = is_pole(a)
    is_reflected = (x < 0) & ~ends
    a, y = where(is_reflected, b - a, a), where(is_reflected, -x, x)
    is_far = (y > _FAR) & ~is_pole(a)
    near = where(is_far, 1.0, y)

    def ratio(k: Any, a: Any, b: Any, x: Any) -> Any:
        # Terms after the end of a polynomial are 0 but could overflow for large |x|.
        is_over = ((abs(x) > _FAR) | is_pole(b)) & (a + k >= 0)
        below = where(is_over & (b + k == 0), 1.0, b + k)
        return where(is_over, 0.0, (a + k) / below * (x / (k + 1)))

    total = power_sum(ratio, _TERMS_1F1, a, b, near)
    series = exp(where(is_reflected, x, 0.0)) * total
    return where(is_far, _kummer_far(a, b, where(is_far, y, _FAR), is_reflected), series)


def _kummer_far(a: Any, b: Any, x: Any, is_reflected: Any) -> Any:
    """Return exp(x) x^(a-b) Γ(b) / Γ(a) times a series in 1/x; no exp(x) if it was reflected."""
    term = total = 1.0 + 0.0 * x
    turn = abs(b - a) + abs(1 - a)
    for k in range(40):
        factor = (b - a + k) * (1 - a + k) / ((k + 1) * x)
        # The asymptotic series diverges after its smallest term, so it stops there.
        term = where((abs(factor) > 1) & (turn < k), 0.0, term * factor)
        total = total + term
    power = exp(where(is_reflected, 0.0, x) + (a - b) * log(x))
    return power * gamma(b) * rgamma(a) * total


def hyp2f1(a: Any, b: Any, c: Any, z: Any) -> Any:
    """Return Gauss's function 2F1(a, b; c; z) for z <= 1, differentiable in all arguments.

    Where a or b is between 0.5 and c - 0.5, the relative error is about 1e-13 for every z < 1.
    Elsewhere the result is a power series in z, z / (z - 1) or 1 - z. It loses digits for z > 0.9
    if c - a - b is near an integer, and at negative z if |a| and |b| are large. The result is NaN
    for z > 1 unless the series terminates.

    >>> round(float(hyp2f1(1.0, 1.0, 2.0, 0.5)), 6)
    1.386294
    """
    return in_double(_hyp2f1, a, b, c, z)


def _hyp2f1(a: Any, b: Any, c: Any, z: Any) -> Any:
    def slope(a: Any, b: Any, c: Any, z: Any) -> Any:
        return a * b / c * _hyp2f1(a + 1, b + 1, c + 1, z)

    return with_derivatives(_hyp2f1_value, slope, (a, b, c), z)


def _hyp2f1_value(a: Any, b: Any, c: Any, z: Any) -> Any:
    # Swap a and b so that b is the one farther from the ends of (0, c).
    is_swapped = minimum(a, c - a) > minimum(b, c - b)
    a, b = where(is_swapped, b, a), where(is_swapped, a, b)
    is_inner = (minimum(b, c - b) >= _MIN_EXPONENT) & (z < 1) & (z > -math.inf)
    inner = _gauss_integral(
        where(is_inner, a, 1.0),
        where(is_inner, b, 1.0),
        where(is_inner, c, 2.0),
        where(is_inner, z, 0.0),
    )
    ends = is_pole(a) | is_pole(b)
    # With c = -m, the series ends before its division by 0 if a or b is one of 0, ..., 1 - m.
    has_pole = is_pole(c) & ~((is_pole(a) & (a > c)) | (is_pole(b) & (b > c)))
    is_outer = ~is_inner & ~has_pole & ((z < 1) | ends)
    other = _gauss_series(
        where(is_outer, a, 1.0),
        where(is_outer, b, 1.0),
        where(is_outer, c, 2.0),
        where(is_outer, z, 0.0),
    )
    is_one = z == 1
    at_one = _gauss_at_one(where(is_one, a, 1.0), where(is_one, b, 1.0), where(is_one, c, 3.0))
    beyond = where(is_one, at_one, where(ends, other, math.nan))
    y = where(is_inner, inner, where(z < 1, other, beyond))
    return where(z == 0, 1.0, where(has_pole, math.inf, y))


def _gauss_integral(a: Any, b: Any, c: Any, z: Any) -> Any:
    rest = 1 - z
    # The peak is at the root t in (0, 1) of b - middle t + (c - a) z t². 1 - t is computed from the
    # mirrored equation to avoid cancellation.
    middle, end = c + (b - a) * z, (c - a) * z
    root = sqrt(maximum(middle * middle - 4 * b * end, 0.0))
    t = 2 * b / (middle + root)
    mirror = middle - 2 * end
    other = 2 * (c - b) * rest / (mirror + root)
    top = log(t / maximum(other, 1e-300))
    span = abs(log(rest)) + abs(top) + 3

    def log_kernel(t: Any, below: Any, a: Any, z: Any, rest: Any) -> Any:
        x = z * t
        is_small = abs(x) < 0.5
        y = where(is_small, 1 - x, below + rest * t)
        return -a * log_of_sum(where(is_small, 0.0 - x, y - 1), y)

    return beta_expectation(b, c - b, log_kernel, top, span, 152, a, z, rest)


def _gauss_at_one(a: Any, b: Any, c: Any) -> Any:
    """Return Γ(c) Γ(c - a - b) / (Γ(c - a) Γ(c - b)), infinite for c <= a + b."""
    left = c - a - b
    is_finite = left > 0
    # A ratio of beta functions, where they are positive, does not overflow.
    is_inner = is_finite & (b > 0) & (c > b)
    inner, rest = where(is_inner, b, 1.0), where(is_inner, c - b, 1.0)
    ratio = exp(betaln(where(is_inner, left, 1.0), inner) - betaln(rest, inner))
    a, b, c = (where(is_inner, 1.0, value) for value in (a, b, c))
    y = gamma(c) * gamma(where(is_finite & ~is_inner, left, 1.0)) * rgamma(c - a) * rgamma(c - b)
    return where(is_finite, where(is_inner, ratio, y), math.inf)


def _gauss_series(a: Any, b: Any, c: Any, z: Any) -> Any:
    """Sum the series in z, in z / (z - 1) for z < -0.9, or in 1 minus that where it is near 1."""
    ends = is_pole(a) | is_pole(b)
    # (1 - z)^-a 2F1(a, c - b; c; z / (z - 1))
    falls_fast = (z >= -1) & (abs(c - a - b) > 6)
    is_low = (z < -_NEAR_ONE) & ~ends & ~falls_fast
    below = where(is_low, 1 - z, 1.0)
    b, rest = where(is_low, c - b, b), where(is_low, 1 / below, 1 - z)
    z = where(is_low, z / (0.0 - below), z)
    is_high = (z > _NEAR_ONE) & ~ends & ~_is_close(c - a - b)
    pairs = (a, 0.25), (b, 0.25), (c, 1.0), (rest, 0.05)
    near = _gauss_near_one(*[where(is_high, value, other) for value, other in pairs])
    # For c < a + b use (1 - z)^(c - a - b) 2F1(c - a, c - b; c; z), which converges faster.
    is_steep = (c - a - b < 0) & ~ends
    power = where(is_steep, c - a - b, 0.0) * log(where(is_steep, rest, 1.0))
    first, second = where(is_steep, c - a, a), where(is_steep, c - b, b)
    y = exp(power) * _gauss_sum(first, second, c, where(is_high, 0.0, z), _TERMS_2F1)
    return exp(where(is_low, 0.0 - a, 0.0) * log(below)) * where(is_high, near, y)


def _is_close(left: Any) -> Any:
    return abs(left - rint(left)) < 1e-3


def _gauss_near_one(a: Any, b: Any, c: Any, rest: Any) -> Any:
    """Sum the two series in rest = 1 - z."""
    left = c - a - b
    first = gamma(c) * gamma(left) * rgamma(c - a) * rgamma(c - b)
    second = gamma(c) * gamma(-left) * rgamma(a) * rgamma(b) * exp(left * log(rest))
    y = first * _gauss_sum(a, b, 1 - left, rest, 40)
    return y + second * _gauss_sum(c - a, c - b, 1 + left, rest, 40)


def _gauss_sum(a: Any, b: Any, c: Any, z: Any, count: int) -> Any:
    def ratio(k: Any, a: Any, b: Any, c: Any, z: Any) -> Any:
        # Terms after the end of a polynomial are 0 but could overflow for |z| > 1.
        is_end = (is_pole(a) & (a + k >= 0)) | (is_pole(b) & (b + k >= 0))
        is_over = ((abs(z) > 1) | is_pole(c)) & is_end
        below = where(is_over & (c + k == 0), 1.0, c + k)
        return where(is_over, 0.0, (a + k) * (b + k) / (below * (k + 1)) * z)

    return power_sum(ratio, count, a, b, c, z)
