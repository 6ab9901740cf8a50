"""The geometric, negative binomial and Poisson distributions."""

from __future__ import annotations

import math
from typing import Any

from tapegrad.ops.elementwise.no_nan import xdivy
from tapegrad.ops.elementwise.rounding import ceil
from tapegrad.ops.elementwise.special_functions import entr
from tapegrad.ops.random import primitives as random_draws
from tapegrad.ops.random.primitives import Shape, Source
from tapegrad.scipy.stats import draws
from tapegrad.scipy.stats.discrete import Discrete
from tapegrad.scipy.stats.logarithms import times_log, times_log1p
from tapegrad.scipy.stats.quadrature import column, mean_log_gamma
from tapegrad.scipy.stats.search import first_leaving, first_reaching
from tapegrad.scipy.vocabulary import (
    betaln,
    cast,
    exp,
    expm1,
    lgamma,
    log,
    log1p,
    maximum,
    sqrt,
    stop_gradient,
    where,
)
from tapegrad.special_functions.incomplete_gamma_beta import betainc, gammainc, gammaincc


def _geom_ppf(q: Any, p: Any) -> Any:
    """Return the first k with cdf(k) >= q, corrected for rounding."""
    k = maximum(ceil(log1p(-q) / log1p(-p)), 1.0)
    is_late = (-expm1((k - 1) * log1p(-p)) >= q) & (k > 1)
    return where(is_late, k - 1, k)


geom = Discrete(
    "geom",
    "p",
    support=(1, math.inf),
    inside=1.0,
    valid=lambda p: (p > 0) & (p <= 1),
    log_density=lambda k, p: log(p) + times_log1p(k - 1, -p),
    cdf=lambda k, p: -expm1(times_log1p(k, -p)),
    sf=lambda k, p: exp(times_log1p(k, -p)),
    logsf=lambda k, p: times_log1p(k, -p),
    ppf=_geom_ppf,
    entropy=lambda p: -log(p) + xdivy(entr(1 - p), p),
    mean=lambda p: 1 / p,
    var=lambda p: (1 - p) / (p * p),
    draw=lambda source, shape, dtype, p: maximum(
        ceil(log(draws.uniform(source, shape, dtype)) / log1p(-p)), 1.0
    ),
)


def _nbinom_draw(source: Source, shape: Shape, dtype: Any, n: Any, p: Any) -> Any:
    """Draw Poisson counts with a gamma-distributed rate."""
    rate = draws.gamma(source, shape, dtype, n) * (1 - p) / p
    return poisson_draw(source, shape, dtype, rate)


def poisson_draw(source: Source, shape: Shape, dtype: Any, mu: Any) -> Any:
    """Draw Poisson counts as floats."""
    return cast(random_draws.draw_poisson(source, shape, mu, "int64"), dtype)


def _nbinom_ppf(q: Any, n: Any, p: Any) -> Any:
    n, p = stop_gradient(n), stop_gradient(p)
    mean = n * (1 - p) / p
    return first_reaching(q, lambda k: betainc(n, k + 1, p), _far(mean, mean / p))


def _nbinom_isf(q: Any, n: Any, p: Any) -> Any:
    n, p = stop_gradient(n), stop_gradient(p)
    mean = n * (1 - p) / p
    far = _FARTHER * _far(mean, mean / p)
    return first_leaving(q, lambda k: betainc(k + 1, n, 1 - p), far)


def _poisson_isf(q: Any, mu: Any) -> Any:
    mu = stop_gradient(mu)
    return first_leaving(q, lambda k: gammainc(k + 1, mu), _FARTHER * _far(mu, mu))


def _poisson_ppf(q: Any, mu: Any) -> Any:
    mu = stop_gradient(mu)
    return first_reaching(q, lambda k: gammaincc(k + 1, mu), _far(mu, mu))


_FARTHER = 25
"""How much farther isf can reach than ppf, whose argument cannot come that close to 1."""


def _far(mean: Any, var: Any) -> Any:
    """Return a count beyond all quantiles of probabilities below 1, for light and heavy tails."""
    return mean + 40 * (sqrt(var) + var / (mean + 1) + 1)


def _poisson_entropy(mu: Any) -> Any:
    (mu_,) = column(mu)
    factorial = mean_log_gamma(mu, lambda drop: -expm1(mu_ * drop), 0.0 * mu + 1)
    return mu - times_log(mu, mu) + factorial


def _nbinom_entropy(n: Any, p: Any) -> Any:
    mean = n * (1 - p) / p
    n_, odds = column(n, (1 - p) / p)

    def rest(drop: Any) -> Any:
        return -expm1(-n_ * log1p(-odds * drop))

    ways = mean_log_gamma(mean, rest, 0.0 * mean + 1) - mean_log_gamma(mean, rest, n + 0.0 * p)
    return ways - n * log(p) - times_log1p(mean, -p)


nbinom = Discrete(
    "nbinom",
    "n p",
    support=(0, math.inf),
    valid=lambda n, p: (n > 0) & (p > 0) & (p <= 1),
    log_density=lambda k, n, p: -betaln(n, k + 1) - log(n + k) + n * log(p) + times_log1p(k, -p),
    cdf=lambda k, n, p: betainc(n, k + 1, p),
    sf=lambda k, n, p: betainc(k + 1, n, 1 - p),
    mean=lambda n, p: n * (1 - p) / p,
    var=lambda n, p: n * (1 - p) / (p * p),
    entropy=_nbinom_entropy,
    ppf=_nbinom_ppf,
    isf=_nbinom_isf,
    draw=_nbinom_draw,
)

poisson = Discrete(
    "poisson",
    "mu",
    support=(0, math.inf),
    valid=lambda mu: mu >= 0,
    log_density=lambda k, mu: times_log(k, mu) - lgamma(k + 1) - mu,
    cdf=lambda k, mu: gammaincc(k + 1, mu),
    sf=lambda k, mu: gammainc(k + 1, mu),
    mean=lambda mu: mu,
    var=lambda mu: mu,
    entropy=_poisson_entropy,
    ppf=_poisson_ppf,
    isf=_poisson_isf,
    draw=poisson_draw,
)
