"""SciPy's distributions on tensors: densities, tails, quantiles and samples with gradients.

norm.logpdf(x, loc=0, scale=1)        the parameters with each call
norm(loc, scale).logpdf(x)            or held
"""

from tapegrad.scipy.stats.circular import vonmises, wrapcauchy
from tapegrad.scipy.stats.counts import bernoulli, betabinom, binom
from tapegrad.scipy.stats.exponential import gumbel_l, gumbel_r, laplace, logistic, pareto
from tapegrad.scipy.stats.joint import dirichlet, multinomial
from tapegrad.scipy.stats.normal import gennorm, norm, truncnorm
from tapegrad.scipy.stats.positive import chi2, expon, gamma
from tapegrad.scipy.stats.shares import beta, uniform
from tapegrad.scipy.stats.student import cauchy, t
from tapegrad.scipy.stats.vectors import multivariate_normal
from tapegrad.scipy.stats.waiting import geom, nbinom, poisson

__all__ = [
    "bernoulli",
    "beta",
    "betabinom",
    "binom",
    "cauchy",
    "chi2",
    "dirichlet",
    "expon",
    "gamma",
    "gennorm",
    "geom",
    "gumbel_l",
    "gumbel_r",
    "laplace",
    "logistic",
    "multinomial",
    "multivariate_normal",
    "nbinom",
    "norm",
    "pareto",
    "poisson",
    "t",
    "truncnorm",
    "uniform",
    "vonmises",
    "wrapcauchy",
]
