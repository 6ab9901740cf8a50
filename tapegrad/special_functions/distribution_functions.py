"""Cephes distribution functions, built from the incomplete beta and gamma functions.

Counts are rounded down and have no derivative. All other arguments are differentiable.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tapegrad.ops.casting.promotion import operands
from tapegrad.ops.control.stop_gradient import stop_gradient
from tapegrad.ops.creation import numpy_dtype_of
from tapegrad.ops.elementwise import special_functions as primitives
from tapegrad.ops.elementwise.exponential import exp, log, log1p
from tapegrad.ops.elementwise.powers import sqrt
from tapegrad.ops.elementwise.rounding import floor
from tapegrad.ops.elementwise.selection import maximum, minimum, where
from tapegrad.ops.elementwise.special_functions import betaln, ndtr, ndtri
from tapegrad.ops.shape.functions import broadcast_arrays
from tapegrad.special_functions.derivatives import with_derivatives
from tapegrad.special_functions.incomplete_gamma_beta import betainc, gammainc, gammaincc
from tapegrad.special_functions.incomplete_inverses import (
    betaincinv,
    gammainccinv,
    gammaincinv,
    log_beta_quantile,
)
from tapegrad.special_functions.removable_singularities import log1p_ratio


def betaincc(a: Any, b: Any, x: Any) -> Any:
    """Return 1 - betainc(a, b, x), accurate where that is small.

    >>> round(float(betaincc(2.0, 3.0, 0.5)), 6)
    0.3125
    """
    a, b, x = operands(a, b, x)
    # Near 0 the argument 1 - x loses the digits of x, so subtract from 1 unless that cancels.
    below = betainc(a, b, x)
    is_direct = ((x < 1e-2) & (below < 0.999)) | (1 - x == 1)
    return where(is_direct, 1 - below, betainc(b, a, 1 - x))


def betainccinv(a: Any, b: Any, y: Any) -> Any:
    """Return the x for which betaincc(a, b, x) is y.

    >>> round(float(betainccinv(2.0, 3.0, 0.3125)), 6)
    0.5
    """
    a, b, y = operands(a, b, y)
    # 1 - x has no digits of a small x, and 1 - y none of a small y.
    small = betaincinv(a, b, 1 - y)
    return where(small < 0.5, small, 1 - betaincinv(b, a, y))


def _positive(parameter: Any) -> Any:
    """Return a parameter of a distribution, and NaN where it is 0 or negative.

    The incomplete functions have limits at 0, but there is no such distribution.
    """
    return where(parameter > 0, parameter, math.nan)


def _probability(p: Any) -> Any:
    """Return a probability, and NaN where it is not between 0 and 1."""
    return where((p >= 0) & (p <= 1), p, math.nan)


def _check_trials(k: Any, n: Any, p: Any) -> tuple[Any, Any, Any, Any, Any]:
    """Return where the arguments are valid, where 0 <= k < n, and safe values of k, n and p."""
    whole, n = floor(k), floor(n)
    is_valid = (whole <= n) & (p >= 0) & (p <= 1)
    is_inner = is_valid & (whole >= 0) & (whole < n)
    safe = where(is_inner, whole, 0.0), where(is_inner, n, 1.0), where(is_inner, p, 0.5)
    return is_valid, is_inner, *safe


def bdtr(k: Any, n: Any, p: Any) -> Any:
    """Return the probability of at most k successes in n trials.

    >>> round(float(bdtr(1, 3, 0.5)), 6)
    0.5
    """
    k, n, p = operands(k, n, p)
    is_valid, is_inner, whole, trials, fraction = _check_trials(k, n, p)
    y = betainc(trials - whole, whole + 1, 1 - fraction)
    return where(is_inner, y, where(is_valid & (k >= 0), 1.0, math.nan))


def bdtrc(k: Any, n: Any, p: Any) -> Any:
    """Return the probability of more than k successes in n trials.

    >>> round(float(bdtrc(1, 3, 0.5)), 6)
    0.5
    """
    k, n, p = operands(k, n, p)
    is_valid, is_inner, whole, trials, fraction = _check_trials(k, n, p)
    y = betainc(whole + 1, trials - whole, fraction)
    return where(is_inner, y, where(is_valid, where(k < 0, 1.0 + 0.0 * p, 0.0), math.nan))


def nbdtr(k: Any, n: Any, p: Any) -> Any:
    """Return the probability of at most k failures before the n-th success.

    >>> round(float(nbdtr(1, 2, 0.5)), 6)
    0.5
    """
    k, n, p = operands(k, n, p)
    p = _probability(p)
    return betainc(_positive(n), _positive(floor(k) + 1), p)


def nbdtrc(k: Any, n: Any, p: Any) -> Any:
    """Return the probability of more than k failures before the n-th success.

    >>> round(float(nbdtrc(1, 2, 0.5)), 6)
    0.5
    """
    k, n, p = operands(k, n, p)
    p = _probability(p)
    return betainc(_positive(floor(k) + 1), _positive(n), 1 - p)


def pdtr(k: Any, m: Any) -> Any:
    """Return the probability of at most k events of a Poisson distribution with mean m.

    >>> round(float(pdtr(0, 1.0)), 6)
    0.367879
    """
    k, m = operands(k, m)
    return gammaincc(_positive(floor(k) + 1), m)


def pdtrc(k: Any, m: Any) -> Any:
    """Return the probability of more than k events of a Poisson distribution with mean m.

    >>> round(float(pdtrc(0, 1.0)), 6)
    0.632121
    """
    k, m = operands(k, m)
    return gammainc(_positive(floor(k) + 1), m)


def chdtr(v: Any, x: Any) -> Any:
    """Return the CDF of the chi-square distribution with v degrees of freedom.

    >>> round(float(chdtr(2.0, 2.0)), 6)
    0.632121
    """
    v, x = operands(v, x)
    return gammainc(0.5 * v, 0.5 * x)


def chdtrc(v: Any, x: Any) -> Any:
    """Return 1 - chdtr(v, x).

    >>> round(float(chdtrc(2.0, 2.0)), 6)
    0.367879
    """
    v, x = operands(v, x)
    return gammaincc(0.5 * v, 0.5 * x)


def chdtri(v: Any, p: Any) -> Any:
    """Return the x for which chdtrc(v, x) is p.

    >>> round(float(chdtri(2.0, 0.5)), 6)
    1.386294
    """
    v, p = operands(v, p)
    return 2 * gammainccinv(0.5 * v, p)


def gdtr(a: Any, b: Any, x: Any) -> Any:
    """Return the CDF of the gamma distribution with rate a and shape b.

    >>> round(float(gdtr(2.0, 1.0, 0.5)), 6)
    0.632121
    """
    a, b, x = operands(a, b, x)
    return gammainc(b, _nonnegative_product(a, x))


def gdtrc(a: Any, b: Any, x: Any) -> Any:
    """Return 1 - gdtr(a, b, x).

    >>> round(float(gdtrc(2.0, 1.0, 0.5)), 6)
    0.367879
    """
    a, b, x = operands(a, b, x)
    return gammaincc(b, _nonnegative_product(a, x))


def _nonnegative_product(a: Any, x: Any) -> Any:
    """Return a * x, and NaN where one of them is negative."""
    return where((a < 0) | (x < 0), math.nan, a * x)


def gdtrix(a: Any, b: Any, p: Any) -> Any:
    """Return the x for which gdtr(a, b, x) is p.

    >>> round(float(gdtrix(2.0, 1.0, 0.5)), 6)
    0.346574
    """
    a, b, p = operands(a, b, p)
    return gammaincinv(b, p) / where(a > 0, a, math.nan)


def fdtr(dfn: Any, dfd: Any, x: Any) -> Any:
    """Return the CDF of the F distribution.

    >>> round(float(fdtr(2.0, 2.0, 1.0)), 6)
    0.5
    """
    dfn, dfd, x = operands(dfn, dfd, x)
    dfn, dfd, x = _positive(dfn), _positive(dfd), where(x < 0, math.nan, x)
    is_infinite = x == math.inf
    x = where(is_infinite, 1.0, x)
    fraction, rest = dfn * x / (dfd + dfn * x), dfd / (dfd + dfn * x)
    # Where the fraction is near 1, its complement is more accurate.
    is_low = fraction < 0.5
    below = betainc(0.5 * dfn, 0.5 * dfd, where(is_low, fraction, 0.5))
    y = where(is_low, below, 1 - betainc(0.5 * dfd, 0.5 * dfn, where(is_low, 0.5, rest)))
    return where(is_infinite & (dfn > 0) & (dfd > 0), 1.0, y)


def fdtrc(dfn: Any, dfd: Any, x: Any) -> Any:
    """Return 1 - fdtr(dfn, dfd, x).

    >>> round(float(fdtrc(2.0, 2.0, 1.0)), 6)
    0.5
    """
    dfn, dfd, x = operands(dfn, dfd, x)
    dfn, dfd, x = _positive(dfn), _positive(dfd), where(x < 0, math.nan, x)
    is_infinite = x == math.inf
    x = where(is_infinite, 1.0, x)
    y = betainc(0.5 * dfd, 0.5 * dfn, dfd / (dfd + dfn * x))
    # The argument is rounded to 1 where x is small.
    fraction = dfn * x / (dfd + dfn * x)
    is_low = 1 - fraction == 1
    below = betainc(0.5 * dfn, 0.5 * dfd, where(is_low, fraction, 0.5))
    y = where(is_low, 1 - below, y)
    return where(is_infinite & (dfn > 0) & (dfd > 0), 0.0, y)


def fdtri(dfn: Any, dfd: Any, p: Any) -> Any:
    """Return the x for which fdtr(dfn, dfd, x) is p.

    >>> round(float(fdtri(2.0, 2.0, 0.5)), 6)
    1.0
    """
    dfn, dfd, p = operands(dfn, dfd, p)
    fraction, rest = betaincinv(0.5 * dfn, 0.5 * dfd, p), betaincinv(0.5 * dfd, 0.5 * dfn, 1 - p)
    is_low = fraction < 0.5
    below = where(is_low, 1 - fraction, rest)
    odds = where(is_low, fraction, 1 - rest) / where(below == 0, 1.0, below)
    return where(below == 0, math.inf, dfd / dfn * odds) + 0.0 * fraction


def split_near_normal(df: Any) -> tuple[Any, Any, Any]:
    """Split df into small values and values so large that t is nearly normal.

    Return where df is large, df with 1 in the large places, and df with 1e6 in the small places.

    >>> split_near_normal(operands([3.0, 1e9])[0])[0].tolist()
    [False, True]
    """
    is_normal = df > (1e6 if numpy_dtype_of(df) == np.float64 else 1e3)
    return is_normal, where(is_normal, 1.0, df), where(is_normal, df, 1e6)


def near_normal_cdf(x: Any, df: Any) -> Any:
    """Return the CDF of Student's t with many degrees of freedom.

    It is the normal CDF at the z of Hill (1970), Algorithm 395, with the first correction:
    w + (w³ + 3w) / (48 a²) for w² = a log(1 + x² / df) and a = df - 1/2.

    >>> round(float(near_normal_cdf(*operands(-1.0, math.inf))), 9)
    0.158655254
    """
    is_infinite = df == math.inf
    df = where(is_infinite, 1.0, df)
    # The CDF is 0 or 1 beyond these limits.
    x = minimum(maximum(x, -1e8), 1e8)
    # √(log(1 + r) / r) is smooth at r = 0, unlike √log(1 + r).
    fraction = where(is_infinite, 0.0, x * x / df)
    w = x * sqrt(where(is_infinite, 1.0, (df - 0.5) / df) * log1p_ratio(fraction))
    correction = w * (w * w + 3) / (48 * (df - 0.5) ** 2)
    return ndtr(w + where(is_infinite, 0.0, correction))


def near_normal_quantile(p: Any, df: Any) -> Any:
    """Return the quantile of Student's t with many degrees of freedom, by a series in 1 / df.

    >>> round(float(near_normal_quantile(*operands(0.8413447460685429, math.inf))), 9)
    1.0
    """
    z, rest = ndtri(p), 1 / df
    square = z * z
    first, second = square + 1, (5 * square + 16) * square + 3
    return z * (1 + rest * (first / 4 + rest * second / 96))


def stdtr(df: Any, t: Any) -> Any:
    """Return the CDF of Student's t distribution.

    >>> round(float(stdtr(1.0, 1.0)), 6)
    0.75
    """
    df, t = broadcast_arrays(*operands(df, t))
    return with_derivatives(_stdtr, _t_density, (_positive(df),), t)


def _stdtr(df: Any, t: Any) -> Any:
    is_normal, df, many = split_near_normal(df)
    square = t * t
    # Use the form of the incomplete beta function that is small, near 0 and in the tails.
    is_near = square < minimum(df, 1.0)
    tail = 0.5 * betainc(0.5 * df, 0.0 * df + 0.5, df / (df + where(is_near, df, square)))
    inside = where(is_near, square, df)
    near = 0.5 * betainc(0.0 * df + 0.5, 0.5 * df, inside / (inside + df))
    near = where(t > 0, 0.5 + near, 0.5 - near)
    y = where(is_near, near, where(t > 0, 1 - tail, tail))
    return where(is_normal, near_normal_cdf(t, many), y)


def t_log_density(t: Any, df: Any) -> Any:
    """Return the logarithm of the density of Student's t; infinite df gives the normal density.

    >>> round(float(t_log_density(*operands(0.0, 1.0))), 6) == round(-math.log(math.pi), 6)
    True
    """
    is_infinite = df == math.inf
    df = where(is_infinite, 1.0, df)
    y = t_log_peak(df) - 0.5 * (df + 1) * log1p(t * t / df)
    return where(is_infinite, -0.5 * (t * t + math.log(2 * math.pi)), y)


def t_log_peak(df: Any) -> Any:
    """Return the logarithm of the density of Student's t at 0.

    >>> round(float(t_log_peak(*operands(1.0))), 6) == round(-math.log(math.pi), 6)
    True
    """
    return -0.5 * log(df) - betaln(0.5 * df, 0.5)


def _t_density(df: Any, t: Any) -> Any:
    return exp(t_log_density(t, df))


def stdtrit(df: Any, p: Any) -> Any:
    """Return the t for which stdtr(df, t) is p.

    >>> round(float(stdtrit(1.0, 0.75)), 6)
    1.0
    """
    df, p = broadcast_arrays(*operands(df, p))
    return with_derivatives(_stdtrit, lambda df, p: 1 / _t_density(df, stdtrit(df, p)), (df,), p)


def _stdtrit(df: Any, p: Any) -> Any:
    is_normal, df, many = split_near_normal(df)
    tail = 2 * minimum(p, 1 - p)
    # For few degrees of freedom most of the distribution is far from 0.
    half = 0.0 * df + 0.5
    is_tail = (tail < 0.5) | (tail < primitives.betainc(stop_gradient(0.5 * df), half, half))
    far = betaincinv(0.5 * df, half, where(is_tail, tail, 0.25))
    near = betaincinv(half, 0.5 * df, where(is_tail | (tail == 1), 0.5, 1 - tail))
    below = where(is_tail, far, 1 - near)
    square = where(is_tail, 1 - far, near) / where(below == 0, 1.0, below)
    size = where(below == 0, math.inf, sqrt(df * square))
    # The square of t may overflow where t does not.
    log_x = log_beta_quantile(0.5 * df, half, where(tail > 0, tail, 1.0))
    is_huge = (log_x < -42) & (tail > 0)
    size = where(is_huge, sqrt(df) * exp(-0.5 * where(is_huge, log_x, 0.0)), size)
    y = where(tail == 1, 0.0, where(p < 0.5, 0.0 - size, size))
    y = where(is_normal, near_normal_quantile(p, many), y)
    return where(df > 0, y, math.nan)
