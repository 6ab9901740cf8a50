"""Skew-normal, exponentially modified normal, inverse Gaussian and Johnson SU distributions."""

from __future__ import annotations

import math
from typing import Any

from tapegrad.ops.elementwise.special_functions import erfcx
from tapegrad.ops.elementwise.trigonometric import cosh, sinh
from tapegrad.ops.random.primitives import Shape, Source
from tapegrad.scipy.stats import draws
from tapegrad.scipy.stats.continuous import Continuous, OnPositive
from tapegrad.scipy.stats.inverse import quantile
from tapegrad.scipy.stats.logarithms import log_complement
from tapegrad.scipy.stats.quadrature import column, integral_from, integral_over_all
from tapegrad.scipy.vocabulary import (
    asinh,
    exp,
    expm1,
    log,
    log_ndtr,
    minimum,
    ndtr,
    ndtri,
    sqrt,
    where,
)
from tapegrad.special_functions.integrals import exp1

_LOG_ROOT_TWO_PI = 0.5 * math.log(2 * math.pi)
_ROOT_HALF = math.sqrt(0.5)


def _log_normal_density(x: Any) -> Any:
    return -0.5 * x * x - _LOG_ROOT_TWO_PI


def _plogp(y: Any) -> Any:
    """Return -exp(y) y, the entropy of a density with logarithm y, and 0 where it underflows."""
    is_little = y < -80
    y = where(is_little, 0.0, y)
    return where(is_little, 0.0, -exp(y) * y)


# The skew-normal distribution


def _skewnorm_log_density(x: Any, a: Any) -> Any:
    # Beyond 37 log_ndtr is 0, but its second derivative would overflow.
    return math.log(2) + _log_normal_density(x) + log_ndtr(minimum(a * x, 37.0))


def _skewnorm_tail(x: Any, a: Any) -> Any:
    """Return the probability above x >= 0 by an integral that decays like a normal density."""
    (a_,) = column(a)
    far = where(a < 0, -a * x, 0.0)
    scale = 1 / (1 + x + where(a < 0, -a * (1 + far), 0.0))
    # Beyond 40 the density is 0, but its derivatives would overflow.
    return integral_from(x, scale, lambda u: exp(_skewnorm_log_density(minimum(u, 40.0), a_)))


def _skewnorm_sf(x: Any, a: Any) -> Any:
    tail = _skewnorm_tail(where(x < 0, -x, x), where(x < 0, -a, a))
    return where(x < 0, 1 - tail, tail)


def _skewnorm_mean(a: Any) -> Any:
    return math.sqrt(2 / math.pi) * a / sqrt(1 + a * a)


def _skewnorm_entropy(a: Any) -> Any:
    (a_,) = column(a)

    def integrand(x: Any) -> Any:
        return _plogp(_skewnorm_log_density(x, a_))

    return integral_from(0.0 * a, 1.0, integrand) + integral_from(0.0 * a, 1.0, integrand, -1.0)


def _skewnorm_isf(q: Any, a: Any) -> Any:
    return quantile(
        q,
        (a,),
        lambda q, x, a: q - _skewnorm_sf(x, a),
        lambda x, a: exp(_skewnorm_log_density(x, a)),
        lambda s, a: s,
        40.0,
    )


def _skewnorm_draw(source: Source, shape: Shape, dtype: Any, a: Any) -> Any:
    """Draw |u| and v in the proportion a to 1, for normal u and v."""
    first = abs(draws.normal(source, shape, dtype))
    return (a * first + draws.normal(source, shape, dtype)) / sqrt(1 + a * a)


skewnorm = Continuous(
    "skewnorm",
    "a",
    valid=lambda a: (a > -math.inf) & (a < math.inf),
    log_density=_skewnorm_log_density,
    cdf=lambda x, a: _skewnorm_sf(-x, -a),
    sf=_skewnorm_sf,
    ppf=lambda q, a: -_skewnorm_isf(q, -a),
    isf=_skewnorm_isf,
    entropy=_skewnorm_entropy,
    mean=_skewnorm_mean,
    var=lambda a: 1 - _skewnorm_mean(a) ** 2,
    draw=_skewnorm_draw,
)


# The exponentially modified normal distribution


def _exponnorm_log_density(x: Any, K: Any) -> Any:
    return _exponnorm_log_term(x, K) - log(K)


def _exponnorm_log_term(x: Any, K: Any) -> Any:
    """Return log(exp(1 / 2K² - x / K) Φ(x - 1/K)) without cancellation of large numbers."""
    gap = 1 / K - x
    is_left = gap > 0
    left = _log_normal_density(x) + log(
        math.sqrt(math.pi / 2) * erfcx(_ROOT_HALF * where(is_left, gap, 1.0))
    )
    right = 0.5 / (K * K) - x / K + log_ndtr(minimum(where(is_left, 0.0, -gap), 37.0))
    return where(is_left, left, right)


def _exponnorm_sf(x: Any, K: Any) -> Any:
    is_left = x < 2
    lower = _exponnorm_lower(where(is_left, x, 0.0), K)
    return where(is_left, 1 - lower, ndtr(-x) + exp(_exponnorm_log_term(x, K)))


def _exponnorm_cdf(x: Any, K: Any) -> Any:
    is_left = x < 2
    lower = _exponnorm_lower(where(is_left, x, 0.0), K)
    return where(is_left, lower, 1 - ndtr(-x) - exp(_exponnorm_log_term(x, K)))


def _exponnorm_lower(x: Any, K: Any) -> Any:
    (rate,) = column(K)
    scale = 1 / (1 + where(x < 0, -x, 0.0))
    return integral_from(x, scale, lambda u: exp(_exponnorm_log_density(u, rate)), -1.0)


def _exponnorm_ppf(q: Any, K: Any) -> Any:
    return quantile(
        q,
        (K,),
        lambda q, x, K: _exponnorm_cdf(x, K) - q,
        lambda x, K: exp(_exponnorm_log_density(x, K)),
        lambda s, K: where(s > 0, (1 + K) * s, s),
        40.0,
    )


def _exponnorm_isf(q: Any, K: Any) -> Any:
    return quantile(
        q,
        (K,),
        lambda q, x, K: q - _exponnorm_sf(x, K),
        lambda x, K: exp(_exponnorm_log_density(x, K)),
        lambda s, K: where(s > 0, (1 + K) * s * (1 + s), s),
        40.0,
    )


def _exponnorm_entropy(K: Any) -> Any:
    (rate,) = column(K)

    def integrand(x: Any) -> Any:
        return _plogp(_exponnorm_log_density(x, rate))

    return integral_from(0.0 * K, 1 + K, integrand) + integral_from(0.0 * K, 1.0, integrand, -1.0)


exponnorm = Continuous(
    "exponnorm",
    "K",
    valid=lambda K: K > 0,
    log_density=_exponnorm_log_density,
    cdf=_exponnorm_cdf,
    sf=_exponnorm_sf,
    ppf=_exponnorm_ppf,
    isf=_exponnorm_isf,
    entropy=_exponnorm_entropy,
    mean=lambda K: K,
    var=lambda K: 1 + K * K,
    draw=lambda source, shape, dtype, K: (
        draws.normal(source, shape, dtype) - K * log(draws.uniform(source, shape, dtype))
    ),
)


# The inverse Gaussian distribution


def _invgauss_log_density(x: Any, mu: Any) -> Any:
    is_zero = x == 0
    x = where(is_zero, 1.0, x)
    gap = x / mu - 1
    y = -_LOG_ROOT_TWO_PI - 1.5 * log(x) - 0.5 * gap * gap / x
    return where(is_zero, -math.inf, y)


def _invgauss_log_parts(x: Any, mu: Any) -> tuple[Any, Any]:
    """Return log Φ(±(x/mu - 1)/√x), below and above mu, and log(exp(2/mu) Φ(-(x/mu + 1)/√x)).

    The second is computed from the normal density and Mills' ratio, which avoids overflow.
    """
    root = sqrt(x)
    gap = (x / mu - 1) / root
    rest = erfcx(_ROOT_HALF * (x / mu + 1) / root)
    return gap, -0.5 * gap * gap + log(0.5 * rest)


def _invgauss_logcdf(x: Any, mu: Any) -> Any:
    is_zero = x == 0
    gap, other = _invgauss_log_parts(where(is_zero, 1.0, x), mu)
    first = log_ndtr(gap)
    return where(is_zero, -math.inf, first + log(1 + exp(other - first)))


def _invgauss_logsf(x: Any, mu: Any) -> Any:
    is_zero = x == 0
    gap, other = _invgauss_log_parts(where(is_zero, 1.0, x), mu)
    first = log_ndtr(-gap)
    return where(is_zero, 0.0, first + log_complement(first - other))


def _invgauss_entropy(mu: Any) -> Any:
    """Return the entropy, using E[log x] = log(mu) - exp(z) E₁(z) at z = 2 / mu."""
    z = 2 / mu
    is_large = z > 50
    term, series = 1 / where(is_large, z, 100.0), 0.0
    for k in range(20):
        series = series + term
        term = -term * (k + 1) / where(is_large, z, 100.0)
    z = where(is_large, 1.0, z)
    scaled = where(is_large, series, exp(z) * exp1(z))
    return 0.5 + _LOG_ROOT_TWO_PI + 1.5 * (log(mu) - scaled)


def _invgauss_quantile(is_upper: bool) -> Any:
    tail = _invgauss_logsf if is_upper else _invgauss_logcdf

    def rise(log_q: Any, x: Any, mu: Any) -> Any:
        return log_q - tail(x, mu) if is_upper else tail(x, mu) - log_q

    def slope(x: Any, mu: Any) -> Any:
        return exp(_invgauss_log_density(x, mu) - tail(x, mu))

    def call(q: Any, mu: Any) -> Any:
        return quantile(log(q), (mu,), rise, slope, lambda s, mu: mu * exp(s), 60.0)

    return call


invgauss = OnPositive(
    "invgauss",
    "mu",
    valid=lambda mu: mu > 0,
    log_density=_invgauss_log_density,
    cdf=lambda x, mu: exp(_invgauss_logcdf(x, mu)),
    sf=lambda x, mu: exp(_invgauss_logsf(x, mu)),
    logcdf=_invgauss_logcdf,
    logsf=_invgauss_logsf,
    ppf=_invgauss_quantile(False),
    isf=_invgauss_quantile(True),
    entropy=_invgauss_entropy,
    mean=lambda mu: mu,
    var=lambda mu: mu * mu * mu,
)


# The Johnson SU distribution: the hyperbolic sine of a normal variable


def _johnsonsu_var(a: Any, b: Any) -> Any:
    square = 1 / (b * b)
    return 0.5 * expm1(square) * (exp(square) * cosh(2 * a / b) + 1)


def _johnsonsu_entropy(a: Any, b: Any) -> Any:
    """Return the entropy of the normal variable plus the mean log-derivative of the sine."""
    a_, b_ = column(a, b)

    def integrand(y: Any) -> Any:
        place = (y - a_) / b_
        size = where(place < 0, -place, place)
        slope = size + log(0.5 * (1 + exp(-2 * size)))
        return exp(_log_normal_density(y)) * slope

    # The derivative is steep where its argument is 0, and the density around 0.
    place = a + 0.0 * b
    one = 0.0 * place + 1
    rest = integral_over_all([place, 0.0 * place], (one, one), integrand)
    return 0.5 + _LOG_ROOT_TWO_PI - log(b) + rest


johnsonsu = Continuous(
    "johnsonsu",
    "a b",
    valid=lambda a, b: (b > 0) & (a > -math.inf) & (a < math.inf),
    log_density=lambda x, a, b: (
        _log_normal_density(a + b * asinh(x)) + log(b) - 0.5 * log(1 + x * x)
    ),
    cdf=lambda x, a, b: ndtr(a + b * asinh(x)),
    sf=lambda x, a, b: ndtr(-a - b * asinh(x)),
    logcdf=lambda x, a, b: log_ndtr(a + b * asinh(x)),
    logsf=lambda x, a, b: log_ndtr(-a - b * asinh(x)),
    ppf=lambda q, a, b: sinh((ndtri(q) - a) / b),
    isf=lambda q, a, b: sinh((-ndtri(q) - a) / b),
    entropy=_johnsonsu_entropy,
    mean=lambda a, b: -exp(0.5 / (b * b)) * sinh(a / b),
    var=_johnsonsu_var,
    draw=lambda source, shape, dtype, a, b: sinh((draws.normal(source, shape, dtype) - a) / b),
)
