"""SciPy's special functions on tensors, with gradients.

Python's numbers are float64 here; beside an array they take its dtype. Bessel functions take any
real order; degrees of polynomials, and orders of exponential integrals, harmonics and spherical
Bessel functions are Python ints. Most are of real numbers, and say so to complex ones.
"""

from tapegrad.scipy.special.airy import airy
from tapegrad.scipy.special.bessel import (
    hankel1,
    hankel2,
    iv,
    ive,
    ivp,
    jv,
    jvp,
    kv,
    kve,
    kvp,
    yv,
    yvp,
)
from tapegrad.scipy.special.elementary import (
    binom,
    cbrt,
    cosdg,
    cosm1,
    cotdg,
    diric,
    exp10,
    exprel,
    huber,
    inv_boxcox,
    inv_boxcox1p,
    powm1,
    pseudo_huber,
    radian,
    sinc,
    sindg,
    tandg,
)
from tapegrad.scipy.special.elliptic import (
    agm,
    ellipe,
    ellipeinc,
    ellipk,
    ellipkinc,
    ellipkm1,
    elliprc,
    elliprd,
    elliprf,
    elliprj,
)
from tapegrad.scipy.special.factorials import (
    beta,
    comb,
    factorial,
    gamma,
    gammasgn,
    loggamma,
    multigammaln,
    poch,
    rgamma,
)
from tapegrad.scipy.special.faddeeva import wofz
from tapegrad.scipy.special.hypergeometric import hyp1f1, hyp2f1
from tapegrad.scipy.special.incomplete import betainc, gammainc, gammaincc
from tapegrad.scipy.special.information import (
    boxcox,
    boxcox1p,
    entr,
    kl_div,
    log_softmax,
    logsumexp,
    rel_entr,
    softmax,
)
from tapegrad.scipy.special.integrals import exp1, expn, fresnel, owens_t, sici, sph_harm_y
from tapegrad.scipy.special.inverses import betaincinv, gammainccinv, gammaincinv
from tapegrad.scipy.special.lambert import lambertw
from tapegrad.scipy.special.orders import jn, kn, yn
from tapegrad.scipy.special.polynomials import (
    eval_chebyt,
    eval_chebyu,
    eval_gegenbauer,
    eval_genlaguerre,
    eval_hermite,
    eval_hermitenorm,
    eval_jacobi,
    eval_laguerre,
    eval_legendre,
)
from tapegrad.scipy.special.probabilities import (
    bdtr,
    bdtrc,
    betaincc,
    betainccinv,
    chdtr,
    chdtrc,
    chdtri,
    fdtr,
    fdtrc,
    fdtri,
    gdtr,
    gdtrc,
    gdtrix,
    nbdtr,
    nbdtrc,
    pdtr,
    pdtrc,
    stdtr,
    stdtrit,
)
from tapegrad.scipy.special.real_numbers import of_real_numbers as _of_real_numbers
from tapegrad.scipy.special.riemann import zeta, zetac
from tapegrad.scipy.special.spherical import spherical_in, spherical_jn, spherical_kn, spherical_yn
from tapegrad.scipy.special.table import (
    betaln,
    dawsn,
    digamma,
    erf,
    erfc,
    erfcinv,
    erfcx,
    erfinv,
    exp2,
    expi,
    expit,
    expm1,
    gammaln,
    i0,
    i0e,
    i1,
    i1e,
    j0,
    j1,
    k0,
    k0e,
    k1,
    k1e,
    log1p,
    log_expit,
    log_ndtr,
    logit,
    ndtr,
    ndtri,
    polygamma,
    psi,
    spence,
    xlog1py,
    xlogy,
    y0,
    y1,
)

__all__ = [
    "agm", "airy", "bdtr", "bdtrc", "beta", "betainc", "betaincc", "betainccinv", "betaincinv",
    "betaln", "binom", "boxcox", "boxcox1p", "cbrt", "chdtr", "chdtrc", "chdtri", "comb",
    "cosdg", "cosm1", "cotdg", "dawsn", "digamma", "diric", "ellipe", "ellipeinc", "ellipk",
    "ellipkinc", "ellipkm1", "elliprc", "elliprd", "elliprf", "elliprj", "entr", "erf", "erfc",
    "erfcinv", "erfcx", "erfinv", "eval_chebyt", "eval_chebyu", "eval_gegenbauer",
    "eval_genlaguerre", "eval_hermite", "eval_hermitenorm", "eval_jacobi", "eval_laguerre",
    "eval_legendre", "exp1", "exp10", "exp2", "expi", "expit", "expm1", "expn", "exprel",
    "factorial", "fdtr", "fdtrc", "fdtri", "fresnel", "gamma", "gammainc", "gammaincc",
    "gammainccinv", "gammaincinv", "gammaln", "gammasgn", "gdtr", "gdtrc", "gdtrix", "hankel1",
    "hankel2", "huber", "hyp1f1", "hyp2f1", "i0", "i0e", "i1", "i1e", "inv_boxcox",
    "inv_boxcox1p", "iv", "ive", "ivp", "j0", "j1", "jn", "jv", "jvp", "k0", "k0e", "k1", "k1e",
    "kl_div", "kn", "kv", "kve", "kvp", "lambertw", "log1p", "log_expit", "log_ndtr",
    "log_softmax", "loggamma", "logit", "logsumexp", "multigammaln", "nbdtr", "nbdtrc", "ndtr",
    "ndtri", "owens_t", "pdtr", "pdtrc", "poch", "polygamma", "powm1", "pseudo_huber", "psi",
    "radian", "rel_entr", "rgamma", "sici", "sinc", "sindg", "softmax", "spence", "sph_harm_y",
    "spherical_in", "spherical_jn", "spherical_kn", "spherical_yn", "stdtr", "stdtrit", "tandg",
    "wofz", "xlog1py", "xlogy", "y0", "y1", "yn", "yv", "yvp", "zeta", "zetac",
]  # fmt: skip

# The rest, called with complex numbers, would compute something: it is stopped at the door, so that
# functions need not look when they call each other.
_OF_COMPLEX_TOO = {
    *("elliprc", "elliprd", "elliprf", "elliprj", "expm1", "lambertw", "log1p", "log_softmax"),
    *("logsumexp", "sinc", "softmax", "wofz", "xlog1py", "xlogy"),
}
globals().update({
    name: _of_real_numbers(globals()[name]) for name in __all__ if name not in _OF_COMPLEX_TOO
})  # fmt: skip
