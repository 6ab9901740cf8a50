"""Quadrature with fixed nodes on the device, differentiable in parameters.

The rules are double exponential: the nodes cluster at the ends of an interval on all scales, so a
peak or step of any width is resolved if it lies at an end.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np

from tapegrad.scipy.vocabulary import (
    eps_of,
    exp,
    expand_dims,
    expm1,
    maximum,
    minimum,
    numbers_like,
    stop_gradient,
    sum_over,
)

_STEP = 1 / 16
Integrand = Callable[[Any], Any]


def column(*values: Any) -> list[Any]:
    """Append an axis for the nodes to parameters.

    >>> import tapegrad
    >>> column(tapegrad.constant([1.0, 2.0]))[0].shape
    (2, 1)
    """
    return [expand_dims(value, -1) for value in values]


def _table(like: Any, kind: str) -> tuple[Any, Any]:
    """Return the nodes and weights of a rule in the dtype and on the device of a tensor."""
    nodes, weights = _RULES[kind]
    return numbers_like(like, nodes), numbers_like(like, weights)


def _half_infinite() -> tuple[Any, Any]:
    t = np.arange(-3.9, 5.6, _STEP)
    nodes = np.exp(t - np.exp(-t))
    return nodes, _STEP * nodes * (1 + np.exp(-t))


def _finite() -> tuple[Any, Any]:
    t = np.arange(-3.1, 3.1 + 0.5 * _STEP, _STEP)
    inner = math.pi * np.sinh(t)
    nodes = 1 / (1 + np.exp(-inner))
    return nodes, _STEP * math.pi * np.cosh(t) * nodes / (1 + np.exp(inner))


def _logarithmic() -> tuple[Any, Any]:
    nodes = np.exp(np.arange(-180, 42) / 4)
    return nodes, nodes / 4


_RULES = {"half-infinite": _half_infinite(), "finite": _finite(), "logarithmic": _logarithmic()}


def integral_from(start: Any, scale: Any, integrand: Integrand, sign: float = 1.0) -> Any:
    """Integrate from `start` to infinity, or to minus infinity with sign -1.

    The integrand takes points with one axis more than `start`. Beyond a few times `scale` it must
    decay at least exponentially.

    >>> import tapegrad
    >>> from tapegrad.ops.elementwise.exponential import exp
    >>> start = tapegrad.constant([0.0, 1.0], "float64")
    >>> integral_from(start, 1.0 + 0 * start, lambda x: exp(-x)).round(12).tolist()
    [1.0, 0.367879441171]
    """
    scale = stop_gradient(scale + 0.0 * start)
    nodes, weights = _table(scale, "half-infinite")
    start, wide = column(start, scale)
    return sum_over(integrand(start + sign * wide * nodes) * weights, -1) * scale


def integral_between(low: Any, high: Any, integrand: Integrand) -> Any:
    """Integrate from `low` to `high`, both finite.

    >>> import tapegrad
    >>> low = tapegrad.constant([0.0, 1.0], "float64")
    >>> integral_between(low, low + 1, lambda x: 2 * x).round(12).tolist()
    [1.0, 3.0]
    """
    width = high - low
    nodes, weights = _table(width, "finite")
    start, wide = column(low, width)
    return sum_over(integrand(start + wide * nodes) * weights, -1) * width


def integral_over_all(places: list[Any], scales: tuple[Any, Any], integrand: Integrand) -> Any:
    """Integrate over the real line; the integrand is steep at the `places`.

    `scales` are its decay lengths to the left and to the right of them.

    >>> import tapegrad
    >>> from tapegrad.ops.elementwise.exponential import exp
    >>> zero = tapegrad.constant(0.0, "float64")
    >>> places, scales = [zero, zero + 1], (1 + zero, 1 + zero)
    >>> round(float(integral_over_all(places, scales, lambda x: exp(-x * x))) ** 2, 12)
    3.14159265359
    """
    common = scales[0] + scales[1]
    for place in places:
        common = common + place
    ends = [stop_gradient(place + 0.0 * common) for place in places]
    # Sort by pairwise comparisons; there are at most three.
    for last in range(len(ends) - 1, 0, -1):
        for i in range(last):
            low, high = minimum(ends[i], ends[i + 1]), maximum(ends[i], ends[i + 1])
            ends[i], ends[i + 1] = low, high
    total = integral_from(ends[0], scales[0], integrand, -1.0)
    total = total + integral_from(ends[-1], scales[1], integrand)
    for low, high in pairwise(ends):
        total = total + integral_between(low, high, integrand)
    return total


def mean_log_gamma(mean: Any, rest: Integrand, start: Any) -> Any:
    """Return the mean of log Γ(K + start) - log Γ(start) over a count K.

    `rest(drop)` is 1 - E[(1 + drop)^K] for -1 < drop < 0, with one axis more. With drop =
    exp(-t) - 1 the mean is the integral of
    (mean exp(-t) - exp(-start t) rest / (1 - exp(-t))) / t over positive t, with nodes spaced
    evenly in log(t).

    >>> import tapegrad
    >>> from tapegrad.ops.elementwise.exponential import log1p
    >>> mean = tapegrad.constant(3.0, "float64")
    >>> rest = lambda drop: -expm1(3 * log1p(drop))
    >>> round(float(mean_log_gamma(mean, rest, 1 + 0 * mean)), 9)
    1.791759469
    """
    t, weights = _table(mean, "logarithmic")
    mean_, start_ = column(mean, start)
    # Stay above -1, where the logarithm diverges.
    drop = maximum(expm1(-t), eps_of(mean) - 1)
    gap = mean_ * exp(-t) + exp(-start_ * t) * rest(drop) / drop
    return sum_over(gap * (weights / t), -1)


def mean_log(like: Any, generating: Integrand) -> Any:
    """Return the mean of log(K) over a positive count K.

    `generating(s)` is E[s^K], for s with one axis more; the mean is the integral of
    (exp(-t) - generating(exp(-t))) / t over positive t.

    >>> import tapegrad
    >>> like = tapegrad.constant(0.0, "float64")
    >>> round(float(mean_log(like, lambda s: s**3)), 9)
    1.098612289
    """
    t, weights = _table(like, "logarithmic")
    s = exp(-t)
    return sum_over((s - generating(s)) * (weights / t), -1)


def mean_over_shares(like: Any, value: Callable[[Any, bool], Any]) -> Any:
    """Integrate value(q, False) + value(q, True) over probabilities q from 0 to 1/2.

    The first term belongs to the lower tail, the second to the upper tail.

    >>> import tapegrad
    >>> like = tapegrad.constant(0.0, "float64")
    >>> round(float(mean_over_shares(like, lambda q, is_upper: 2 * (1 - q if is_upper else q))), 9)
    1.0
    """
    nodes, weights = _table(like, "finite")
    q = 0.5 * nodes
    return 0.5 * sum_over((value(q, False) + value(q, True)) * weights, -1)
