"""The gamma, chi-squared and exponential distributions."""

from __future__ import annotations

import math
from typing import Any

from tapegrad.scipy.stats import draws
from tapegrad.scipy.stats.continuous import OnPositive
from tapegrad.scipy.stats.logarithms import log_complement, times_log
from tapegrad.scipy.vocabulary import digamma, exp, expm1, lgamma, log, log1p, where
from tapegrad.special_functions.incomplete_gamma_beta import gammainc, gammaincc
from tapegrad.special_functions.incomplete_inverses import gammainccinv, gammaincinv


def _entropy(a: Any) -> Any:
    return a + lgamma(a) + (1 - a) * digamma(a)


def gamma_cdf(x: Any, a: Any) -> Any:
    """Return the CDF of the standard gamma distribution.

    >>> import tapegrad
    >>> round(float(gamma_cdf(*tapegrad.constant([1.0, 1.0], "float64"))), 6)
    0.632121
    """
    # Drop the derivative at 0 where it is infinite: 0 times infinity would be NaN.
    is_steep = (x == 0) & (a < 1)
    return where(is_steep, 0.0, gammainc(a, where(is_steep, 1.0, x)))


def gamma_sf(x: Any, a: Any) -> Any:
    """Return the survival function of the standard gamma distribution.

    >>> import tapegrad
    >>> round(float(gamma_sf(*tapegrad.constant([1.0, 1.0], "float64"))), 6)
    0.367879
    """
    is_steep = (x == 0) & (a < 1)
    return where(is_steep, 1.0, gammaincc(a, where(is_steep, 1.0, x)))


gamma = OnPositive(
    "gamma",
    "a",
    valid=lambda a: a > 0,
    log_density=lambda x, a: times_log(a - 1, x) - x - lgamma(a),
    cdf=gamma_cdf,
    sf=gamma_sf,
    ppf=lambda q, a: gammaincinv(a, q),
    isf=lambda q, a: gammainccinv(a, q),
    entropy=_entropy,
    mean=lambda a: a,
    var=lambda a: a,
    draw=draws.gamma,
)

chi2 = OnPositive(
    "chi2",
    "df",
    valid=lambda df: df > 0,
    log_density=lambda x, df: (
        times_log(0.5 * df - 1, x) - 0.5 * x - lgamma(0.5 * df) - 0.5 * math.log(2) * df
    ),
    cdf=lambda x, df: gamma_cdf(0.5 * x, 0.5 * df),
    sf=lambda x, df: gamma_sf(0.5 * x, 0.5 * df),
    ppf=lambda q, df: 2 * gammaincinv(0.5 * df, q),
    isf=lambda q, df: 2 * gammainccinv(0.5 * df, q),
    entropy=lambda df: _entropy(0.5 * df) + math.log(2),
    mean=lambda df: df,
    var=lambda df: 2 * df,
    draw=lambda source, shape, dtype, df: 2 * draws.gamma(source, shape, dtype, 0.5 * df),
)


expon = OnPositive(
    "expon",
    log_density=lambda x: -x,
    cdf=lambda x: -expm1(-x),
    sf=lambda x: exp(-x),
    logcdf=log_complement,
    logsf=lambda x: -x,
    ppf=lambda q: -log1p(-q),
    isf=lambda q: -log(q),
    entropy=lambda: 1.0,
    mean=lambda: 1.0,
    var=lambda: 1.0,
    draw=lambda source, shape, dtype: -log(draws.uniform(source, shape, dtype)),
)
