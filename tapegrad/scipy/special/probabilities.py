"""Distribution functions under their old names, made of the incomplete beta and gamma functions.

Counts are rounded down and have no derivative; all other arguments have one.
"""

from __future__ import annotations

import math
from typing import Any

from tapegrad.ops.exponential import exp, log, log1p
from tapegrad.ops.powers import sqrt
from tapegrad.ops.rounding import floor
from tapegrad.ops.selection import minimum, where
from tapegrad.ops.shape import broadcast_arrays
from tapegrad.ops.special import lgamma
from tapegrad.scipy.operands import operands
from tapegrad.scipy.special.incomplete import betainc, gammainc, gammaincc
from tapegrad.scipy.special.inverses import betaincinv, gammainccinv, gammaincinv
from tapegrad.scipy.special.slopes import with_slopes


def betaincc(a: Any, b: Any, x: Any) -> Any:
    """Return 1 - betainc(a, b, x), exact where that is small.

    >>> round(float(betaincc(2.0, 3.0, 0.5)), 6)
    0.3125
    """
    a, b, x = operands(a, b, x)
    return betainc(b, a, 1 - x)


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
    return gammainc(b, a * x)


def gdtrc(a: Any, b: Any, x: Any) -> Any:
    """Return 1 - gdtr(a, b, x).

    >>> round(float(gdtrc(2.0, 1.0, 0.5)), 6)
    0.367879
    """
    a, b, x = operands(a, b, x)
    return gammaincc(b, a * x)


def gdtrix(a: Any, b: Any, p: Any) -> Any:
    """Return the x for which gdtr(a, b, x) is p.

    >>> round(float(gdtrix(2.0, 1.0, 0.5)), 6)
    0.346574
    """
    a, b, p = operands(a, b, p)
    return gammaincinv(b, p) / a


def fdtr(dfn: Any, dfd: Any, x: Any) -> Any:
    """Return the distribution function of the F distribution.

    >>> round(float(fdtr(2.0, 2.0, 1.0)), 6)
    0.5
    """
    dfn, dfd, x = operands(dfn, dfd, x)
    return betainc(0.5 * dfn, 0.5 * dfd, dfn * x / (dfd + dfn * x))


def fdtrc(dfn: Any, dfd: Any, x: Any) -> Any:
    """Return 1 - fdtr(dfn, dfd, x).

    >>> round(float(fdtrc(2.0, 2.0, 1.0)), 6)
    0.5
    """
    dfn, dfd, x = operands(dfn, dfd, x)
    return betainc(0.5 * dfd, 0.5 * dfn, dfd / (dfd + dfn * x))


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
    return where(below == 0, math.inf, dfd / dfn * odds)


def stdtr(df: Any, t: Any) -> Any:
    """Return the distribution function of Student's t.

    >>> round(float(stdtr(1.0, 1.0)), 6)
    0.75
    """
    df, t = broadcast_arrays(*operands(df, t))
    return with_slopes(_stdtr, _t_density, (df,), t)


def _stdtr(df: Any, t: Any) -> Any:
    square = t * t
    # Near 0 and far out the halves are small in different ways.
    is_near = square < df
    tail = 0.5 * betainc(0.5 * df, 0.0 * df + 0.5, df / (df + where(is_near, df, square)))
    inside = where(is_near, square, df)
    near = 0.5 * betainc(0.0 * df + 0.5, 0.5 * df, inside / (inside + df))
    near = where(t > 0, 0.5 + near, 0.5 - near)
    return where(is_near, near, where(t > 0, 1 - tail, tail))


def _t_density(df: Any, t: Any) -> Any:
    power = 0.5 * (df + 1)
    scale = lgamma(power) - lgamma(0.5 * df) - 0.5 * log(math.pi * df)
    return exp(scale - power * log1p(t * t / df))


def stdtrit(df: Any, p: Any) -> Any:
    """Return the t for which stdtr(df, t) is p.

    >>> round(float(stdtrit(1.0, 0.75)), 6)
    1.0
    """
    df, p = broadcast_arrays(*operands(df, p))
    return with_slopes(_stdtrit, lambda df, p: 1 / _t_density(df, stdtrit(df, p)), (df,), p)


def _stdtrit(df: Any, p: Any) -> Any:
    tail = 2 * minimum(p, 1 - p)
    is_tail = tail < 0.5
    far = betaincinv(0.5 * df, 0.0 * df + 0.5, where(is_tail, tail, 0.25))
    near = betaincinv(0.0 * df + 0.5, 0.5 * df, where(is_tail | (tail == 1), 0.5, 1 - tail))
    below = where(is_tail, far, 1 - near)
    square = where(is_tail, 1 - far, near) / where(below == 0, 1.0, below)
    size = where(below == 0, math.inf, sqrt(df * square))
    return where(tail == 1, 0.0, where(p < 0.5, 0.0 - size, size))
