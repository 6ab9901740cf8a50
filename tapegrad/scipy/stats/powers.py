"""Log-normal, log-uniform, Fisk, power law, Lomax, triangular and arcsine distributions."""

from __future__ import annotations

import math
from typing import Any

from tapegrad.ops.elementwise.sigmoids import logit
from tapegrad.scipy.stats import draws
from tapegrad.scipy.stats.continuous import Continuous, OnPositive, OnUnit
from tapegrad.scipy.stats.family import Formula
from tapegrad.scipy.stats.heavy_tails import finite_above
from tapegrad.scipy.stats.logarithms import (
    beyond_zero,
    log_or_minus_infinity,
    times_log,
    times_log1p,
)
from tapegrad.scipy.vocabulary import (
    asin,
    exp,
    expm1,
    log,
    log1p,
    log_ndtr,
    log_sigmoid,
    ndtr,
    ndtri,
    sigmoid,
    sin,
    sqrt,
    where,
)


def _of_logarithm(formula: Formula, at_zero: float) -> Formula:
    """Return a formula of log(x) extended to 0 by its limit, without a gradient there."""
    return beyond_zero(lambda x, *shapes: formula(log(x), *shapes), at_zero)


# Log-normal distribution


lognorm = OnPositive(
    "lognorm",
    "s",
    valid=lambda s: s > 0,
    log_density=_of_logarithm(
        lambda y, s: -0.5 * (y / s) * (y / s) - y - log(s) - 0.5 * math.log(2 * math.pi), -math.inf
    ),
    cdf=_of_logarithm(lambda y, s: ndtr(y / s), 0.0),
    sf=_of_logarithm(lambda y, s: ndtr(-y / s), 1.0),
    logcdf=_of_logarithm(lambda y, s: log_ndtr(y / s), -math.inf),
    logsf=_of_logarithm(lambda y, s: log_ndtr(-y / s), 0.0),
    ppf=lambda q, s: exp(s * ndtri(q)),
    isf=lambda q, s: exp(-s * ndtri(q)),
    entropy=lambda s: 0.5 + 0.5 * math.log(2 * math.pi) + log(s),
    mean=lambda s: exp(0.5 * s * s),
    var=lambda s: expm1(s * s) * exp(s * s),
    draw=lambda source, shape, dtype, s: exp(s * draws.normal(source, shape, dtype)),
)


# Log-uniform distribution


def _width(a: Any, b: Any) -> Any:
    return log(b) - log(a)


def _loguniform_mean(a: Any, b: Any) -> Any:
    return (b - a) / _width(a, b)


def _loguniform(name: str) -> Continuous:
    return Continuous(
        name,
        "a b",
        support=lambda a, b: (a, b),
        inside=lambda a, b: sqrt(a * b),
        valid=lambda a, b: (a > 0) & (b > a),
        stand_in=(0.5, 1.0),
        log_density=lambda x, a, b: -log(x) - log(_width(a, b)),
        cdf=lambda x, a, b: _width(a, x) / _width(a, b),
        sf=lambda x, a, b: _width(x, b) / _width(a, b),
        ppf=lambda q, a, b: a * exp(q * _width(a, b)),
        isf=lambda q, a, b: b * exp(-q * _width(a, b)),
        entropy=lambda a, b: 0.5 * (log(a) + log(b)) + log(_width(a, b)),
        mean=_loguniform_mean,
        var=lambda a, b: _loguniform_mean(a, b) * (0.5 * (a + b) - _loguniform_mean(a, b)),
    )


loguniform = _loguniform("loguniform")
reciprocal = _loguniform("reciprocal")


# Fisk (log-logistic) distribution


def _fisk_log_density(x: Any, c: Any) -> Any:
    is_zero = x == 0
    y = c * log(where(is_zero, 1.0, x))
    return log(c) + times_log(c - 1, x) + where(is_zero, 0.0, 2 * log_sigmoid(-y))


def _reciprocal_sinc(c: Any) -> Any:
    """Return x / sin(x) at x = π / c."""
    return (math.pi / c) / sin(math.pi / c)


fisk = OnPositive(
    "fisk",
    "c",
    valid=lambda c: c > 0,
    log_density=_fisk_log_density,
    cdf=_of_logarithm(lambda y, c: sigmoid(c * y), 0.0),
    sf=_of_logarithm(lambda y, c: sigmoid(-c * y), 1.0),
    logcdf=_of_logarithm(lambda y, c: log_sigmoid(c * y), -math.inf),
    logsf=_of_logarithm(lambda y, c: log_sigmoid(-c * y), 0.0),
    ppf=lambda q, c: exp(logit(q) / c),
    isf=lambda q, c: exp(-logit(q) / c),
    entropy=lambda c: 2 - log(c),
    mean=lambda c: finite_above(1, c, _reciprocal_sinc),
    var=lambda c: finite_above(
        2, c, lambda c: _reciprocal_sinc(0.5 * c) - _reciprocal_sinc(c) ** 2
    ),
)

lomax = OnPositive(
    "lomax",
    "c",
    valid=lambda c: c > 0,
    log_density=lambda x, c: log(c) - (c + 1) * log1p(x),
    cdf=lambda x, c: -expm1(-c * log1p(x)),
    sf=lambda x, c: exp(-c * log1p(x)),
    logsf=lambda x, c: -c * log1p(x),
    ppf=lambda q, c: expm1(-log1p(-q) / c),
    isf=lambda q, c: expm1(-log(q) / c),
    entropy=lambda c: 1 + 1 / c - log(c),
    mean=lambda c: finite_above(1, c, lambda c: 1 / (c - 1)),
    var=lambda c: finite_above(2, c, lambda c: c / ((c - 1) ** 2 * (c - 2))),
)

powerlaw = OnUnit(
    "powerlaw",
    "a",
    valid=lambda a: a > 0,
    log_density=lambda x, a: log(a) + times_log(a - 1, x),
    cdf=_of_logarithm(lambda y, a: exp(a * y), 0.0),
    sf=_of_logarithm(lambda y, a: -expm1(a * y), 1.0),
    logcdf=_of_logarithm(lambda y, a: a * y, -math.inf),
    ppf=lambda q, a: exp(log(q) / a),
    isf=lambda q, a: exp(log1p(-q) / a),
    entropy=lambda a: 1 - 1 / a - log(a),
    mean=lambda a: a / (a + 1),
    var=lambda a: a / ((a + 2) * (a + 1) ** 2),
)


# Triangular distribution with its mode at c


def _triang_sides(x: Any, c: Any) -> tuple[Any, Any, Any]:
    """Return whether x is left of the mode, and the heights on both sides from 0 to 1."""
    is_left = x < c
    left = where(is_left, x, 0.0) / where(is_left, c, 1.0)
    right = where(is_left, 0.0, 1 - x) / where(is_left | (c == 1), 1.0, 1 - c)
    # If the mode is at an end, the side beyond it has zero width.
    return is_left, left, where((c == 1) & (x == 1), 1.0, right)


def _triang_log_density(x: Any, c: Any) -> Any:
    is_left, left, right = _triang_sides(x, c)
    return math.log(2) + log_or_minus_infinity(where(is_left, left, right))


def _triang_cdf(x: Any, c: Any) -> Any:
    is_left, left, _ = _triang_sides(x, c)
    right = (x * (2 - x) - c) / where(is_left | (c == 1), 1.0, 1 - c)
    return where(is_left, c * left * left, where(c == 1, 1.0, right))


def _triang_sf(x: Any, c: Any) -> Any:
    is_left, left, right = _triang_sides(x, c)
    return where(is_left, 1 - c * left * left, (1 - c) * right * right)


def _triang_ppf(q: Any, c: Any) -> Any:
    is_left = q < c
    low = sqrt(where(is_left, c * q, 0.25))
    high = 1 - sqrt(where(is_left, 0.25, (1 - c) * (1 - q)))
    return where(is_left, low, high)


triang = OnUnit(
    "triang",
    "c",
    valid=lambda c: (c >= 0) & (c <= 1),
    log_density=_triang_log_density,
    cdf=_triang_cdf,
    sf=_triang_sf,
    ppf=_triang_ppf,
    entropy=lambda c: 0.0 * c + 0.5 - math.log(2),
    mean=lambda c: (1 + c) / 3,
    var=lambda c: (1 - c + c * c) / 18,
)


def _arcsine_cdf(x: Any) -> Any:
    """Return the CDF; its infinite derivative at the ends is dropped."""
    is_end = (x == 0) | (x == 1)
    inner = where(is_end, 0.5, x)
    is_left = inner < 0.5
    part = 2 / math.pi * asin(sqrt(where(is_left, inner, 1 - inner)))
    return where(is_end, where(x == 1, 1.0, 0.0), where(is_left, part, 1 - part))


arcsine = OnUnit(
    "arcsine",
    log_density=lambda x: (
        times_log(-0.5 + 0.0 * x, x) + times_log1p(-0.5 + 0.0 * x, -x) - math.log(math.pi)
    ),
    cdf=_arcsine_cdf,
    sf=lambda x: _arcsine_cdf(1 - x),
    ppf=lambda q: sin(0.5 * math.pi * q) ** 2,
    entropy=lambda: math.log(math.pi / 4),
    mean=lambda: 0.5,
    var=lambda: 0.125,
)
