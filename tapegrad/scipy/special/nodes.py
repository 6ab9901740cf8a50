"""Integrals by the trapezoidal rule, and what the integrands of special functions are made of.

An analytic integrand that has died away at both ends is integrated to full precision by equal
steps. The steps are taken in blocks along a new last axis.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from tapegrad.ops.cumulative import cumprod
from tapegrad.scipy.vocabulary import (
    exp,
    expand_dims,
    place_next_to,
    rint,
    sin,
    stop_gradient,
    sum_over,
    where,
)

# What is smaller than the peak by this power of e is left out.
DEPTH = 40.0
_ELEMENTS, _MANY, _HALVINGS = 1 << 20, 1 << 14, 9


def integrate(
    integrand: Callable[..., tuple[Any, ...]], low: Any, high: Any, count: int, *params: Any
) -> list[Any]:
    """Integrate each of the integrand's results over s from low to high; the ends are no slopes.

    The integrand takes s and the parameters, all with one axis more than here.
    """
    low, width = stop_gradient(low), stop_gradient((high - low) / count)
    spread = [expand_dims(p, -1) for p in (low, width, *params)]
    totals: list[Any] = []
    for steps in _blocks(low, count + 1):
        s = spread[0] + spread[1] * steps
        parts = [sum_over(part, -1) for part in integrand(s, *spread[2:])]
        totals = [a + b for a, b in zip(totals, parts, strict=True)] if totals else parts
    return [total * width for total in totals]


def power_sum(ratio: Callable[..., Any], count: int, *params: Any) -> Any:
    """Return 1 + r(0) + r(0) r(1) + ..., of `count` products.

    The ratio takes the number of the term and the parameters, here or all with one axis more.
    """
    total = last = 1.0 + 0.0 * params[0]
    if math.prod(params[0].shape) > _MANY:
        # Enough for one step at a time, which spares the running products.
        for k in range(count):
            last = last * ratio(float(k), *params)
            total = total + last
        return total
    spread = [expand_dims(p, -1) for p in params]
    for steps in _blocks(params[0], count):
        terms = cumprod(ratio(steps, *spread), -1)
        total = total + last * sum_over(terms, -1)
        last = last * terms[..., -1]
    return total


def _blocks(beside: Any, count: int) -> Iterator[Any]:
    """Yield 0, 1, ..., count - 1 in pieces, so long that one of them fills some megabytes."""
    length = max(1, min(count, _ELEMENTS // max(1, math.prod(beside.shape))))
    for start in range(0, count, length):
        steps = np.arange(start, min(start + length, count), dtype=np.float64)
        yield place_next_to(beside, steps)


def halved(height: Callable[[Any], Any], low: Any, high: Any) -> Any:
    """Return a bit more than the place between low and high where the height is DEPTH.

    >>> round(float(halved(lambda s: 10.0 * s, 0.0, 8.0)), 1)
    4.0
    """
    for _ in range(_HALVINGS):
        middle = 0.5 * (low + high)
        is_low = height(middle) < DEPTH
        low, high = where(is_low, middle, low), where(is_low, high, middle)
    return high


def sine_of_pi(x: Any) -> Any:
    """Return sin(πx), exactly 0 at whole numbers.

    >>> from tapegrad.scipy.operands import operand
    >>> sine_of_pi(operand([1.0, 2.5])).tolist()
    [0.0, 1.0]
    """
    turn = stop_gradient(rint(x))
    sine = sin(math.pi * (x - turn))
    return where(turn == 2 * rint(0.5 * turn), sine, 0.0 - sine)


def cosine_of_pi(x: Any) -> Any:
    """Return cos(πx), exactly 0 halfway between whole numbers.

    >>> from tapegrad.scipy.operands import operand
    >>> cosine_of_pi(operand([1.0, 2.5])).tolist()
    [-1.0, 0.0]
    """
    return sine_of_pi(x + 0.5)


def hyperbolic_sine_share(x: Any) -> Any:
    """Return sinh(x) / x, and 1 at 0.

    >>> from tapegrad.scipy.operands import operand
    >>> float(hyperbolic_sine_share(operand(0.0)))
    1.0
    """
    is_near = abs(x) < 1.0
    near, far = where(is_near, x, 0.0), where(is_near, 1.0, x)
    square, series = near * near, 1.0
    for k in range(9, 0, -1):
        series = 1 + series * square / (2 * k * (2 * k + 1))
    return where(is_near, series, (exp(far) - exp(-far)) / (2 * far))
