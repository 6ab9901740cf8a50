"""The normal distribution of vectors."""

from __future__ import annotations

import math
from typing import Any

from tapegrad.errors import ArgumentError, ShapeError
from tapegrad.ops.basic import broadcast_p, reshape_p
from tapegrad.ops.creation import numpy_dtype_of
from tapegrad.ops.diagonal import matrix_diag, matrix_diag_part
from tapegrad.ops.exponential import exp, log
from tapegrad.ops.linalg.decompositions import cholesky
from tapegrad.ops.linalg.solve import triangular_solve
from tapegrad.ops.products import matmul
from tapegrad.ops.random_draws import as_shape
from tapegrad.ops.reduction import sum as sum_over
from tapegrad.ops.shape import matrix_transpose
from tapegrad.scipy.operands import operands
from tapegrad.scipy.stats import draws


class MultivariateNormal:
    """The normal distribution of vectors along the last axis; SciPy's `multivariate_normal`.

    `cov` may be a number (for all components), a vector (of variances) or a matrix, which must
    be positive definite: it is factorised by Cholesky.

    >>> multivariate_normal = MultivariateNormal()
    >>> round(float(multivariate_normal.logpdf([0.0, 1.0], [0.0, 0.0], 1.0)), 4)
    -2.3379
    """

    def __call__(
        self, mean: Any = None, cov: Any = 1, allow_singular: bool = False, seed: Any = None
    ) -> FrozenMultivariateNormal:
        """Return the distribution with its parameters held."""
        _refuse_singular(allow_singular)
        return FrozenMultivariateNormal(self, mean, cov, seed)

    def logpdf(self, x: Any, mean: Any = None, cov: Any = 1, allow_singular: bool = False) -> Any:
        """Return the logarithm of the density at x."""
        _refuse_singular(allow_singular)
        x, mean, cov = _parameters(x, mean, cov)
        size = int(mean.shape[0])
        points = reshape_p(_as_points(x, size) - mean, shape=(-1, size))
        factor = cholesky(cov)
        z = triangular_solve(factor, matrix_transpose(points))
        half = 0.5 * sum_over(z * z, 0)
        y = -half - _log_volume(factor) - 0.5 * size * math.log(2 * math.pi)
        rank = len(x.shape)
        shape = tuple(x.shape) if size == 1 and rank < 2 else tuple(x.shape)[:-1]
        return reshape_p(y, shape=shape)

    def pdf(self, x: Any, mean: Any = None, cov: Any = 1, allow_singular: bool = False) -> Any:
        """Return the density at x."""
        return exp(self.logpdf(x, mean, cov, allow_singular))

    def entropy(self, mean: Any = None, cov: Any = 1) -> Any:
        """Return the differential entropy."""
        _, mean, cov = _parameters(0.0, mean, cov)
        size = int(mean.shape[0])
        return _log_volume(cholesky(cov)) + 0.5 * size * (1 + math.log(2 * math.pi))

    def rvs(self, mean: Any = None, cov: Any = 1, size: Any = 1, random_state: Any = None) -> Any:
        """Draw `[*size, components]` vectors (axes of length 1 left out); both get gradients."""
        _, mean, cov = _parameters(0.0, mean, cov)
        count = int(mean.shape[0])
        shape = (*as_shape(size), count)
        noise = draws.normal(draws.source_of(random_state), shape, numpy_dtype_of(mean))
        y = matmul(reshape_p(noise, shape=(-1, count)), matrix_transpose(cholesky(cov))) + mean
        return reshape_p(y, shape=tuple(n for n in shape if n != 1))


class FrozenMultivariateNormal:
    """A normal distribution of vectors together with its parameters.

    >>> frozen = FrozenMultivariateNormal(MultivariateNormal(), [0.0, 0.0], 2.0)
    >>> round(float(frozen.entropy()), 4)
    3.531
    """

    def __init__(self, dist: MultivariateNormal, mean: Any, cov: Any, seed: Any = None) -> None:
        self.dist = dist
        self.mean = mean
        self.cov = cov
        self.seed = seed

    def logpdf(self, x: Any) -> Any:
        """Return the logarithm of the density at x."""
        return self.dist.logpdf(x, self.mean, self.cov)

    def pdf(self, x: Any) -> Any:
        """Return the density at x."""
        return self.dist.pdf(x, self.mean, self.cov)

    def entropy(self) -> Any:
        """Return the differential entropy."""
        return self.dist.entropy(self.mean, self.cov)

    def rvs(self, size: Any = 1, random_state: Any = None) -> Any:
        """Draw vectors."""
        state = self.seed if random_state is None else random_state
        return self.dist.rvs(self.mean, self.cov, size, state)


def _refuse_singular(allow_singular: bool) -> None:
    if allow_singular:
        raise ArgumentError(
            "multivariate_normal needs a positive definite cov: allow_singular=True is not "
            "offered. Leave out the components that follow from the others."
        )


def _log_volume(factor: Any) -> Any:
    """Half of the logarithm of the determinant, from its Cholesky factor."""
    return sum_over(log(matrix_diag_part(factor)), -1)


def _parameters(x: Any, mean: Any, cov: Any) -> tuple[Any, Any, Any]:
    """Return x, the mean as a vector and the covariances as a matrix."""
    x, center, cov = operands(x, 0.0 if mean is None else mean, cov)
    rank = len(cov.shape)
    size = int(cov.shape[0]) if rank else 1
    if len(center.shape) > 1 or rank > 2 or (rank == 2 and cov.shape[0] != cov.shape[1]):
        raise ShapeError(
            "multivariate_normal needs a vector as mean and a number, vector or square matrix as "
            f"cov. Got shapes {tuple(center.shape)} and {tuple(cov.shape)}."
        )
    if not rank and center.shape:
        size = int(center.shape[0])
    if center.shape and center.shape[0] != size:
        raise ShapeError(
            f"multivariate_normal needs as many means as rows of cov. Got {center.shape[0]} "
            f"and {size}."
        )
    center = broadcast_p(center, shape=(size,))
    return x, center, cov if rank == 2 else matrix_diag(broadcast_p(cov, shape=(size,)))


def _as_points(x: Any, size: int) -> Any:
    if size == 1 and len(x.shape) < 2:
        return reshape_p(x, shape=(*x.shape, 1))
    if not x.shape or x.shape[-1] != size:
        raise ShapeError(
            f"multivariate_normal needs x with {size} components along the last axis. "
            f"Got shape {tuple(x.shape)}."
        )
    return x


multivariate_normal = MultivariateNormal()
