"""Elementary functions written to avoid cancellation and undefined derivatives."""

from __future__ import annotations

import math
from typing import Any

from tapegrad.errors import ArgumentError
from tapegrad.ops.casting.promotion import operand, operands
from tapegrad.ops.control.stop_gradient import stop_gradient
from tapegrad.ops.elementwise.comparison import isnan
from tapegrad.ops.elementwise.exponential import exp, expm1, log
from tapegrad.ops.elementwise.powers import cbrt as cube_root, sqrt
from tapegrad.ops.elementwise.rounding import rint
from tapegrad.ops.elementwise.selection import minimum, where
from tapegrad.ops.elementwise.special_functions import betaln
from tapegrad.ops.elementwise.trigonometric import cos, sin, sinc as sinc_pi
from tapegrad.ops.kinds import is_complex
from tapegrad.special_functions.gamma_functions import gamma, log_choose, rgamma
from tapegrad.special_functions.quadrature import cospi, sinpi
from tapegrad.special_functions.removable_singularities import log1p_ratio


def exprel(x: Any) -> Any:
    """Return (exp(x) - 1) / x, and 1 at 0.

    >>> round(float(exprel(1.0)), 6)
    1.718282
    """
    x = operand(x)
    is_near = abs(x) < 1
    near, series = where(is_near, x, 0.0), 1.0
    for k in range(20, 1, -1):
        series = 1 + series * near / k
    is_infinite = x == math.inf
    far = where(is_near | is_infinite, 1.0, x)
    return where(is_near, series, where(is_infinite, math.inf, expm1(far) / far))


def exp10(x: Any) -> Any:
    """Return 10 to the power x.

    >>> round(float(exp10(2.0)), 9)
    100.0
    """
    x = operand(x)
    is_infinite = abs(x) == math.inf
    whole = rint(where(is_infinite, 0.0, x))
    # The exponential of an infinite x is already the result.
    return 10.0**whole * exp(where(is_infinite, x, math.log(10) * (x - whole)))


def cosm1(x: Any) -> Any:
    """Return cos(x) - 1, accurate near 0.

    >>> round(float(cosm1(1e-8)) * 1e17, 6)
    -5.0
    """
    half = sin(0.5 * operand(x))
    return -2 * half * half


def powm1(x: Any, y: Any) -> Any:
    """Return x ** y - 1, accurate where that is small.

    >>> round(float(powm1(1.0 + 1e-12, 0.5)) * 1e12, 3)
    0.5
    """
    x, y = operands(x, y)
    is_one = (x == 1) | (y == 0)  # also for infinite x or y
    x = where(is_one & (abs(x) == math.inf), 1.0, x)
    y = where(is_one & (abs(y) == math.inf), 0.0, y)
    is_positive = x > 0
    small = expm1(y * log(where(is_positive, x, 1.0)))
    return where(is_positive, small, where(is_positive, 1.0, x) ** y - 1)


def cbrt(x: Any) -> Any:
    """Return the real cube root.

    >>> round(float(cbrt(-27.0)), 9)
    -3.0
    """
    return cube_root(operand(x))


def sinc(x: Any) -> Any:
    """Return sin(πx) / (πx), and 1 at 0.

    >>> round(float(sinc(0.5)), 6)
    0.63662
    """
    x = operand(x)
    if is_complex(x):
        return sinc_pi(x)
    # sinpi is accurate near the zeros at integers, unlike the sine of the rounded product πx.
    is_near = abs(x) < 0.5
    far = where(is_near | (abs(x) == math.inf), 1.0, x)
    near = sinc_pi(where(is_near, x, 0.0))
    return where(is_near, near, sinpi(far) / (math.pi * far))


def diric(x: Any, n: int) -> Any:
    """Return the periodic sinc function sin(nx/2) / (n sin(x/2)).

    It is computed as a sum of cosines, which avoids 0/0.

    >>> round(float(diric(1.0, 3)), 6)
    0.693535
    """
    x = operand(x)
    if type(n) is not int or n < 1:
        raise ArgumentError(f"diric needs a positive integer n. Got {n!r}.")
    total = 0.0 * x + (0.5 if n % 2 else 0.0)
    for k in range(n // 2):
        total = total + cos((k + (1.0 if n % 2 else 0.5)) * x)
    return 2 / n * total


def sindg(x: Any) -> Any:
    """Return the sine of an angle in degrees.

    >>> float(sindg(180.0))
    0.0
    """
    return sinpi(_reduce_degrees(x) / 180)


def cosdg(x: Any) -> Any:
    """Return the cosine of an angle in degrees.

    >>> float(cosdg(90.0))
    0.0
    """
    return cospi(_reduce_degrees(x) / 180)


def _reduce_degrees(x: Any) -> Any:
    """Subtract full turns before dividing by 180, which keeps all digits."""
    x = operand(x)
    return x - 360 * stop_gradient(rint(x / 360))


def tandg(x: Any) -> Any:
    """Return the tangent of an angle in degrees.

    >>> round(float(tandg(45.0)), 9)
    1.0
    """
    x = operand(x)
    return sindg(x) / cosdg(x)


def cotdg(x: Any) -> Any:
    """Return the cotangent of an angle in degrees.

    >>> round(float(cotdg(45.0)), 9)
    1.0
    """
    x = operand(x)
    return cosdg(x) / sindg(x)


def radian(d: Any, m: Any, s: Any) -> Any:
    """Convert an angle in degrees, minutes and seconds to radians.

    >>> round(float(radian(90.0, 0.0, 0.0)), 6)
    1.570796
    """
    d, m, s = operands(d, m, s)
    return math.pi / 180 * (d + m / 60 + s / 3600)


def inv_boxcox(y: Any, lmbda: Any) -> Any:
    """Return the x for which boxcox(x, lmbda) is y.

    >>> round(float(inv_boxcox(1.5, 2.0)), 6)
    2.0
    """
    y, lmbda = operands(y, lmbda)
    return exp(_log_of_inverse(y, lmbda))


def _log_of_inverse(y: Any, lmbda: Any) -> Any:
    """Return log(1 + y lmbda) / lmbda, and y where lmbda is 0."""
    is_end = ((y == math.inf) & (lmbda >= 0)) | ((y == -math.inf) & (lmbda <= 0))
    inner = where(is_end, 0.0, y)
    return where(is_end, y, inner * log1p_ratio(inner * lmbda))


def inv_boxcox1p(y: Any, lmbda: Any) -> Any:
    """Return the x for which boxcox1p(x, lmbda) is y.

    >>> round(float(inv_boxcox1p(1.5, 2.0)), 6)
    1.0
    """
    y, lmbda = operands(y, lmbda)
    return expm1(_log_of_inverse(y, lmbda))


def huber(delta: Any, r: Any) -> Any:
    """Return the Huber loss: r²/2 up to |r| = delta, linear beyond; inf for negative delta.

    >>> huber(1.0, [0.5, 3.0]).tolist()
    [0.125, 2.5]
    """
    delta, r = operands(delta, r)
    size = abs(r)
    inner = minimum(size, delta)
    is_infinite = (delta < 0) | ((size == math.inf) & (delta == math.inf))
    inner = where(is_infinite, 0.0, inner)
    return where(is_infinite, math.inf, inner * (size - 0.5 * inner))


def pseudo_huber(delta: Any, r: Any) -> Any:
    """Return the pseudo-Huber loss delta² (√(1 + (r/delta)²) - 1); inf for negative delta.

    >>> round(float(pseudo_huber(1.0, 1.0)), 6)
    0.414214
    """
    delta, r = operands(delta, r)
    is_inside = delta > 0
    # Scale by the larger of the two, because its square may overflow.
    inner, size = where(is_inside, delta, 1.0), abs(r)
    unit = where(size > inner, where(size == math.inf, 1.0, size), inner)
    root = unit * sqrt((inner / unit) ** 2 + (r / unit) ** 2)
    y = r * (r * (inner / (inner + root)))
    y = where(size == math.inf, math.inf, where(delta == math.inf, 0.5 * r * r, y))
    return where(isnan(delta), delta, where(is_inside, y, where(delta < 0, math.inf, 0.0)))


def binom(n: Any, k: Any) -> Any:
    """Return the binomial coefficient of real arguments.

    >>> round(float(binom(5.0, 2.0)), 9), round(float(binom(-0.5, 2.0)), 9)
    (10.0, 0.375)
    """
    n, k = operands(n, k)
    is_plain = (n > -1) & (k > -1) & (n - k > -1)
    plain_n, plain_k = where(is_plain, n, 1.0), where(is_plain, k, 0.0)
    plain = exp(log_choose(plain_n, plain_k))
    n, k = where(is_plain, 1.0, n), where(is_plain, 0.0, k)
    # For k > n or k < 0 the reflection formula replaces Γ of a negative number by ratios that
    # neither overflow nor underflow.
    is_above, is_below = (n > -1) & (k - n >= 1), (n > -1) & (k <= -1)
    reflected = is_above | is_below
    far = where(is_above, k - n, where(is_below, -k, 1.0))
    top = where(reflected, n, 1.0)
    size = exp(betaln(far, top + 1) - math.log(math.pi))
    sine = sinpi(where(is_above, k - n, where(is_below, -k, 0.5)))
    n, k = where(reflected, 1.0, n), where(reflected, 0.0, k)
    is_left = (n <= -1) & (k > -1)
    low, count = where(is_left, n, -1.5), where(is_left, k, 0.0)
    turn = sinpi(-low)
    signs = sinpi(count - low) / where(turn == 0, math.nan, turn)
    left = signs * exp(-betaln(count + 1, -low)) / (count - low)
    n, k = where(is_left, 1.0, n), where(is_left, 0.0, k)
    rest = gamma(n + 1) * rgamma(k + 1) * rgamma(n - k + 1)
    return where(is_plain, plain, where(reflected, sine * size, where(is_left, left, rest)))
