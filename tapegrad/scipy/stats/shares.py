"""The beta and uniform distributions."""

from __future__ import annotations

from typing import Any

from tapegrad.scipy.stats import draws
from tapegrad.scipy.stats.continuous import OnUnit
from tapegrad.scipy.stats.logarithms import times_log, times_log1p
from tapegrad.scipy.vocabulary import betaln, digamma, stop_gradient, where
from tapegrad.special_functions.incomplete_gamma_beta import betainc
from tapegrad.special_functions.incomplete_inverses import betaincinv


def _entropy(a: Any, b: Any) -> Any:
    spread = (a - 1) * digamma(a) + (b - 1) * digamma(b)
    return betaln(a, b) - spread + (a + b - 2) * digamma(a + b)


def _var(a: Any, b: Any) -> Any:
    total = a + b
    return (a / total) * (b / total) / (total + 1)


def _cdf(x: Any, a: Any, b: Any) -> Any:
    # Drop the derivative at ends with infinite density: 0 times infinity would be NaN.
    is_steep = ((x == 0) & (a < 1)) | ((x == 1) & (b < 1))
    return where(is_steep, stop_gradient(x), betainc(a, b, where(is_steep, 0.5, x)))


def _sf(x: Any, a: Any, b: Any) -> Any:
    # Near 0 the argument 1 - x loses the digits of x, so subtract from 1 unless that cancels.
    below = _cdf(x, a, b)
    return where((x < 1e-2) & (below < 0.999), 1 - below, _cdf(1 - x, b, a))


beta = OnUnit(
    "beta",
    "a b",
    valid=lambda a, b: (a > 0) & (b > 0),
    log_density=lambda x, a, b: times_log(a - 1, x) + times_log1p(b - 1, -x) - betaln(a, b),
    cdf=_cdf,
    sf=_sf,
    ppf=lambda q, a, b: betaincinv(a, b, q),
    isf=lambda q, a, b: 1 - betaincinv(b, a, q),
    entropy=_entropy,
    mean=lambda a, b: a / (a + b),
    var=_var,
    draw=draws.beta,
)

uniform = OnUnit(
    "uniform",
    log_density=lambda x: 0.0 * x,
    cdf=lambda x: x,
    ppf=lambda q: q,
    entropy=lambda: 0.0,
    mean=lambda: 0.5,
    var=lambda: 1 / 12,
    draw=draws.uniform,
)
