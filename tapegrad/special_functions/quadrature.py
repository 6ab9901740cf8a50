"""Quadrature by the trapezoidal rule, series, and helpers such as sinpi.

The trapezoidal rule integrates an analytic function that vanishes at both ends to full precision.
The nodes are processed in blocks along a new last axis.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from tapegrad.ops.control.stop_gradient import stop_gradient
from tapegrad.ops.elementwise.exponential import exp
from tapegrad.ops.elementwise.rounding import rint
from tapegrad.ops.elementwise.selection import where
from tapegrad.ops.elementwise.trigonometric import sin
from tapegrad.ops.indexing.gather import place_next_to
from tapegrad.ops.reduction.cumulative import cumprod
from tapegrad.ops.reduction.primitives import sum as sum_over
from tapegrad.ops.shape.functions import expand_dims

# Integrands are cut off where they are smaller than their peak by a factor exp(-CUTOFF).
CUTOFF = 40.0
_ELEMENTS, _MANY, _HALVINGS = 1 << 20, 1 << 14, 9


def integrate(
    integrand: Callable[..., tuple[Any, ...]], low: Any, high: Any, count: int, *params: Any
) -> list[Any]:
    """Integrate each result of the integrand over s from low to high.

    The limits are constants for differentiation. The integrand takes s and the parameters, all with
    one additional last axis.
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
    """Return the series 1 + r(0) + r(0) r(1) + ... with `count` products.

    `ratio` takes the index of the term and the parameters, which may have an additional last axis.
    """
    total = last = 1.0 + 0.0 * params[0]
    if math.prod(params[0].shape) > _MANY:
        # Large arrays: one term at a time needs no memory for cumulative products.
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
    """Yield 0, 1, ..., count - 1 in blocks that bound the temporary memory to a few megabytes."""
    length = max(1, min(count, _ELEMENTS // max(1, math.prod(beside.shape))))
    for start in range(0, count, length):
        steps = np.arange(start, min(start + length, count), dtype=np.float64)
        yield place_next_to(beside, steps)


def bisect_to_cutoff(height: Callable[[Any], Any], low: Any, high: Any) -> Any:
    """Return, rounded up slightly, the point between low and high where height(s) equals CUTOFF.

    >>> round(float(bisect_to_cutoff(lambda s: 10.0 * s, 0.0, 8.0)), 1)
    4.0
    """
    for _ in range(_HALVINGS):
        middle = 0.5 * (low + high)
        is_low = height(middle) < CUTOFF
        low, high = where(is_low, middle, low), where(is_low, high, middle)
    return high


def sinpi(x: Any) -> Any:
    """Return sin(πx), exactly 0 at integers.

    >>> from tapegrad.ops.casting.promotion import operand
    >>> sinpi(operand([1.0, 2.5])).tolist()
    [0.0, 1.0]
    """
    turn = stop_gradient(rint(x))
    sine = sin(math.pi * (x - turn))
    return where(turn == 2 * rint(0.5 * turn), sine, 0.0 - sine)


def cospi(x: Any) -> Any:
    """Return cos(πx), exactly 0 halfway between integers.

    >>> from tapegrad.ops.casting.promotion import operand
    >>> cospi(operand([1.0, 2.5])).tolist()
    [-1.0, 0.0]
    """
    return sinpi(x + 0.5)


def sinhc(x: Any) -> Any:
    """Return sinh(x) / x, and 1 at 0.

    >>> from tapegrad.ops.casting.promotion import operand
    >>> float(sinhc(operand(0.0)))
    1.0
    """
    is_near = abs(x) < 1.0
    near, far = where(is_near, x, 0.0), where(is_near, 1.0, x)
    square, series = near * near, 1.0
    for k in range(9, 0, -1):
        series = 1 + series * square / (2 * k * (2 * k + 1))
    return where(is_near, series, (exp(far) - exp(-far)) / (2 * far))
