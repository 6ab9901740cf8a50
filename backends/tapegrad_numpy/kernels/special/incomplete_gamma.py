"""Regularised incomplete gamma functions, the a-derivative, and the gradient of gamma samples."""

from __future__ import annotations

import numpy as np

from tapegrad_numpy.kernels.special.arithmetic import log_excess
from tapegrad_numpy.kernels.special.blocks import Array, select
from tapegrad_numpy.kernels.special.gamma import digamma, lgamma, lgamma1p, stirling_error
from tapegrad_numpy.kernels.special.temme import is_uniform, uniform_slope, uniform_tail

# The continued fraction takes one length per group, for its smallest x; below here it is long.
_NEAR = 6.0


def igamma(a: Array, x: Array) -> Array:
    """Evaluate P(a, x) = integral of t^(a-1) exp(-t) from 0 to x over Gamma(a).

    0 at x = 0, 1 at x = inf, nan for a <= 0 or x < 0.
    """
    y = select(
        (a, x),
        (is_uniform(a, x), lambda a, x: uniform_tail(a, x, upper=False)),
        (_is_lower(a, x), lambda a, x: _density(a, x) * _series(a, x)),
        (x < _NEAR, lambda a, x: 1.0 - _upper(a, x)),
        otherwise=lambda a, x: 1.0 - _upper(a, x),
    )
    return _settle(a, x, y, at_zero=0.0, at_infinity=1.0)


def igammac(a: Array, x: Array) -> Array:
    """Evaluate Q(a, x) = 1 - P(a, x) without cancellation.

    1 at x = 0, 0 at x = inf, nan for a <= 0 or x < 0.
    """
    y = select(
        (a, x),
        (is_uniform(a, x), lambda a, x: uniform_tail(a, x, upper=True)),
        ((a < 1.0) & (x < 2.0), _upper_small),
        (_is_lower(a, x), lambda a, x: 1.0 - _density(a, x) * _series(a, x)),
        (x < _NEAR, _upper),
        otherwise=_upper,
    )
    return _settle(a, x, y, at_zero=1.0, at_infinity=0.0)


def igamma_grad_a(a: Array, x: Array) -> Array:
    """Evaluate dP(a, x)/da; 0 at x = 0 and x = inf, nan for a <= 0 or x < 0."""
    y = _slope(a, x) * _density(a, x)
    return _settle(a, x, y, at_zero=0.0, at_infinity=0.0)


def random_gamma_grad(alpha: Array, sample: Array) -> Array:
    """Evaluate d sample / d alpha = -(dP/da) / (dP/dx) at fixed probability.

    The density cancels before it can underflow. 0 at sample = 0, nan for alpha <= 0 or sample < 0.
    """
    y = -_slope(alpha, sample) * sample / alpha
    return _settle(alpha, sample, y, at_zero=0.0, at_infinity=np.inf)


def _settle(a: Array, x: Array, y: Array, *, at_zero: float, at_infinity: float) -> Array:
    y = np.where(x == 0.0, at_zero, np.where(np.isposinf(x), at_infinity, y))
    y = np.where(np.isposinf(a), np.where(np.isposinf(x), np.nan, at_zero), y)
    return np.where((a > 0.0) & (x >= 0.0), y, np.nan)


def _is_lower(a: Array, x: Array) -> Array:
    """Where the power series converges fast and P is not close to 1."""
    return (x < 2.0) | (x < a + 1.0)


def _density(a: Array, x: Array) -> Array:
    """x^a exp(-x) / Gamma(a + 1)."""
    return select((a, x), (a < 10.0, _density_small), otherwise=_density_large)


def _density_small(a: Array, x: Array) -> Array:
    # Past 1e4 the exponential is 0; the cap keeps the power from overflowing beside it.
    x = np.minimum(x, 1e4)
    return x**a * np.exp(-x - lgamma(a + 1.0))


def _density_large(a: Array, x: Array) -> Array:
    scale = np.exp(-stirling_error(a)) / np.sqrt(2.0 * np.pi * a)
    return np.exp(-a * log_excess(x / a, (x - a) / a)) * scale


def _series(a: Array, x: Array) -> Array:
    """Sum of x^n / ((a + 1) ... (a + n)) over n >= 0."""
    y = np.ones(a.shape)
    term = np.ones(a.shape)
    below = a.copy()
    for n in range(1, 400):
        below += 1.0
        term *= x
        term /= below
        y += term
        if n % 8 == 0 and not np.any(term > 1e-17 * y):
            break
    return y


def _upper_small(a: Array, x: Array) -> Array:
    """Q for a < 1 and x < 2: 1 - x^a / Gamma(1 + a) (1 + a s), s = sum (-x)^n / (n! (a + n))."""
    log_power = a * np.log(x) - lgamma1p(a)
    s = np.zeros(a.shape)
    term = np.ones(a.shape)
    for n in range(1, 26):
        term *= x / -n
        s += term / (a + n)
    return -np.expm1(log_power) - np.exp(log_power) * a * s


def _upper(a: Array, x: Array) -> Array:
    """Q = a density F, with Legendre's continued fraction F."""
    density = _density(a, x)
    return np.where(density == 0.0, 0.0, a * density / _fraction(a, x))


def _levels(x: Array) -> int:
    """Levels of the continued fraction that reach 1e-16 at the smallest x, found by trial."""
    return int(max(20.0, 9.0 + 100.0 / max(float(np.fmin.reduce(x)), 2.0)))


def _fraction(a: Array, x: Array) -> Array:
    """x + 1 - a - 1 (1 - a) / (x + 3 - a - 2 (2 - a) / (x + 5 - a - ...)), from the bottom."""
    levels = _levels(x)
    first = x + 1.0 - a
    y = first + 2.0 * levels
    for i in range(levels, 0, -1):
        y = (first + 2.0 * (i - 1)) - i * (i - a) / y
    return y


def _fraction_with_slope(a: Array, x: Array) -> tuple[Array, Array]:
    """The continued fraction and its derivative in a."""
    levels = _levels(x)
    first = x + 1.0 - a
    y = first + 2.0 * levels
    slope = np.full(a.shape, -1.0)
    for i in range(levels, 0, -1):
        step = i * (i - a) / y
        slope = (i + step * slope) / y - 1.0
        y = (first + 2.0 * (i - 1)) - step
    return y, slope


def _slope(a: Array, x: Array) -> Array:
    """(dP/da) / density, of moderate size even where both underflow."""
    return select(
        (a, x),
        (is_uniform(a, x), uniform_slope),
        (_is_lower(a, x), _slope_lower),
        (x < _NEAR, _slope_upper),
        otherwise=_slope_upper,
    )


def _slope_lower(a: Array, x: Array) -> Array:
    # With P = density s: s (log x - digamma(a + 1)) + ds/da.
    s = np.ones(a.shape)
    slope = np.zeros(a.shape)
    term = np.ones(a.shape)
    harmonic = np.zeros(a.shape)
    below = a.copy()
    for n in range(1, 400):
        below += 1.0
        harmonic += 1.0 / below
        term *= x / below
        s += term
        slope += term * harmonic
        if n % 8 == 0 and not np.any(term > 1e-17 * s):
            break
    return s * (np.log(x) - digamma(a + 1.0)) - slope


def _slope_upper(a: Array, x: Array) -> Array:
    # With Q = density a / f: -(log x - digamma(a)) a / f + a f' / f^2.
    f, slope = _fraction_with_slope(a, x)
    return a / f * (slope / f - np.log(x) + digamma(a))
