"""Special functions under SciPy's names, for the Array API dispatch of `scipy.special`.

Python floats and integers become float64. The derivative rules are those of `tapegrad.ops`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tapegrad import special_functions as composed
from tapegrad.numpy.ufuncs import Binary, Unary
from tapegrad.numpy.values import as_arrays, floating
from tapegrad.ops.elementwise import bessel, exponential, sigmoids, special_functions as special
from tapegrad.ops.elementwise.special_functions import lgamma
from tapegrad.special_functions import (
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


def _unary(function: Callable[[Any], Any], name: str = "") -> Unary:
    return Unary(name or function.__name__, lambda x: function(floating(x)), module=__name__)


def _binary(function: Callable[[Any, Any], Any]) -> Binary:
    def call(x1: Any, x2: Any) -> Any:
        return function(*as_arrays([floating(x1), floating(x2)]))

    return Binary(function.__name__, call, module=__name__)


# The normal distribution and the error function

erf = _unary(special.erf)
erfc = _unary(special.erfc)
erfcx = _unary(special.erfcx)
erfinv = _unary(special.erfinv)
erfcinv = _unary(special.erfcinv)
ndtr = _unary(special.ndtr)
ndtri = _unary(special.ndtri)
log_ndtr = _unary(special.log_ndtr)
dawsn = _unary(special.dawsn)
logit = _unary(sigmoids.logit)
expit = _unary(sigmoids.sigmoid, "expit")
log_expit = _unary(sigmoids.log_sigmoid, "log_expit")

# Gamma and beta functions

gammaln = _unary(lgamma, "gammaln")
loggamma = _unary(lgamma, "loggamma")
gammasgn = _unary(composed.gammasgn)
gamma = _unary(composed.gamma)
rgamma = _unary(composed.rgamma)
digamma = psi = _unary(special.digamma, "psi")
polygamma = _binary(special.polygamma)
zeta = _binary(special.zeta)
betaln = _binary(special.betaln)
beta = _binary(composed.beta)
poch = _binary(composed.poch)


def comb(N: Any, k: Any, *, exact: bool = False, repetition: bool = False) -> Any:
    """Return the number of ways to choose `k` of `N` items.

    >>> comb(4.0, 2.0).round(6).tolist()
    6.0
    """
    n, k = (N, k) if exact else as_arrays([floating(N), floating(k)])
    return composed.comb(n, k, exact=exact, repetition=repetition)


# Bessel functions

j0 = _unary(bessel.bessel_j0, "j0")
j1 = _unary(bessel.bessel_j1, "j1")
y0 = _unary(bessel.bessel_y0, "y0")
y1 = _unary(bessel.bessel_y1, "y1")
i0 = _unary(bessel.bessel_i0, "i0")
i1 = _unary(bessel.bessel_i1, "i1")
i0e = _unary(bessel.bessel_i0e, "i0e")
i1e = _unary(bessel.bessel_i1e, "i1e")
k0 = _unary(bessel.bessel_k0, "k0")
k1 = _unary(bessel.bessel_k1, "k1")
k0e = _unary(bessel.bessel_k0e, "k0e")
k1e = _unary(bessel.bessel_k1e, "k1e")

# Integrals, entropies and functions that are defined at zero

expi = _unary(special.expint, "expi")
spence = _unary(special.spence)
exp1 = _unary(composed.exp1)
entr = _unary(composed.entr)
xlogy = _binary(exponential.xlogy)
xlog1py = _binary(exponential.xlog1py)
rel_entr = _binary(composed.rel_entr)
kl_div = _binary(composed.kl_div)
boxcox = _binary(composed.boxcox)
boxcox1p = _binary(composed.boxcox1p)


def __getattr__(name: str) -> Any:
    if name in composed.__all__:
        return getattr(composed, name)
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
