"""Euler's integral of t^(p-1) (1-t)^(q-1) k(t) over [0, 1] for positive p, q and k.

With t = 1 / (1 + exp(-u)) the integrand is analytic in a strip around the real axis and vanishes at
both ends, so the trapezoidal rule integrates it to full precision for all parameters.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tapegrad.ops.control.stop_gradient import stop_gradient
from tapegrad.ops.elementwise.exponential import exp, log
from tapegrad.ops.elementwise.selection import maximum, minimum
from tapegrad.ops.elementwise.special_functions import lgamma
from tapegrad.ops.elementwise.trigonometric import asinh
from tapegrad.special_functions.quadrature import CUTOFF, bisect_to_cutoff, integrate

# The steps grow in the exponential tails: u = w + _WEIGHT sinh(w / _STRETCH).
_STRETCH, _WEIGHT = 4.0, 0.5

Kernel = Callable[..., Any]


def beta_expectation(
    p: Any, q: Any, log_kernel: Kernel, top: Any, span: Any, count: int, *params: Any
) -> Any:
    """Return the mean of exp(log_kernel(t, 1 - t, *params)) under the beta distribution (p, q).

    `top` is the u where the integrand peaks, `span` bounds the distance from the peak that the
    integral covers besides the tails, and `count` is the number of steps.
    """
    fixed = [stop_gradient(value) for value in (p, q, *params)]
    top = stop_gradient(top)
    height = _exponent(top, log_kernel, *fixed)

    def fall(u: Any) -> Any:
        return height - _exponent(u, log_kernel, *fixed)

    left = bisect_to_cutoff(lambda s: fall(top - s), 0.0, CUTOFF / fixed[0] + span)
    right = bisect_to_cutoff(lambda s: fall(top + s), 0.0, CUTOFF / fixed[1] + span)

    def integrand(w: Any, p: Any, q: Any, top: Any, height: Any, *params: Any) -> tuple[Any]:
        more = exp(w / _STRETCH)
        less = 1 / more
        u = top + w + 0.5 * _WEIGHT * (more - less)
        stretch = 1 + 0.5 * _WEIGHT / _STRETCH * (more + less)
        return (stretch * exp(_exponent(u, log_kernel, p, q, *params) - height),)

    ends = -_bound_in_w(left), _bound_in_w(right)
    (total,) = integrate(integrand, *ends, count, p, q, top, height, *params)
    return total * exp(height + lgamma(p + q) - lgamma(p) - lgamma(q))


def _bound_in_w(reach: Any) -> Any:
    """Return a bound for the w where w + _WEIGHT sinh(w / _STRETCH) equals the reach."""
    return minimum(reach, _STRETCH * asinh(reach / _WEIGHT))


def _exponent(u: Any, log_kernel: Kernel, p: Any, q: Any, *params: Any) -> Any:
    u = minimum(maximum(u, -700.0), 700.0)
    odds = exp(-u)
    whole = 1 + odds
    t = 1 / whole
    # log(t) = -log(whole) and log(1 - t) = -u - log(whole).
    return log_kernel(t, odds * t, *params) - (p + q) * log(whole) - q * u
