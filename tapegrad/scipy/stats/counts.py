"""Distributions of successes in n trials: Bernoulli, binomial, beta-binomial."""

from __future__ import annotations

from typing import Any

from tapegrad.ops.elementwise.special_functions import entr
from tapegrad.ops.random.primitives import Shape, Source
from tapegrad.scipy.stats import draws
from tapegrad.scipy.stats.discrete import Discrete
from tapegrad.scipy.stats.logarithms import times_log, times_log1p
from tapegrad.scipy.stats.positive import gamma_cdf, gamma_sf
from tapegrad.scipy.stats.quadrature import column, integral_over_all, mean_log_gamma
from tapegrad.scipy.stats.search import first_leaving, first_reaching
from tapegrad.scipy.vocabulary import (
    betaln,
    cast,
    exp,
    expm1,
    floor,
    lgamma,
    log,
    log1p,
    log_sigmoid,
    maximum,
    minimum,
    sigmoid,
    sqrt,
    stop_gradient,
    where,
)
from tapegrad.special_functions.gamma_functions import log_choose
from tapegrad.special_functions.incomplete_gamma_beta import betainc


def _is_share(p: Any) -> Any:
    return (p >= 0) & (p <= 1)


def _is_count(n: Any) -> Any:
    return (n >= 0) & (floor(n) == n)


bernoulli = Discrete(
    "bernoulli",
    "p",
    support=(0, 1),
    valid=_is_share,
    log_density=lambda k, p: times_log(k, p) + times_log1p(1 - k, -p),
    cdf=lambda k, p: 1 - p + 0.0 * k,
    sf=lambda k, p: p + 0.0 * k,
    ppf=lambda q, p: where(q <= 1 - p, 0.0, 1.0 + 0.0 * q),
    entropy=lambda p: entr(p) + entr(1 - p),
    mean=lambda p: p,
    var=lambda p: p * (1 - p),
    draw=lambda source, shape, dtype, p: cast(draws.uniform(source, shape, dtype) < p, dtype),
)


_RARE = 1e-15
"""Below this probability the counts are those of a Poisson variable, to the last digits."""


def _binom_cdf(k: Any, n: Any, p: Any) -> Any:
    plain = betainc(_positive(n - k), k + 1, 1 - where(p < _RARE, 0.5, p))
    return where(p < _RARE, gamma_sf(n * p, k + 1), plain)


def _binom_ppf(q: Any, n: Any, p: Any) -> Any:
    n, p = stop_gradient(n), stop_gradient(p)
    return first_reaching(q, lambda k: where(k >= n, 1.0, _binom_cdf(k, n, p)), n)


def _binom_sf(k: Any, n: Any, p: Any) -> Any:
    plain = betainc(k + 1, _positive(n - k), where(p < _RARE, 0.5, p))
    return where(p < _RARE, gamma_cdf(n * p, k + 1), plain)


def _binom_isf(q: Any, n: Any, p: Any) -> Any:
    n, p = stop_gradient(n), stop_gradient(p)
    return first_leaving(q, lambda k: where(k >= n, 0.0, _binom_sf(k, n, p)), n)


def draw_binomial(source: Source, shape: Shape, dtype: Any, n: Any, p: Any) -> Any:
    """Draw counts of successes as floats, by the quantiles of uniform draws."""
    return _binom_ppf(draws.uniform(source, shape, dtype), n, p)


def _positive(x: Any) -> Any:
    """Replace n - k by 1 where k is n; the support masks the result."""
    return where(x > 0, x, 1.0)


def _binom_entropy(n: Any, p: Any) -> Any:
    n_, p_ = column(n, p)

    def mean_log_factorial(p: Any, p_: Any) -> Any:
        return mean_log_gamma(n * p, lambda drop: -expm1(n_ * log1p(p_ * drop)), 0.0 * n + 1)

    ways = mean_log_factorial(p, p_) + mean_log_factorial(1 - p, 1 - p_) - lgamma(n + 1)
    return ways + n * (entr(p) + entr(1 - p))


binom = Discrete(
    "binom",
    "n p",
    support=lambda n, p: (0, n),
    valid=lambda n, p: _is_count(n) & _is_share(p),
    log_density=lambda k, n, p: log_choose(n, k) + times_log(k, p) + times_log1p(n - k, -p),
    cdf=_binom_cdf,
    sf=_binom_sf,
    isf=_binom_isf,
    mean=lambda n, p: n * p,
    var=lambda n, p: n * p * (1 - p),
    entropy=_binom_entropy,
    ppf=_binom_ppf,
    draw=draw_binomial,
)


def _beta_expectation(a: Any, b: Any, places: list[Any], value: Any) -> Any:
    """Return the mean of value(u) over logits u of a beta variable; it is steep at `places`."""
    a_, b_, log_total = column(a, b, betaln(a, b))
    wide = sqrt(1 / maximum(a, 1.0) + 1 / maximum(b, 1.0))

    def integrand(u: Any) -> Any:
        return exp(a_ * log_sigmoid(u) + b_ * log_sigmoid(-u) - log_total) * value(u)

    center = log(maximum(a, 1.0)) - log(maximum(b, 1.0))
    scales = wide / minimum(a, 1.0), wide / minimum(b, 1.0)
    return integral_over_all([center, *places], scales, integrand)


def _betabinom_sf(k: Any, n: Any, a: Any, b: Any) -> Any:
    """Return the mean of the binomial tail over the probability of success."""
    n = n + 0.0 * k
    k = maximum(minimum(k + 0.0 * n, n - 1), 0.0)
    k_, n_ = column(stop_gradient(k), stop_gradient(n))
    step = log(k + 1) - log(_positive(n - k))
    peak = log(a + k + 1) - log(b + maximum(n - k - 1, 0.0))
    return _beta_expectation(
        a, b, [step, peak], lambda u: betainc(k_ + 1, _positive(n_ - k_), sigmoid(u))
    )


def _betabinom_cdf(k: Any, n: Any, a: Any, b: Any) -> Any:
    """Return the CDF as the upper tail of the number of failures."""
    return _betabinom_sf(n - k - 1, n, b, a)


def _betabinom_ppf(q: Any, n: Any, a: Any, b: Any) -> Any:
    n, a, b = stop_gradient(n), stop_gradient(a), stop_gradient(b)
    return first_reaching(q, lambda k: where(k >= n, 1.0, _betabinom_cdf(k, n, a, b)), n)


def _betabinom_entropy(n: Any, a: Any, b: Any) -> Any:
    """Compute the entropy from the means of four log-gamma functions."""

    def mean(a: Any, b: Any, start: Any) -> Any:
        n_, a_, b_ = column(n, a, b)

        def rest(drop: Any) -> Any:
            (wide,) = column(drop + 0.0 * n_)
            (wide_n,) = column(n_)
            return _beta_expectation(
                a_ + 0.0 * drop, b_, [], lambda u: -expm1(wide_n * log1p(sigmoid(u) * wide))
            )

        return mean_log_gamma(n * a / (a + b) + 0.0 * start, rest, start + 0.0 * n)

    one = 0.0 * n + 1
    gain = mean(a, b, one) + mean(b, a, one) - lgamma(n + 1)
    loss = mean(a, b, a) + lgamma(a) + mean(b, a, b) + lgamma(b) - lgamma(n + a + b)
    return gain - loss + betaln(a, b)


def _betabinom_var(n: Any, a: Any, b: Any) -> Any:
    total = a + b
    return n * (total + n) * (a / total) * (b / total) / (total + 1)


betabinom = Discrete(
    "betabinom",
    "n a b",
    support=lambda n, a, b: (0, n),
    valid=lambda n, a, b: _is_count(n) & (a > 0) & (b > 0),
    log_density=lambda k, n, a, b: log_choose(n, k) + betaln(k + a, n - k + b) - betaln(a, b),
    cdf=_betabinom_cdf,
    sf=_betabinom_sf,
    ppf=_betabinom_ppf,
    entropy=_betabinom_entropy,
    mean=lambda n, a, b: n * a / (a + b),
    var=_betabinom_var,
    draw=lambda source, shape, dtype, n, a, b: draw_binomial(
        source, shape, dtype, n, draws.beta(source, shape, dtype, a, b)
    ),
)
