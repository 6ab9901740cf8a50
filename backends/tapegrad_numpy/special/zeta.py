"""Hurwitz zeta by the Euler-Maclaurin formula, and polygamma on top of it."""

from __future__ import annotations

import functools
import math

import numpy as np

from tapegrad_numpy.special.blocks import Array, select
from tapegrad_numpy.special.gamma import digamma, lgamma

# Terms summed one by one before the Euler-Maclaurin tail takes over.
_HEAD = 8

# B_2k / (2k)! for k = 1, 2, ...: the Bernoulli weights of the tail.
_BERNOULLI = (
    1 / 12,
    -1 / 720,
    1 / 30240,
    -1 / 1209600,
    1 / 47900160,
    -691 / 1307674368000,
    1 / 74724249600,
    -3617 / 10670622842880000,
    43867 / 5109094217170944000,
    -174611 / 802857662698291200000,
)


def zeta(x: Array, q: Array) -> Array:
    """Evaluate the sum over k >= 0 of (q + k)^-x, for x > 1.

    inf at x = 1 and at q = 0, -1, -2, ...; nan for x < 1, and for q < 0 unless x is an integer.
    """
    y = select((x, q), (q < 0.0, _zeta_negative), otherwise=_zeta_positive)
    y = np.where((q <= 0.0) & (q == np.floor(q)), np.inf, y)
    return np.where(x > 1.0, y, np.where(x == 1.0, np.inf, np.nan))


def _zeta_positive(x: Array, q: Array) -> Array:
    power = -x
    y = q**power
    for k in range(1, _HEAD):
        y += (q + k) ** power
    end = q + _HEAD
    square = end * end
    tail = np.full(x.shape, _BERNOULLI[-1])
    for k in range(2 * len(_BERNOULLI) - 3, 0, -2):
        tail *= (x + k) * (x + (k + 1)) / square
        tail += _BERNOULLI[k // 2]
    tail = 1.0 / (x - 1.0) + (0.5 + x / end * tail) / end
    scale = end ** (1.0 - x)
    # Beyond this ratio the tail is below 1e-17 of the first term, and its series diverges.
    return np.where((x > 5.0 * end) | (scale == 0.0), y, y + scale * tail)


def _zeta_negative(x: Array, q: Array) -> Array:
    # Sum over all integers around the nearest pole, less the part below q.
    near = q - np.round(q)
    sign = np.where(x % 2.0 == 0.0, 1.0, -1.0)
    y = near**-x + _zeta_positive(x, 1.0 + near)
    y += sign * (_zeta_positive(x, 1.0 - near) - _zeta_positive(x, 1.0 - q))
    return np.where(x == np.floor(x), y, np.nan)


def polygamma(n: Array, x: Array) -> Array:
    """Evaluate the n-th derivative of digamma, (-1)^(n+1) n! zeta(n + 1, x) for n >= 1.

    nan where n is negative or not an integer; +-inf at the poles for n >= 1. Where zeta itself
    leaves the range of float64 the result is 0 or inf, even if n! would bring it back.
    """
    valid = (n >= 0.0) & (n == np.floor(n))
    return select(
        (n, x),
        (~valid, lambda n, x: np.full(n.shape, np.nan)),
        (n == 0.0, lambda n, x: digamma(x)),
        otherwise=_polygamma_positive,
    )


def _polygamma_positive(n: Array, x: Array) -> Array:
    y = select(
        (n, zeta(n + 1.0, x)),
        (n <= 170.0, lambda n, y: y * _factorials()[n.astype(np.intp)]),
        otherwise=lambda n, y: np.copysign(np.exp(lgamma(n + 1.0) + np.log(np.abs(y))), y),
    )
    return np.where(n % 2.0 == 0.0, -y, y)


@functools.cache
def _factorials() -> Array:
    return np.array([float(math.factorial(n)) for n in range(171)])
