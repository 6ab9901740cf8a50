"""More discrete distributions: Planck, discrete Laplace, uniform, Zipf, log-series, Skellam."""

from __future__ import annotations

import math
from typing import Any

from tapegrad.ops.elementwise.rounding import ceil
from tapegrad.ops.elementwise.trigonometric import sinh
from tapegrad.ops.random.primitives import Shape, Source
from tapegrad.scipy.stats import draws
from tapegrad.scipy.stats.discrete import Discrete
from tapegrad.scipy.stats.heavy_tails import finite_above
from tapegrad.scipy.stats.logarithms import times_log
from tapegrad.scipy.stats.quadrature import (
    column,
    integral_between,
    integral_from,
    integral_over_all,
    mean_log,
)
from tapegrad.scipy.stats.search import first_reaching
from tapegrad.scipy.stats.waiting import poisson_draw
from tapegrad.scipy.vocabulary import (
    atanh,
    exp,
    expm1,
    floor,
    lgamma,
    log,
    log1p,
    maximum,
    sqrt,
    stop_gradient,
    tanh,
    where,
)
from tapegrad.special_functions.zeta_functions import BERNOULLI, TERMS, scaled_sum

# Planck distribution


def _planck_ppf(q: Any, lambda_: Any) -> Any:
    k = maximum(ceil(-log1p(-q) / lambda_ - 1), 0.0)
    is_late = (k > 0) & (-expm1(-lambda_ * k) >= q)
    return where(is_late, k - 1, k)


planck = Discrete(
    "planck",
    "lambda_",
    support=(0, math.inf),
    valid=lambda lambda_: lambda_ > 0,
    log_density=lambda k, lambda_: log(-expm1(-lambda_)) - lambda_ * k,
    cdf=lambda k, lambda_: -expm1(-lambda_ * (k + 1)),
    sf=lambda k, lambda_: exp(-lambda_ * (k + 1)),
    logsf=lambda k, lambda_: -lambda_ * (k + 1),
    ppf=_planck_ppf,
    entropy=lambda lambda_: lambda_ / expm1(lambda_) - log(-expm1(-lambda_)),
    mean=lambda lambda_: 1 / expm1(lambda_),
    var=lambda lambda_: exp(-lambda_) / expm1(-lambda_) ** 2,
)


# Discrete Laplace distribution


def _dlaplace_cdf(k: Any, a: Any) -> Any:
    is_left = k < 0
    tail = exp(-a * where(is_left, -k - 1, k)) / (1 + exp(a))
    return where(is_left, tail, 1 - tail)


def _dlaplace_ppf(q: Any, a: Any) -> Any:
    total = 1 + exp(a)
    is_left = q < 1 / (1 + exp(-a))
    left = log(where(is_left, q, 0.5) * total) / a - 1
    right = -log((1 - where(is_left, 0.5, q)) * total) / a
    k = ceil(where(is_left, left, right))
    return where(_dlaplace_cdf(k - 1, a) >= q, k - 1, k)


dlaplace = Discrete(
    "dlaplace",
    "a",
    support=(-math.inf, math.inf),
    valid=lambda a: a > 0,
    log_density=lambda k, a: log(tanh(0.5 * a)) - a * where(k < 0, -k, k),
    cdf=_dlaplace_cdf,
    sf=lambda k, a: _dlaplace_cdf(-k - 1, a),
    ppf=_dlaplace_ppf,
    entropy=lambda a: a / sinh(a) - log(tanh(0.5 * a)),
    mean=lambda a: 0.0 * a,
    var=lambda a: 0.5 / sinh(0.5 * a) ** 2,
)


# Discrete uniform distribution


def _randint_ppf(q: Any, low: Any, high: Any) -> Any:
    k = maximum(ceil(q * (high - low) + low) - 1, low)
    is_late = (k > low) & ((k - low) / (high - low) >= q)
    return where(is_late, k - 1, k)


randint = Discrete(
    "randint",
    "low high",
    support=lambda low, high: (low, high - 1),
    inside=lambda low, high: low,
    valid=lambda low, high: (high > low) & (floor(low) == low) & (floor(high) == high),
    stand_in=(0.0, 1.0),
    log_density=lambda k, low, high: -log(high - low) + 0.0 * k,
    cdf=lambda k, low, high: (k - low + 1) / (high - low),
    sf=lambda k, low, high: (high - 1 - k) / (high - low),
    ppf=_randint_ppf,
    entropy=lambda low, high: log(high - low),
    mean=lambda low, high: 0.5 * (low + high - 1),
    var=lambda low, high: ((high - low) ** 2 - 1) / 12,
)


# Zipf distribution


def _log_zeta(a: Any) -> Any:
    return log(scaled_sum(a, 0.0 * a + 1)[0])


def _zipf_logsf(k: Any, a: Any) -> Any:
    total, first = scaled_sum(a, k + 1)
    return log(total) + first - _log_zeta(a)


def _zipf_ppf(q: Any, a: Any) -> Any:
    a = stop_gradient(a)
    k = first_reaching(
        q, lambda k: -expm1(_zipf_logsf(maximum(k, 0.0), a)), 2.0**40 + 0.0 * (q + a)
    )
    return maximum(k, 1.0)


def _zipf_entropy(a: Any) -> Any:
    """Return a E[log K] + log ζ(a), where E[log K] is minus the derivative of log ζ(a)."""
    mean = 0.0 * a
    for k in range(2, TERMS + 1):
        mean = mean + math.log(k) * exp(-a * math.log(k))
    end = float(TERMS + 1)
    base, last = math.log(end), exp(-a * math.log(end))
    mean = mean + last * (end * (base + 1 / (a - 1)) / (a - 1) + 0.5 * base)
    factor, slopes = last * a / end, 1 / a
    for j, coefficient in enumerate(BERNOULLI):
        mean = mean + factor * (base - slopes) * coefficient
        first, second = a + 2 * j + 1, a + 2 * j + 2
        factor, slopes = factor * first * second / (end * end), slopes + 1 / first + 1 / second
    log_zeta = _log_zeta(a)
    return a * mean * exp(-log_zeta) + log_zeta


def _zipf_ratio(a: Any, order: int) -> Any:
    """Return the mean of K^order."""
    return exp(_log_zeta(a - order) - _log_zeta(a))


zipf = Discrete(
    "zipf",
    "a",
    support=(1, math.inf),
    inside=1.0,
    valid=lambda a: a > 1,
    stand_in=(2.0,),
    log_density=lambda k, a: -a * log(k) - _log_zeta(a),
    cdf=lambda k, a: -expm1(_zipf_logsf(k, a)),
    sf=lambda k, a: exp(_zipf_logsf(k, a)),
    logsf=_zipf_logsf,
    ppf=_zipf_ppf,
    entropy=_zipf_entropy,
    mean=lambda a: finite_above(2, a, lambda a: _zipf_ratio(a, 1)),
    var=lambda a: finite_above(3, a, lambda a: _zipf_ratio(a, 2) - _zipf_ratio(a, 1) ** 2),
)


# Log-series distribution


def _logser_sf(k: Any, p: Any) -> Any:
    """Return ∫ t^k / (1 - t) dt from 0 to p divided by that for k = 0, with t = p exp(-u)."""
    k_, p_ = column(k, p)
    zero = 0.0 * (k + p)

    def integrand(u: Any) -> Any:
        return exp(-(k_ + 1) * u) / -expm1(log(p_) - u)

    return exp((k + 1) * log(p)) * integral_from(zero, 1 / (k + 1), integrand) / -log1p(-p)


def _logser_ppf(q: Any, p: Any) -> Any:
    p = stop_gradient(p)
    high = 60 - 60 / log(p) + 0.0 * q
    k = first_reaching(q, lambda k: 1 - _logser_sf(maximum(k, 0.0), p), high)
    return maximum(k, 1.0)


def _logser_mean(p: Any) -> Any:
    return -p / ((1 - p) * log1p(-p))


def _logser_entropy(p: Any) -> Any:
    (p_,) = column(p)
    rest = log1p(-p)
    mean = mean_log(p, lambda s: log1p(-p_ * s) / log1p(-p_))
    return mean + log(-rest) - _logser_mean(p) * log(p)


def _logser_draw(source: Source, shape: Shape, dtype: Any, p: Any) -> Any:
    """Draw by Kemp's method: a geometric count with a random probability."""
    rate = -expm1(log1p(-p) * draws.uniform(source, shape, dtype))
    return 1 + floor(log(draws.uniform(source, shape, dtype)) / log(rate))


logser = Discrete(
    "logser",
    "p",
    support=(1, math.inf),
    inside=1.0,
    valid=lambda p: (p > 0) & (p < 1),
    log_density=lambda k, p: k * log(p) - log(k) - log(-log1p(-p)),
    cdf=lambda k, p: 1 - _logser_sf(k, p),
    sf=_logser_sf,
    ppf=_logser_ppf,
    entropy=_logser_entropy,
    mean=_logser_mean,
    var=lambda p: _logser_mean(p) * (1 / (1 - p) - _logser_mean(p)),
    draw=_logser_draw,
)


# Skellam distribution


def _log_cosh(u: Any) -> Any:
    size = where(u < 0, -u, u)
    return size + log1p(exp(-2 * size)) - math.log(2)


def _skellam_log_density(k: Any, mu1: Any, mu2: Any) -> Any:
    """Compute the Bessel function by Poisson's integral around the peak of its integrand."""
    order = where(k < 0, -k, k) + 0.0 * (mu1 + mu2)
    z = 2 * sqrt(mu1 * mu2) + 0.0 * order
    half = order + 0.5
    top = stop_gradient(z / (half + sqrt(half * half + z * z)))
    place = atanh(top)
    scale = 1 / sqrt((1 - top * top) * 2 * (half + z * top))
    peak = stop_gradient(z * top - 2 * half * _log_cosh(place))
    half_, z_, peak_ = column(half, z, peak)

    def integrand(u: Any) -> Any:
        return exp(z_ * tanh(u) - 2 * half_ * _log_cosh(u) - peak_)

    whole = integral_over_all([place], (scale, scale), integrand)
    rest = times_log(order, where(k < 0, mu2, mu1)) - lgamma(half) - 0.5 * math.log(math.pi)
    return rest + peak - mu1 - mu2 + log(whole)


def _skellam_cdf(k: Any, mu1: Any, mu2: Any) -> Any:
    """Integrate the probability of k over mu1, because d cdf / d mu1 = -pmf(k)."""
    k_, second = column(k, mu2)
    start = mu1 + 0.0 * (k + mu2)
    # The probability is largest where mu1 is about mu2 + k.
    top = maximum(stop_gradient(mu2 + k), start)
    scale = stop_gradient(sqrt(top + mu2 + 1))

    def integrand(m: Any) -> Any:
        return exp(_skellam_log_density(k_, m, second))

    return integral_from(top, scale, integrand) + integral_between(start, top, integrand)


def _skellam_ppf(q: Any, mu1: Any, mu2: Any) -> Any:
    mu1, mu2 = stop_gradient(mu1), stop_gradient(mu2)
    shift = floor(mu2 - mu1 + 40 * (sqrt(mu1 + mu2) + 1)) + 0.0 * q
    shift = maximum(shift, 0.0)
    high = shift + floor(mu1 - mu2 + 40 * (sqrt(mu1 + mu2) + 1))
    return first_reaching(q, lambda k: _skellam_cdf(k - shift, mu1, mu2), high, 24) - shift


def _skellam_draw(source: Source, shape: Shape, dtype: Any, mu1: Any, mu2: Any) -> Any:
    first = poisson_draw(source, shape, dtype, mu1)
    return first - poisson_draw(source, shape, dtype, mu2)


skellam = Discrete(
    "skellam",
    "mu1 mu2",
    support=(-math.inf, math.inf),
    valid=lambda mu1, mu2: (mu1 > 0) & (mu2 > 0),
    log_density=_skellam_log_density,
    cdf=_skellam_cdf,
    sf=lambda k, mu1, mu2: _skellam_cdf(-k - 1, mu2, mu1),
    ppf=_skellam_ppf,
    mean=lambda mu1, mu2: mu1 - mu2,
    var=lambda mu1, mu2: mu1 + mu2,
    draw=_skellam_draw,
)
