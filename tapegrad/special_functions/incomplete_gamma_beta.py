"""The regularized incomplete beta and gamma functions, differentiable in all arguments.

The values are primitives. The derivatives with respect to the parameters have no closed form. They
are the derivatives of an integral with 90 fixed nodes, which agrees with the function to 13 digits
and can be differentiated again. The integral is computed only if a parameter is recorded.

With t = x exp(-u/a) the lower integrals become

    I(a, b, x) = x^a / (a B(a, b)) ∫ exp(-u) (1 - x exp(-u/a))^(b-1) du    over u >= 0

and likewise for P(a, x). One step of the recurrence in `a` is taken first. It keeps `a` away from
0, where the integrand decays on two different scales.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from tapegrad.autodiff.custom_gradient import custom_gradient
from tapegrad.core.recorder import active_stack
from tapegrad.ops.casting.promotion import numbers_like, operands
from tapegrad.ops.control.stop_gradient import stop_gradient
from tapegrad.ops.elementwise import special_functions as primitives
from tapegrad.ops.elementwise.exponential import exp, log, log1p
from tapegrad.ops.elementwise.powers import sqrt
from tapegrad.ops.elementwise.rounding import ceil, floor
from tapegrad.ops.elementwise.selection import maximum, where
from tapegrad.ops.elementwise.special_functions import betaln, digamma, lgamma
from tapegrad.ops.reduction.primitives import sum as sum_over
from tapegrad.ops.shape.functions import broadcast_arrays, expand_dims
from tapegrad.special_functions.derivatives import is_tracked

_PLACES = np.arange(-4.0, 5.0, 0.1)
_NODES = np.exp(_PLACES - np.exp(-_PLACES))
_WEIGHTS = 0.1 * _NODES * (1 + np.exp(-_PLACES))


def _constants(*values: Any) -> list[Any]:
    return [stop_gradient(value) for value in values]


def _integrals(
    log_integrand: Callable[[Any], Any], factors: list[Callable[[Any], Any]], rate: Any, bend: Any
) -> list[Any]:
    """Integrate an integrand over u >= 0, alone and multiplied by each factor.

    The integrand decays like exp(-rate u - bend u² / 2). The nodes are those of the double
    exponential rule for exponentially decaying integrands.
    """
    scale = stop_gradient(1 / (maximum(rate, 0.0) + sqrt(maximum(bend, 0.0))))
    nodes, weights = numbers_like(scale, _NODES), numbers_like(scale, _WEIGHTS)
    u = expand_dims(scale, -1) * nodes
    values = exp(log_integrand(u)) * weights
    parts = [values, *(values * factor(u) for factor in factors)]
    return [sum_over(part, -1) * scale for part in parts]


# The incomplete beta function


def betainc(a: Any, b: Any, x: Any) -> Any:
    """Return the regularized incomplete beta function, differentiable in all arguments.

    >>> round(float(betainc(2.0, 3.0, 0.5)), 6)
    0.6875
    """
    a, b, x = operands(a, b, x)
    # The distribution degenerates: all of it is at 0, or all of it is at 1.
    is_low = ((a == 0) & (b > 0)) | ((b == math.inf) & (a >= 0) & (a < math.inf))
    is_high = ((b == 0) & (a > 0)) | ((a == math.inf) & (b >= 0) & (b < math.inf))
    is_end = is_low | is_high
    a, b = where(is_end, 1.0, a), where(is_end, 1.0, b)
    if is_tracked(a) or is_tracked(b):
        y = _betainc(*broadcast_arrays(a, b, x))
    else:
        y = primitives.betainc(a, b, x)
    return where(is_low, ceil(y), where(is_high, floor(y), y))


@custom_gradient
def _betainc(a: Any, b: Any, x: Any) -> Any:
    def gradients(g: Any) -> tuple[Any, Any, Any]:
        is_inner = (x > 0) & (x < 1) & (a > 0) & (b > 0)
        p, q = where(is_inner, a, 1.0), where(is_inner, b, 1.0)
        z, inner = where(is_inner, x, 0.5), where(is_inner, g, 0.0)
        by_a, by_b = betainc_parameter_derivatives(p, q, z)
        by_x = inner * beta_density(p, q, z) + _at_ends(a, b, x, g)
        return inner * by_a, inner * by_b, by_x

    return primitives.betainc(*_constants(a, b, x)), gradients


def beta_density(a: Any, b: Any, x: Any) -> Any:
    """Return the derivative of betainc with respect to x, for 0 < x < 1.

    >>> round(float(beta_density(*operands(2.0, 1.0, 0.25))), 6)
    0.5
    """
    return exp((a - 1) * log(x) + (b - 1) * log1p(-x) - betaln(a, b))


def _at_ends(a: Any, b: Any, x: Any, g: Any) -> Any:
    """Return the gradient for x at 0 and 1: one-sided where the density is finite, else 0."""
    at_zero = where((x == 0) & (a == 1), b, 0.0)
    return g * (at_zero + where((x == 1) & (b == 1), a, 0.0))


def betainc_parameter_derivatives(a: Any, b: Any, x: Any) -> tuple[Any, Any]:
    """Return the derivatives of betainc with respect to a and b, for 0 < x < 1.

    They are computed from the smaller of the two tails.

    >>> [round(float(y), 6) for y in betainc_parameter_derivatives(*operands(1.0, 1.0, 0.5))]
    [-0.346574, 0.346574]
    """
    is_upper = x > (a + 1) / (a + b + 2)
    p, q = where(is_upper, b, a), where(is_upper, a, b)
    by_first, by_second = _beta_tail_derivatives(p, q, where(is_upper, 1 - x, x))
    return where(is_upper, -by_second, by_first), where(is_upper, -by_first, by_second)


def _beta_tail_derivatives(a: Any, b: Any, x: Any) -> tuple[Any, Any]:
    """Differentiate the lower tail: a term of the recurrence in a plus the integral for a + 1."""
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

    def weighted_shift(u: Any) -> Any:
        shifted = x_ * exp(-u / a_)
        return (1 - b_) * shifted * u / (a_ * a_ * (1 - shifted))

    whole, of_a, of_b = _integrals(
        lambda u: (b_ - 1) * gain(u) - u, [weighted_shift, gain], rate, bend
    )
    factor = exp(a * log_x + (b - 1) * log_rest - log(a) - betaln(a, b))
    total = digamma(a + b)
    by_a = by_a + factor * (whole * (log_x - 1 / a - digamma(a) + total) + of_a)
    by_b = by_b + factor * (whole * (log_rest - digamma(b) + total) + of_b)
    return by_a, by_b


# The incomplete gamma functions


def gammainc(a: Any, x: Any) -> Any:
    """Return the regularized lower incomplete gamma function, twice differentiable.

    >>> round(float(gammainc(1.0, 1.0)), 6)
    0.632121
    """
    is_point, a, x = _without_zeros(a, x)
    y = _gammainc(*broadcast_arrays(a, x)) if is_tracked(a) else primitives.igamma(a, x)
    return where(is_point, 1.0, y)


def _without_zeros(a: Any, x: Any) -> tuple[Any, Any, Any]:
    """Return where a is 0 and x positive, and both operands with a = 1 there.

    For a = 0 the gamma distribution is a point at 0.
    """
    a, x = operands(a, x)
    is_point = (a == 0) & (x > 0)
    return is_point, where(is_point, 1.0, a), x


def gammaincc(a: Any, x: Any) -> Any:
    """Return the regularized upper incomplete gamma function, twice differentiable.

    >>> round(float(gammaincc(1.0, 1.0)), 6)
    0.367879
    """
    is_point, a, x = _without_zeros(a, x)
    y = _gammaincc(*broadcast_arrays(a, x)) if is_tracked(a) else primitives.igammac(a, x)
    return where(is_point, 0.0, y)


@custom_gradient
def _gammainc(a: Any, x: Any) -> Any:
    return primitives.igamma(*_constants(a, x)), lambda g: _gamma_gradients(a, x, g)


@custom_gradient
def _gammaincc(a: Any, x: Any) -> Any:
    return primitives.igammac(*_constants(a, x)), lambda g: _gamma_gradients(a, x, -g)


def _gamma_gradients(a: Any, x: Any, g: Any) -> tuple[Any, Any]:
    is_inner = (x > 0) & (x < math.inf) & (a > 0)
    p, z = where(is_inner, a, 1.0), where(is_inner, x, 1.0)
    inner = where(is_inner, g, 0.0)
    at_zero = where((x == 0) & (a == 1), g, 0.0)
    return inner * gammainc_parameter_derivative(p, z), inner * gamma_density(p, z) + at_zero


def gamma_density(a: Any, x: Any) -> Any:
    """Return the derivative of gammainc with respect to x, for positive x.

    >>> round(float(gamma_density(*operands(1.0, 2.0))), 6)
    0.135335
    """
    return exp((a - 1) * log(x) - x - lgamma(a))


def gammainc_parameter_derivative(a: Any, x: Any) -> Any:
    """Return the derivative of gammainc with respect to a, for positive x.

    >>> round(float(gammainc_parameter_derivative(*operands(1.0, 1.0))), 6)
    -0.43173
    """
    # The primitive is cheaper but not differentiable, so it is used only without a recorder.
    if not active_stack().recorders:
        return primitives.igamma_grad_a(a, x)
    is_upper = x > a + 1
    middle = stop_gradient(a)
    lower = _gamma_lower_derivative(a, where(is_upper, 0.5 * middle, x))
    upper = _gamma_upper_derivative(a, where(is_upper, x, middle + 2))
    return where(is_upper, -upper, lower)


def _gamma_lower_derivative(a: Any, x: Any) -> Any:
    term = exp(a * log(x) - x - lgamma(a + 1)) * (log(x) - digamma(a + 1))
    a = a + 1
    a_, x_ = expand_dims(a, -1), expand_dims(x, -1)

    def weighted_shift(u: Any) -> Any:
        return -x_ * exp(-u / a_) * u / (a_ * a_)

    whole, of_a = _integrals(
        lambda u: x_ * (1 - exp(-u / a_)) - u, [weighted_shift], 1 - x / a, x / (a * a)
    )
    factor = exp(a * log(x) - x - lgamma(a + 1))
    return term + factor * (whole * (log(x) - digamma(a + 1)) + of_a)


def _gamma_upper_derivative(a: Any, x: Any) -> Any:
    a_, x_ = expand_dims(a, -1), expand_dims(x, -1)

    def gain(v: Any) -> Any:
        return log1p(v / x_)

    rate, bend = 1 - (a - 1) / x, (a - 1) / (x * x)
    whole, of_a = _integrals(lambda v: (a_ - 1) * gain(v) - v, [gain], rate, bend)
    return gamma_density(a, x) * (whole * (log(x) - digamma(a)) + of_a)
