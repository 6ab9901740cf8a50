"""The normal, generalized normal and truncated normal distributions."""

from __future__ import annotations

import math
from typing import Any

from tapegrad.ops.elementwise.powers import power_p
from tapegrad.ops.random.primitives import Shape, Source
from tapegrad.scipy.stats.continuous import Continuous, symmetric
from tapegrad.scipy.stats.draws import gamma, normal, uniform
from tapegrad.scipy.stats.logarithms import log_complement
from tapegrad.scipy.vocabulary import (
    exp,
    lgamma,
    log,
    log1p,
    log_ndtr,
    maximum,
    minimum,
    ndtr,
    ndtri,
    sign,
    where,
)
from tapegrad.special_functions.incomplete_gamma_beta import gammainc, gammaincc
from tapegrad.special_functions.incomplete_inverses import gammainccinv, gammaincinv

_LOG_ROOT_TWO_PI = 0.5 * math.log(2 * math.pi)

norm = Continuous(
    "norm",
    log_density=lambda x: -0.5 * x * x - _LOG_ROOT_TWO_PI,
    **symmetric(ndtr, ndtri, log_ndtr),
    entropy=lambda: 0.5 + _LOG_ROOT_TWO_PI,
    mean=lambda: 0.0,
    var=lambda: 1.0,
    draw=normal,
)


# The generalized normal distribution: exp(-|x|^beta)


def _absolute(x: Any) -> Any:
    """Return |x| with derivative 1 at 0, so that its powers have correct second derivatives."""
    return where(x < 0, -x, x)


def _gennorm_cdf(x: Any, beta: Any) -> Any:
    """Return the CDF by the incomplete gamma function, and near 0 by the first two terms."""
    size = power_p(_absolute(x), beta)
    is_near = size < 1e-30
    size = where(is_near, 1.0, size)
    tail = 0.5 * gammaincc(1 / beta, size)
    near = 0.5 + x * exp(log(0.5 * beta) - lgamma(1 / beta))
    return where(is_near, near, where(x < 0, tail, 0.5 + 0.5 * gammainc(1 / beta, size)))


def _gennorm_ppf(q: Any, beta: Any) -> Any:
    fraction = 2 * _absolute(q - 0.5)
    is_inner, is_middle = fraction < 0.5, fraction < 1e-30
    inner = gammaincinv(1 / beta, where(is_inner & ~is_middle, fraction, 0.5))
    outer = gammainccinv(1 / beta, where(is_inner, 0.5, 2 * minimum(q, 1 - q)))
    x = power_p(where(is_inner, inner, outer), 1 / beta)
    middle = (q - 0.5) / exp(log(0.5 * beta) - lgamma(1 / beta))
    return where(is_middle, middle, where(q < 0.5, -x, x))


def _gennorm_draw(source: Source, shape: Shape, dtype: Any, beta: Any) -> Any:
    size = power_p(gamma(source, shape, dtype, 1 / beta), 1 / beta)
    return sign(uniform(source, shape, dtype) - 0.5) * size


gennorm = Continuous(
    "gennorm",
    "beta",
    valid=lambda beta: beta > 0,
    log_density=lambda x, beta: log(0.5 * beta) - lgamma(1 / beta) - power_p(_absolute(x), beta),
    **symmetric(_gennorm_cdf, _gennorm_ppf),
    entropy=lambda beta: 1 / beta - log(0.5 * beta) + lgamma(1 / beta),
    mean=lambda beta: 0.0 * beta,
    var=lambda beta: exp(lgamma(3 / beta) - lgamma(1 / beta)),
    draw=_gennorm_draw,
)


# The truncated normal distribution between a and b


def _log_mass(a: Any, b: Any) -> Any:
    """Return log(ndtr(b) - ndtr(a)) for a < b, computed in the tail that contains both."""
    a, b = _bounded(a), _bounded(b)
    is_right = a > 0
    low, high = where(is_right, -b, a), where(is_right, -a, b)
    is_left = high <= 0
    # In one tail subtract the probabilities; around 0 subtract both tails from 1.
    upper = log_ndtr(where(is_left, high, 0.0))
    tail = upper + log_complement(upper - log_ndtr(low))
    rest = ndtr(where(is_left, -1.0, low)) + ndtr(-where(is_left, 1.0, high))
    is_none = rest >= 1
    around = where(is_none, -math.inf, log1p(-where(is_none, 0.0, rest)))
    return where(is_left, tail, around)


def _bounded(x: Any) -> Any:
    """Replace infinite bounds by finite ones beyond which the probability is 0."""
    return minimum(maximum(x, -1e4), 1e4)


def _truncnorm_logcdf(x: Any, a: Any, b: Any) -> Any:
    return _log_mass(a, x) - _log_mass(a, b)


def _truncnorm_logsf(x: Any, a: Any, b: Any) -> Any:
    return _log_mass(x, b) - _log_mass(a, b)


def _truncnorm_ppf(q: Any, a: Any, b: Any) -> Any:
    """Return the quantile, computed from the smaller of the two tails."""
    below = ndtr(a) * (1 - q) + ndtr(b) * q
    above = ndtr(-a) * (1 - q) + ndtr(-b) * q
    is_left = below < 0.5
    y = ndtri(where(is_left, below, above))
    return minimum(maximum(where(is_left, y, -y), a), b)


def _truncnorm_ends(a: Any, b: Any) -> tuple[Any, Any]:
    """Return the densities of the truncated distribution at both ends."""
    mass = _log_mass(a, b)
    return (
        exp(-0.5 * a * a - _LOG_ROOT_TWO_PI - mass),
        exp(-0.5 * b * b - _LOG_ROOT_TWO_PI - mass),
    )


def _truncnorm_mean(a: Any, b: Any) -> Any:
    low, high = _truncnorm_ends(a, b)
    return low - high


def _truncnorm_var(a: Any, b: Any) -> Any:
    low, high = _truncnorm_ends(a, b)
    return 1 + _times(a, low) - _times(b, high) - (low - high) * (low - high)


def _truncnorm_entropy(a: Any, b: Any) -> Any:
    low, high = _truncnorm_ends(a, b)
    return 0.5 + _LOG_ROOT_TWO_PI + _log_mass(a, b) + 0.5 * (_times(a, low) - _times(b, high))


def _times(bound: Any, density: Any) -> Any:
    """Return a bound times the density there, and 0 for an infinite bound."""
    is_far = density == 0
    return where(is_far, 0.0, where(is_far, 0.0, bound) * density)


truncnorm = Continuous(
    "truncnorm",
    "a b",
    support=lambda a, b: (a, b),
    inside=lambda a, b: minimum(maximum(a, 0.0), b),
    valid=lambda a, b: a < b,
    log_density=lambda x, a, b: -0.5 * x * x - _LOG_ROOT_TWO_PI - _log_mass(a, b),
    cdf=lambda x, a, b: exp(_truncnorm_logcdf(x, a, b)),
    sf=lambda x, a, b: exp(_truncnorm_logsf(x, a, b)),
    logcdf=_truncnorm_logcdf,
    logsf=_truncnorm_logsf,
    ppf=_truncnorm_ppf,
    isf=lambda q, a, b: -_truncnorm_ppf(q, -b, -a),
    entropy=_truncnorm_entropy,
    mean=_truncnorm_mean,
    var=_truncnorm_var,
)
