"""Draws from an urn without putting back: the hypergeometric distribution.

Its tails have no formula here: they are sums of a fixed number of terms, all on the device.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tapegrad.scipy.special.factorials import log_choose
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

_TERMS = 1024
_WIDEST = 100.0
"""The standard deviation up to which the terms reach as far as there is probability."""


def _log_density(k: Any, M: Any, n: Any, N: Any) -> Any:
    return log_choose(n, k) + log_choose(M - n, N - k) - log_choose(M, N)


def _mean(M: Any, n: Any, N: Any) -> Any:
    return N * n / M


def _var(M: Any, n: Any, N: Any) -> Any:
    share = n / M
    is_one = M <= 1
    rest = where(is_one, 0.0, (M - N) / where(is_one, 1.0, M - 1))
    return N * share * (1 - share) * rest


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
    """The logarithms of probabilities, 0 outside of the support, and the probabilities."""
    low, high = _bounds(*shapes)
    is_inside = (k >= low) & (k <= high)
    logs = _log_density(where(is_inside, k, high), *shapes)
    return where(is_inside, logs, 0.0), where(is_inside, exp(logs), 0.0)


def _unless_wide(y: Any, M: Any, n: Any, N: Any) -> Any:
    return where(_var(M, n, N) > _WIDEST**2, math.nan, y)


def _tails(k: Any, M: Any, n: Any, N: Any) -> tuple[Any, Any]:
    """The probabilities up to k and beyond: the smaller one is summed from k outwards."""
    shapes = column(M, n, N)
    is_low = k < _mean(M, n, N)
    first, way = column(where(is_low, k, k + 1), where(is_low, -1.0, 1.0 + 0.0 * k))
    tail = sum_over(_probabilities(first + way * _terms(k, _TERMS), shapes)[1], -1)
    tail = _unless_wide(minimum(tail, 1.0) + 0.0 * k, M, n, N)
    return where(is_low, tail, 1 - tail), where(is_low, 1 - tail, tail)


def _around_mean(M: Any, n: Any, N: Any) -> tuple[Any, Any, Any]:
    """All whole numbers that have a probability to speak of, and these."""
    shapes = column(M, n, N)
    start = floor(stop_gradient(_mean(M, n, N))) - _TERMS
    (first,) = column(start)
    return start, *_probabilities(first + _terms(start, 2 * _TERMS), shapes)


def _ppf(q: Any, M: Any, n: Any, N: Any) -> Any:
    start, _, p = _around_mean(*(stop_gradient(x) for x in (M, n, N)))
    (wanted,) = column(q)
    # What only rounding keeps below q has reached it.
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
