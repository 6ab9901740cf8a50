"""Inverses of the incomplete beta and gamma functions, differentiable in all arguments.

Bisection and a few Newton steps on the logarithm (or logit) of x find the solution with a fixed
number of evaluations on the device. The derivatives follow from the implicit function theorem:
with F(x, p) = y, dx = (dy - F_p dp) / F_x.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from tapegrad.autodiff.custom_gradient import custom_gradient
from tapegrad.core.recorder import active_stack
from tapegrad.ops.casting.promotion import operands
from tapegrad.ops.control.stop_gradient import stop_gradient
from tapegrad.ops.elementwise import special_functions as primitives
from tapegrad.ops.elementwise.exponential import exp, log, log1p
from tapegrad.ops.elementwise.powers import sqrt
from tapegrad.ops.elementwise.rounding import ceil, floor
from tapegrad.ops.elementwise.selection import maximum, minimum, where
from tapegrad.ops.elementwise.sigmoids import sigmoid
from tapegrad.ops.elementwise.special_functions import betaln, lgamma
from tapegrad.ops.shape.functions import broadcast_arrays
from tapegrad.special_functions.incomplete_gamma_beta import (
    beta_density,
    betainc_parameter_derivatives,
    gamma_density,
    gammainc_parameter_derivative,
)

Function = Callable[..., Any]
_HALVINGS, _STEPS = 34, 5

_TINY = -42.0
"""Where the logarithm of x is smaller, 1 + x is 1 in double precision."""


def _solve(
    rise: Function, exact: Function, slope: Function, low: Any, high: Any, margin: Any
) -> Any:
    """Return the s in [low, high] where the increasing function `rise` is 0.

    Near an end `rise` may be the difference of two numbers close to 1. `exact` computes the same
    difference without cancellation; the Newton steps use it to correct the result of the bisection
    by up to `margin`.
    """
    lowest, highest = low, high
    for _ in range(_HALVINGS):
        middle = 0.5 * (low + high)
        is_low = rise(middle) < 0
        low, high = where(is_low, middle, low), where(is_low, high, middle)
    s = 0.5 * (low + high)
    # Below 1.5 * lowest the result underflows to 0.
    low, high = maximum(low - margin, 1.5 * lowest), minimum(high + margin, highest)
    for _ in range(_STEPS):
        steep = slope(s)
        step = exact(s) / where(steep > 0, steep, 1.0)
        s = where(steep > 0, minimum(maximum(s - step, low), high), s)
    return s


def _implicit(solve: Function, by_params: Function, by_x: Function, y: Any, *params: Any) -> Any:
    """Return solve(y, *params), the x with F(*params, x) = y, given the derivatives of F."""

    @custom_gradient
    def call(y: Any, *params: Any) -> Any:
        x = solve(stop_gradient(y), *(stop_gradient(p) for p in params))

        def gradients(g: Any) -> list[Any]:
            # Higher derivatives also need the dependence of these gradients on x.
            at = _implicit(solve, by_params, by_x, y, *params) if active_stack().recorders else x
            steep = by_x(*params, at)
            by_y = where(steep > 0, g / where(steep > 0, steep, 1.0), 0.0)
            return [by_y, *(-by_y * slope for slope in by_params(*params, at))]

        return x, gradients

    return call(y, *params)


def betaincinv(a: Any, b: Any, y: Any) -> Any:
    """Return the x for which betainc(a, b, x) is y.

    >>> round(float(betaincinv(2.0, 3.0, 0.6875)), 6)
    0.5
    """
    a, b, y = broadcast_arrays(*operands(a, b, y))
    is_valid = (a > 0) & (b > 0) & (a < math.inf) & (b < math.inf)
    # With an infinite parameter, all of the distribution is at 0 or at 1.
    is_low = (b == math.inf) & (a > 0) & (a < math.inf)
    is_high = (a == math.inf) & (b > 0) & (b < math.inf)
    is_inner = (y > 0) & (y < 1)
    a, b = where(is_valid, a, 1.0), where(is_valid, b, 1.0)
    inner = where(is_inner, y, 0.5)
    x = _implicit(_solve_beta, betainc_parameter_derivatives, beta_density, inner, a, b)
    x = where(is_inner, x, where(y == 0, 0.0, where(y == 1, 1.0, math.nan)))
    ends = where(is_low & (y >= 0) & (y <= 1), floor(y), math.nan)
    ends = where(is_high & (y >= 0) & (y <= 1), ceil(y), ends)
    return where(is_valid, x, ends)


def _solve_beta(y: Any, a: Any, b: Any) -> Any:
    def rise(s: Any) -> Any:
        return primitives.betainc(a, b, sigmoid(s)) - y

    is_low, rest = y <= 0.5, 1 - y

    def exact(s: Any) -> Any:
        lower = primitives.betainc(a, b, sigmoid(s)) - y
        # Near x = 0 the difference 1 - x loses the digits of x.
        return where(is_low | (s < -12), lower, rest - primitives.betainc(b, a, sigmoid(-s)))

    def slope(s: Any) -> Any:
        x = sigmoid(s)
        return exp(a * log(x) + b * log(sigmoid(-s)) - betaln(a, b))

    zero = 0.0 * y
    margin = where(is_low, 0.0, 1 / b + 0.3 * sqrt(1 / a + 1 / b))
    x = sigmoid(_solve(rise, exact, slope, zero - _lowest(y), zero + 36.0, margin))
    log_x = log_beta_quantile(a, b, y)
    is_tiny = log_x + log1p(b) < _TINY
    return where(is_tiny, exp(where(is_tiny, log_x, 0.0)), x)


def log_beta_quantile(a: Any, b: Any, y: Any) -> Any:
    """Return the logarithm of betaincinv where it is tiny: betainc is then x^a / (a B(a, b)).

    >>> round(math.exp(log_beta_quantile(*operands(2.0, 1.0, 1e-30))) * 1e15, 6)
    1.0
    """
    return (log(y) + log(a) + betaln(a, b)) / a


def _lowest(y: Any) -> float:
    """Return minus the logarithm of about the smallest positive number of the dtype."""
    return 86.0 if str(y.dtype.name) == "float32" else 700.0


def gammaincinv(a: Any, y: Any) -> Any:
    """Return the x for which gammainc(a, x) is y.

    >>> round(float(gammaincinv(1.0, 0.5)), 6) == round(math.log(2), 6)
    True
    """
    return _gamma_inverse(a, y, is_upper=False)


def gammainccinv(a: Any, y: Any) -> Any:
    """Return the x for which gammaincc(a, x) is y, accurate for small y.

    >>> round(float(gammainccinv(1.0, 1e-20)), 6)
    46.051702
    """
    return _gamma_inverse(a, y, is_upper=True)


def _gamma_inverse(a: Any, y: Any, is_upper: bool) -> Any:
    a, y = broadcast_arrays(*operands(a, y))
    is_valid = (a > 0) & (a < math.inf)
    is_inner = (y > 0) & (y < 1)
    a_given, a = a, where(is_valid, a, 1.0)
    inner = where(is_inner, y, 0.5)
    if is_upper:
        x = _implicit(_solve_upper, _gamma_parameter_derivatives, gamma_density, -inner, a)
    else:
        x = _implicit(_solve_lower, _gamma_parameter_derivatives, gamma_density, inner, a)
    lowest, highest = (1, 0) if is_upper else (0, 1)
    x = where(is_inner, x, where(y == lowest, 0.0, where(y == highest, math.inf, math.nan)))
    # With a = 0 only the ends are defined, as in SciPy.
    return where(is_valid | ((a_given == 0) & ~is_inner), x, math.nan)


def _gamma_parameter_derivatives(a: Any, x: Any) -> tuple[Any]:
    """Return the derivative of gammainc, or of -gammaincc, with respect to a."""
    return (gammainc_parameter_derivative(a, x),)


def _solve_lower(y: Any, a: Any) -> Any:
    return _solve_gamma(lambda x: primitives.igamma(a, x) - y, y, 1 - y, a)


def _solve_upper(y: Any, a: Any) -> Any:
    """Return the x with -gammaincc(a, x) = y, for negative y."""
    return _solve_gamma(lambda x: -primitives.igammac(a, x) - y, 1 + y, -y, a)


def _solve_gamma(rise: Function, lower: Any, upper: Any, a: Any) -> Any:
    """Return the x where gammainc is `lower` and gammaincc is `upper` = 1 - lower."""
    high = log(a + 60 * sqrt(a) + 800)

    def exact(s: Any) -> Any:
        below = primitives.igamma(a, exp(s)) - lower
        return where(lower <= 0.5, below, upper - primitives.igammac(a, exp(s)))

    # gammainc is x^a / Γ(a + 1) for tiny x, which may underflow.
    is_low = lower < 0.5
    log_lower = where(is_low, log(where(is_low, lower, 1.0)), log1p(-where(is_low, 0.0, upper)))
    log_x = (log_lower + lgamma(a + 1)) / a
    is_tiny = log_x < _TINY
    s = _solve(
        lambda s: rise(exp(s)),
        exact,
        lambda s: exp(a * s - exp(s) - lgamma(a)),
        0.0 * high - _lowest(a),
        high,
        1 / a + 0.2 / sqrt(a),
    )
    return exp(where(is_tiny, log_x, s))
