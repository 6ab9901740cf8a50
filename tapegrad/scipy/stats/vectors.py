"""The multivariate normal distribution."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from tapegrad.errors import ShapeError
from tapegrad.ops.linalg.decompositions import cholesky
from tapegrad.ops.linalg.eigen import eigh
from tapegrad.ops.linalg.solve import triangular_solve
from tapegrad.ops.random.primitives import as_shape
from tapegrad.scipy.stats import draws
from tapegrad.scipy.stats.frozen_joint import FrozenDensity
from tapegrad.scipy.vocabulary import (
    broadcast_p,
    eps_of,
    exp,
    largest,
    log,
    matrix_diag,
    matrix_diag_part,
    matrix_transpose,
    numpy_dtype_of,
    operands,
    reshape_p,
    sqrt,
    stop_gradient,
    sum_over,
    where,
)


class MultivariateNormal:
    """The normal distribution of vectors along the last axis; SciPy's `multivariate_normal`.

    `cov` may be a number (the variance of all components), a vector of variances, or a positive
    definite matrix. With `allow_singular` an eigendecomposition replaces the Cholesky
    decomposition, near-zero eigenvalues are ignored, and points outside of the range of cov have
    density 0.

    >>> multivariate_normal = MultivariateNormal()
    >>> round(float(multivariate_normal.logpdf([0.0, 1.0], [0.0, 0.0], 1.0)), 4)
    -2.3379
    """

    def __call__(
        self, mean: Any = None, cov: Any = 1, allow_singular: bool = False, seed: Any = None
    ) -> FrozenMultivariateNormal:
        """Return the frozen distribution with these parameters."""
        return FrozenMultivariateNormal(self, mean, cov, allow_singular, seed)

    def logpdf(self, x: Any, mean: Any = None, cov: Any = 1, allow_singular: bool = False) -> Any:
        """Return the logarithm of the density at x."""
        x, mean, cov = vector_parameters("multivariate_normal", x, mean, cov)
        size = mean.shape[0]
        points, shape = as_points("multivariate_normal", x, size)
        gap = reshape_p(points - mean, shape=(-1, size))
        if allow_singular:
            y = _singular_log_density(gap, cov)
        else:
            square, log_volume = whitened(gap, cov)
            y = -0.5 * square - log_volume - 0.5 * size * math.log(2 * math.pi)
        return reshape_p(y, shape=shape)

    def pdf(self, x: Any, mean: Any = None, cov: Any = 1, allow_singular: bool = False) -> Any:
        """Return the density at x."""
        return exp(self.logpdf(x, mean, cov, allow_singular))

    def entropy(self, mean: Any = None, cov: Any = 1, allow_singular: bool = False) -> Any:
        """Return the differential entropy."""
        _, mean, cov = vector_parameters("multivariate_normal", 0.0, mean, cov)
        size = mean.shape[0]
        if allow_singular:
            values, _, is_part = _spectrum(cov)
            whole = where(is_part, 0.0 * values + 1 + math.log(2 * math.pi), 0.0)
            return 0.5 * sum_over(log(where(is_part, values, 1.0)) + whole, -1)
        return _log_volume(cholesky(cov)) + 0.5 * size * (1 + math.log(2 * math.pi))

    def rvs(
        self,
        mean: Any = None,
        cov: Any = 1,
        size: Any = 1,
        random_state: Any = None,
        allow_singular: bool = False,
    ) -> Any:
        """Draw `[*size, components]` vectors without axes of length 1; differentiable."""
        _, mean, cov = vector_parameters("multivariate_normal", 0.0, mean, cov)
        count = mean.shape[0]
        shape = (*as_shape(size, "size"), count)
        noise = draws.normal(draws.source_of(random_state), shape, numpy_dtype_of(mean))
        root = _singular_root(cov) if allow_singular else cholesky(cov)
        y = reshape_p(noise, shape=(-1, count)) @ matrix_transpose(root) + mean
        return reshape_p(y, shape=tuple(n for n in shape if n != 1))


def whitened(gap: Any, cov: Any) -> tuple[Any, Any]:
    """Return the squared Mahalanobis length of vectors, and half the log-determinant of cov.

    >>> import tapegrad
    >>> square, _ = whitened(tapegrad.constant([[2.0, 0.0]]), tapegrad.eye(2))
    >>> square.tolist()
    [4.0]
    """
    factor = cholesky(cov)
    z = triangular_solve(factor, matrix_transpose(gap))
    return sum_over(z * z, 0), _log_volume(factor)


def _spectrum(cov: Any) -> tuple[Any, Any, Any]:
    """Return eigenvalues, eigenvectors, and which eigenvalues are above rounding error."""
    values, vectors = eigh(cov)
    top = largest(abs(stop_gradient(values)), -1, keepdims=True)
    factor = 1e6 if numpy_dtype_of(cov) == np.float64 else 1e3
    tolerance = factor * eps_of(cov)
    return values, vectors, values > tolerance * top


def _singular_log_density(gap: Any, cov: Any) -> Any:
    values, vectors, is_part = _spectrum(cov)
    safe = where(is_part, values, 1.0)
    along = gap @ vectors
    square = sum_over(where(is_part, along * along / safe, 0.0), -1)
    volume = sum_over(log(safe) + where(is_part, 0.0 * values + math.log(2 * math.pi), 0.0), -1)
    off = sum_over(where(is_part, 0.0, along * along), -1)
    tolerance = 1e3 * eps_of(cov)
    is_off = sqrt(stop_gradient(off)) > tolerance
    return where(is_off, -math.inf, -0.5 * (square + volume))


def _singular_root(cov: Any) -> Any:
    values, vectors, is_part = _spectrum(cov)
    return vectors * where(is_part, sqrt(where(is_part, values, 1.0)), 0.0)


@dataclass(eq=False, repr=False)
class FrozenMultivariateNormal(FrozenDensity):
    """A multivariate normal distribution with fixed parameters.

    >>> frozen = FrozenMultivariateNormal(MultivariateNormal(), [0.0, 0.0], 2.0)
    >>> round(float(frozen.entropy()), 4)
    3.531
    """

    dist: MultivariateNormal
    mean: Any
    cov: Any
    allow_singular: bool = False
    seed: Any = None


def _log_volume(factor: Any) -> Any:
    """Return half of the log-determinant from the Cholesky factor."""
    return sum_over(log(matrix_diag_part(factor)), -1)


def vector_parameters(name: str, x: Any, mean: Any, cov: Any) -> tuple[Any, Any, Any]:
    """Return x, the mean as a vector and cov as a matrix.

    >>> _, mean, cov = vector_parameters("multivariate_normal", 0.0, None, [1.0, 2.0])
    >>> mean.shape, cov.shape
    ((2,), (2, 2))
    """
    x, center, cov = operands(x, 0.0 if mean is None else mean, cov)
    rank = cov.ndim
    size = cov.shape[0] if rank else 1
    if center.ndim > 1 or rank > 2 or (rank == 2 and cov.shape[0] != cov.shape[1]):
        raise ShapeError(
            f"{name} needs a vector mean and a number, vector or square matrix cov. "
            f"Got shapes {center.shape} and {cov.shape}."
        )
    if not rank and center.shape:
        size = center.shape[0]
    if center.shape and center.shape[0] != size:
        raise ShapeError(
            f"{name} needs as many means as rows of cov. Got {center.shape[0]} and {size}."
        )
    center = broadcast_p(center, shape=(size,))
    return x, center, cov if rank == 2 else matrix_diag(broadcast_p(cov, shape=(size,)))


def as_points(name: str, x: Any, size: int) -> tuple[Any, tuple[int, ...]]:
    """Return x with its components along the last axis, and the shape of the result.

    >>> import tapegrad
    >>> points, shape = as_points("multivariate_normal", tapegrad.zeros((4, 2)), 2)
    >>> points.shape, shape
    ((4, 2), (4,))
    """
    if size == 1 and x.ndim < 2:
        return reshape_p(x, shape=(*x.shape, 1)), tuple(x.shape)
    if not x.shape or x.shape[-1] != size:
        raise ShapeError(
            f"{name} needs x with {size} components along the last axis. Got shape {x.shape}."
        )
    return x, x.shape[:-1]


multivariate_normal = MultivariateNormal()
