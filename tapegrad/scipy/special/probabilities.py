"""Distribution functions under their old names, made of the incomplete beta and gamma functions.

Counts are rounded down and have no derivative; all other arguments have one.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tapegrad.scipy.special.incomplete import betainc, gammainc, gammaincc
from tapegrad.scipy.special.inverses import betaincinv, gammainccinv, gammaincinv
from tapegrad.scipy.special.ratios import log1p_ratio
from tapegrad.scipy.special.slopes import with_slopes
from tapegrad.scipy.vocabulary import (
    betaln,
    broadcast_arrays,
    exp,
    floor,
    log,
    log1p,
    maximum,
    minimum,
    ndtr,
    ndtri,
    numpy_dtype_of,
    operands,
    sqrt,
    where,
)


def betaincc(a: Any, b: Any, x: Any) -> Any:
    """Return 1 - betainc(a, b, x), exact where that is small.

    >>> round(float(betaincc(2.0, 3.0, 0.5)), 6)
    0.3125
    """
    a, b, x = operands(a, b, x)
    # So near 0 the difference 1 - x forgets what x was; but what is small is only there.
    below = betainc(a, b, x)
    return where((x < 1e-2) & (below < 0.999), 1 - below, betainc(b, a, 1 - x))


def betainccinv(a: Any, b: Any, y: Any) -> Any:
    """Return the x for which betaincc(a, b, x) is y.

    >>> round(float(betainccinv(2.0, 3.0, 0.3125)), 6)
    0.5
    """
    a, b, y = operands(a, b, y)
    return 1 - betaincinv(b, a, y)


def _of_trials(k: Any, n: Any, p: Any) -> tuple[Any, Any, Any, Any, Any]:
    """Whether the arguments make sense, whether k is less than n, and k, n, p that are safe."""
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
    is_valid, is_inner, whole, trials, share = _of_trials(k, n, p)
    y = betainc(trials - whole, whole + 1, 1 - share)
    return where(is_inner, y, where(is_valid & (k >= 0), 1.0, math.nan))


def bdtrc(k: Any, n: Any, p: Any) -> Any:
    """Return the probability of more than k successes in n trials.

    >>> round(float(bdtrc(1, 3, 0.5)), 6)
    0.5
    """
    k, n, p = operands(k, n, p)
    is_valid, is_inner, whole, trials, share = _of_trials(k, n, p)
    y = betainc(whole + 1, trials - whole, share)
    return where(is_inner, y, where(is_valid, where(k < 0, 1.0 + 0.0 * p, 0.0), math.nan))


def nbdtr(k: Any, n: Any, p: Any) -> Any:
    """Return the probability of at most k failures before the n-th success.

    >>> round(float(nbdtr(1, 2, 0.5)), 6)
    0.5
    """
    k, n, p = operands(k, n, p)
    return betainc(n, floor(k) + 1, p)


def nbdtrc(k: Any, n: Any, p: Any) -> Any:
    """Return the probability of more than k failures before the n-th success.

    >>> round(float(nbdtrc(1, 2, 0.5)), 6)
    0.5
    """
    k, n, p = operands(k, n, p)
    return betainc(floor(k) + 1, n, 1 - p)


def pdtr(k: Any, m: Any) -> Any:
    """Return the probability of at most k events where m are expected.

    >>> round(float(pdtr(0, 1.0)), 6)
    0.367879
    """
    k, m = operands(k, m)
    return gammaincc(floor(k) + 1, m)


def pdtrc(k: Any, m: Any) -> Any:
    """Return the probability of more than k events where m are expected.

    >>> round(float(pdtrc(0, 1.0)), 6)
    0.632121
    """
    k, m = operands(k, m)
    return gammainc(floor(k) + 1, m)


def chdtr(v: Any, x: Any) -> Any:
    """Return the distribution function of chi-square with v degrees of freedom.

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
    """Return the distribution function of the gamma distribution of rate a and shape b.

    >>> round(float(gdtr(2.0, 1.0, 0.5)), 6)
    0.632121
    """
    a, b, x = operands(a, b, x)
    return gammainc(b, _rising(a, x))


def gdtrc(a: Any, b: Any, x: Any) -> Any:
    """Return 1 - gdtr(a, b, x).

    >>> round(float(gdtrc(2.0, 1.0, 0.5)), 6)
    0.367879
    """
    a, b, x = operands(a, b, x)
    return gammaincc(b, _rising(a, x))


def _rising(a: Any, x: Any) -> Any:
    """a x, and NaN where one of them is negative."""
    return where((a < 0) | (x < 0), math.nan, a * x)


def gdtrix(a: Any, b: Any, p: Any) -> Any:
    """Return the x for which gdtr(a, b, x) is p.

    >>> round(float(gdtrix(2.0, 1.0, 0.5)), 6)
    0.346574
    """
    a, b, p = operands(a, b, p)
    return gammaincinv(b, p) / where(a > 0, a, math.nan)


def fdtr(dfn: Any, dfd: Any, x: Any) -> Any:
    """Return the distribution function of the F distribution.

    >>> round(float(fdtr(2.0, 2.0, 1.0)), 6)
    0.5
    """
    dfn, dfd, x = operands(dfn, dfd, x)
    x = where(x < 0, math.nan, x)
    is_endless = x == math.inf
    x = where(is_endless, 1.0, x)
    share, rest = dfn * x / (dfd + dfn * x), dfd / (dfd + dfn * x)
    # Of a share near 1 the rest has more digits.
    is_low = share < 0.5
    below = betainc(0.5 * dfn, 0.5 * dfd, where(is_low, share, 0.5))
    y = where(is_low, below, 1 - betainc(0.5 * dfd, 0.5 * dfn, where(is_low, 0.5, rest)))
    return where(is_endless & (dfn > 0) & (dfd > 0), 1.0, y)


def fdtrc(dfn: Any, dfd: Any, x: Any) -> Any:
    """Return 1 - fdtr(dfn, dfd, x).

    >>> round(float(fdtrc(2.0, 2.0, 1.0)), 6)
    0.5
    """
    dfn, dfd, x = operands(dfn, dfd, x)
    x = where(x < 0, math.nan, x)
    is_endless = x == math.inf
    x = where(is_endless, 1.0, x)
    y = betainc(0.5 * dfd, 0.5 * dfn, dfd / (dfd + dfn * x))
    return where(is_endless & (dfn > 0) & (dfd > 0), 0.0, y)


def fdtri(dfn: Any, dfd: Any, p: Any) -> Any:
    """Return the x for which fdtr(dfn, dfd, x) is p.

    >>> round(float(fdtri(2.0, 2.0, 0.5)), 6)
    1.0
    """
    dfn, dfd, p = operands(dfn, dfd, p)
    share, rest = betaincinv(0.5 * dfn, 0.5 * dfd, p), betaincinv(0.5 * dfd, 0.5 * dfn, 1 - p)
    is_low = share < 0.5
    below = where(is_low, 1 - share, rest)
    odds = where(is_low, share, 1 - rest) / where(below == 0, 1.0, below)
    return where(below == 0, math.inf, dfd / dfn * odds) + 0.0 * share


def far_from_normal(df: Any) -> tuple[Any, Any, Any]:
    """Return where there are so many degrees of freedom that the share of df is nearly 1.

    With it come df for the others (1 there), and df for these (many elsewhere).

    >>> far_from_normal(operands([3.0, 1e9])[0])[0].tolist()
    [False, True]
    """
    is_normal = df > (1e6 if numpy_dtype_of(df) == np.float64 else 1e3)
    return is_normal, where(is_normal, 1.0, df), where(is_normal, df, 1e6)


def nearly_normal(x: Any, df: Any) -> Any:
    """Return the distribution function of Student's t with many degrees of freedom.

    It is that of the normal at the z of Hill (1970), Algorithm 395, with the first correction:
    w + (w³ + 3w) / (48 a²) for w² = a log(1 + x² / df) and a = df - 1/2.

    >>> round(float(nearly_normal(*operands(-1.0, math.inf))), 9)
    0.158655254
    """
    is_endless = df == math.inf
    df = where(is_endless, 1.0, df)
    # Nothing is left beyond these.
    x = minimum(maximum(x, -1e8), 1e8)
    # The root of log(1 + x²/df) over x²/df is smooth at 0, unlike that of the logarithm.
    share = where(is_endless, 0.0, x * x / df)
    w = x * sqrt(where(is_endless, 1.0, (df - 0.5) / df) * log1p_ratio(share))
    correction = w * (w * w + 3) / (48 * (df - 0.5) ** 2)
    return ndtr(w + where(is_endless, 0.0, correction))


def normal_quantile(p: Any, df: Any) -> Any:
    """Return the quantile of Student's t with many degrees of freedom, by a series in 1 / df.

    >>> round(float(normal_quantile(*operands(0.8413447460685429, math.inf))), 9)
    1.0
    """
    z, rest = ndtri(p), 1 / df
    square = z * z
    first, second = square + 1, (5 * square + 16) * square + 3
    return z * (1 + rest * (first / 4 + rest * second / 96))


def stdtr(df: Any, t: Any) -> Any:
    """Return the distribution function of Student's t.

    >>> round(float(stdtr(1.0, 1.0)), 6)
    0.75
    """
    df, t = broadcast_arrays(*operands(df, t))
    return with_slopes(_stdtr, _t_density, (df,), t)


def _stdtr(df: Any, t: Any) -> Any:
    is_normal, df, many = far_from_normal(df)
    square = t * t
    # Near 0 and far out the halves are small in different ways.
    is_near = square < minimum(df, 1.0)
    tail = 0.5 * betainc(0.5 * df, 0.0 * df + 0.5, df / (df + where(is_near, df, square)))
    inside = where(is_near, square, df)
    near = 0.5 * betainc(0.0 * df + 0.5, 0.5 * df, inside / (inside + df))
    near = where(t > 0, 0.5 + near, 0.5 - near)
    y = where(is_near, near, where(t > 0, 1 - tail, tail))
    return where(is_normal, nearly_normal(t, many), y)


def t_log_density(t: Any, df: Any) -> Any:
    """Return the logarithm of the density of Student's t; endless df make it the normal.

    >>> round(float(t_log_density(*operands(0.0, 1.0))), 6) == round(-math.log(math.pi), 6)
    True
    """
    is_endless = df == math.inf
    df = where(is_endless, 1.0, df)
    y = t_log_peak(df) - 0.5 * (df + 1) * log1p(t * t / df)
    return where(is_endless, -0.5 * (t * t + math.log(2 * math.pi)), y)


def t_log_peak(df: Any) -> Any:
    """Return the logarithm of the density at 0.

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
    return with_slopes(_stdtrit, lambda df, p: 1 / _t_density(df, stdtrit(df, p)), (df,), p)


def _stdtrit(df: Any, p: Any) -> Any:
    is_normal, df, many = far_from_normal(df)
    tail = 2 * minimum(p, 1 - p)
    is_tail = tail < 0.5
    far = betaincinv(0.5 * df, 0.0 * df + 0.5, where(is_tail, tail, 0.25))
    near = betaincinv(0.0 * df + 0.5, 0.5 * df, where(is_tail | (tail == 1), 0.5, 1 - tail))
    below = where(is_tail, far, 1 - near)
    square = where(is_tail, 1 - far, near) / where(below == 0, 1.0, below)
    size = where(below == 0, math.inf, sqrt(df * square))
    y = where(tail == 1, 0.0, where(p < 0.5, 0.0 - size, size))
    y = where(is_normal, normal_quantile(p, many), y)
    return where(df > 0, y, math.nan)
