"""The multivariate t and Dirichlet-multinomial distributions."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from tapegrad.errors import ArgumentError, ShapeError
from tapegrad.ops.elementwise.comparison import isinf
from tapegrad.ops.linalg.decompositions import cholesky
from tapegrad.ops.random.primitives import as_shape
from tapegrad.scipy.stats import draws
from tapegrad.scipy.stats.frozen_joint import FrozenCounts, FrozenDensity
from tapegrad.scipy.stats.gamma_steps import digamma_step, gamma_step
from tapegrad.scipy.stats.vectors import as_points, vector_parameters, whitened
from tapegrad.scipy.vocabulary import (
    betaln,
    every,
    exp,
    expand_dims,
    floor,
    log,
    log1p,
    matrix_diag,
    matrix_transpose,
    numpy_dtype_of,
    operands,
    reshape_p,
    sqrt,
    sum_over,
    where,
)


class MultivariateT:
    """The multivariate t distribution of vectors along the last axis; SciPy's `multivariate_t`.

    `shape` may be a number, a vector or a positive definite matrix. An infinite df gives the normal
    distribution.

    >>> multivariate_t = MultivariateT()
    >>> round(float(multivariate_t.logpdf([0.0, 1.0], [0.0, 0.0], 1.0, df=3.0)), 4)
    -2.5571
    """

    def __call__(
        self,
        loc: Any = None,
        shape: Any = 1,
        df: Any = 1,
        allow_singular: bool = False,
        seed: Any = None,
    ) -> FrozenMultivariateT:
        """Return the frozen distribution with these parameters."""
        if allow_singular:
            raise ArgumentError(
                "multivariate_t needs a positive definite shape, so allow_singular must be False."
            )
        return FrozenMultivariateT(self, loc, shape, df, seed)

    def logpdf(self, x: Any, loc: Any = None, shape: Any = 1, df: Any = 1) -> Any:
        """Return the logarithm of the density at x."""
        x, loc, shape, df = _read(x, loc, shape, df)
        size = loc.shape[0]
        points, full = as_points("multivariate_t", x, size)
        square, log_volume = whitened(reshape_p(points - loc, shape=(-1, size)), shape)
        is_normal = isinf(df)
        safe = where(is_normal, 1.0, df)
        half = 0.5 * (safe + size)
        heavy = gamma_step(0.5 * safe, 0.5 * size) - 0.5 * size * math.log(2 * math.pi)
        heavy = heavy - half * log1p(square / safe)
        normal = -0.5 * square - 0.5 * size * math.log(2 * math.pi)
        y = where(is_normal, normal, heavy) - log_volume
        return reshape_p(where(df > 0, y, math.nan), shape=full)

    def pdf(self, x: Any, loc: Any = None, shape: Any = 1, df: Any = 1) -> Any:
        """Return the density at x."""
        return exp(self.logpdf(x, loc, shape, df))

    def entropy(self, loc: Any = None, shape: Any = 1, df: Any = 1) -> Any:
        """Return the differential entropy."""
        _, loc, shape, df = _read(0.0, loc, shape, df)
        size = loc.shape[0]
        _, log_volume = whitened(reshape_p(0.0 * loc, shape=(1, size)), shape)
        is_normal = isinf(df)
        safe = where(is_normal, 1.0, df)
        half = 0.5 * (safe + size)
        heavy = 0.5 * size * math.log(2 * math.pi) - gamma_step(0.5 * safe, 0.5 * size)
        heavy = heavy + half * digamma_step(0.5 * safe, 0.5 * size)
        y = where(is_normal, 0.5 * size * (1 + math.log(2 * math.pi)), heavy) + log_volume
        return where(df > 0, y, math.nan)

    def rvs(
        self, loc: Any = None, shape: Any = 1, df: Any = 1, size: Any = 1, random_state: Any = None
    ) -> Any:
        """Draw `[*size, components]` vectors without axes of length 1; differentiable."""
        _, loc, shape, df = _read(0.0, loc, shape, df)
        count = loc.shape[0]
        outer, dtype = as_shape(size, "size"), numpy_dtype_of(loc)
        source = draws.source_of(random_state)
        noise = draws.normal(source, (*outer, count), dtype)
        is_normal = isinf(df)
        half = 0.5 * where(is_normal, 1.0, df)
        stretch = sqrt(half / draws.gamma(source, outer, dtype, half))
        noise = noise * expand_dims(where(is_normal, 1.0, stretch), -1)
        y = reshape_p(noise, shape=(-1, count)) @ matrix_transpose(cholesky(shape)) + loc
        return reshape_p(y, shape=tuple(n for n in (*outer, count) if n != 1))


def _read(x: Any, loc: Any, shape: Any, df: Any) -> tuple[Any, Any, Any, Any]:
    x, loc, shape, df = operands(x, 0.0 if loc is None else loc, shape, df)
    return *vector_parameters("multivariate_t", x, loc, shape), df


@dataclass(eq=False, repr=False)
class FrozenMultivariateT(FrozenDensity):
    """A multivariate t distribution with fixed parameters.

    >>> frozen = FrozenMultivariateT(MultivariateT(), [0.0, 0.0], 1.0, 4.0)
    >>> round(float(frozen.entropy()), 4)
    3.3379
    """

    dist: Any
    loc: Any
    shape: Any
    df: Any
    seed: Any = None


class DirichletMultinomial:
    """Multinomial counts with Dirichlet probabilities; SciPy's `dirichlet_multinomial`.

    The outcomes are along the last axis.

    >>> dirichlet_multinomial = DirichletMultinomial()
    >>> round(float(dirichlet_multinomial.pmf([1, 1], [1.0, 1.0], 2)), 4)
    0.3333
    """

    def __call__(self, alpha: Any, n: Any, seed: Any = None) -> FrozenDirichletMultinomial:
        """Return the frozen distribution with these parameters."""
        return FrozenDirichletMultinomial(self, alpha, n)

    def logpmf(self, x: Any, alpha: Any, n: Any) -> Any:
        """Return the logarithm of the probability of x, which is -inf unless x sums to n."""
        x, alpha, n = _read_counts(x, alpha, n)
        is_count = every((x >= 0) & (floor(x) == x), -1) & (sum_over(x, -1) == n)
        is_valid = every(alpha > 0, -1) & (n >= 0) & (floor(n) == n)
        counts = where(expand_dims(is_count, -1), x, 0.0)
        alpha = where(expand_dims(is_valid, -1), alpha, 1.0)
        total = sum_over(alpha, -1)
        n = where(is_valid & is_count, n, 0.0)
        # n B(total, n) over the product of x B(alpha, x), where x is not 0.
        each = betaln(alpha, counts + 1) + log(alpha + counts)
        y = betaln(total, n + 1) + log(total + n) - sum_over(each, -1)
        return where(is_valid, where(is_count, y, -math.inf), math.nan)

    def pmf(self, x: Any, alpha: Any, n: Any) -> Any:
        """Return the probability of x."""
        return exp(self.logpmf(x, alpha, n))

    def mean(self, alpha: Any, n: Any) -> Any:
        """Return the mean count of each outcome."""
        _, alpha, n = _read_counts(0.0, alpha, n)
        return expand_dims(n, -1) * alpha / sum_over(alpha, -1, keepdims=True)

    def var(self, alpha: Any, n: Any) -> Any:
        """Return the variance of each count."""
        _, alpha, n = _read_counts(0.0, alpha, n)
        total = sum_over(alpha, -1, keepdims=True)
        fraction, n = alpha / total, expand_dims(n, -1)
        return n * fraction * (1 - fraction) * (n + total) / (1 + total)

    def cov(self, alpha: Any, n: Any) -> Any:
        """Return the covariance matrix."""
        _, alpha, n = _read_counts(0.0, alpha, n)
        total = sum_over(alpha, -1, keepdims=True)
        fraction = alpha / total
        factor = expand_dims(n, -1) * (expand_dims(n, -1) + total) / (1 + total)
        products = expand_dims(fraction, -1) * expand_dims(fraction, -2)
        return expand_dims(factor, -1) * (matrix_diag(fraction) - products)


def _read_counts(x: Any, alpha: Any, n: Any) -> list[Any]:
    x, alpha, n = operands(x, alpha, n)
    if not alpha.shape or (x.shape and x.shape[-1] != alpha.shape[-1]):
        raise ShapeError(
            "dirichlet_multinomial needs as many counts as alphas along the last axis. "
            f"Got shapes {x.shape} and {alpha.shape}."
        )
    return [x, alpha, n]


@dataclass(eq=False, repr=False)
class FrozenDirichletMultinomial(FrozenCounts):
    """A Dirichlet-multinomial distribution with fixed parameters.

    >>> FrozenDirichletMultinomial(DirichletMultinomial(), [1.0, 3.0], 4).mean().tolist()
    [1.0, 3.0]
    """

    dist: Any
    alpha: Any
    n: Any

    def var(self) -> Any:
        """Return the variance of each count."""
        return self.dist.var(self.alpha, self.n)


multivariate_t = MultivariateT()
dirichlet_multinomial = DirichletMultinomial()
