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
from tapegrad.scipy.special.incomplete import beta_density, beta_slopes, gamma_density, gamma_slope
from tapegrad.scipy.vocabulary import (
    betaln,
    broadcast_arrays,
    exp,
    lgamma,
    log,
    maximum,
    minimum,
    operands,
    sigmoid,
    sqrt,
    stop_gradient,
    where,
)

Function = Callable[..., Any]
_HALVINGS, _STEPS = 34, 5


def _solve(
    rise: Function, exact: Function, slope: Function, low: Any, high: Any, margin: Any
) -> Any:
    """Return the s in [low, high] where `rise`, which grows, is 0.

    Near an end `rise` may be the difference of two numbers that are nearly 1: there `exact` is
    the same with all digits, and tells by how much, up to a margin, bisection was led astray.
    """
    lowest, highest = low, high
    for _ in range(_HALVINGS):
        middle = 0.5 * (low + high)
        is_low = rise(middle) < 0
        low, high = where(is_low, middle, low), where(is_low, high, middle)
    s = 0.5 * (low + high)
    # Below the lowest there is nothing but 0.
    low, high = maximum(low - margin, 1.5 * lowest), minimum(high + margin, highest)
    for _ in range(_STEPS):
        steep = slope(s)
        step = exact(s) / where(steep > 0, steep, 1.0)
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
    is_valid = (a > 0) & (b > 0) & (a < math.inf) & (b < math.inf)
    is_inner = (y > 0) & (y < 1)
    a, b = where(is_valid, a, 1.0), where(is_valid, b, 1.0)
    x = _implicit(_solve_beta, beta_slopes, beta_density, where(is_inner, y, 0.5), a, b)
    x = where(is_inner, x, where(y == 0, 0.0, where(y == 1, 1.0, math.nan)))
    return where(is_valid, x, math.nan)


def _solve_beta(y: Any, a: Any, b: Any) -> Any:
    def rise(s: Any) -> Any:
        return primitives.betainc(a, b, sigmoid(s)) - y

    is_low, rest = y <= 0.5, 1 - y

    def exact(s: Any) -> Any:
        lower = primitives.betainc(a, b, sigmoid(s)) - y
        # Next to x = 0 the digits of x are not in 1 - x.
        return where(is_low | (s < -12), lower, rest - primitives.betainc(b, a, sigmoid(-s)))

    def slope(s: Any) -> Any:
        x = sigmoid(s)
        return exp(a * log(x) + b * log(sigmoid(-s)) - betaln(a, b))

    zero = 0.0 * y
    margin = where(is_low, 0.0, 1 / b + 0.3 * sqrt(1 / a + 1 / b))
    return sigmoid(_solve(rise, exact, slope, zero - _lowest(y), zero + 36.0, margin))


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
    is_valid = (a > 0) & (a < math.inf)
    is_inner = (y > 0) & (y < 1)
    a = where(is_valid, a, 1.0)
    inner = where(is_inner, y, 0.5)
    if is_upper:
        x = _implicit(_solve_upper, _gamma_slopes, gamma_density, -inner, a)
    else:
        x = _implicit(_solve_lower, _gamma_slopes, gamma_density, inner, a)
    ends = (1, 0) if is_upper else (0, 1)
    x = where(is_inner, x, where(y == ends[0], 0.0, where(y == ends[1], math.inf, math.nan)))
    return where(is_valid, x, math.nan)


def _gamma_slopes(a: Any, x: Any) -> tuple[Any]:
    """Of gammainc, and of -gammaincc as well."""
    return (gamma_slope(a, x),)


def _solve_lower(y: Any, a: Any) -> Any:
    return _solve_gamma(lambda x: primitives.igamma(a, x) - y, y, 1 - y, a)


def _solve_upper(y: Any, a: Any) -> Any:
    """The same for -y, of the upper function."""
    return _solve_gamma(lambda x: -primitives.igammac(a, x) - y, 1 + y, -y, a)


def _solve_gamma(rise: Function, lower: Any, upper: Any, a: Any) -> Any:
    """The x of which the lower and the upper function, which sum to 1, have these values."""
    high = log(a + 60 * sqrt(a) + 800)

    def exact(s: Any) -> Any:
        below = primitives.igamma(a, exp(s)) - lower
        return where(lower <= 0.5, below, upper - primitives.igammac(a, exp(s)))

    s = _solve(
        lambda s: rise(exp(s)),
        exact,
        lambda s: exp(a * s - exp(s) - lgamma(a)),
        0.0 * high - _lowest(a),
        high,
        1 / a + 0.2 / sqrt(a),
    )
    return exp(s)
