"""The regularised incomplete beta function."""

from __future__ import annotations

import numpy as np

from tapegrad_numpy.kernels.special.arithmetic import log_excess
from tapegrad_numpy.kernels.special.blocks import Array, select
from tapegrad_numpy.kernels.special.error import erfc
from tapegrad_numpy.kernels.special.gamma import lbeta, lgamma1p, log_gamma_ratio, stirling_error

# The fraction needs about as many levels as the square root of the larger parameter.
_LIMIT = 20_000

# Where both parameters are above, the next term of the uniform expansion is below a rounding.
_UNIFORM = 1e10


def betainc(a: Array, b: Array, x: Array) -> Array:
    """Evaluate I_x(a, b) = integral of t^(a-1) (1-t)^(b-1) from 0 to x, over B(a, b).

    0 at x = 0, 1 at x = 1, nan for x outside [0, 1] or parameters that are not positive and finite.
    """
    inside = (a > 0.0) & (b > 0.0) & (a < np.inf) & (b < np.inf) & (x >= 0.0) & (x <= 1.0)
    y = select(
        (a, b, x),
        (~inside, lambda a, b, x: np.full(a.shape, np.nan)),
        (np.minimum(a, b) > _UNIFORM, _uniform),
        (x <= (a + 1.0) / (a + b + 2.0), lambda a, b, x: _lower(a, b, x, 1.0 - x)),
        (b < 1.0, _upper_small),
        otherwise=lambda a, b, x: 1.0 - _lower(b, a, 1.0 - x, x),
    )
    return np.where(inside & (x == 1.0), 1.0, y)


def _uniform(a: Array, b: Array, x: Array) -> Array:
    """The first two terms of Temme's expansion, uniform in x, for large parameters.

    With p = a / (a + b) and q = 1 - p, the lower tail is erfc(sqrt(s)) / 2 + exp(-s) c, where
    s = a log(p / x) + b log(q / (1 - x)). The correction c is the difference of the leading terms
    of both sides far from the mean.
    """
    total = a + b
    p, q = a / total, b / total
    gap = p * (1.0 - x) - q * x
    s = a * log_excess(x / p, -gap / p) + b * log_excess((1.0 - x) / q, gap / q)
    # The ratio of s to its value near the mean, total * gap^2 / (2 p q), less 1.
    above = np.zeros(a.shape)
    for k in range(12, 0, -1):
        above = gap * above + 2.0 / (k + 2) * ((1.0 / p) ** k * q + (-1.0 / q) ** k * p)
    is_near = np.abs(gap) < 0.02 * np.minimum(p, q)
    with np.errstate(invalid="ignore", divide="ignore"):
        far = s / total * (2.0 * p * q) / (gap * gap) - 1.0
        ratio = np.where(is_near, gap * above, far)
        # sqrt(1 + ratio) - 1 over the gap, without cancellation
        bend = np.where(is_near, above, ratio / gap) / (np.sqrt(1.0 + ratio) + 1.0)
        scale = np.sqrt(p * q / (2.0 * np.pi * total)) / np.sqrt(1.0 + ratio)
    tail = 0.5 * erfc(np.copysign(np.sqrt(s), gap))
    return np.where(s < 750.0, tail + np.exp(-s) * scale * bend, tail)


def _lower(a: Array, b: Array, x: Array, y: Array) -> Array:
    """I_x(a, b) for x below the mean, with y = 1 - x."""
    large = np.minimum(a, b) >= 10.0
    density = select((a, b, x, y), (large, _density_large), otherwise=_density_small)
    return density / _fraction(a, b, x, a * y - b * x)


def _density_small(a: Array, b: Array, x: Array, y: Array) -> Array:
    """x^a y^b / B(a, b)."""
    log_y = np.where(x < 0.5, np.log1p(-x), np.log(y))
    return np.exp(a * np.log(x) + b * log_y - lbeta(a, b))


def _density_large(a: Array, b: Array, x: Array, y: Array) -> Array:
    """The same around its peak at x = a/(a+b), where the first-order terms cancel exactly."""
    c = a + b
    gap = b * x - a * y
    power = a * log_excess(x * c / a, gap / a) + b * log_excess(y * c / b, -gap / b)
    errors = stirling_error(c) - stirling_error(a) - stirling_error(b)
    return np.sqrt(a / c * b / (2.0 * np.pi)) * np.exp(errors - power)


def _fraction(a: Array, b: Array, x: Array, gap: Array) -> Array:
    """Evaluate the continued fraction of DiDonato and Morris, with gap = a - (a + b) x.

    By Lentz's method; elements leave the loop as they converge, so that a few hard ones do not
    hold up the block.
    """
    out = np.empty(a.shape)
    where = np.arange(a.size)
    c = a + b
    y = a * (gap + 1.0) / (a + 1.0)
    y = np.where(y == 0.0, 1e-300, y)
    up = y.copy()
    down = np.zeros(a.shape)
    for n in range(1, _LIMIT):
        odd = a + (2 * n - 1)
        numerator = (a + (n - 1)) * (c + (n - 1)) * n * (b - n) * (x / odd) ** 2
        level = n + n * (b - n) * x / odd + (a + n) * (gap + 1.0 + n * (2.0 - x)) / (odd + 2)
        down = 1.0 / (level + numerator * down)
        up = level + numerator / up
        change = up * down
        y = y * change
        if n % 4 == 0:
            left = np.flatnonzero(np.abs(change - 1.0) > 1e-15)
            if left.size < 0.75 * where.size:
                out[where] = y
                if left.size == 0:
                    return out
                where = where[left]
                a, b, c, x, gap = a[left], b[left], c[left], x[left], gap[left]
                y, up, down = y[left], up[left], down[left]
    out[where] = y
    return out


def _upper_small(a: Array, b: Array, x: Array) -> Array:
    """1 - I_y(b, a) for b < 1 and y = 1 - x below the mean, relative accuracy kept as b -> 0.

    I_y(b, a) = y^b / (b B(a, b)) (1 + b s), s = sum (1 - a) ... (n - a) y^n / (n! (b + n)).
    """
    y = 1.0 - x
    # log(b B(a, b)), through arguments above 10 where the ratio of gammas does not cancel.
    log_beta = lgamma1p(b) + log_gamma_ratio(a + 10.0, b)
    for k in range(10):
        log_beta += np.log1p(b / (a + k))
    log_power = b * np.log(y) - log_beta
    s = np.zeros(a.shape)
    term = np.ones(a.shape)
    for n in range(1, 200):
        term *= (n - a) * y / n
        s += term / (b + n)
        if n % 8 == 0 and not np.any(np.abs(term) > 1e-17):
            break
    return -np.expm1(log_power) - np.exp(log_power) * b * s
