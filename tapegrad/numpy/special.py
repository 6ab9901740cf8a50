"""Special functions under SciPy's names, for the Array API dispatch of `scipy.special`.

Python floats and integers become float64. The derivative rules are those of `tapegrad.ops`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tapegrad import special_functions as composed
from tapegrad.core.checked_calls import check_calls as _check_calls
from tapegrad.numpy.ufuncs import Binary, Unary
from tapegrad.numpy.values import as_arrays, floating
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

erf = _unary(composed.erf)
erfc = _unary(composed.erfc)
erfcx = _unary(composed.erfcx)
erfinv = _unary(composed.erfinv)
erfcinv = _unary(composed.erfcinv)
ndtr = _unary(composed.ndtr)
ndtri = _unary(composed.ndtri)
log_ndtr = _unary(composed.log_ndtr)
dawsn = _unary(composed.dawsn)
logit = _unary(composed.logit)
expit = _unary(composed.expit)
log_expit = _unary(composed.log_expit)

# Gamma and beta functions

gammaln = _unary(composed.gammaln)
loggamma = _unary(composed.loggamma)
gammasgn = _unary(composed.gammasgn)
gamma = _unary(composed.gamma)
rgamma = _unary(composed.rgamma)
digamma = psi = _unary(composed.psi, "psi")
polygamma = _binary(composed.polygamma)
zeta = _binary(composed.zeta)
betaln = _binary(composed.betaln)
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

j0 = _unary(composed.j0)
j1 = _unary(composed.j1)
y0 = _unary(composed.y0)
y1 = _unary(composed.y1)
i0 = _unary(composed.i0)
i1 = _unary(composed.i1)
i0e = _unary(composed.i0e)
i1e = _unary(composed.i1e)
k0 = _unary(composed.k0)
k1 = _unary(composed.k1)
k0e = _unary(composed.k0e)
k1e = _unary(composed.k1e)

# Integrals, entropies and functions that are defined at zero

expi = _unary(composed.expi)
spence = _unary(composed.spence)
exp1 = _unary(composed.exp1)
entr = _unary(composed.entr)
xlogy = _binary(composed.xlogy)
xlog1py = _binary(composed.xlog1py)
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

_check_calls(globals(), __all__)
