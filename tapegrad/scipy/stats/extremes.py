"""Extreme value distributions: Weibull, generalized extreme value, generalized Pareto.

The last two become the Gumbel and the exponential distribution at c = 0, and are smooth there.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tapegrad.scipy.stats.continuous import Continuous, OnPositive
from tapegrad.scipy.stats.exponential import gumbel_log_tail
from tapegrad.scipy.stats.heavy_tails import finite_above
from tapegrad.scipy.stats.logarithms import beyond_zero, bounded_exp, log_complement, times_log
from tapegrad.scipy.vocabulary import exp, expm1, lgamma, log, log1p, where
from tapegrad.special_functions.removable_singularities import (
    SMALL,
    expm1_ratio,
    log1p_ratio,
    power_series,
)

_EULER = 0.57721566490153286
_ZETA = [math.nan, math.nan, 1.6449340668482264, 1.2020569031595942, 1.0823232337111381]
_ZETA += [float(np.sum(np.arange(1.0, 4000.0) ** -k)) for k in range(5, 14)]


# Weibull distributions: minimum, maximum and inverted


def _power(x: Any, c: Any) -> Any:
    """Return x ** c, without a gradient at 0."""
    is_zero = x == 0
    return where(is_zero, 0.0, bounded_exp(c * log(where(is_zero, 1.0, x))))


def _weibull_log_density(x: Any, c: Any) -> Any:
    return log(c) + times_log(c - 1, x) - _power(x, c)


def _root(y: Any, c: Any) -> Any:
    return exp(log(y) / c)


def _gamma_at(x: Any) -> Any:
    return exp(lgamma(x))


def _weibull_mean(c: Any) -> Any:
    return _gamma_at(1 + 1 / c)


def _weibull_var(c: Any) -> Any:
    return _gamma_at(1 + 2 / c) - _weibull_mean(c) ** 2


def _weibull_entropy(c: Any) -> Any:
    return 1 + _EULER * (1 - 1 / c) - log(c)


weibull_min = OnPositive(
    "weibull_min",
    "c",
    valid=lambda c: c > 0,
    log_density=_weibull_log_density,
    cdf=lambda x, c: -expm1(-_power(x, c)),
    sf=lambda x, c: exp(-_power(x, c)),
    logcdf=lambda x, c: log_complement(_power(x, c)),
    logsf=lambda x, c: -_power(x, c),
    ppf=lambda q, c: _root(-log1p(-q), c),
    isf=lambda q, c: _root(-log(q), c),
    entropy=_weibull_entropy,
    mean=_weibull_mean,
    var=_weibull_var,
)

weibull_max = Continuous(
    "weibull_max",
    "c",
    support=(-math.inf, 0.0),
    inside=-1.0,
    valid=lambda c: c > 0,
    log_density=lambda x, c: _weibull_log_density(-x, c),
    cdf=lambda x, c: exp(-_power(-x, c)),
    sf=lambda x, c: -expm1(-_power(-x, c)),
    logcdf=lambda x, c: -_power(-x, c),
    logsf=lambda x, c: log_complement(_power(-x, c)),
    ppf=lambda q, c: -_root(-log(q), c),
    isf=lambda q, c: -_root(-log1p(-q), c),
    entropy=_weibull_entropy,
    mean=lambda c: -_weibull_mean(c),
    var=_weibull_var,
)


def _inverse(x: Any, c: Any) -> Any:
    return bounded_exp(-c * log(x))


invweibull = OnPositive(
    "invweibull",
    "c",
    valid=lambda c: c > 0,
    log_density=beyond_zero(lambda x, c: log(c) - (c + 1) * log(x) - _inverse(x, c), -math.inf),
    cdf=beyond_zero(lambda x, c: exp(-_inverse(x, c)), 0.0),
    sf=beyond_zero(lambda x, c: -expm1(-_inverse(x, c)), 1.0),
    logcdf=beyond_zero(lambda x, c: -_inverse(x, c), -math.inf),
    ppf=lambda q, c: 1 / _root(-log(q), c),
    isf=lambda q, c: 1 / _root(-log1p(-q), c),
    entropy=lambda c: 1 + _EULER * (1 + 1 / c) - log(c),
    mean=lambda c: finite_above(1, c, lambda c: _gamma_at(1 - 1 / c)),
    var=lambda c: finite_above(2, c, lambda c: _gamma_at(1 - 2 / c) - _gamma_at(1 - 1 / c) ** 2),
)


# Generalized extreme value distribution


def _gumbel_of(x: Any, c: Any) -> Any:
    """Transform x to a Gumbel variable, -log(1 - c x) / c; large at the end of the support."""
    step = -c * x
    is_end = step <= -1
    return where(is_end, where(c > 0, 1e5, -1e5), x * log1p_ratio(where(is_end, 0.0, step)))


def _from_gumbel(y: Any, c: Any) -> Any:
    """Invert `_gumbel_of`."""
    return y * expm1_ratio(-c * y)


def _genextreme_bounds(c: Any) -> tuple[Any, Any]:
    end = 1 / where(c == 0, 1.0, c)
    return where(c < 0, end, -math.inf), where(c > 0, end, math.inf)


def _genextreme_log_density(x: Any, c: Any) -> Any:
    y = _gumbel_of(x, c)
    at_end = where(c < 1, -math.inf, where(c > 1, math.inf, 0.0))
    return where(c * x >= 1, at_end, (c - 1) * y - bounded_exp(-y))


def _at_end(x: Any, c: Any, y: Any, is_end: Any) -> Any:
    """Return the logarithm y of a tail, and -inf at the end of the support."""
    return where(is_end & (c * x >= 1), -math.inf, y)


def _lgamma_ratio(c: Any, n: int) -> Any:
    """Return (log Γ(1 + 2c) - 2 log Γ(1 + c)) / c² for n = 2 and log Γ(1 + c) / c for n = 1."""
    is_small = (c < SMALL) & (c > -SMALL)
    far, near = where(is_small, 0.25, c), where(is_small, c, 0.0)
    if n == 1:
        terms = [-_EULER, *((-1) ** k * _ZETA[k] / k for k in range(2, 13))]
        return where(is_small, power_series(near, terms), lgamma(1 + far) / far)
    terms = [(-1) ** k * _ZETA[k] * (2**k - 2) / k for k in range(2, 14)]
    rest = lgamma(1 + 2 * far) - 2 * lgamma(1 + far)
    return where(is_small, power_series(near, terms), rest / (far * far))


def _genextreme_mean(c: Any) -> Any:
    is_finite = c > -1
    c = where(is_finite, c, 0.0)
    slope = _lgamma_ratio(c, 1)
    return where(is_finite, -slope * expm1_ratio(c * slope), math.inf)


def _genextreme_var(c: Any) -> Any:
    is_finite = c > -0.5
    c = where(is_finite, c, 0.0)
    bend = _lgamma_ratio(c, 2)
    return where(is_finite, exp(2 * lgamma(1 + c)) * bend * expm1_ratio(c * c * bend), math.inf)


genextreme = Continuous(
    "genextreme",
    "c",
    support=_genextreme_bounds,
    valid=lambda c: (c > -math.inf) & (c < math.inf),
    log_density=_genextreme_log_density,
    cdf=lambda x, c: exp(-bounded_exp(-_gumbel_of(x, c))),
    sf=lambda x, c: -expm1(-bounded_exp(-_gumbel_of(x, c))),
    logcdf=lambda x, c: _at_end(x, c, -bounded_exp(-_gumbel_of(x, c)), c < 0),
    logsf=lambda x, c: _at_end(x, c, gumbel_log_tail(_gumbel_of(x, c)), c > 0),
    ppf=lambda q, c: _from_gumbel(-log(-log(q)), c),
    isf=lambda q, c: _from_gumbel(-log(-log1p(-q)), c),
    entropy=lambda c: 1 + _EULER * (1 - c),
    mean=_genextreme_mean,
    var=_genextreme_var,
)


# Generalized Pareto distribution


def _exponential_of(x: Any, c: Any) -> Any:
    """Transform x to an exponential variable, log(1 + c x) / c; large at the end."""
    step = c * x
    is_end = step <= -1
    return where(is_end, 1e5, x * log1p_ratio(where(is_end, 0.0, step)))


def _genpareto_log_density(x: Any, c: Any) -> Any:
    is_end = c * x <= -1
    at_end = where(c == -1, 0.0, where(c > -1, -math.inf, math.inf))
    return where(is_end, at_end, -(c + 1) * _exponential_of(x, c))


genpareto = Continuous(
    "genpareto",
    "c",
    support=lambda c: (0.0, where(c < 0, -1 / where(c == 0, 1.0, c), math.inf)),
    inside=lambda c: where(c < 0, -0.5 / where(c == 0, 1.0, c), 1.0),
    valid=lambda c: (c > -math.inf) & (c < math.inf),
    log_density=_genpareto_log_density,
    cdf=lambda x, c: -expm1(-_exponential_of(x, c)),
    sf=lambda x, c: exp(-_exponential_of(x, c)),
    logcdf=lambda x, c: log_complement(_exponential_of(x, c)),
    logsf=lambda x, c: where(c * x <= -1, -math.inf, -_exponential_of(x, c)),
    ppf=lambda q, c: -log1p(-q) * expm1_ratio(-c * log1p(-q)),
    isf=lambda q, c: -log(q) * expm1_ratio(-c * log(q)),
    entropy=lambda c: 1 + c,
    mean=lambda c: finite_above(-1, -c, lambda d: 1 / (1 + d)),
    var=lambda c: finite_above(-0.5, -c, lambda d: 1 / ((1 + d) ** 2 * (1 + 2 * d))),
)
