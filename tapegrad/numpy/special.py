"""Special functions under SciPy's names: what `scipy.special` looks for in a namespace.

Python's floats and integers give float64. The rules are those of `tapegrad.ops`. Distribution
functions and what only `tapegrad.scipy.special` has are found here as well.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tapegrad.numpy.ufuncs import Binary, Unary
from tapegrad.numpy.values import as_arrays, floating
from tapegrad.ops import bessel, exponential, sigmoids, special
from tapegrad.ops.special import lgamma
from tapegrad.scipy import special as scipys
from tapegrad.scipy.special import (
    betainc,
    factorial,
    fresnel,
    gammainc,
    gammaincc,
    log_softmax,
    logsumexp,
    multigammaln,
    softmax,
)


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

gammaln = _unary("gammaln", lgamma)
loggamma = _unary("loggamma", lgamma)
gammasgn = _unary("gammasgn", scipys.gammasgn)
gamma = _unary("gamma", scipys.gamma)
rgamma = _unary("rgamma", scipys.rgamma)
digamma = psi = _unary("psi", special.digamma)
polygamma = _binary("polygamma", special.polygamma)
zeta = _binary("zeta", special.zeta)
betaln = _binary("betaln", special.betaln)
beta = _binary("beta", scipys.beta)
poch = _binary("poch", scipys.poch)


def comb(N: Any, k: Any, *, exact: bool = False, repetition: bool = False) -> Any:
    """Return in how many ways `k` of `N` things can be chosen.

    >>> comb(4.0, 2.0).round(6).tolist()
    6.0
    """
    n, k = (N, k) if exact else as_arrays([floating(N), floating(k)])
    return scipys.comb(n, k, exact=exact, repetition=repetition)


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
exp1 = _unary("exp1", scipys.exp1)
entr = _unary("entr", scipys.entr)
xlogy = _binary("xlogy", exponential.xlogy)
xlog1py = _binary("xlog1py", exponential.xlog1py)
rel_entr = _binary("rel_entr", scipys.rel_entr)
kl_div = _binary("kl_div", scipys.kl_div)
boxcox = _binary("boxcox", scipys.boxcox)
boxcox1p = _binary("boxcox1p", scipys.boxcox1p)


def __getattr__(name: str) -> Any:
    if name in scipys.__all__:
        return getattr(scipys, name)
    raise AttributeError(f"tapegrad.numpy.special has no function {name!r}.")


__all__ = [
    "beta", "betainc", "betaln", "boxcox", "boxcox1p", "comb", "dawsn", "digamma", "entr",
    "erf", "erfc", "erfcinv", "erfcx", "erfinv", "exp1", "expi", "expit", "factorial",
    "fresnel", "gamma", "gammainc", "gammaincc", "gammaln", "gammasgn", "i0", "i0e", "i1",
    "i1e", "j0", "j1", "k0", "k0e", "k1", "k1e", "kl_div", "log_expit", "log_ndtr",
    "log_softmax", "loggamma", "logit", "logsumexp", "multigammaln", "ndtr", "ndtri", "poch",
    "polygamma", "psi", "rel_entr", "rgamma", "softmax", "spence", "xlog1py", "xlogy", "y0",
    "y1", "zeta",
]  # fmt: skip
