"""TensorFlow's `tf.math.special` names, and further special functions."""

from tapegrad.core.checked_calls import check_calls as _check_calls
from tapegrad.ops.elementwise.bessel import (
    bessel_i0,
    bessel_i0e,
    bessel_i1,
    bessel_i1e,
    bessel_j0,
    bessel_j1,
    bessel_k0,
    bessel_k0e,
    bessel_k1,
    bessel_k1e,
    bessel_y0,
    bessel_y1,
)
from tapegrad.ops.elementwise.sigmoids import logit
from tapegrad.ops.elementwise.special_functions import (
    betainc,
    dawsn,
    digamma,
    entr,
    erf,
    erfc,
    erfcinv,
    erfcx,
    erfinv,
    expint,
    fresnel_cos,
    fresnel_sin,
    igamma,
    igammac,
    lbeta,
    lgamma,
    log_ndtr,
    ndtr,
    ndtri,
    polygamma,
    spence,
    zeta,
)

__all__ = [
    "bessel_i0", "bessel_i0e", "bessel_i1", "bessel_i1e", "bessel_j0", "bessel_j1", "bessel_k0",
    "bessel_k0e", "bessel_k1", "bessel_k1e", "bessel_y0", "bessel_y1", "betainc", "dawsn",
    "digamma", "entr", "erf", "erfc", "erfcinv", "erfcx", "erfinv", "expint", "fresnel_cos",
    "fresnel_sin", "igamma", "igammac", "lbeta", "lgamma", "log_ndtr", "logit", "ndtr", "ndtri",
    "polygamma", "spence", "zeta",
]  # fmt: skip

_check_calls(globals(), __all__)
