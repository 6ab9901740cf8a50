"""The incomplete beta and gamma functions, differentiable in all their arguments.

Their values are primitives. Derivatives by the parameters have no closed form; here they are those
of an integral with fixed nodes, which agrees with the function to 13 digits and can be
differentiated again. It is computed only for parameters that somebody follows, on 90 nodes.

With t = x exp(-u/a) the lower integrals become

    I(a, b, x) = x^a / (a B(a, b)) ∫ exp(-u) (1 - x exp(-u/a))^(b-1) du    over u from 0 on

and likewise P(a, x). One step of the recurrence in `a` comes first: it keeps a away from 0, where
the integrand would fall on two different scales.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from tapegrad.autodiff.custom_gradient import custom_gradient
from tapegrad.core.recorder import active_stack
from tapegrad.ops import special as primitives
from tapegrad.scipy.special.slopes import is_followed
from tapegrad.scipy.vocabulary import (
    betaln,
    broadcast_arrays,
    digamma,
    exp,
    expand_dims,
    lgamma,
    log,
    log1p,
    maximum,
    numbers_like,
    operands,
    sqrt,
    stop_gradient,
    sum_over,
    where,
)

_PLACES = np.arange(-4.0, 5.0, 0.1)
_NODES = np.exp(_PLACES - np.exp(-_PLACES))
_WEIGHTS = 0.1 * _NODES * (1 + np.exp(-_PLACES))


def _constants(*values: Any) -> list[Any]:
    """Return values that nobody follows, for what has a gradient of its own."""
    return [stop_gradient(value) for value in values]


def _integrals(
    log_integrand: Callable[[Any], Any], factors: list[Callable[[Any], Any]], rate: Any, bend: Any
) -> list[Any]:
    """Integrate over u from 0 on what falls like exp(-rate u - bend u² / 2), and times each factor.

    The nodes are those of the double exponential rule for integrands that decay exponentially.
    """
    scale = stop_gradient(1 / (maximum(rate, 0.0) + sqrt(maximum(bend, 0.0))))
    nodes, weights = numbers_like(scale, _NODES), numbers_like(scale, _WEIGHTS)
    u = expand_dims(scale, -1) * nodes
    values = exp(log_integrand(u)) * weights
    parts = [values, *(values * factor(u) for factor in factors)]
    return [sum_over(part, -1) * scale for part in parts]


# The incomplete beta function


def betainc(a: Any, b: Any, x: Any) -> Any:
    """Return the regularized incomplete beta function; all arguments have derivatives.

    >>> round(float(betainc(2.0, 3.0, 0.5)), 6)
    0.6875
    """
    a, b, x = operands(a, b, x)
    if not (is_followed(a) or is_followed(b)):
        return primitives.betainc(a, b, x)
    return _betainc(*broadcast_arrays(a, b, x))


@custom_gradient
def _betainc(a: Any, b: Any, x: Any) -> Any:
    def slopes(g: Any) -> tuple[Any, Any, Any]:
        is_inner = (x > 0) & (x < 1) & (a > 0) & (b > 0)
        p, q = where(is_inner, a, 1.0), where(is_inner, b, 1.0)
        z, inner = where(is_inner, x, 0.5), where(is_inner, g, 0.0)
        by_a, by_b = beta_slopes(p, q, z)
        by_x = inner * beta_density(p, q, z) + _at_ends(a, b, x, g)
        return inner * by_a, inner * by_b, by_x

    return primitives.betainc(*_constants(a, b, x)), slopes


def beta_density(a: Any, b: Any, x: Any) -> Any:
    """Return the derivative of betainc by x, inside (0, 1).

    >>> round(float(beta_density(*operands(2.0, 1.0, 0.25))), 6)
    0.5
    """
    return exp((a - 1) * log(x) + (b - 1) * log1p(-x) - betaln(a, b))


def _at_ends(a: Any, b: Any, x: Any, g: Any) -> Any:
    """The slope by x at 0 and 1: one-sided where the density is finite there, else left out."""
    at_zero = where((x == 0) & (a == 1), b, 0.0)
    return g * (at_zero + where((x == 1) & (b == 1), a, 0.0))


def beta_slopes(a: Any, b: Any, x: Any) -> tuple[Any, Any]:
    """Return the derivatives of betainc by a and b, inside (0, 1).

    They are those of the tail on the side of x that is the smaller one.

    >>> [round(float(y), 6) for y in beta_slopes(*operands(1.0, 1.0, 0.5))]
    [-0.346574, 0.346574]
    """
    is_upper = x > (a + 1) / (a + b + 2)
    p, q = where(is_upper, b, a), where(is_upper, a, b)
    by_first, by_second = _beta_tail_slopes(p, q, where(is_upper, 1 - x, x))
    return where(is_upper, -by_second, by_first), where(is_upper, -by_first, by_second)


def _beta_tail_slopes(a: Any, b: Any, x: Any) -> tuple[Any, Any]:
    """The tail is one term of the recurrence in a, and a factor times the integral for a + 1."""
    log_x, log_rest = log(x), log1p(-x)
    term = exp(a * log_x + b * log_rest - log(a) - betaln(a, b))
    total = digamma(a + b)
    by_a, by_b = log_x - 1 / a - digamma(a) + total, log_rest - digamma(b) + total
    by_a, by_b = term * by_a, term * by_b
    a = a + 1
    odds = x / (1 - x)
    rate, bend = 1 - (b - 1) * odds / a, (b - 1) * odds / (a * a * (1 - x))
    a_, b_, x_ = (expand_dims(value, -1) for value in (a, b, x))

    def gain(u: Any) -> Any:
        return log1p(-x_ * exp(-u / a_)) - log1p(-x_)

    def bent(u: Any) -> Any:
        share = x_ * exp(-u / a_)
        return (1 - b_) * share * u / (a_ * a_ * (1 - share))

    whole, of_a, of_b = _integrals(lambda u: (b_ - 1) * gain(u) - u, [bent, gain], rate, bend)
    factor = exp(a * log_x + (b - 1) * log_rest - log(a) - betaln(a, b))
    total = digamma(a + b)
    by_a = by_a + factor * (whole * (log_x - 1 / a - digamma(a) + total) + of_a)
    by_b = by_b + factor * (whole * (log_rest - digamma(b) + total) + of_b)
    return by_a, by_b


# The incomplete gamma functions


def gammainc(a: Any, x: Any) -> Any:
    """Return the regularized lower incomplete gamma function; its second derivatives exist too.

    >>> round(float(gammainc(1.0, 1.0)), 6)
    0.632121
    """
    a, x = operands(a, x)
    if not is_followed(a):
        return primitives.igamma(a, x)
    return _gammainc(*broadcast_arrays(a, x))


def gammaincc(a: Any, x: Any) -> Any:
    """Return the regularized upper incomplete gamma function; its second derivatives exist too.

    >>> round(float(gammaincc(1.0, 1.0)), 6)
    0.367879
    """
    a, x = operands(a, x)
    if not is_followed(a):
        return primitives.igammac(a, x)
    return _gammaincc(*broadcast_arrays(a, x))


@custom_gradient
def _gammainc(a: Any, x: Any) -> Any:
    return primitives.igamma(*_constants(a, x)), lambda g: _gamma_slopes(a, x, g)


@custom_gradient
def _gammaincc(a: Any, x: Any) -> Any:
    return primitives.igammac(*_constants(a, x)), lambda g: _gamma_slopes(a, x, -g)


def _gamma_slopes(a: Any, x: Any, g: Any) -> tuple[Any, Any]:
    is_inner = (x > 0) & (x < math.inf) & (a > 0)
    p, z = where(is_inner, a, 1.0), where(is_inner, x, 1.0)
    inner = where(is_inner, g, 0.0)
    at_zero = where((x == 0) & (a == 1), g, 0.0)
    return inner * gamma_slope(p, z), inner * gamma_density(p, z) + at_zero


def gamma_density(a: Any, x: Any) -> Any:
    """Return the derivative of gammainc by x, for positive x.

    >>> round(float(gamma_density(*operands(1.0, 2.0))), 6)
    0.135335
    """
    return exp((a - 1) * log(x) - x - lgamma(a))


def gamma_slope(a: Any, x: Any) -> Any:
    """Return the derivative of gammainc by a, for positive x.

    >>> round(float(gamma_slope(*operands(1.0, 1.0))), 6)
    -0.43173
    """
    # The primitive is cheaper; whoever records wants derivatives of it, which it has not.
    if not active_stack().recorders:
        return primitives.igamma_grad_a(a, x)
    is_upper = x > a + 1
    middle = stop_gradient(a)
    lower = _gamma_lower_slope(a, where(is_upper, 0.5 * middle, x))
    upper = _gamma_upper_slope(a, where(is_upper, x, middle + 2))
    return where(is_upper, -upper, lower)


def _gamma_lower_slope(a: Any, x: Any) -> Any:
    term = exp(a * log(x) - x - lgamma(a + 1)) * (log(x) - digamma(a + 1))
    a = a + 1
    a_, x_ = expand_dims(a, -1), expand_dims(x, -1)

    def bent(u: Any) -> Any:
        return -x_ * exp(-u / a_) * u / (a_ * a_)

    whole, of_a = _integrals(lambda u: x_ * (1 - exp(-u / a_)) - u, [bent], 1 - x / a, x / (a * a))
    factor = exp(a * log(x) - x - lgamma(a + 1))
    return term + factor * (whole * (log(x) - digamma(a + 1)) + of_a)


def _gamma_upper_slope(a: Any, x: Any) -> Any:
    a_, x_ = expand_dims(a, -1), expand_dims(x, -1)

    def gain(v: Any) -> Any:
        return log1p(v / x_)

    rate, bend = 1 - (a - 1) / x, (a - 1) / (x * x)
    whole, of_a = _integrals(lambda v: (a_ - 1) * gain(v) - v, [gain], rate, bend)
    return gamma_density(a, x) * (whole * (log(x) - digamma(a)) + of_a)
