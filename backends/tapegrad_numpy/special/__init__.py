"""Special functions for NumPy arrays, without SciPy.

Each kernel takes arrays that broadcast, float16 to float64 (bfloat16 where ml_dtypes is loaded) or
integers, and returns an array of the widest floating dtype it was given.
"""

from __future__ import annotations

from tapegrad_numpy.special import (
    bessel,
    bessel_modified,
    error,
    gamma,
    incomplete_beta,
    incomplete_gamma,
    integrals,
)
from tapegrad_numpy.special.blocks import Formula, elementwise

__all__ = ["KERNELS"]

KERNELS: dict[str, Formula] = {
    "erf": elementwise(error.erf, error.erf32),
    "erfc": elementwise(error.erfc),
    "erfcx": elementwise(error.erfcx),
    "erfinv": elementwise(error.erfinv),
    "erfcinv": elementwise(error.erfcinv),
    "ndtr": elementwise(error.ndtr),
    "ndtri": elementwise(error.ndtri),
    "log_ndtr": elementwise(error.log_ndtr),
    "lgamma": elementwise(gamma.lgamma),
    "digamma": elementwise(gamma.digamma),
    "polygamma": elementwise(gamma.polygamma),
    "zeta": elementwise(gamma.zeta),
    "lbeta": elementwise(gamma.lbeta),
    "igamma": elementwise(incomplete_gamma.igamma),
    "igammac": elementwise(incomplete_gamma.igammac),
    "igamma_grad_a": elementwise(incomplete_gamma.igamma_grad_a),
    "random_gamma_grad": elementwise(incomplete_gamma.random_gamma_grad),
    "betainc": elementwise(incomplete_beta.betainc),
    "bessel_i0": elementwise(bessel_modified.i0),
    "bessel_i1": elementwise(bessel_modified.i1),
    "bessel_i0e": elementwise(bessel_modified.i0e),
    "bessel_i1e": elementwise(bessel_modified.i1e),
    "bessel_j0": elementwise(bessel.j0),
    "bessel_j1": elementwise(bessel.j1),
    "bessel_y0": elementwise(bessel.y0),
    "bessel_y1": elementwise(bessel.y1),
    "bessel_k0": elementwise(bessel_modified.k0),
    "bessel_k1": elementwise(bessel_modified.k1),
    "bessel_k0e": elementwise(bessel_modified.k0e),
    "bessel_k1e": elementwise(bessel_modified.k1e),
    "dawsn": elementwise(integrals.dawsn),
    "expint": elementwise(integrals.expint),
    "spence": elementwise(integrals.spence),
    "fresnel_sin": elementwise(integrals.fresnel_sin),
    "fresnel_cos": elementwise(integrals.fresnel_cos),
}
