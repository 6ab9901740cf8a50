"""Special functions that are primitives, with SciPy's names and dtype promotion."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from tapegrad.ops.casting.promotion import operands
from tapegrad.ops.elementwise import bessel, exponential, sigmoids, special_functions as primitives
from tapegrad.ops.elementwise.selection import where


def wrap_primitive(function: Callable[..., Any], doc: str, name: str = "") -> Callable[..., Any]:
    """Wrap a primitive so that it promotes its arguments: Python numbers become float64.

    >>> wrap_primitive(primitives.erf, "Return the error function.")(0.5).dtype
    <dtype: 'float64'>
    """

    def call(*args: Any) -> Any:
        return function(*operands(*args))

    call.__name__ = call.__qualname__ = name or function.__name__
    call.__doc__ = doc
    return call


# The error function and the normal distribution

erf = wrap_primitive(primitives.erf, "Return the error function.")
erfc = wrap_primitive(primitives.erfc, "Return 1 - erf(x), accurate for large x.")
erfcx = wrap_primitive(primitives.erfcx, "Return exp(x²) erfc(x).")
erfinv = wrap_primitive(primitives.erfinv, "Return the inverse of erf.")
erfcinv = wrap_primitive(primitives.erfcinv, "Return the inverse of erfc.")
ndtr = wrap_primitive(
    primitives.ndtr, "Return the cumulative distribution function of the standard normal."
)
ndtri = wrap_primitive(primitives.ndtri, "Return the inverse of ndtr.")
log_ndtr = wrap_primitive(primitives.log_ndtr, "Return log(ndtr(x)) without underflow.")

# Gamma and beta functions

gammaln = wrap_primitive(primitives.lgamma, "Return log |Γ(x)|.", "gammaln")
polygamma = wrap_primitive(primitives.polygamma, "Return the n-th derivative of digamma at x.")

# Bessel functions of order 0 and 1

j0 = wrap_primitive(bessel.bessel_j0, "Return the Bessel function J₀.", "j0")
j1 = wrap_primitive(bessel.bessel_j1, "Return the Bessel function J₁.", "j1")
y0 = wrap_primitive(bessel.bessel_y0, "Return the Bessel function Y₀.", "y0")
y1 = wrap_primitive(bessel.bessel_y1, "Return the Bessel function Y₁.", "y1")
i0 = wrap_primitive(bessel.bessel_i0, "Return the modified Bessel function I₀.", "i0")
i1 = wrap_primitive(bessel.bessel_i1, "Return the modified Bessel function I₁.", "i1")
i0e = wrap_primitive(bessel.bessel_i0e, "Return exp(-|x|) I₀(x).", "i0e")
i1e = wrap_primitive(bessel.bessel_i1e, "Return exp(-|x|) I₁(x).", "i1e")
k0 = wrap_primitive(bessel.bessel_k0, "Return the modified Bessel function K₀.", "k0")
k1 = wrap_primitive(bessel.bessel_k1, "Return the modified Bessel function K₁.", "k1")
k0e = wrap_primitive(bessel.bessel_k0e, "Return exp(x) K₀(x).", "k0e")
k1e = wrap_primitive(bessel.bessel_k1e, "Return exp(x) K₁(x).", "k1e")

# Integrals, sigmoids and products with logarithms

dawsn = wrap_primitive(primitives.dawsn, "Return Dawson's integral.")
expi = wrap_primitive(primitives.expint, "Return the exponential integral Ei(x).", "expi")
spence = wrap_primitive(primitives.spence, "Return Spence's function.")
expit = wrap_primitive(sigmoids.sigmoid, "Return 1 / (1 + exp(-x)).", "expit")
logit = wrap_primitive(sigmoids.logit, "Return log(x / (1 - x)), the inverse of expit.")
log_expit = wrap_primitive(
    sigmoids.log_sigmoid, "Return log(expit(x)) without underflow.", "log_expit"
)
exp2 = wrap_primitive(exponential.exp2, "Return 2 to the power x.")
expm1 = wrap_primitive(exponential.expm1, "Return exp(x) - 1, accurate near 0.")
log1p = wrap_primitive(exponential.log1p, "Return log(1 + x), accurate near 0.")


def _unless_nan(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return NaN where y is NaN, even for x = 0. The primitive returns 0 there."""
    return lambda x, y: where(y != y, math.nan, function(x, where(y != y, 1.0, y)))


xlogy = wrap_primitive(
    _unless_nan(exponential.xlogy), "Return x log(y), and 0 where x is 0.", "xlogy"
)
xlog1py = wrap_primitive(
    _unless_nan(exponential.xlog1py), "Return x log(1 + y), and 0 where x is 0.", "xlog1py"
)
