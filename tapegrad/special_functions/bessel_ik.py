"""Modified Bessel functions I and K of any real order at positive arguments, scaled by exp(∓x).

Both are integrals of positive functions, so that no cancellation occurs:
K(x) = 1/2 ∫ exp(vt - x cosh t) dt, and I(x) by Poisson's integrals of order v + 1 and v + 2.
"""

from __future__ import annotations

import math
from typing import Any

from tapegrad.ops.control.stop_gradient import stop_gradient
from tapegrad.ops.elementwise.exponential import exp, log, log1p
from tapegrad.ops.elementwise.powers import cbrt, sqrt
from tapegrad.ops.elementwise.selection import maximum, minimum, where
from tapegrad.ops.elementwise.special_functions import lgamma
from tapegrad.ops.elementwise.trigonometric import asinh
from tapegrad.special_functions.quadrature import CUTOFF, bisect_to_cutoff, integrate
from tapegrad.special_functions.temme_series import is_small, k_small

_K_NODES, _I_NODES = 136, 144


def kve_positive(v: Any, x: Any) -> Any:
    """Return exp(x) K(x) of order v >= 0 at x > 0.

    >>> from tapegrad.ops.casting.promotion import operands
    >>> round(float(kve_positive(*operands(0.5, 2.0))), 6)
    0.886227
    """
    is_near, is_infinite = is_small(v, x), x == math.inf
    is_else = ~(is_near | is_infinite)
    y = _kve_middle(where(is_else, v, 1.0), where(is_else, x, 1.0))
    low, tiny = where(is_near, v, 0.0), where(is_near, x, 0.25)
    return where(is_near, exp(tiny) * k_small(low, tiny), where(is_infinite, 0.0, y))


def _kve_middle(v: Any, x: Any) -> Any:
    """Integrate around the peak at sinh t = v/x.

    With r = √(v² + x²), the exponent drops by r (cosh s - 1) + v (sinh s - s) at distance s to the
    right of the peak, and by (r - v) (cosh s - 1) + v (exp(-s) - 1 + s) to its left.
    """
    order, place = stop_gradient(v), stop_gradient(x)
    root = sqrt(order * order + place * place)
    top = log(order + root) - log(place)
    right = minimum(_cutoff_distance(root), cbrt(6 * CUTOFF / maximum(order, 1e-3)))
    ratio = CUTOFF / maximum(order, 1e-3)
    left = _cutoff_distance(maximum(place * place / (root + order), 1e-18))
    left = minimum(left, 0.5 * (ratio + sqrt(ratio * (ratio + 8))))

    def integrand(s: Any, v: Any, order: Any, root: Any, top: Any) -> tuple[Any]:
        grown = exp(0.5 * s)
        half = 0.5 * (grown - 1 / grown)
        fall = 2 * root * half * half + order * ((grown + 1 / grown) * half - s)
        # (v - order) is 0; it carries the derivative with respect to the order.
        return (exp((v - order) * (s + top) - fall),)

    (y,) = integrate(integrand, -left, right, _K_NODES, v, order, root, top)
    return 0.5 * exp(order * top - order * order / (root + place)) * y


def _cutoff_distance(rate: Any) -> Any:
    """Return the s where rate (cosh s - 1) equals CUTOFF."""
    ratio = CUTOFF / rate
    return log1p(ratio + sqrt(ratio * (ratio + 2)))


def ive_positive(v: Any, x: Any) -> Any:
    """Return exp(-x) I(x) of order v >= 0 at x > 0.

    I(x) = (x/2)^(v+1) / (√π Γ(v + 3/2)) ∫ (1 - t²)^(v+1/2) e^(xt) [2(v+1)/x + x (1-t²) / (2v+3)] dt
    over t = tanh u.

    >>> from tapegrad.ops.casting.promotion import operands
    >>> round(float(ive_positive(*operands(0.5, 2.0))), 6)
    0.276928
    """
    is_infinite = x == math.inf
    x = where(is_infinite, 1.0, x)
    power, place = stop_gradient(2 * v + 3), stop_gradient(x)
    top = 0.5 * asinh(2 * place / power)
    height, bound = _exponent(top, power, place)[0], CUTOFF / power + 1.5
    left = bisect_to_cutoff(lambda s: height - _exponent(top - s, power, place)[0], 0.0, bound)
    right = bisect_to_cutoff(lambda s: height - _exponent(top + s, power, place)[0], 0.0, bound)

    def integrand(u: Any, v: Any, x: Any, height: Any) -> tuple[Any]:
        exponent, square = _exponent(u, 2 * v + 3, x)
        return (exp(exponent - height) * (v + 1 + square * (0.5 * x * x / (2 * v + 3))),)

    (y,) = integrate(integrand, top - left, top + right, _I_NODES, v, x, height)
    scale = v * log(0.5 * x) - lgamma(v + 1.5) + height
    return where(is_infinite, 0.0, exp(scale) * y / math.sqrt(math.pi))


def _exponent(u: Any, power: Any, x: Any) -> tuple[Any, Any]:
    """Return -power log(cosh u) - x (1 - tanh u), and 1 / cosh² u."""
    size = abs(u)
    double = exp(-2 * size)
    total = 1 + double
    below = 1 / total
    rest = where(u > 0, double * below, below)
    return power * (math.log(2) - size - log(total)) - 2 * x * rest, 4 * double * below * below
