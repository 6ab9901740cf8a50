"""Riemann and Hurwitz zeta functions by the Euler-Maclaurin formula, differentiable in s."""

from __future__ import annotations

import math
from typing import Any

from tapegrad.ops.casting.promotion import operands
from tapegrad.ops.elementwise.exponential import exp, log
from tapegrad.ops.elementwise.selection import where
from tapegrad.ops.elementwise.special_functions import zeta as hurwitz_zeta
from tapegrad.special_functions.derivatives import in_double, is_tracked
from tapegrad.special_functions.gamma_functions import gamma
from tapegrad.special_functions.quadrature import sinpi

TERMS = 12
# B(2j) / (2j)!
BERNOULLI = [
    1 / 12,
    -1 / 720,
    1 / 30240,
    -1 / 1209600,
    1 / 47900160,
    -691 / 1307674368000,
    1 / 74724249600,
    -3617 / 10670622842880000,
]


def scaled_sum(s: Any, q: Any) -> tuple[Any, Any]:
    """Return the sum of (1 + k / q)^-s over k = 0, 1, ..., and the logarithm of q^-s.

    It needs q > 0 and covers s >= 0 except 1 by analytic continuation. Neither result overflows.

    >>> total, log_factor = scaled_sum(*operands(2.0, 2.0))
    >>> round(float(total * exp(log_factor)), 6)
    0.644934
    """
    base = log(q)
    total = 1.0 + 0.0 * (s + q)
    for k in range(1, TERMS):
        total = total + exp(-s * (log(q + k) - base))
    end = q + TERMS
    last = exp(-s * (log(end) - base))
    total = total + last * (end / (s - 1) + 0.5)
    factor = last * s / end
    for j, coefficient in enumerate(BERNOULLI):
        total = total + coefficient * factor
        factor = factor * (s + (2 * j + 1)) * (s + (2 * j + 2)) / (end * end)
    return total, -s * base


def _sum_from(s: Any, q: Any) -> Any:
    total, log_factor = scaled_sum(s, q)
    return total * exp(log_factor)


def zeta(x: Any, q: Any = None) -> Any:
    """Return the Riemann zeta function, or with `q` the Hurwitz zeta function for x > 1 and q > 0.

    The Hurwitz zeta function is the sum of (k + q)^-x. Both arguments are differentiable.

    >>> round(float(zeta(2.0)), 6), round(float(zeta(0.5)), 6)
    (1.644934, -1.460355)
    """
    if q is None:
        return in_double(lambda x: _less_one(x) + 1, x)
    x, q = operands(x, q)
    return in_double(_hurwitz, x, q) if is_tracked(x) else hurwitz_zeta(x, q)


def _hurwitz(x: Any, q: Any) -> Any:
    is_inside = (x > 1) & (q > 0)
    y = _sum_from(where(is_inside, x, 2.0), where(is_inside, q, 1.0))
    return where(is_inside, y, where(x == 1, math.inf, math.nan))


def zetac(x: Any) -> Any:
    """Return the Riemann zeta function minus 1, accurate where that is small.

    >>> round(float(zetac(2.0)), 6)
    0.644934
    """
    return in_double(_less_one, x)


def _less_one(x: Any) -> Any:
    # The sum converges a little below 0; the reflection formula has a pole near there.
    is_right = (x >= -0.5) & (x != 1) & (x < math.inf)
    is_left = (x < -0.5) & (x > -math.inf)
    s = where(is_right, x, 2.0)
    right = _sum_from(s, 0.0 * s + 2)
    # ζ(s) = 2 (2π)^(s-1) sin(πs/2) Γ(1 - s) ζ(1 - s)
    s = where(is_left, x, -1.0)
    other = 1 - s
    reflected = 2 * exp(-other * math.log(2 * math.pi)) * sinpi(0.5 * s) * gamma(other)
    left = reflected * (1 + _sum_from(other, 0.0 * other + 2)) - 1
    # ζ is 0 at even numbers, also where its neighbours overflow.
    left = where((s < -150) & (sinpi(0.5 * s) == 0), -1.0, left)
    at_ends = where(x == 1, math.inf, where(x > 1, 0.0, math.nan + 0.0 * s))
    return where(is_right, right, where(is_left, left, at_ends))
