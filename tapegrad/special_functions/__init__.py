"""Special functions composed of primitives, with gradients and SciPy's names and conventions.

`tapegrad.numpy.special` and `tapegrad.scipy.special` both expose these functions. Python numbers
are float64; next to an array they take its dtype. Most functions accept real arguments only.
"""

from tapegrad.special_functions.airy import airy
from tapegrad.special_functions.bessel import (
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
from tapegrad.special_functions.bessel_integer_order import jn, kn, yn
from tapegrad.special_functions.distribution_functions import (
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
from tapegrad.special_functions.elementary import (
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
from tapegrad.special_functions.elliptic_integrals import (
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
from tapegrad.special_functions.entropy import (
    boxcox,
    boxcox1p,
    entr,
    kl_div,
    log_softmax,
    logsumexp,
    rel_entr,
    softmax,
)
from tapegrad.special_functions.faddeeva import wofz
from tapegrad.special_functions.gamma_functions import (
    beta,
    betaln,
    comb,
    digamma,
    factorial,
    gamma,
    gammasgn,
    loggamma,
    multigammaln,
    poch,
    rgamma,
)
from tapegrad.special_functions.hypergeometric import hyp1f1, hyp2f1
from tapegrad.special_functions.incomplete_gamma_beta import betainc, gammainc, gammaincc
from tapegrad.special_functions.incomplete_inverses import betaincinv, gammainccinv, gammaincinv
from tapegrad.special_functions.integrals import exp1, expn, fresnel, owens_t, sici, sph_harm_y
from tapegrad.special_functions.lambert import lambertw
from tapegrad.special_functions.orthogonal_polynomials import (
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
from tapegrad.special_functions.real_arguments import real_arguments_only as _real_arguments_only
from tapegrad.special_functions.spherical_bessel import (
    spherical_in,
    spherical_jn,
    spherical_kn,
    spherical_yn,
)
from tapegrad.special_functions.wrapped_primitives import (
    dawsn,
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
    spence,
    xlog1py,
    xlogy,
    y0,
    y1,
)
from tapegrad.special_functions.zeta_functions import zeta, zetac

psi = digamma

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

# The other functions would silently return wrong values for complex arguments. The check is applied
# to the exported functions only, so that calls between modules do not pay for it.
_ACCEPT_COMPLEX = {
    *("elliprc", "elliprd", "elliprf", "elliprj", "expm1", "lambertw", "log1p", "log_softmax"),
    *("logsumexp", "sinc", "softmax", "wofz", "xlog1py", "xlogy"),
}
globals().update({
    name: _real_arguments_only(globals()[name]) for name in __all__ if name not in _ACCEPT_COMPLEX
})  # fmt: skip
