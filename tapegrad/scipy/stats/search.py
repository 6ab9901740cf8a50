"""Quantiles of discrete distributions by bisection with a fixed number of steps on the device."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tapegrad.scipy.vocabulary import floor, stop_gradient, where


def first_reaching(q: Any, cdf: Callable[[Any], Any], high: Any, rounds: int = 40) -> Any:
    """Return the smallest integer from 0 to `high` whose `cdf` is at least q.

    `high`, a tensor below 2**rounds, is returned if no smaller integer qualifies. The result has no
    gradient.

    >>> from tapegrad.scipy.vocabulary import operands
    >>> q, high = operands(0.7, 10.0)
    >>> float(first_reaching(q, lambda k: (k + 1) / 11, high))
    7.0
    """
    q = stop_gradient(q)
    high = floor(stop_gradient(high)) + 0.0 * q
    low = 0.0 * high - 1
    for _ in range(rounds):
        middle = floor(0.5 * (low + high))
        # Once low and high are neighbours, the middle is `low`, which needs no further test.
        is_enough = (middle > low) & (cdf(where(middle > low, middle, high)) >= q)
        high = where(is_enough, middle, high)
        low = where(is_enough, low, middle)
    return high


def first_leaving(q: Any, sf: Callable[[Any], Any], high: Any, rounds: int = 40) -> Any:
    """Return the smallest integer from 0 to `high` whose `sf` is at most q.

    >>> from tapegrad.scipy.vocabulary import operands
    >>> q, high = operands(0.3, 10.0)
    >>> float(first_leaving(q, lambda k: 1 - (k + 1) / 11, high))
    7.0
    """
    return first_reaching(-q, lambda k: -sf(k), high, rounds)
