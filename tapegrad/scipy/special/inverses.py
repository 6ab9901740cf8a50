"""Inverses of the incomplete beta and gamma functions, differentiable in all their arguments.

The solution is found by bisection and a few steps of Newton's method, on the logarithm (or logit)
of x: a fixed number of evaluations, all on the device. Its derivatives are those of an implicit
function: with F(x, p) = y, dx = (dy - F_p dp) / F_x.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from tapegrad.autodiff.custom_gradient import custom_gradient
from tapegrad.core.recorder import active_stack
from tapegrad.ops import special as primitives
from tapegrad.ops.exponential import exp, log
from tapegrad.ops.powers import sqrt
from tapegrad.ops.selection import maximum, minimum, where
from tapegrad.ops.shape import broadcast_arrays
from tapegrad.ops.sigmoids import sigmoid
from tapegrad.ops.special import betaln, lgamma
from tapegrad.ops.stop_gradient import stop_gradient
from tapegrad.scipy.operands import operands
from tapegrad.scipy.special.incomplete import (
    beta_density,
    beta_slopes,
    gamma_density,
    gamma_slope,
)

Function = Callable[..., Any]
_HALVINGS, _STEPS = 34, 3


def _solve(rise: Function, slope: Function, low: Any, high: Any) -> Any:
    """Return the s in [low, high] where `rise`, which grows, is 0."""
    for _ in range(_HALVINGS):
        middle = 0.5 * (low + high)
        is_low = rise(middle) < 0
        low, high = where(is_low, middle, low), where(is_low, high, middle)
    s = 0.5 * (low + high)
    for _ in range(_STEPS):
        steep = slope(s)
        step = rise(s) / where(steep > 0, steep, 1.0)
        s = where(steep > 0, minimum(maximum(s - step, low), high), s)
    return s


def _implicit(solve: Function, by_params: Function, by_x: Function, y: Any, *params: Any) -> Any:
    """Return solve(y, *params), the x for which F(*params, x) is y; F is known by its slopes."""

    @custom_gradient
    def call(y: Any, *params: Any) -> Any:
        x = solve(stop_gradient(y), *(stop_gradient(p) for p in params))

        def slopes(g: Any) -> list[Any]:
            # Somebody who records wants derivatives of these slopes, by way of x too.
            at = _implicit(solve, by_params, by_x, y, *params) if active_stack().recorders else x
            steep = by_x(*params, at)
            share = where(steep > 0, g / where(steep > 0, steep, 1.0), 0.0)
            return [share, *(-share * slope for slope in by_params(*params, at))]

        return x, slopes

    return call(y, *params)


def betaincinv(a: Any, b: Any, y: Any) -> Any:
    """Return the x for which betainc(a, b, x) is y.

    >>> round(float(betaincinv(2.0, 3.0, 0.6875)), 6)
    0.5
    """
    a, b, y = broadcast_arrays(*operands(a, b, y))
    is_inner = (y > 0) & (y < 1)
    x = _implicit(_solve_beta, beta_slopes, beta_density, where(is_inner, y, 0.5), a, b)
    return where(is_inner, x, where(y == 0, 0.0, where(y == 1, 1.0, math.nan)))


def _solve_beta(y: Any, a: Any, b: Any) -> Any:
    def rise(s: Any) -> Any:
        return primitives.betainc(a, b, sigmoid(s)) - y

    def slope(s: Any) -> Any:
        x = sigmoid(s)
        return exp(a * log(x) + b * log(sigmoid(-s)) - betaln(a, b))

    zero = 0.0 * y
    return sigmoid(_solve(rise, slope, zero - _lowest(y), zero + 36.0))


def _lowest(y: Any) -> float:
    """The logarithm of the smallest number of the dtype, nearly."""
    return 86.0 if str(y.dtype.name) == "float32" else 700.0


def gammaincinv(a: Any, y: Any) -> Any:
    """Return the x for which gammainc(a, x) is y.

    >>> round(float(gammaincinv(1.0, 0.5)), 6) == round(math.log(2), 6)
    True
    """
    return _gamma_inverse(a, y, is_upper=False)


def gammainccinv(a: Any, y: Any) -> Any:
    """Return the x for which gammaincc(a, x) is y: exact where y is small.

    >>> round(float(gammainccinv(1.0, 1e-20)), 6)
    46.051702
    """
    return _gamma_inverse(a, y, is_upper=True)


def _gamma_inverse(a: Any, y: Any, is_upper: bool) -> Any:
    a, y = broadcast_arrays(*operands(a, y))
    is_inner = (y > 0) & (y < 1)

    inner = where(is_inner, y, 0.5)
    if is_upper:
        x = _implicit(_solve_upper, _gamma_slopes, gamma_density, -inner, a)
    else:
        x = _implicit(_solve_lower, _gamma_slopes, gamma_density, inner, a)
    ends = (1, 0) if is_upper else (0, 1)
    return where(is_inner, x, where(y == ends[0], 0.0, where(y == ends[1], math.inf, math.nan)))


def _gamma_slopes(a: Any, x: Any) -> tuple[Any]:
    """Of gammainc, and of -gammaincc as well."""
    return (gamma_slope(a, x),)


def _solve_lower(y: Any, a: Any) -> Any:
    return _solve_gamma(lambda x: primitives.igamma(a, x) - y, y, a)


def _solve_upper(y: Any, a: Any) -> Any:
    return _solve_gamma(lambda x: -primitives.igammac(a, x) - y, y, a)


def _solve_gamma(rise: Function, y: Any, a: Any) -> Any:
    high = log(a + 60 * sqrt(a) + 800)
    return exp(
        _solve(
            lambda s: rise(exp(s)),
            lambda s: exp(a * s - exp(s) - lgamma(a)),
            0.0 * high - _lowest(y),
            high,
        )
    )
