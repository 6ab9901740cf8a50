"""Student's t and the Cauchy distribution."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tapegrad.ops.random.primitives import Shape, Source
from tapegrad.scipy.stats.continuous import Continuous, symmetric
from tapegrad.scipy.stats.draws import gamma, normal
from tapegrad.scipy.vocabulary import (
    atan2,
    cos,
    digamma,
    exp,
    log,
    log1p,
    minimum,
    numpy_dtype_of,
    sin,
    sqrt,
    where,
)
from tapegrad.special_functions.distribution_functions import (
    near_normal_quantile,
    split_near_normal,
    stdtr,
    t_log_density,
    t_log_peak,
)
from tapegrad.special_functions.incomplete_inverses import betaincinv

_LOG_ROOT_TWO_PI = 0.5 * math.log(2 * math.pi)


def _finite(df: Any) -> tuple[Any, Any]:
    """Return where df is infinite (the normal distribution), and df with 1 in those places."""
    is_infinite = df == math.inf
    return is_infinite, where(is_infinite, 1.0, df)


def _t_ppf(q: Any, df: Any) -> Any:
    """Return the quantile from the fraction of x² or of df in their sum; linear at the median."""
    is_normal, df, many = split_near_normal(df)
    size = 2 * abs(q - 0.5)
    is_inner, is_middle = size < 0.5, size < 1e-30
    fraction = betaincinv(0.5, 0.5 * df, where(is_inner & ~is_middle, size, 0.5))
    rest = betaincinv(0.5 * df, 0.5, where(is_inner, 0.5, 2 * minimum(q, 1 - q)))
    x = sqrt(df * where(is_inner, fraction / (1 - fraction), (1 - rest) / rest))
    x = where(is_middle, (q - 0.5) / exp(t_log_peak(df)), where(q < 0.5, -x, x))
    return where(is_normal, near_normal_quantile(q, many), x)


def _t_entropy(df: Any) -> Any:
    """Return the entropy; for large df the normal entropy and the first terms of a series."""
    is_normal = df > (1e4 if numpy_dtype_of(df) == np.float64 else 1e2)
    rest = 1 / where(is_normal, df, 1.0)
    normal = 0.5 + _LOG_ROOT_TWO_PI + rest * (1 + rest * (1 / 4))
    df = where(is_normal, 1.0, df)
    half = 0.5 * (df + 1)
    return where(is_normal, normal, half * (digamma(half) - digamma(0.5 * df)) - t_log_peak(df))


def _t_var(df: Any) -> Any:
    is_infinite, df = _finite(df)
    is_finite = df > 2
    var = df / (where(is_finite, df, 3.0) - 2)
    var = where(is_finite, var, where(df > 1, math.inf, math.nan))
    return where(is_infinite, 1.0, var)


def _t_draw(source: Source, shape: Shape, dtype: Any, df: Any) -> Any:
    top = normal(source, shape, dtype)
    return top * sqrt(0.5 * df / gamma(source, shape, dtype, 0.5 * df))


t = Continuous(
    "t",
    "df",
    valid=lambda df: df > 0,
    log_density=t_log_density,
    **symmetric(lambda x, df: stdtr(df, x), _t_ppf),
    entropy=_t_entropy,
    mean=lambda df: where(df > 1, 0.0 * _finite(df)[1], math.inf),
    var=_t_var,
    draw=_t_draw,
)


def _cauchy_cdf(x: Any) -> Any:
    """Return the angle of (-x, 1) divided by π, which is accurate in both tails."""
    return atan2(0.0 * x + 1, -x) / math.pi


def _cauchy_ppf(q: Any) -> Any:
    """Return the quantile from the angle to the nearer end, or to the median."""
    is_middle, is_left = abs(q - 0.5) < 0.25, q < 0.5
    tail = math.pi * where(is_middle, 0.25, where(is_left, q, 1 - q))
    side = cos(tail) / sin(tail)
    turn = math.pi * where(is_middle, q - 0.5, 0.0)
    return where(is_middle, sin(turn) / cos(turn), where(is_left, -side, side))


def _cauchy_log_density(x: Any) -> Any:
    is_far = abs(x) > 1e9
    far = 2 * log(abs(where(is_far, x, 1.0)))
    return -math.log(math.pi) - where(is_far, far, log1p(where(is_far, 0.0, x) ** 2))


cauchy = Continuous(
    "cauchy",
    log_density=_cauchy_log_density,
    **symmetric(_cauchy_cdf, _cauchy_ppf),
    entropy=lambda: math.log(4 * math.pi),
    mean=lambda: math.nan,
    var=lambda: math.nan,
)
