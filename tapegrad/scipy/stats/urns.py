"""The hypergeometric distribution: draws from an urn without replacement.

Its tails are sums of a fixed number of terms on the device.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tapegrad.scipy.stats.discrete import Discrete
from tapegrad.scipy.stats.quadrature import column
from tapegrad.scipy.vocabulary import (
    cast,
    cumsum,
    exp,
    floor,
    maximum,
    minimum,
    numbers_like,
    numpy_dtype_of,
    stop_gradient,
    sum_over,
    where,
)
from tapegrad.special_functions.gamma_functions import log_choose

_TERMS = 1024
_WIDEST = 100.0
"""The largest standard deviation for which the terms cover all of the probability."""


def _log_density(k: Any, M: Any, n: Any, N: Any) -> Any:
    return log_choose(n, k) + log_choose(M - n, N - k) - log_choose(M, N)


def _mean(M: Any, n: Any, N: Any) -> Any:
    return N * n / M


def _var(M: Any, n: Any, N: Any) -> Any:
    fraction = n / M
    is_one = M <= 1
    rest = where(is_one, 0.0, (M - N) / where(is_one, 1.0, M - 1))
    return N * fraction * (1 - fraction) * rest


def _bounds(M: Any, n: Any, N: Any) -> tuple[Any, Any]:
    return maximum(N - (M - n), 0.0), minimum(n, N)


def _are_counts(*values: Any) -> Any:
    is_whole = values[0] >= 0
    for value in values:
        is_whole = is_whole & (value >= 0) & (floor(value) == value)
    return is_whole


def _terms(like: Any, count: int) -> Any:
    return numbers_like(like, np.arange(count))


def _probabilities(k: Any, shapes: list[Any]) -> tuple[Any, Any]:
    """Return the log-probabilities, 0 outside of the support, and the probabilities."""
    low, high = _bounds(*shapes)
    is_inside = (k >= low) & (k <= high)
    logs = _log_density(where(is_inside, k, high), *shapes)
    return where(is_inside, logs, 0.0), where(is_inside, exp(logs), 0.0)


def _unless_wide(y: Any, M: Any, n: Any, N: Any) -> Any:
    return where(_var(M, n, N) > _WIDEST**2, math.nan, y)


def _tails(k: Any, M: Any, n: Any, N: Any) -> tuple[Any, Any]:
    """Return the lower and upper tail; the smaller one is summed outwards from k."""
    shapes = column(M, n, N)
    is_low = k < _mean(M, n, N)
    first, way = column(where(is_low, k, k + 1), where(is_low, -1.0, 1.0 + 0.0 * k))
    tail = sum_over(_probabilities(first + way * _terms(k, _TERMS), shapes)[1], -1)
    tail = _unless_wide(minimum(tail, 1.0) + 0.0 * k, M, n, N)
    return where(is_low, tail, 1 - tail), where(is_low, 1 - tail, tail)


def _around_mean(M: Any, n: Any, N: Any) -> tuple[Any, Any, Any]:
    """Return all integers with a non-negligible probability, and their probabilities."""
    shapes = column(M, n, N)
    start = floor(stop_gradient(_mean(M, n, N))) - _TERMS
    (first,) = column(start)
    return start, *_probabilities(first + _terms(start, 2 * _TERMS), shapes)


def _ppf(q: Any, M: Any, n: Any, N: Any) -> Any:
    start, _, p = _around_mean(*(stop_gradient(x) for x in (M, n, N)))
    (wanted,) = column(q)
    # Treat sums that are below q only by rounding as equal to q.
    short = cast(cumsum(p, -1) < wanted * (1 - 1e-13), numpy_dtype_of(q))
    return _limited(start + sum_over(short, -1), M, n, N)


def _isf(q: Any, M: Any, n: Any, N: Any) -> Any:
    start, _, p = _around_mean(*(stop_gradient(x) for x in (M, n, N)))
    (wanted,) = column(q)
    above = cumsum(p, -1, reverse=True) - p
    long = cast(above > wanted * (1 + 1e-13), numpy_dtype_of(q))
    return _limited(start + sum_over(long, -1), M, n, N)


def _limited(k: Any, M: Any, n: Any, N: Any) -> Any:
    low, high = _bounds(M, n, N)
    return _unless_wide(minimum(maximum(k, low), high), M, n, N)


def _entropy(M: Any, n: Any, N: Any) -> Any:
    _, logs, p = _around_mean(M, n, N)
    return _unless_wide(-sum_over(p * logs, -1), M, n, N)


hypergeom = Discrete(
    "hypergeom",
    "M n N",
    support=_bounds,
    inside=lambda M, n, N: minimum(n, N),
    valid=lambda M, n, N: _are_counts(M, n, N) & (M > 0) & (n <= M) & (N <= M),
    stand_in=(1.0, 1.0, 1.0),
    log_density=_log_density,
    cdf=lambda k, *shapes: _tails(k, *shapes)[0],
    sf=lambda k, *shapes: _tails(k, *shapes)[1],
    ppf=_ppf,
    isf=_isf,
    mean=_mean,
    var=_var,
    entropy=_entropy,
)
"""Tails, quantiles and entropy are NaN where the standard deviation is above 100."""
