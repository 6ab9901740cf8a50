"""Special functions under SciPy's names: what `scipy.special` looks for in a namespace.

Python's floats and integers give float64. The rules are those of `tapegrad.ops`. Distribution
functions and what only `tapegrad.scipy.special` has are found here as well.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from tapegrad.numpy.ufuncs import Binary, Unary
from tapegrad.numpy.values import as_arrays, floating
from tapegrad.ops import bessel, exponential, reduction, sigmoids, special
from tapegrad.ops import logsumexp as sums
from tapegrad.ops import softmax as shares
from tapegrad.ops.creation import zeros_like
from tapegrad.ops.magnitude import abs as absolute
from tapegrad.ops.rounding import floor
from tapegrad.ops.selection import where
from tapegrad.ops.special import lgamma
from tapegrad.scipy import special as scipys
from tapegrad.scipy.special.incomplete import betainc, gammainc, gammaincc


def _unary(name: str, function: Callable[[Any], Any]) -> Unary:
    return Unary(name, lambda x: function(floating(x)), module=__name__)


def _binary(name: str, function: Callable[[Any, Any], Any]) -> Binary:
    def call(x1: Any, x2: Any) -> Any:
        return function(*as_arrays([floating(x1), floating(x2)]))

    return Binary(name, call, module=__name__)


# The normal distribution and the error function

erf = _unary("erf", special.erf)
erfc = _unary("erfc", special.erfc)
erfcx = _unary("erfcx", special.erfcx)
erfinv = _unary("erfinv", special.erfinv)
erfcinv = _unary("erfcinv", special.erfcinv)
ndtr = _unary("ndtr", special.ndtr)
ndtri = _unary("ndtri", special.ndtri)
log_ndtr = _unary("log_ndtr", special.log_ndtr)
dawsn = _unary("dawsn", special.dawsn)
logit = _unary("logit", sigmoids.logit)
expit = _unary("expit", sigmoids.sigmoid)
log_expit = _unary("log_expit", sigmoids.log_sigmoid)

# Gamma and beta functions


def _gammasgn(x: Any) -> Any:
    """The sign of the gamma function: it changes at each negative integer."""
    odd = floor(x) - 2.0 * floor(floor(x) / 2.0)
    at_pole = (x < 0) & (floor(x) == x)
    sign = where((x < 0) & (odd == 1.0), -1.0, zeros_like(x) + 1.0)
    return where(at_pole, math.nan, where(x == -math.inf, math.nan, sign))


def _gamma(x: Any) -> Any:
    return _gammasgn(x) * exponential.exp(lgamma(x))


def _rgamma(x: Any) -> Any:
    at_pole = (x <= 0) & (floor(x) == x)
    safe = where(at_pole, 1.0, x)
    return where(at_pole, 0.0, _gammasgn(safe) * exponential.exp(-lgamma(safe)))


gammaln = _unary("gammaln", lgamma)
loggamma = _unary("loggamma", lgamma)
gammasgn = _unary("gammasgn", _gammasgn)
gamma = _unary("gamma", _gamma)
rgamma = _unary("rgamma", _rgamma)
digamma = psi = _unary("psi", special.digamma)
polygamma = _binary("polygamma", special.polygamma)
zeta = _binary("zeta", special.zeta)
betaln = _binary("betaln", special.betaln)
beta = _binary(
    "beta",
    lambda a, b: (
        _gammasgn(a) * _gammasgn(b) * _gammasgn(a + b) * exponential.exp(special.betaln(a, b))
    ),
)
poch = _binary("poch", lambda z, m: exponential.exp(lgamma(z + m) - lgamma(z)))


def multigammaln(a: Any, d: int) -> Any:
    """Return the logarithm of the multivariate gamma function.

    >>> multigammaln(2.0, 1).tolist()
    0.0
    """
    a = floating(a)
    result = zeros_like(a) + d * (d - 1) / 4 * math.log(math.pi)
    for k in range(int(d)):
        result = result + lgamma(a - k / 2)
    return result


def factorial(n: Any, exact: bool = False) -> Any:
    """Return 1 · 2 · ... · n, as floating numbers.

    >>> factorial([3.0]).round(6).tolist()
    [6.0]
    """
    x = floating(n)
    return where(x < 0, 0.0, _gamma(where(x < 0, 1.0, x) + 1.0))


def comb(N: Any, k: Any, *, exact: bool = False, repetition: bool = False) -> Any:
    """Return in how many ways `k` of `N` things can be chosen.

    >>> comb(4.0, 2.0).round(6).tolist()
    6.0
    """
    n, k = as_arrays([floating(N), floating(k)])
    n = n + k - 1 if repetition else n
    inside = (k >= 0) & (k <= n) & (n >= 0)
    n, k = where(inside, n, 1.0), where(inside, k, 1.0)
    return where(inside, exponential.exp(lgamma(n + 1) - lgamma(k + 1) - lgamma(n - k + 1)), 0.0)


# Bessel functions

j0 = _unary("j0", bessel.bessel_j0)
j1 = _unary("j1", bessel.bessel_j1)
y0 = _unary("y0", bessel.bessel_y0)
y1 = _unary("y1", bessel.bessel_y1)
i0 = _unary("i0", bessel.bessel_i0)
i1 = _unary("i1", bessel.bessel_i1)
i0e = _unary("i0e", bessel.bessel_i0e)
i1e = _unary("i1e", bessel.bessel_i1e)
k0 = _unary("k0", bessel.bessel_k0)
k1 = _unary("k1", bessel.bessel_k1)
k0e = _unary("k0e", bessel.bessel_k0e)
k1e = _unary("k1e", bessel.bessel_k1e)

# Integrals, entropies and what is careful at zero

expi = _unary("expi", special.expint)
spence = _unary("spence", special.spence)
exp1 = _unary("exp1", lambda x: -special.expint(-x))
entr = _unary("entr", lambda x: where(x < 0, -math.inf, special.entr(where(x < 0, 1.0, x))))
xlogy = _binary("xlogy", exponential.xlogy)
xlog1py = _binary("xlog1py", exponential.xlog1py)


def _rel_entr(x: Any, y: Any) -> Any:
    inside = (x > 0) & (y > 0)
    ratio = where(inside, x, 1.0) / where(inside, y, 1.0)
    zero = (x == 0) & (y >= 0)
    return where(inside, x * exponential.log(ratio), where(zero, 0.0, zeros_like(x) + math.inf))


rel_entr = _binary("rel_entr", _rel_entr)
kl_div = _binary("kl_div", lambda x, y: _rel_entr(x, y) - x + y)


def fresnel(z: Any) -> tuple[Any, Any]:
    """Return the Fresnel integrals S(z) and C(z).

    >>> [part.tolist() for part in fresnel(0.0)]
    [0.0, 0.0]
    """
    x = floating(z)
    return special.fresnel_sin(x), special.fresnel_cos(x)


def boxcox(x: Any, lmbda: Any, /) -> Any:
    """Return (x ** lmbda - 1) / lmbda, and log(x) where lmbda is 0.

    >>> boxcox(4.0, 0.5).tolist()
    2.0
    """
    x, power = as_arrays([floating(x), floating(lmbda)])
    safe = where(power == 0, 1.0, power)
    logarithm = exponential.log(x)
    return where(power == 0, logarithm, exponential.expm1(safe * logarithm) / safe)


def boxcox1p(x: Any, lmbda: Any, /) -> Any:
    """Return `boxcox` of 1 + x.

    >>> boxcox1p(3.0, 0.5).tolist()
    2.0
    """
    return boxcox(floating(x) + 1.0, lmbda)


# Over axes


def softmax(x: Any, axis: Any = None) -> Any:
    """Return exp(x) / sum(exp(x)) over axes (None: all).

    >>> softmax([0.0, 0.0]).tolist()
    [0.5, 0.5]
    """
    x = floating(x)
    if isinstance(axis, int):
        return shares.softmax(x, axis)
    return exponential.exp(x - sums.logsumexp(x, axis, True))


def log_softmax(x: Any, axis: Any = None) -> Any:
    """Return the logarithm of `softmax`.

    >>> log_softmax([0.0, 0.0]).round(4).tolist()
    [-0.6931, -0.6931]
    """
    x = floating(x)
    if isinstance(axis, int):
        return shares.log_softmax(x, axis)
    return x - sums.logsumexp(x, axis, True)


def logsumexp(
    a: Any, axis: Any = None, b: Any = None, keepdims: bool = False, return_sign: bool = False
) -> Any:
    """Return log(sum(b exp(a))) over axes without overflow; with its sign if asked.

    >>> logsumexp([0.0, 0.0]).round(4).tolist()
    0.6931
    """
    x = floating(a)
    if b is None and not return_sign:
        return sums.logsumexp(x, axis, keepdims)
    weights = zeros_like(x) + 1.0 if b is None else floating(b) + zeros_like(x)
    top = reduction.max(where(weights == 0, -math.inf, x), axis, True)
    shift = where(absolute(top) == math.inf, 0.0, top)
    total = reduction.sum(weights * exponential.exp(x - shift), axis, keepdims)
    kept = shift if keepdims else reduction.sum(shift, axis)
    size = exponential.log(absolute(total)) + kept
    if not return_sign:
        return where(total < 0, math.nan, size)
    return size, where(total < 0, -1.0, where(total > 0, 1.0, zeros_like(total)))


def __getattr__(name: str) -> Any:
    if name in scipys.__all__:
        return getattr(scipys, name)
    raise AttributeError(f"tapegrad.numpy.special has no function {name!r}.")


__all__ = [
    "beta",
    "betainc",
    "betaln",
    "boxcox",
    "boxcox1p",
    "comb",
    "dawsn",
    "digamma",
    "entr",
    "erf",
    "erfc",
    "erfcinv",
    "erfcx",
    "erfinv",
    "exp1",
    "expi",
    "expit",
    "factorial",
    "fresnel",
    "gamma",
    "gammainc",
    "gammaincc",
    "gammaln",
    "gammasgn",
    "i0",
    "i0e",
    "i1",
    "i1e",
    "j0",
    "j1",
    "k0",
    "k0e",
    "k1",
    "k1e",
    "kl_div",
    "log_expit",
    "log_ndtr",
    "log_softmax",
    "loggamma",
    "logit",
    "logsumexp",
    "multigammaln",
    "ndtr",
    "ndtri",
    "poch",
    "polygamma",
    "psi",
    "rel_entr",
    "rgamma",
    "softmax",
    "spence",
    "xlog1py",
    "xlogy",
    "y0",
    "y1",
    "zeta",
]
