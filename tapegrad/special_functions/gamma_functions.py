"""The gamma function and functions built from it: beta, factorials, binomial coefficients."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tapegrad.autodiff.custom_gradient import custom_gradient
from tapegrad.core.primitive.operand import as_operand
from tapegrad.errors import ArgumentError
from tapegrad.ops.casting.cast import cast
from tapegrad.ops.casting.promotion import operand, operands
from tapegrad.ops.control.stop_gradient import stop_gradient
from tapegrad.ops.creation import zeros_like
from tapegrad.ops.elementwise import special_functions as primitives
from tapegrad.ops.elementwise.comparison import isnan
from tapegrad.ops.elementwise.exponential import exp, log1p
from tapegrad.ops.elementwise.magnitude import copysign
from tapegrad.ops.elementwise.rounding import floor, rint
from tapegrad.ops.elementwise.selection import where
from tapegrad.ops.elementwise.special_functions import betaln as log_beta, lgamma
from tapegrad.ops.elementwise.trigonometric import sin
from tapegrad.ops.shape.functions import broadcast_arrays
from tapegrad.special_functions.derivatives import is_tracked

_LARGEST_LOG = 88.0
"""Exponentials of larger numbers may overflow in float32."""


def is_pole(x: Any) -> Any:
    """Return where x is 0, -1, ..., the poles of Γ.

    >>> is_pole(operand([-1.0, 1.0])).tolist()
    [True, False]
    """
    return (x <= 0) & (floor(x) == x)


def _sign(x: Any) -> Any:
    """Return the sign of Γ(x), and 1 at its poles: negative where x < 0 has an odd floor."""
    half = 0.5 * floor(where(x < 0, x, 0.0))
    return where((floor(half) == half) | is_pole(x), 1.0, -1.0 + 0.0 * half)


def gammasgn(x: Any) -> Any:
    """Return the sign of Γ(x), and NaN at the negative integers.

    >>> gammasgn([2.5, -0.5]).tolist()
    [1.0, -1.0]
    """
    x = operand(x)
    signs = where(x == 0, copysign(1.0, x), _sign(x))
    return where(isnan(x) | (is_pole(x) & (x < 0)), math.nan, signs)


def gamma(z: Any) -> Any:
    """Return the gamma function Γ(z).

    >>> round(float(gamma(5.0)), 9)
    24.0
    """
    z = operand(z)
    is_none = is_pole(z)
    y = _sign(z) * exp(lgamma(where(is_none, 1.0, z)))
    return where(is_none, where(z == 0, copysign(math.inf, z), math.nan), y)


def rgamma(z: Any) -> Any:
    """Return 1 / Γ(z), which is 0 at the poles of Γ and smooth everywhere.

    >>> rgamma([1.0, 3.0]).round(9).tolist()
    [1.0, 0.5]
    """
    z = operand(z)
    is_left = z < 0.5
    right = exp(-lgamma(where(is_left, 1.0, z)))
    # 1 / Γ(z) = Γ(1 - z) sin(πz) / π; the sine is taken of z minus the nearest even integer.
    left = where(is_left, z, 0.0)
    rest = left - 2 * rint(0.5 * left)
    # sin(π) is not 0 in floating point, so odd integers are shifted to 0 and the sign is flipped.
    turn = rint(rest)
    sine = (1 - 2 * turn * turn) * sin(math.pi * (rest - turn))
    # At a pole the result is 0, even if Γ(1 - z) overflows.
    size = lgamma(1 - left)
    size = where((sine == 0) & (size > _LARGEST_LOG), 0.0, size)
    return where(is_left, exp(size) * sine / math.pi, right)


def loggamma(z: Any) -> Any:
    """Return log Γ(z), and NaN for negative z.

    >>> float(loggamma(1.0)) == 0
    True
    """
    z = operand(z)
    return where(z < 0, math.nan, lgamma(where(z < 0, 1.0, z)))


def digamma(x: Any) -> Any:
    """Return the derivative of gammaln.

    >>> round(float(digamma(1.0)), 6)
    -0.577216
    """
    x = operand(x)
    is_zero = x == 0
    y = primitives.digamma(where(is_zero, 1.0, x))
    return where(is_zero, copysign(math.inf, -x), y)


def multigammaln(a: Any, d: int) -> Any:
    """Return the logarithm of the multivariate gamma function of dimension d; NaN for small a.

    >>> round(float(multigammaln(2.5, 1)), 6) == round(math.lgamma(2.5), 6)
    True
    """
    if int(d) != d or d < 1:
        raise ArgumentError(f"multigammaln needs a positive integer d. Got {d!r}.")
    a = operand(a)
    a = where(a > 0.5 * (d - 1), a, math.nan)
    y = lgamma(a)
    for j in range(1, int(d)):
        y = y + lgamma(a - 0.5 * j)
    return y + 0.25 * d * (d - 1) * math.log(math.pi)


def _mirrored(a: Any, b: Any) -> tuple[Any, Any, Any, Any, Any]:
    """Replace arguments of the beta function where one is a pole of Γ, for example B(-5, 2).

    If the other one is an integer m and the poles cancel, B(n, m) = (-1)^m B(1 - n - m, m).
    Return where there is a pole, where the value is finite, both new arguments, and (-1)^m.
    """
    has_pole = is_pole(a) | is_pole(b)
    n, m = where(is_pole(a), a, b), stop_gradient(where(is_pole(a), b, a))
    rest = 1 - n - m
    is_finite = has_pole & (floor(m) == m) & (m > 0) & (rest > 0) & (rest < math.inf)
    half = 0.5 * where((floor(m) == m) & (abs(m) < math.inf), m, 0.0)
    sign = where(floor(half) == half, 1.0, -1.0 + 0.0 * half)
    a, b = where(has_pole, 1.0, a), where(has_pole, 1.0, b)
    sign = where(is_finite | (is_pole(n) & is_pole(m)), sign, 1.0)
    return has_pole, is_finite, where(is_finite, rest, a), where(is_finite, m, b), sign


def betaln(a: Any, b: Any) -> Any:
    """Return log |B(a, b)|.

    >>> round(float(betaln(2.0, 1.0)), 6), round(float(betaln(-5.0, 2.0)), 6)
    (-0.693147, -2.995732)
    """
    first, second = operands(a, b)
    is_far = _is_unbounded(first, second)
    has_pole, is_finite, a, b, _ = _mirrored(first, second)
    y = log_beta(where(is_far, 1.0, a), where(is_far, 1.0, b))
    is_infinite = has_pole & ~is_finite & ~is_far
    y = where(is_infinite, _at_poles(first, second, is_infinite), y)
    return where(is_far, math.inf, y + _jump(is_finite, where(is_pole(first), second, first)))


def _at_poles(a: Any, b: Any, is_infinite: Any) -> Any:
    """Return log |B(a, b)| where it is infinite, with its derivatives by the other argument."""
    a, b = where(is_infinite, a, 1.0), where(is_infinite, b, 1.0)
    total = a + b
    total = where((is_pole(a) & is_pole(b)) | (abs(total) == math.inf), 1.0, total)
    return lgamma(a) + lgamma(b) - lgamma(total)


def _jump(is_there: Any, x: Any) -> Any:
    """Return zeros whose derivative by `x` is NaN at some places.

    B(-5, m) is finite for a few integers m and infinite next to them.
    """
    return _no_slope(*broadcast_arrays(is_there, x)) if is_tracked(x) else 0.0


@custom_gradient
def _no_slope(is_there: Any, x: Any) -> Any:
    return zeros_like(x), lambda g: (None, where(is_there, math.nan, 0.0 * g))


def _is_unbounded(a: Any, b: Any) -> Any:
    """Return where one argument is negative and the other infinite: |B(a, b)| is infinite."""
    return ((a == math.inf) & (b < 0)) | ((b == math.inf) & (a < 0))


def beta(a: Any, b: Any) -> Any:
    """Return B(a, b) = Γ(a) Γ(b) / Γ(a + b).

    >>> round(float(beta(2.0, 3.0)), 6), round(float(beta(-5.0, 2.0)), 6)
    (0.083333, 0.05)
    """
    first, second = operands(a, b)
    is_far = _is_unbounded(first, second)
    has_pole, is_finite, a, b, sign = _mirrored(first, second)
    is_far = is_far & ~has_pole
    sign = where(is_far, _sign(a) * _sign(b), sign)
    y = sign * _beta(where(is_far, 1.0, a), where(is_far, 1.0, b))
    infinite = where(sign > 0, math.inf, -math.inf)
    y = where((has_pole & ~is_finite) | is_far, infinite, y)
    # At a pole, only the derivative of a finite value by the argument with the pole exists.
    is_cut = [has_pole & ~(is_finite & is_pole(x)) for x in (first, second)]
    return y + _jump(is_cut[0], first) + _jump(is_cut[1], second)


def _beta(a: Any, b: Any) -> Any:
    # Where Γ(a + b) has a pole the result is 0. Its derivative cannot be computed from logarithms.
    is_crossing = is_pole(a + b) & ~is_pole(a) & ~is_pole(b)
    is_crossing = is_crossing & (abs(a) < 150) & (abs(b) < 150)
    left, right = where(is_crossing, a, 1.0), where(is_crossing, b, 1.0)
    crossing = gamma(left) * gamma(right) * rgamma(left + right)
    a, b = where(is_crossing, 1.0, a), where(is_crossing, 1.0, b)
    y = _sign(a) * _sign(b) * _sign(a + b) * exp(log_beta(a, b))
    return where(is_crossing, crossing, y)


def poch(z: Any, m: Any) -> Any:
    """Return the Pochhammer symbol Γ(z + m) / Γ(z).

    >>> round(float(poch(2.0, 3.0)), 9)
    24.0
    """
    z, m = operands(z, m)
    is_zero = is_pole(z)
    # For positive z and z + m, use the beta function and Γ(m) or Γ(-m): the difference of the
    # logarithms of two large gamma functions has no significant digits.
    is_plain = (z > 0) & (z + m > 0) & (m != 0)
    is_up = m > 0
    base, step = where(is_plain, z, 2.0), where(is_plain, m, 1.0)
    rise = lgamma(where(is_up, step, 1.0)) - log_beta(base, where(is_up, step, 1.0))
    low = where(is_up, 1.0, base + step)
    fall = log_beta(low, where(is_up, 1.0, -step)) - lgamma(where(is_up, 1.0, -step))
    plain = exp(where(is_up, rise, fall))
    is_masked = is_zero | is_plain
    y = exp(lgamma(where(is_masked, 1.0, z + m)) - lgamma(where(is_masked, 1.0, z)))
    rest = where(is_zero, _falling(z, m), _sign(z + m) * _sign(z) * y)
    # At a pole of Γ(z) the result is 0 with a nonzero derivative.
    is_crossing = is_zero & ~is_pole(z + m) & (abs(z) < 150) & (abs(z + m) < 150)
    base, step = where(is_crossing, z, 1.0), where(is_crossing, m, 1.0)
    crossing = gamma(base + step) * rgamma(base)
    return where(is_plain, plain, where(is_crossing, crossing, rest))


def _falling(z: Any, m: Any) -> Any:
    """Return (-1)^m (-z)! / (-z - m)! for z = 0, -1, ...; 0 if the product contains a zero."""
    is_short = floor(m) == m
    top = where(m <= -z, 1 - z - where(m <= -z, m, 0.0), 1.0)
    half = 0.5 * floor(m)
    sign = where(floor(half) == half, 1.0, -1.0 + 0.0 * half)
    y = sign * exp(lgamma(1 - where(z <= 0, z, 0.0)) - lgamma(top))
    return where((m > -z) | ~is_short, 0.0, y)


def factorial(n: Any, exact: bool = False, extend: str = "zero") -> Any:
    """Return n! as Γ(n + 1), and 0 for negative n.

    With `exact` a Python int gives a Python int, and an array of integers gives int64. Above 20 the
    result does not fit into int64: host values raise, and tensors give the largest int64.

    >>> round(float(factorial(4)), 9), factorial(20, exact=True)
    (24.0, 2432902008176640000)
    >>> factorial([3, 5], exact=True).tolist()
    [6, 120]
    """
    if extend != "zero":
        raise ArgumentError(f"factorial supports only extend='zero'. Got {extend!r}.")
    if exact:
        return _exact_factorial(n)
    n = operand(n)
    return where(n < 0, 0.0, exp(lgamma(where(n < 0, 0.0, n) + 1)))


def _exact_factorial(n: Any) -> Any:
    if isinstance(n, int | np.integer | float):
        value = _as_int(n, "factorial")
        return math.factorial(value) if value >= 0 else 0
    if isinstance(n, list | tuple | np.ndarray) and np.any(np.asarray(n) > 20):
        raise ArgumentError(
            f"factorial with exact=True of an array is int64 and needs n <= 20. Got {n}. "
            "Pass a Python int for a larger n."
        )
    n = as_operand(n)
    if not n.dtype.is_integer:
        raise ArgumentError(f"factorial with exact=True needs integers. Got {n.dtype}.")
    n = cast(n, "int64")
    y = where(n < 0, n * 0, n * 0 + 1)
    for k in range(2, 21):
        y = where(n >= k, y * k, y)
    return where(n > 20, n * 0 + (2**63 - 1), y)


def log_choose(n: Any, k: Any) -> Any:
    """Return the logarithm of the binomial coefficient of n and k.

    >>> round(float(log_choose(*operands(4.0, 1.0))), 6) == round(math.log(4), 6)
    True
    """
    return -log_beta(n - k + 1, k + 1) - log1p(n)


def comb(N: Any, k: Any, *, exact: bool = False, repetition: bool = False) -> Any:
    """Return the number of ways to choose k of N items; 0 where k is negative or k > N.

    >>> round(float(comb(5, 2)), 9), comb(5, 2, exact=True)
    (10.0, 10)
    """
    if repetition and exact:
        # There is one way to choose zero items, even from none.
        return comb(N + k - 1, k, exact=True) if k or N < 0 else 1
    if repetition:
        n, k = operands(N, k)
        return where((k == 0) & (n >= 0), 1.0, comb(n + k - 1, k))
    if exact:
        n, j = _as_int(N, "comb"), _as_int(k, "comb")
        return math.comb(n, j) if n >= j >= 0 else 0
    n, k = operands(N, k)
    is_none = (k < 0) | (k > n) | (n < 0)
    n, k = where(is_none, 1.0, n), where(is_none, 0.0, k)
    return where(is_none, 0.0, exp(log_choose(n, k)))


def _as_int(value: Any, name: str) -> int:
    if not isinstance(value, int | np.integer | float) or int(value) != value:
        raise ArgumentError(f"{name} with exact=True needs Python integers. Got {value!r}.")
    return int(value)
