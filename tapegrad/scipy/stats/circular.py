"""Circular distributions: von Mises and wrapped Cauchy."""

from __future__ import annotations

import math
from typing import Any

from tapegrad.ops.elementwise.bessel import bessel_i0e, bessel_i1e
from tapegrad.ops.elementwise.special_functions import spence
from tapegrad.ops.indexing.along_axis import take_along_axis
from tapegrad.ops.random.primitives import Shape, Source
from tapegrad.ops.reduction.primitives import argmax
from tapegrad.scipy.stats.continuous import Continuous, symmetric
from tapegrad.scipy.stats.draws import uniform
from tapegrad.scipy.stats.inverse import quantile
from tapegrad.scipy.stats.quadrature import column, integral_between
from tapegrad.scipy.vocabulary import (
    asin,
    atan2,
    cast,
    cos,
    exp,
    log,
    log1p,
    maximum,
    minimum,
    rint,
    sin,
    sqrt,
    stop_gradient,
    where,
)

_LOG_TWO_PI = math.log(2 * math.pi)
_ROUNDS = 40


def _vonmises_log_density(x: Any, kappa: Any) -> Any:
    half = sin(0.5 * x)
    return -2 * kappa * half * half - _LOG_TWO_PI - log(bessel_i0e(kappa))


def _vonmises_draw(source: Source, shape: Shape, dtype: Any, kappa: Any) -> Any:
    """Draw by Best and Fisher's rejection from a wrapped Cauchy distribution.

    A proposal is accepted with a probability of at least 65 %, so that all rounds, drawn at once,
    fail with a probability below 1e-18. There is no gradient for kappa.
    """
    # The formulas use 1 - rho, s - 1 and 1 - w, which are accurate for large kappa.
    kappa = maximum(stop_gradient(kappa), 1e-6)
    r = 1 + sqrt(1 + 4 * kappa * kappa)
    denominator = r + sqrt(2 * r)
    rho = 2 * kappa / denominator
    lack = (denominator - 2 * kappa) / denominator
    excess = lack * lack / (2 * rho)
    half = sin(0.5 * math.pi * uniform(source, (_ROUNDS, *shape), dtype))
    drop = 2 * half * half
    turn = excess * drop / (excess + 2 - drop)
    gap = kappa * (excess + turn)
    is_accepted = log(gap / uniform(source, (_ROUNDS, *shape), dtype)) + 1 - gap >= 0
    first = argmax(cast(is_accepted, "int32"), axis=0, keepdims=True)
    angle = 2 * asin(sqrt(0.5 * take_along_axis(turn, first, 0)[0]))
    return where(uniform(source, shape, dtype) < 0.5, -angle, angle)


def _vonmises_tail(x: Any, kappa: Any) -> Any:
    """Return the probability between x >= 0 and π; for large kappa it is cut off far out."""
    (kappa_,) = column(kappa)
    end = minimum(x + 14 / sqrt(maximum(kappa, 1e-6)), math.pi)
    return integral_between(x, stop_gradient(end), lambda u: exp(_vonmises_log_density(u, kappa_)))


def _vonmises_cdf(x: Any, kappa: Any) -> Any:
    """Return the CDF, which as in SciPy continues beyond the circle and grows by 1 per turn."""
    turns = rint(stop_gradient(x) / (2 * math.pi))
    angle = x - 2 * math.pi * turns
    tail = _vonmises_tail(where(angle < 0, -angle, angle), kappa)
    return turns + where(angle < 0, tail, 1 - tail)


def _vonmises_ppf(q: Any, kappa: Any) -> Any:
    return quantile(
        q,
        (kappa,),
        lambda q, x, kappa: _vonmises_cdf(x, kappa) - q,
        lambda x, kappa: exp(_vonmises_log_density(x, kappa)),
        lambda s, kappa: s,
        math.pi,
    )


def _vonmises_var(kappa: Any) -> Any:
    (kappa_,) = column(kappa)
    zero = 0.0 * kappa
    end = stop_gradient(minimum(14 / sqrt(maximum(kappa, 1e-6)), math.pi))
    return 2 * integral_between(zero, end, lambda u: u * u * exp(_vonmises_log_density(u, kappa_)))


vonmises = Continuous(
    "vonmises",
    "kappa",
    valid=lambda kappa: kappa >= 0,
    log_density=_vonmises_log_density,
    entropy=lambda kappa: (
        _LOG_TWO_PI + log(bessel_i0e(kappa)) + kappa * (1 - bessel_i1e(kappa) / bessel_i0e(kappa))
    ),
    **symmetric(_vonmises_cdf, _vonmises_ppf),
    mean=lambda kappa: 0.0 * kappa,
    var=_vonmises_var,
    draw=_vonmises_draw,
)


def _wrapcauchy_log_density(x: Any, c: Any) -> Any:
    half = sin(0.5 * x)
    return log1p(-c * c) - _LOG_TWO_PI - log((1 - c) * (1 - c) + 4 * c * half * half)


wrapcauchy = Continuous(
    "wrapcauchy",
    "c",
    support=(0.0, 2 * math.pi),
    inside=1.0,
    valid=lambda c: (c > 0) & (c < 1),
    log_density=_wrapcauchy_log_density,
    cdf=lambda x, c: atan2((1 + c) * sin(0.5 * x), (1 - c) * cos(0.5 * x)) / math.pi,
    ppf=lambda q, c: 2 * atan2((1 - c) * sin(math.pi * q), (1 + c) * cos(math.pi * q)),
    entropy=lambda c: _LOG_TWO_PI + log1p(-c * c),
    mean=lambda c: 0.0 * c + math.pi,
    var=lambda c: math.pi**2 / 3 + 4 * spence(1 - c),
)
