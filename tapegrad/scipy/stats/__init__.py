"""SciPy's distributions and statistics with gradients.

norm.logpdf(x, loc=0, scale=1)        parameters in each call
norm(loc, scale).logpdf(x)            a frozen distribution
"""

from tapegrad.core.checked_calls import check_calls as _check_calls
from tapegrad.scipy.stats.circular import vonmises, wrapcauchy
from tapegrad.scipy.stats.correlation_and_tests import (
    energy_distance,
    f_oneway,
    linregress,
    pearsonr,
    rankdata,
    spearmanr,
    ttest_1samp,
    ttest_ind,
    ttest_rel,
    wasserstein_distance,
)
from tapegrad.scipy.stats.counts import bernoulli, betabinom, binom
from tapegrad.scipy.stats.exponential import (
    gumbel_l,
    gumbel_r,
    halflogistic,
    hypsecant,
    laplace,
    logistic,
    pareto,
)
from tapegrad.scipy.stats.extremes import (
    genextreme,
    genpareto,
    invweibull,
    weibull_max,
    weibull_min,
)
from tapegrad.scipy.stats.information import (
    circmean,
    circstd,
    circvar,
    differential_entropy,
    entropy,
)
from tapegrad.scipy.stats.joint import dirichlet, multinomial
from tapegrad.scipy.stats.kernels import gaussian_kde
from tapegrad.scipy.stats.lattice import dlaplace, logser, planck, randint, skellam, zipf
from tapegrad.scipy.stats.matrices import invwishart, matrix_normal, wishart
from tapegrad.scipy.stats.normal import gennorm, norm, truncnorm
from tapegrad.scipy.stats.positive import chi2, expon, gamma
from tapegrad.scipy.stats.powers import (
    arcsine,
    fisk,
    lognorm,
    loguniform,
    lomax,
    powerlaw,
    reciprocal,
    triang,
)
from tapegrad.scipy.stats.ratios import betaprime, f, halfcauchy, invgamma, levy
from tapegrad.scipy.stats.shares import beta, uniform
from tapegrad.scipy.stats.sizes import chi, halfnorm, maxwell, nakagami, rayleigh
from tapegrad.scipy.stats.skewed import exponnorm, invgauss, johnsonsu, skewnorm
from tapegrad.scipy.stats.student import cauchy, t
from tapegrad.scipy.stats.summaries import (
    gmean,
    gzscore,
    hmean,
    kurtosis,
    moment,
    pmean,
    sem,
    skew,
    variation,
    zmap,
    zscore,
)
from tapegrad.scipy.stats.transforms import boxcox, boxcox_llf, yeojohnson, yeojohnson_llf
from tapegrad.scipy.stats.trimming import (
    iqr,
    median_abs_deviation,
    tmax,
    tmean,
    tmin,
    trim_mean,
    tsem,
    tstd,
    tvar,
)
from tapegrad.scipy.stats.urns import hypergeom
from tapegrad.scipy.stats.vectors import multivariate_normal
from tapegrad.scipy.stats.vectors_t import dirichlet_multinomial, multivariate_t
from tapegrad.scipy.stats.waiting import geom, nbinom, poisson

__all__ = [
    "arcsine", "bernoulli", "beta", "betabinom", "betaprime", "binom", "boxcox", "boxcox_llf",
    "cauchy", "chi", "chi2", "circmean", "circstd", "circvar", "differential_entropy",
    "dirichlet", "dirichlet_multinomial", "dlaplace", "energy_distance", "entropy", "expon",
    "exponnorm", "f", "f_oneway", "fisk", "gamma", "gaussian_kde", "genextreme", "gennorm",
    "genpareto", "geom", "gmean", "gumbel_l", "gumbel_r", "gzscore", "halfcauchy",
    "halflogistic", "halfnorm", "hmean", "hypergeom", "hypsecant", "invgamma", "invgauss",
    "invweibull", "invwishart", "iqr", "johnsonsu", "kurtosis", "laplace", "levy", "linregress",
    "logistic", "lognorm", "logser", "loguniform", "lomax", "matrix_normal", "maxwell",
    "median_abs_deviation", "moment", "multinomial", "multivariate_normal", "multivariate_t",
    "nakagami", "nbinom", "norm", "pareto", "pearsonr", "planck", "pmean", "poisson",
    "powerlaw", "randint", "rankdata", "rayleigh", "reciprocal", "sem", "skellam", "skew",
    "skewnorm", "spearmanr", "t", "tmax", "tmean", "tmin", "triang", "trim_mean", "truncnorm",
    "tsem", "tstd", "ttest_1samp", "ttest_ind", "ttest_rel", "tvar", "uniform", "variation",
    "vonmises", "wasserstein_distance", "weibull_max", "weibull_min", "wishart", "wrapcauchy",
    "yeojohnson", "yeojohnson_llf", "zipf", "zmap", "zscore",
]  # fmt: skip

_check_calls(globals(), __all__)
