"""Quantiles of continuous distributions without a closed inverse."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tapegrad.scipy.vocabulary import maximum, minimum, stop_gradient, where

_HALVINGS, _STEPS = 48, 2
Formula = Callable[..., Any]


def quantile(
    q: Any, shapes: tuple[Any, ...], rise: Formula, slope: Formula, place: Formula, reach: float
) -> Any:
    """Return the x for which rise(q, x, *shapes), which increases with x, is 0.

    `slope` is the derivative of rise with respect to x; `place` maps [-reach, reach] to the range
    of x. Bisection finds x without recording. The Newton steps after it are recorded: each doubles
    the number of correct derivative orders, so two give three orders.

    >>> from tapegrad.ops.elementwise.exponential import exp
    >>> from tapegrad.scipy.vocabulary import operands
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
        # This limit removes rounding errors only and has no effect on derivatives.
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
