"""Special functions for NumPy arrays, without SciPy.

Each kernel takes arrays that broadcast, float16 to float64 (bfloat16 where ml_dtypes is loaded) or
integers, and returns an array of the widest floating dtype it was given.
"""

from __future__ import annotations

from tapegrad_numpy.kernels.special import (
    bessel,
    bessel_modified,
    error,
    gamma,
    incomplete_beta,
    incomplete_gamma,
    integrals,
)
from tapegrad_numpy.kernels.special.blocks import Formula, elementwise

__all__ = ["KERNELS"]

_FORMULAS: dict[str, Formula] = {
    "erfc": error.erfc,
    "erfcx": error.erfcx,
    "erfinv": error.erfinv,
    "erfcinv": error.erfcinv,
    "ndtr": error.ndtr,
    "ndtri": error.ndtri,
    "log_ndtr": error.log_ndtr,
    "lgamma": gamma.lgamma,
    "digamma": gamma.digamma,
    "polygamma": gamma.polygamma,
    "zeta": gamma.zeta,
    "lbeta": gamma.lbeta,
    "igamma": incomplete_gamma.igamma,
    "igammac": incomplete_gamma.igammac,
    "igamma_grad_a": incomplete_gamma.igamma_grad_a,
    "random_gamma_grad": incomplete_gamma.random_gamma_grad,
    "betainc": incomplete_beta.betainc,
    "bessel_i0": bessel_modified.i0,
    "bessel_i1": bessel_modified.i1,
    "bessel_i0e": bessel_modified.i0e,
    "bessel_i1e": bessel_modified.i1e,
    "bessel_j0": bessel.j0,
    "bessel_j1": bessel.j1,
    "bessel_y0": bessel.y0,
    "bessel_y1": bessel.y1,
    "bessel_k0": bessel_modified.k0,
    "bessel_k1": bessel_modified.k1,
    "bessel_k0e": bessel_modified.k0e,
    "bessel_k1e": bessel_modified.k1e,
    "dawsn": integrals.dawsn,
    "expint": integrals.expint,
    "spence": integrals.spence,
    "fresnel_sin": integrals.fresnel_sin,
    "fresnel_cos": integrals.fresnel_cos,
}

KERNELS: dict[str, Formula] = {
    "erf": elementwise(error.erf, error.erf32),
    **{name: elementwise(formula) for name, formula in _FORMULAS.items()},
}
