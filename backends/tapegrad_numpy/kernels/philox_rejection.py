"""Random kernels by rejection sampling: gamma and Poisson.

To be independent of size and order, attempt r of element e has separate counters. With k counters
per attempt they are `r * 2**48 + e * k + j` for j below k. Their 4k words are read as 2k pairs, and
these as float64 uniforms (see philox_words.py). The arithmetic is float64 for every dtype, so that
devices whose logarithms differ in the last bit reject the same candidates, except for one in about
10**15.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import count
from typing import Any

import numpy as np

from tapegrad_numpy.kernels.philox_words import Array, as_pairs, philox, unit

Shape = tuple[int, ...]
Attempt = Callable[[Array, int], tuple[Array, Array]]

_SMALLEST_NORMAL = {
    "float16": 2.0**-14,
    "bfloat16": 2.0**-126,
    "float32": 2.0**-126,
    "float64": 2.0**-1022,
}
# Elements per chunk.
_CHUNK = 1 << 16


def random_gamma(state: Array, alpha: Array, *, shape: Shape, dtype: Any) -> Array:
    """Draw from gamma distributions of scale 1 and shape parameters `alpha`, broadcast to `shape`.

    Marsaglia and Tsang's method (2000), two counters for each attempt, uniforms u0 to u3. The
    normal number is `sqrt(-2 * log(u0 + 2**-53)) * cos(2 * pi * u1)`; u2 decides; for alpha below
    1, a draw with alpha + 1 is multiplied by `(u3 + 2**-53) ** (1 / alpha)`. As in TensorFlow no
    result is below the dtype's smallest normal number. A negative alpha gives NaN.
    """
    dtype = np.dtype(dtype)
    wanted = np.broadcast_to(alpha, shape).reshape(-1).astype(np.float64)
    y = np.where(wanted >= 0, wanted, np.nan)
    regular = np.isfinite(wanted) & (wanted > 0)

    def attempt(elements: Array, r: int) -> tuple[Array, Array]:
        a = wanted[elements]
        u = _uniforms(state, elements, r, counters=2)
        return _marsaglia_tsang(a, u)

    _fill(y, regular, attempt)
    return np.maximum(y, _SMALLEST_NORMAL[dtype.name]).astype(dtype).reshape(shape)


def _marsaglia_tsang(alpha: Array, u: Array) -> tuple[Array, Array]:
    d = np.where(alpha < 1, alpha + 1, alpha) - 1 / 3
    normal = np.sqrt(-2 * np.log(u[0] + 2.0**-53)) * np.cos(2 * math.pi * u[1])
    z = normal / np.sqrt(9 * d)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore", under="ignore"):
        # d * (1 - v + log(v)) for v = (1 + z)**3, without the cancellation at large alpha. It is
        # NaN, and so rejected, if v is negative.
        bound = d * (3 * np.log1p(z) - z * (3 + z * (3 + z)))
        accepted = np.log(u[2]) < 0.5 * normal**2 + bound
        boost = np.where(alpha < 1, (u[3] + 2.0**-53) ** (1 / alpha), 1.0)
        return d * (1 + z) ** 3 * boost, accepted


def random_poisson(state: Array, rate: Array, *, shape: Shape, dtype: Any) -> Array:
    """Draw from Poisson distributions of mean `rate`, broadcast to `shape`.

    One counter for each attempt, uniforms u0 and u1. Below a rate of 10: the smallest k whose
    cumulative probability exceeds u0, at the first attempt. From 10 on: Hörmann's transformed
    rejection PTRS (1993) with U = u0 - 1/2 and V = u1. A negative rate gives NaN, or 0 for an
    integer dtype; integers end at the dtype's maximum.
    """
    dtype = np.dtype(dtype)
    wanted = np.broadcast_to(rate, shape).reshape(-1).astype(np.float64)
    y = np.where(wanted >= 0, wanted, np.nan)

    def invert(elements: Array, r: int) -> tuple[Array, Array]:
        u = _uniforms(state, elements, r, counters=1)
        return _invert_poisson(wanted[elements], u[0]), np.ones(elements.size, bool)

    def attempt(elements: Array, r: int) -> tuple[Array, Array]:
        u = _uniforms(state, elements, r, counters=1)
        return _ptrs(wanted[elements], u[0] - 0.5, u[1])

    _fill(y, (wanted >= 0) & (wanted < 10), invert)
    _fill(y, np.isfinite(wanted) & (wanted >= 10), attempt)
    if dtype.kind in "iu":
        y = np.minimum(np.nan_to_num(y), _largest(dtype))
    return y.astype(dtype).reshape(shape)


def _invert_poisson(rate: Array, u: Array) -> Array:
    k = np.zeros(rate.size)
    term = np.exp(-rate)
    cumulative = term.copy()
    # P(k >= 64) is below 10**-24 at a rate of 10, so only rounding could lead that far.
    for i in range(1, 64):
        beyond = u >= cumulative
        if not beyond.any():
            break
        k += beyond
        term *= rate / i
        cumulative += term
    return k


def _ptrs(rate: Array, u: Array, v: Array) -> tuple[Array, Array]:
    b = 0.931 + 2.53 * np.sqrt(rate)
    a = -0.059 + 0.02483 * b
    inverse_alpha = 1.1239 + 1.1328 / (b - 3.4)
    us = 0.5 - np.abs(u)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        k = np.floor((2 * a / us + b) * u + rate + 0.43)
        chance = np.log(v * inverse_alpha / (a / us**2 + b))
        return k, (k >= 0) & (chance <= _log_poisson(k, rate))


def _log_poisson(k: Array, rate: Array) -> Array:
    """Return the logarithm of the Poisson probability of k, for k = 0, 1, 2, ... and any rate.

    The textbook form `k * log(rate) - rate - log(k!)` cancels at large rates. With Stirling's
    series for k! it is `(k - rate) - k * log(k / rate) - log(2 * pi * k) / 2 - 1 / (12 * k) + ...`.
    """
    n = np.maximum(k, 1)
    difference = n - rate
    error = np.where(
        n < 16, _STIRLING_ERROR[np.clip(n, 0, 15).astype(np.intp)], _stirling_series(n)
    )
    log_ratio = np.log1p(difference / rate)
    log_p = difference - n * log_ratio - 0.5 * np.log(2 * math.pi * n) - error
    return np.where(k > 0, log_p, -rate)


def _stirling_series(n: Array) -> Array:
    square = n * n
    series: Array = (1 / 12 - (1 / 360 - 1 / (1260 * square)) / square) / n
    return series


_STIRLING_ERROR = np.array(
    [0.0]
    + [
        math.lgamma(n + 1) - ((n + 0.5) * math.log(n) - n + 0.5 * math.log(2 * math.pi))
        for n in range(1, 16)
    ]
)


def _uniforms(state: Array, elements: Array, r: int, *, counters: int) -> Array:
    """Return `2 * counters` rows of uniforms for attempt r of these elements."""
    first = elements.astype(np.uint64) * np.uint64(counters) + np.uint64(r << 48)
    numbers = (first[:, None] + np.arange(counters, dtype=np.uint64)).reshape(-1)
    words = philox(numbers, int(state[0]), int(state[1]))
    return np.ascontiguousarray(unit(as_pairs(words)).reshape(elements.size, 2 * counters).T)


def _fill(y: Array, where: Array, attempt: Attempt) -> None:
    """Write the first accepted candidate of each element in `where` into `y`."""
    chosen = np.flatnonzero(where)
    for start in range(0, chosen.size, _CHUNK):
        pending = chosen[start : start + _CHUNK]
        for r in count():
            candidates, accepted = attempt(pending, r)
            y[pending[accepted]] = candidates[accepted]
            pending = pending[~accepted]
            if not pending.size:
                break


def _largest(dtype: np.dtype[Any]) -> float:
    largest = np.iinfo(dtype).max
    limit = float(largest)
    return limit if limit <= largest else math.nextafter(limit, 0.0)
