"""Special functions that are primitives of the package, under SciPy's names and dtypes."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from tapegrad.ops import bessel, exponential, sigmoids, special as primitives
from tapegrad.scipy.vocabulary import operands, where


def lifted(function: Callable[..., Any], words: str, name: str = "") -> Callable[..., Any]:
    """Return a function of tensors that also takes Python's numbers, as float64.

    >>> lifted(primitives.erf, "Return the error function.")(0.5).dtype
    <dtype: 'float64'>
    """

    def call(*args: Any) -> Any:
        return function(*operands(*args))

    call.__name__ = call.__qualname__ = name or function.__name__
    call.__doc__ = words
    return call


# The error function and the normal distribution

erf = lifted(primitives.erf, "Return the error function.")
erfc = lifted(primitives.erfc, "Return 1 - erf(x), exact far out.")
erfcx = lifted(primitives.erfcx, "Return exp(x²) erfc(x).")
erfinv = lifted(primitives.erfinv, "Return the inverse of erf.")
erfcinv = lifted(primitives.erfcinv, "Return the inverse of erfc.")
ndtr = lifted(primitives.ndtr, "Return the distribution function of the normal.")
ndtri = lifted(primitives.ndtri, "Return the inverse of ndtr.")
log_ndtr = lifted(primitives.log_ndtr, "Return log(ndtr(x)) without underflow.")

# Gamma and beta functions

gammaln = lifted(primitives.lgamma, "Return log |Γ(x)|.", "gammaln")
digamma = lifted(primitives.digamma, "Return the derivative of gammaln.")
psi = digamma
polygamma = lifted(primitives.polygamma, "Return the n-th derivative of digamma at x.")
betaln = lifted(primitives.betaln, "Return log |B(a, b)|.")

# Bessel functions of order 0 and 1

j0 = lifted(bessel.bessel_j0, "Return the Bessel function J₀.", "j0")
j1 = lifted(bessel.bessel_j1, "Return the Bessel function J₁.", "j1")
y0 = lifted(bessel.bessel_y0, "Return the Bessel function Y₀.", "y0")
y1 = lifted(bessel.bessel_y1, "Return the Bessel function Y₁.", "y1")
i0 = lifted(bessel.bessel_i0, "Return the modified Bessel function I₀.", "i0")
i1 = lifted(bessel.bessel_i1, "Return the modified Bessel function I₁.", "i1")
i0e = lifted(bessel.bessel_i0e, "Return exp(-|x|) I₀(x).", "i0e")
i1e = lifted(bessel.bessel_i1e, "Return exp(-|x|) I₁(x).", "i1e")
k0 = lifted(bessel.bessel_k0, "Return the modified Bessel function K₀.", "k0")
k1 = lifted(bessel.bessel_k1, "Return the modified Bessel function K₁.", "k1")
k0e = lifted(bessel.bessel_k0e, "Return exp(x) K₀(x).", "k0e")
k1e = lifted(bessel.bessel_k1e, "Return exp(x) K₁(x).", "k1e")

# Integrals, sigmoids and products with logarithms

dawsn = lifted(primitives.dawsn, "Return Dawson's integral.")
expi = lifted(primitives.expint, "Return the exponential integral Ei(x).", "expi")
spence = lifted(primitives.spence, "Return Spence's function.")
expit = lifted(sigmoids.sigmoid, "Return 1 / (1 + exp(-x)).", "expit")
logit = lifted(sigmoids.logit, "Return log(x / (1 - x)), the inverse of expit.")
log_expit = lifted(sigmoids.log_sigmoid, "Return log(expit(x)) without underflow.", "log_expit")
exp2 = lifted(exponential.exp2, "Return 2 to the power x.")
expm1 = lifted(exponential.expm1, "Return exp(x) - 1, exact near 0.")
log1p = lifted(exponential.log1p, "Return log(1 + x), exact near 0.")


def _unless_nan(function: Callable[..., Any]) -> Callable[..., Any]:
    """Here 0 times the logarithm of NaN is NaN, unlike in the rest of the package."""
    return lambda x, y: where(y != y, math.nan, function(x, where(y != y, 1.0, y)))


xlogy = lifted(_unless_nan(exponential.xlogy), "Return x log(y), and 0 where x is 0.", "xlogy")
xlog1py = lifted(
    _unless_nan(exponential.xlog1py), "Return x log(1 + y), and 0 where x is 0.", "xlog1py"
)
