"""The half-normal, Rayleigh, Maxwell, chi and Nakagami distributions."""

from __future__ import annotations

import math
from typing import Any

from tapegrad.ops.elementwise.special_functions import erfinv
from tapegrad.ops.random.primitives import Shape, Source
from tapegrad.scipy.stats import draws
from tapegrad.scipy.stats.continuous import OnPositive
from tapegrad.scipy.stats.gamma_steps import chi_entropy, gamma_step
from tapegrad.scipy.stats.logarithms import log_complement, log_or_minus_infinity, times_log
from tapegrad.scipy.stats.positive import gamma_cdf, gamma_sf
from tapegrad.scipy.vocabulary import (
    erf,
    exp,
    expm1,
    lgamma,
    log,
    log1p,
    log_ndtr,
    ndtr,
    ndtri,
    sqrt,
)
from tapegrad.special_functions.incomplete_inverses import gammainccinv, gammaincinv

_EULER = 0.57721566490153286
_ROOT_HALF = math.sqrt(0.5)

halfnorm = OnPositive(
    "halfnorm",
    log_density=lambda x: 0.5 * math.log(2 / math.pi) - 0.5 * x * x,
    cdf=lambda x: erf(_ROOT_HALF * x),
    sf=lambda x: 2 * ndtr(-x),
    logsf=lambda x: math.log(2) + log_ndtr(-x),
    ppf=lambda q: math.sqrt(2) * erfinv(q),
    isf=lambda q: -ndtri(0.5 * q),
    entropy=lambda: 0.5 + 0.5 * math.log(math.pi / 2),
    mean=lambda: math.sqrt(2 / math.pi),
    var=lambda: 1 - 2 / math.pi,
    draw=lambda source, shape, dtype: abs(draws.normal(source, shape, dtype)),
)

rayleigh = OnPositive(
    "rayleigh",
    log_density=lambda x: log_or_minus_infinity(x) - 0.5 * x * x,
    cdf=lambda x: -expm1(-0.5 * x * x),
    sf=lambda x: exp(-0.5 * x * x),
    logcdf=lambda x: log_complement(0.5 * x * x),
    logsf=lambda x: -0.5 * x * x,
    ppf=lambda q: sqrt(-2 * log1p(-q)),
    isf=lambda q: sqrt(-2 * log(q)),
    entropy=lambda: 1 + 0.5 * _EULER - 0.5 * math.log(2),
    mean=lambda: math.sqrt(math.pi / 2),
    var=lambda: 2 - math.pi / 2,
)


def _chi_draw(source: Source, shape: Shape, dtype: Any, df: Any) -> Any:
    return sqrt(2 * draws.gamma(source, shape, dtype, 0.5 * df))


def _gamma_ratio(df: Any) -> Any:
    """Return Γ((df + 1) / 2) / Γ(df / 2)."""
    return sqrt(0.5 * df) * exp(gamma_step(0.5 * df, 0.5))


chi = OnPositive(
    "chi",
    "df",
    valid=lambda df: df > 0,
    log_density=lambda x, df: (
        times_log(df - 1, x) - 0.5 * x * x - lgamma(0.5 * df) - (0.5 * df - 1) * math.log(2)
    ),
    cdf=lambda x, df: gamma_cdf(0.5 * x * x, 0.5 * df),
    sf=lambda x, df: gamma_sf(0.5 * x * x, 0.5 * df),
    ppf=lambda q, df: sqrt(2 * gammaincinv(0.5 * df, q)),
    isf=lambda q, df: sqrt(2 * gammainccinv(0.5 * df, q)),
    entropy=lambda df: chi_entropy(0.5 * df),
    mean=lambda df: math.sqrt(2) * _gamma_ratio(df),
    var=lambda df: -df * expm1(2 * gamma_step(0.5 * df, 0.5)),
    draw=_chi_draw,
)

maxwell = OnPositive(
    "maxwell",
    log_density=lambda x: 0.5 * math.log(2 / math.pi) + 2 * log_or_minus_infinity(x) - 0.5 * x * x,
    cdf=lambda x: gamma_cdf(0.5 * x * x, 0.0 * x + 1.5),
    sf=lambda x: gamma_sf(0.5 * x * x, 0.0 * x + 1.5),
    ppf=lambda q: sqrt(2 * gammaincinv(1.5, q)),
    isf=lambda q: sqrt(2 * gammainccinv(1.5, q)),
    entropy=lambda: _EULER - 0.5 + 0.5 * math.log(2 * math.pi),
    mean=lambda: 2 * math.sqrt(2 / math.pi),
    var=lambda: 3 - 8 / math.pi,
    draw=lambda source, shape, dtype: _chi_draw(source, shape, dtype, 3.0),
)


nakagami = OnPositive(
    "nakagami",
    "nu",
    valid=lambda nu: nu > 0,
    log_density=lambda x, nu: (
        math.log(2) + nu * log(nu) - lgamma(nu) + times_log(2 * nu - 1, x) - nu * x * x
    ),
    cdf=lambda x, nu: gamma_cdf(nu * x * x, nu),
    sf=lambda x, nu: gamma_sf(nu * x * x, nu),
    ppf=lambda q, nu: sqrt(gammaincinv(nu, q) / nu),
    isf=lambda q, nu: sqrt(gammainccinv(nu, q) / nu),
    entropy=lambda nu: chi_entropy(nu) - 0.5 * log(2 * nu),
    mean=lambda nu: _gamma_ratio(2 * nu) / sqrt(nu),
    var=lambda nu: -expm1(2 * gamma_step(nu, 0.5)),
    draw=lambda source, shape, dtype, nu: sqrt(draws.gamma(source, shape, dtype, nu) / nu),
)
