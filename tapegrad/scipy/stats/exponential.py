"""Distributions with exponential tails: Laplace, logistic, Gumbel, Pareto, hyperbolic secant."""

from __future__ import annotations

import math
from typing import Any

from tapegrad.ops.elementwise.sigmoids import logit
from tapegrad.scipy.stats.continuous import Continuous, OnPositive, symmetric
from tapegrad.scipy.stats.heavy_tails import finite_above
from tapegrad.scipy.stats.logarithms import bounded_exp, log_complement
from tapegrad.scipy.vocabulary import (
    atan,
    atanh,
    cos,
    exp,
    expm1,
    log,
    log1p,
    log_sigmoid,
    minimum,
    sigmoid,
    sin,
    tanh,
    where,
)

_EULER = 0.57721566490153286


# Laplace distribution


def _fold(x: Any) -> Any:
    """Return -|x|, whose exponential cannot overflow."""
    return where(x < 0, x, -x)


def _laplace_cdf(x: Any) -> Any:
    tail = 0.5 * exp(_fold(x))
    return where(x < 0, tail, 1 - tail)


def _laplace_logcdf(x: Any) -> Any:
    return where(x < 0, x - math.log(2), log1p(-0.5 * exp(_fold(x))))


def _laplace_ppf(q: Any) -> Any:
    is_left = q < 0.5
    side = log(2 * where(is_left, q, 1 - q))
    return where(is_left, side, -side)


laplace = Continuous(
    "laplace",
    log_density=lambda x: _fold(x) - math.log(2),
    **symmetric(_laplace_cdf, _laplace_ppf, _laplace_logcdf),
    entropy=lambda: 1 + math.log(2),
    mean=lambda: 0.0,
    var=lambda: 2.0,
)

logistic = Continuous(
    "logistic",
    log_density=lambda x: log_sigmoid(x) + log_sigmoid(-x),
    **symmetric(sigmoid, logit, log_sigmoid),
    entropy=lambda: 2.0,
    mean=lambda: 0.0,
    var=lambda: math.pi**2 / 3,
)

halflogistic = OnPositive(
    "halflogistic",
    log_density=lambda x: math.log(2) + log_sigmoid(x) + log_sigmoid(-x),
    cdf=lambda x: tanh(0.5 * x),
    sf=lambda x: 2 * sigmoid(-x),
    logsf=lambda x: where(
        x < 1,
        -log1p(0.5 * expm1(minimum(x, 1.0))),
        math.log(2) + log_sigmoid(-x),
    ),
    ppf=lambda q: 2 * atanh(q),
    isf=lambda q: log1p(-0.5 * q) - log(0.5 * q),
    entropy=lambda: 2 - math.log(2),
    mean=lambda: math.log(4),
    var=lambda: math.pi**2 / 3 - math.log(4) ** 2,
)


def _hypsecant_cdf(x: Any) -> Any:
    tail = 2 / math.pi * atan(exp(_fold(x)))
    return where(x < 0, tail, 1 - tail)


def _hypsecant_ppf(q: Any) -> Any:
    is_left = q < 0.5
    angle = 0.5 * math.pi * where(is_left, q, 1 - q)
    side = log(sin(angle) / cos(angle))
    return where(is_left, side, -side)


hypsecant = Continuous(
    "hypsecant",
    log_density=lambda x: _fold(x) - log1p(exp(2 * _fold(x))) + math.log(2 / math.pi),
    **symmetric(_hypsecant_cdf, _hypsecant_ppf),
    entropy=lambda: math.log(2 * math.pi),
    mean=lambda: 0.0,
    var=lambda: math.pi**2 / 4,
)


# Gumbel distributions


def gumbel_log_tail(x: Any) -> Any:
    """Return log(1 - exp(-exp(-x))), which approaches -x for large x.

    >>> import tapegrad
    >>> float(gumbel_log_tail(tapegrad.constant(200.0)))
    -200.0
    """
    rest = bounded_exp(-x)
    return where(rest < 1e-30, -x, log_complement(where(rest < 1e-30, 1.0, rest)))


gumbel_r = Continuous(
    "gumbel_r",
    log_density=lambda x: -x - bounded_exp(-x),
    cdf=lambda x: exp(-bounded_exp(-x)),
    sf=lambda x: -expm1(-bounded_exp(-x)),
    logcdf=lambda x: -bounded_exp(-x),
    logsf=gumbel_log_tail,
    ppf=lambda q: -log(-log(q)),
    isf=lambda q: -log(-log1p(-q)),
    entropy=lambda: 1 + _EULER,
    mean=lambda: _EULER,
    var=lambda: math.pi**2 / 6,
)

gumbel_l = Continuous(
    "gumbel_l",
    log_density=lambda x: x - bounded_exp(x),
    cdf=lambda x: -expm1(-bounded_exp(x)),
    sf=lambda x: exp(-bounded_exp(x)),
    logcdf=lambda x: gumbel_log_tail(-x),
    logsf=lambda x: -bounded_exp(x),
    ppf=lambda q: log(-log1p(-q)),
    isf=lambda q: log(-log(q)),
    entropy=lambda: 1 + _EULER,
    mean=lambda: -_EULER,
    var=lambda: math.pi**2 / 6,
)


# Pareto distribution


pareto = Continuous(
    "pareto",
    "b",
    support=(1.0, math.inf),
    inside=2.0,
    valid=lambda b: b > 0,
    log_density=lambda x, b: log(b) - (b + 1) * log(x),
    cdf=lambda x, b: -expm1(-b * log(x)),
    sf=lambda x, b: exp(-b * log(x)),
    logsf=lambda x, b: -b * log(x),
    ppf=lambda q, b: exp(-log1p(-q) / b),
    isf=lambda q, b: exp(-log(q) / b),
    entropy=lambda b: 1 + 1 / b - log(b),
    mean=lambda b: finite_above(1, b, lambda b: b / (b - 1)),
    var=lambda b: finite_above(2, b, lambda b: b / ((b - 1) ** 2 * (b - 2))),
)
