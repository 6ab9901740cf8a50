"""Quantiles of continuous distributions whose tails have no inverse in closed form."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tapegrad.scipy.vocabulary import maximum, minimum, stop_gradient, where

_HALVINGS, _STEPS = 48, 2
Formula = Callable[..., Any]


def quantile(
    q: Any, shapes: tuple[Any, ...], rise: Formula, slope: Formula, place: Formula, reach: float
) -> Any:
    """Return the x for which rise(q, x, *shapes), which grows with x, is 0.

    `slope` is the derivative of rise by x, `place` leads from [-reach, reach] to the numbers x.
    Bisection finds x. The steps of Newton's method after it are what is differentiated: each of
    them doubles the order of the derivatives that are right, so two are good for three.

    >>> from tapegrad.ops.exponential import exp
    >>> from tapegrad.scipy.operands import operands
    >>> q = operands(0.5)[0]
    >>> rise = lambda q, x: exp(x) - q
    >>> round(float(quantile(q, (), rise, lambda x: exp(x), lambda s: s, 9.0)), 6)
    -0.693147
    """
    x, low, high = _bisect(stop_gradient(q), [stop_gradient(s) for s in shapes], rise, place, reach)
    for _ in range(_STEPS):
        steep = slope(x, *shapes)
        is_steep = steep > 0
        step = where(is_steep, rise(q, x, *shapes) / where(is_steep, steep, 1.0), 0.0)
        # A limit that no derivative sees: it only holds back what rounding has made.
        x = x - step
        x = x + stop_gradient(minimum(maximum(x, low), high) - x)
    return x


def _bisect(q: Any, shapes: Any, rise: Formula, place: Formula, reach: float) -> Any:
    zero = 0.0 * q
    for shape in shapes:
        zero = zero + 0.0 * shape
    low, high = zero - reach, zero + reach
    for _ in range(_HALVINGS):
        middle = 0.5 * (low + high)
        is_low = rise(q, place(middle, *shapes), *shapes) < 0
        low, high = where(is_low, middle, low), where(is_low, high, middle)
    ends = place(low, *shapes), place(high, *shapes)
    return 0.5 * (ends[0] + ends[1]), *ends
