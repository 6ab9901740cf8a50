"""The inverse gamma, Lévy, beta prime, F and half-Cauchy distributions."""

from __future__ import annotations

import math
from typing import Any

from tapegrad.ops.elementwise.special_functions import erfinv
from tapegrad.ops.random.primitives import Shape, Source
from tapegrad.scipy.stats import draws
from tapegrad.scipy.stats.continuous import OnPositive
from tapegrad.scipy.stats.heavy_tails import finite_above
from tapegrad.scipy.stats.logarithms import beyond_zero, times_log
from tapegrad.scipy.vocabulary import (
    atan2,
    betaln,
    cos,
    digamma,
    erf,
    lgamma,
    log,
    log1p,
    log_ndtr,
    ndtr,
    ndtri,
    sin,
    sqrt,
    stop_gradient,
    where,
)
from tapegrad.special_functions.incomplete_gamma_beta import betainc, gammainc, gammaincc
from tapegrad.special_functions.incomplete_inverses import betaincinv, gammainccinv, gammaincinv

_EULER = 0.57721566490153286

# Reciprocals of gamma variables

invgamma = OnPositive(
    "invgamma",
    "a",
    valid=lambda a: a > 0,
    log_density=beyond_zero(lambda x, a: -(a + 1) * log(x) - lgamma(a) - 1 / x, -math.inf),
    cdf=beyond_zero(lambda x, a: gammaincc(a, 1 / x), 0.0),
    sf=beyond_zero(lambda x, a: gammainc(a, 1 / x), 1.0),
    ppf=lambda q, a: 1 / gammainccinv(a, q),
    isf=lambda q, a: 1 / gammaincinv(a, q),
    entropy=lambda a: a + lgamma(a) - (a + 1) * digamma(a),
    mean=lambda a: finite_above(1, a, lambda a: 1 / (a - 1)),
    var=lambda a: finite_above(2, a, lambda a: 1 / ((a - 1) ** 2 * (a - 2))),
    draw=lambda source, shape, dtype, a: 1 / draws.gamma(source, shape, dtype, a),
)

levy = OnPositive(
    "levy",
    log_density=beyond_zero(
        lambda x: -0.5 * math.log(2 * math.pi) - 1.5 * log(x) - 0.5 / x, -math.inf
    ),
    cdf=beyond_zero(lambda x: 2 * ndtr(-1 / sqrt(x)), 0.0),
    sf=beyond_zero(lambda x: erf(1 / sqrt(2 * x)), 1.0),
    logcdf=beyond_zero(lambda x: math.log(2) + log_ndtr(-1 / sqrt(x)), -math.inf),
    ppf=lambda q: 1 / ndtri(0.5 * q) ** 2,
    isf=lambda q: 0.5 / erfinv(q) ** 2,
    entropy=lambda: 0.5 * (1 + 3 * _EULER + math.log(16 * math.pi)),
    mean=lambda: math.inf,
    var=lambda: math.inf,
)


# Ratios of gamma variables


def _betaprime_cdf(x: Any, a: Any, b: Any) -> Any:
    # Drop the derivative at 0 where it is infinite: 0 times infinity would be NaN.
    is_steep = (x == 0) & (a < 1)
    x = where(is_steep, 1.0, x)
    return where(is_steep, 0.0, betainc(a, b, x / (1 + x)))


def _betaprime_sf(x: Any, a: Any, b: Any) -> Any:
    is_steep = (x == 0) & (a < 1)
    return where(is_steep, 1.0, betainc(b, a, 1 / (1 + where(is_steep, 1.0, x))))


def _betaprime_ppf(q: Any, a: Any, b: Any) -> Any:
    """Return the quantile from the smaller of the two beta fractions."""
    is_far = q > stop_gradient(betainc(a, b, 0.0 * q + 0.5))
    far = betaincinv(b, a, where(is_far, 1 - q, 0.5))
    near = betaincinv(a, b, where(is_far, 0.5, q))
    return where(is_far, (1 - far) / far, near / (1 - near))


def _betaprime_entropy(a: Any, b: Any) -> Any:
    spread = (a - 1) * (digamma(a) - digamma(b))
    return betaln(a, b) - spread + (a + b) * (digamma(a + b) - digamma(b))


def _betaprime_draw(source: Source, shape: Shape, dtype: Any, a: Any, b: Any) -> Any:
    return draws.gamma(source, shape, dtype, a) / draws.gamma(source, shape, dtype, b)


betaprime = OnPositive(
    "betaprime",
    "a b",
    valid=lambda a, b: (a > 0) & (b > 0),
    log_density=lambda x, a, b: times_log(a - 1, x) - (a + b) * log1p(x) - betaln(a, b),
    cdf=_betaprime_cdf,
    sf=_betaprime_sf,
    ppf=_betaprime_ppf,
    # The reciprocal has the distribution with a and b exchanged.
    isf=lambda q, a, b: 1 / _betaprime_ppf(q, b, a),
    entropy=_betaprime_entropy,
    mean=lambda a, b: a * finite_above(1, b, lambda b: 1 / (b - 1)),
    var=lambda a, b: finite_above(2, b, lambda b: a * (a + b - 1) / ((b - 2) * (b - 1) ** 2)),
    draw=_betaprime_draw,
)


def _f_log_density(x: Any, dfn: Any, dfd: Any) -> Any:
    half = 0.5 * dfn
    ratio = dfn / dfd
    rest = half * log(ratio) - (half + 0.5 * dfd) * log1p(ratio * x)
    return times_log(half - 1, x) + rest - betaln(half, 0.5 * dfd)


def _f_var(dfn: Any, dfd: Any) -> Any:
    def var(n: Any) -> Any:
        return 2 * n * n * (dfn + n - 2) / (dfn * (n - 2) ** 2 * (n - 4))

    return finite_above(4, dfd, var)


f = OnPositive(
    "f",
    "dfn dfd",
    valid=lambda dfn, dfd: (dfn > 0) & (dfd > 0),
    log_density=_f_log_density,
    cdf=lambda x, dfn, dfd: _betaprime_cdf(dfn / dfd * x, 0.5 * dfn, 0.5 * dfd),
    sf=lambda x, dfn, dfd: _betaprime_sf(dfn / dfd * x, 0.5 * dfn, 0.5 * dfd),
    ppf=lambda q, dfn, dfd: _betaprime_ppf(q, 0.5 * dfn, 0.5 * dfd) * (dfd / dfn),
    isf=lambda q, dfn, dfd: dfd / dfn / _betaprime_ppf(q, 0.5 * dfd, 0.5 * dfn),
    entropy=lambda dfn, dfd: _betaprime_entropy(0.5 * dfn, 0.5 * dfd) + log(dfd / dfn),
    mean=lambda dfn, dfd: finite_above(2, dfd, lambda n: n / (n - 2)) + 0.0 * dfn,
    var=_f_var,
    draw=lambda source, shape, dtype, dfn, dfd: (
        _betaprime_draw(source, shape, dtype, 0.5 * dfn, 0.5 * dfd) * (dfd / dfn)
    ),
)

halfcauchy = OnPositive(
    "halfcauchy",
    log_density=lambda x: math.log(2 / math.pi) - log1p(x * x),
    cdf=lambda x: 2 / math.pi * atan2(x, 0.0 * x + 1),
    sf=lambda x: 2 / math.pi * atan2(0.0 * x + 1, x),
    ppf=lambda q: sin(0.5 * math.pi * q) / cos(0.5 * math.pi * q),
    isf=lambda q: cos(0.5 * math.pi * q) / sin(0.5 * math.pi * q),
    entropy=lambda: math.log(2 * math.pi),
    mean=lambda: math.inf,
    var=lambda: math.inf,
)
