"""Distribution functions and other smaller functions under SciPy's names; see `special`.

They rest on the incomplete beta and gamma functions, which are differentiable in all arguments.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from tapegrad.ops import exponential, magnitude, powers, rounding, selection, trigonometric
from tapegrad.ops import special as primitives
from tapegrad.ops.selection import where
from tapegrad.ops.special import lgamma
from tapegrad.scipy.operands import operands
from tapegrad.scipy.special import (
    betainc,
    betaincinv,
    gammainc,
    gammaincc,
    gammainccinv,
    gammaincinv,
)

Function = Callable[..., Any]


def _named(name: str, function: Function) -> Function:
    """A function of numbers as one of arrays, with SciPy's name."""

    def call(*args: Any) -> Any:
        return function(*operands(*args))

    call.__name__ = call.__qualname__ = name
    call.__doc__ = f"Compute scipy.special.{name} of each element."
    return call


# Powers and angles

exp2 = _named("exp2", exponential.exp2)
exp10 = _named("exp10", lambda x: exponential.exp(math.log(10.0) * x))
expm1 = _named("expm1", exponential.expm1)
log1p = _named("log1p", exponential.log1p)
cbrt = _named("cbrt", powers.cbrt)
sinc = _named("sinc", trigonometric.sinc)
cosm1 = _named("cosm1", lambda x: -2.0 * powers.square(trigonometric.sin(x / 2.0)))
radian = _named("radian", lambda d, m, s: trigonometric.deg2rad(d + m / 60.0 + s / 3600.0))
sindg = _named("sindg", lambda x: trigonometric.sin(trigonometric.deg2rad(x)))
cosdg = _named("cosdg", lambda x: trigonometric.cos(trigonometric.deg2rad(x)))
tandg = _named("tandg", lambda x: trigonometric.tan(trigonometric.deg2rad(x)))
cotdg = _named("cotdg", lambda x: 1.0 / trigonometric.tan(trigonometric.deg2rad(x)))


def _exprel(x: Any) -> Any:
    """(exp(x) - 1) / x, near 0 by its series."""
    is_small = magnitude.abs(x) < 1e-5
    safe = where(is_small, 1.0, x)
    return where(is_small, 1.0 + x / 2.0 + x * x / 6.0, exponential.expm1(safe) / safe)


exprel = _named("exprel", _exprel)


def _inv_boxcox(y: Any, power: Any) -> Any:
    safe = where(power == 0, 1.0, power)
    return where(
        power == 0, exponential.exp(y), exponential.exp(exponential.log1p(safe * y) / safe)
    )


def _inv_boxcox1p(y: Any, power: Any) -> Any:
    safe = where(power == 0, 1.0, power)
    return where(
        power == 0, exponential.expm1(y), exponential.expm1(exponential.log1p(safe * y) / safe)
    )


inv_boxcox = _named("inv_boxcox", _inv_boxcox)
inv_boxcox1p = _named("inv_boxcox1p", _inv_boxcox1p)


def _huber(delta: Any, r: Any) -> Any:
    size = magnitude.abs(r)
    inside = selection.minimum(size, delta)
    return where(delta < 0, math.inf, inside * (size - 0.5 * inside))


def _pseudo_huber(delta: Any, r: Any) -> Any:
    ratio = r / where(delta == 0, 1.0, delta)
    height = powers.square(delta) * (powers.sqrt(1.0 + powers.square(ratio)) - 1.0)
    return where(delta < 0, math.inf, where(delta == 0, 0.0, height))


huber = _named("huber", _huber)
pseudo_huber = _named("pseudo_huber", _pseudo_huber)
binom = _named(
    "binom",
    lambda n, k: exponential.exp(lgamma(n + 1.0) - lgamma(k + 1.0) - lgamma(n - k + 1.0)),
)
zetac = _named("zetac", lambda x: primitives.zeta(x, x * 0.0 + 1.0) - 1.0)

# Distribution functions

betaincc = _named("betaincc", lambda a, b, x: betainc(b, a, 1.0 - x))
chdtr = _named("chdtr", lambda v, x: gammainc(v / 2.0, x / 2.0))
chdtrc = _named("chdtrc", lambda v, x: gammaincc(v / 2.0, x / 2.0))
chdtri = _named("chdtri", lambda v, p: 2.0 * gammainccinv(v / 2.0, p))
gdtr = _named("gdtr", lambda a, b, x: gammainc(b, a * x))
gdtrc = _named("gdtrc", lambda a, b, x: gammaincc(b, a * x))
gdtrix = _named("gdtrix", lambda a, b, p: gammaincinv(b, p) / a)
pdtr = _named("pdtr", lambda k, m: gammaincc(rounding.floor(k) + 1.0, m))
pdtrc = _named("pdtrc", lambda k, m: gammainc(rounding.floor(k) + 1.0, m))


def _fdtr(dfn: Any, dfd: Any, x: Any) -> Any:
    return betainc(dfn / 2.0, dfd / 2.0, dfn * x / (dfd + dfn * x))


def _fdtrc(dfn: Any, dfd: Any, x: Any) -> Any:
    return betainc(dfd / 2.0, dfn / 2.0, dfd / (dfd + dfn * x))


def _fdtri(dfn: Any, dfd: Any, p: Any) -> Any:
    share = betaincinv(dfn / 2.0, dfd / 2.0, p)
    return dfd * share / (dfn * (1.0 - share))


fdtr = _named("fdtr", _fdtr)
fdtrc = _named("fdtrc", _fdtrc)
fdtri = _named("fdtri", _fdtri)


def _stdtr(df: Any, t: Any) -> Any:
    """Student's t: the half beyond |t|, from whichever side is the smaller."""
    square = t * t
    tail = 0.5 * betainc(df / 2.0, 0.5 + 0.0 * df, df / (df + square))
    near = 0.5 * betainc(0.5 + 0.0 * df, df / 2.0, square / (df + square))
    is_near = square < df
    half = where(is_near, 0.5 - near, tail)
    return where(t > 0, 1.0 - half, half)


stdtr = _named("stdtr", _stdtr)


def _bdtr(k: Any, n: Any, p: Any) -> Any:
    whole = rounding.floor(k)
    return betainc(n - whole, whole + 1.0, 1.0 - p)


def _bdtrc(k: Any, n: Any, p: Any) -> Any:
    whole = rounding.floor(k)
    return betainc(whole + 1.0, n - whole, p)


bdtr = _named("bdtr", _bdtr)
bdtrc = _named("bdtrc", _bdtrc)
nbdtr = _named("nbdtr", lambda k, n, p: betainc(n, rounding.floor(k) + 1.0, p))
nbdtrc = _named("nbdtrc", lambda k, n, p: betainc(rounding.floor(k) + 1.0, n, 1.0 - p))

NAMES = (
    *("bdtr", "bdtrc", "betaincc", "binom", "cbrt", "chdtr", "chdtrc", "chdtri", "cosdg", "cosm1"),
    *("cotdg", "exp10", "exp2", "expm1", "exprel", "fdtr", "fdtrc", "fdtri", "gdtr", "gdtrc"),
    *("gdtrix", "huber", "inv_boxcox", "inv_boxcox1p", "log1p", "nbdtr", "nbdtrc", "pdtr", "pdtrc"),
    *("pseudo_huber", "radian", "sinc", "sindg", "stdtr", "tandg", "zetac"),
)
