"""Euler's integral of t^(p-1) (1-t)^(q-1) k(t) over [0, 1] for positive p, q and k.

With t = 1 / (1 + exp(-u)) the integrand is analytic in a strip around the real axis and dies away
at both ends: equal steps integrate it to full precision, whatever the parameters.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tapegrad.scipy.special.nodes import DEPTH, halved, integrate
from tapegrad.scipy.vocabulary import asinh, exp, lgamma, log, maximum, minimum, stop_gradient

# Far out the steps grow: u = w + sinh(w / 4) / 2. The tails are plain exponentials there.
_STRETCH, _PART = 4.0, 0.5

Kernel = Callable[..., Any]


def euler_mean(
    p: Any, q: Any, log_kernel: Kernel, top: Any, span: Any, count: int, *params: Any
) -> Any:
    """Return the mean of exp(log_kernel(t, 1 - t, *params)) under the beta distribution (p, q).

    `top` is the u of the integrand's peak, `span` how far from it something may happen, `count`
    the number of steps.
    """
    fixed = [stop_gradient(value) for value in (p, q, *params)]
    top = stop_gradient(top)
    height = _exponent(top, log_kernel, *fixed)

    def fall(u: Any) -> Any:
        return height - _exponent(u, log_kernel, *fixed)

    left = halved(lambda s: fall(top - s), 0.0, DEPTH / fixed[0] + span)
    right = halved(lambda s: fall(top + s), 0.0, DEPTH / fixed[1] + span)

    def integrand(w: Any, p: Any, q: Any, top: Any, height: Any, *params: Any) -> tuple[Any]:
        more = exp(w / _STRETCH)
        less = 1 / more
        u = top + w + 0.5 * _PART * (more - less)
        stretch = 1 + 0.5 * _PART / _STRETCH * (more + less)
        return (stretch * exp(_exponent(u, log_kernel, p, q, *params) - height),)

    ends = -_shrunk(left), _shrunk(right)
    (total,) = integrate(integrand, *ends, count, p, q, top, height, *params)
    return total * exp(height + lgamma(p + q) - lgamma(p) - lgamma(q))


def _shrunk(reach: Any) -> Any:
    """A bound of the w for which w + sinh(w / 4) / 2 is the reach."""
    return minimum(reach, _STRETCH * asinh(reach / _PART))


def _exponent(u: Any, log_kernel: Kernel, p: Any, q: Any, *params: Any) -> Any:
    u = minimum(maximum(u, -700.0), 700.0)
    odds = exp(-u)
    whole = 1 + odds
    t = 1 / whole
    # log t is -log(whole), log(1 - t) is -u - log(whole)
    return log_kernel(t, odds * t, *params) - (p + q) * log(whole) - q * u
