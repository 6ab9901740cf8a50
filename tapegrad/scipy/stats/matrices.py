"""Matrix distributions: Wishart, inverse Wishart and matrix normal.

As in SciPy, x of the first two may be a number, a vector of numbers (for one dimension), or
matrices along the first two axes.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar

from tapegrad.errors import ShapeError
from tapegrad.ops.linalg.common import triangle
from tapegrad.ops.linalg.decompositions import cholesky
from tapegrad.ops.linalg.solve import inv, triangular_solve
from tapegrad.ops.random.primitives import as_shape
from tapegrad.scipy.stats import draws
from tapegrad.scipy.stats.frozen_joint import FrozenDensity
from tapegrad.scipy.vocabulary import (
    broadcast_p,
    digamma,
    exp,
    expand_dims,
    log,
    matrix_diag,
    matrix_diag_part,
    matrix_transpose,
    moveaxis,
    numpy_dtype_of,
    operands,
    reshape_p,
    sqrt,
    stack,
    sum_over,
    where,
)
from tapegrad.special_functions.gamma_functions import multigammaln


def _log_det(factor: Any) -> Any:
    """Return the logarithm of a determinant from the Cholesky factor."""
    return 2 * sum_over(log(matrix_diag_part(factor)), -1)


def _as_scale(scale: Any, name: str) -> Any:
    """Return the scale as a matrix; numbers and vectors are diagonals."""
    rank = scale.ndim
    if rank == 0:
        return reshape_p(scale, shape=(1, 1))
    if rank == 1:
        return matrix_diag(scale)
    if rank != 2 or scale.shape[0] != scale.shape[1]:
        raise ShapeError(
            f"scale of {name} must be a number, vector or square matrix. Got shape {scale.shape}."
        )
    return scale


def _as_points(x: Any, size: int, name: str) -> tuple[Any, tuple[int, ...]]:
    """Return x with its matrices along the last two axes, and the shape of the result."""
    if x.ndim < 2 and size == 1:
        return reshape_p(x, shape=(*x.shape, 1, 1)), tuple(x.shape)
    if x.ndim < 2 or x.shape[0] != size or x.shape[1] != size:
        raise ShapeError(
            f"{name} needs x with {size} by {size} matrices along its first two axes. "
            f"Got shape {x.shape}."
        )
    return moveaxis(x, (0, 1), (-2, -1)), x.shape[2:]


def _squeezed(is_valid: Any, y: Any) -> Any:
    """Return the values without axes of length 1, and NaN where the parameters are invalid."""
    y = where(is_valid, y, math.nan)
    return reshape_p(y, shape=tuple(n for n in y.shape if n != 1))


def _products_of_diagonal(scale: Any) -> Any:
    diagonal = matrix_diag_part(scale)
    return expand_dims(diagonal, -1) * expand_dims(diagonal, -2)


class _Squares(ABC):
    """The base class of the Wishart and inverse Wishart distributions."""

    _name: ClassVar[str]

    def __call__(self, df: Any, scale: Any = 1.0, seed: Any = None) -> FrozenWishart:
        """Return the frozen distribution with these parameters."""
        return FrozenWishart(self, df, scale, seed)

    def _read(self, *values: Any) -> tuple[Any, ...]:
        *others, scale = operands(*values)
        scale = _as_scale(scale, self._name)
        size = scale.shape[-1]
        # There is no density for fewer degrees of freedom.
        is_valid = others[-1] > size - 1
        df = where(is_valid, others[-1], float(size))
        return *others[:-1], df, scale, size, is_valid

    def logpdf(self, x: Any, df: Any, scale: Any) -> Any:
        """Return the logarithm of the density at positive definite matrices x."""
        x, df, scale, size, is_valid = self._read(x, df, scale)
        x, shape = _as_points(x, size, self._name)
        y = self._log_density(cholesky(x), df, cholesky(scale), size)
        return reshape_p(where(is_valid, y, math.nan), shape=shape)

    @abstractmethod
    def _log_density(self, root: Any, df: Any, factor: Any, size: int) -> Any:
        """Return the logarithm of the density from the Cholesky factors of x and of the scale."""

    def pdf(self, x: Any, df: Any, scale: Any) -> Any:
        """Return the density at positive definite matrices x."""
        return exp(self.logpdf(x, df, scale))

    def rvs(self, df: Any, scale: Any, size: Any = 1, random_state: Any = None) -> Any:
        """Draw `[*size, n, n]` matrices without axes of length 1, differentiable in df, scale."""
        df, scale, count, is_valid = self._read(df, scale)
        standard = self._spread(_bartlett(df, count, size, random_state))
        root = cholesky(scale) @ standard
        return _squeezed(is_valid, root @ matrix_transpose(root))

    @abstractmethod
    def _spread(self, factor: Any) -> Any:
        """Return the root of a standard matrix from the factor of a standard Wishart matrix."""


class Wishart(_Squares):
    """The Wishart distribution, differentiable in df and scale; SciPy's `wishart`.

    >>> wishart = Wishart()
    >>> round(float(wishart.logpdf([[2.0, 0.0], [0.0, 1.0]], 3.0, [[1.0, 0.0], [0.0, 1.0]])), 4)
    -4.031
    """

    _name = "wishart"

    def _log_density(self, root: Any, df: Any, factor: Any, size: int) -> Any:
        spread = triangular_solve(factor, root)
        half = 0.5 * df
        y = 0.5 * (df - size - 1) * _log_det(root) - 0.5 * sum_over(spread * spread, (-2, -1))
        return y - half * size * math.log(2) - half * _log_det(factor) - multigammaln(half, size)

    def mean(self, df: Any, scale: Any) -> Any:
        """Return the mean."""
        df, scale, _, is_valid = self._read(df, scale)
        return _squeezed(is_valid, df * scale)

    def mode(self, df: Any, scale: Any) -> Any:
        """Return the mode; NaN for df below size + 1."""
        df, scale, size, is_valid = self._read(df, scale)
        return _squeezed(is_valid & (df >= size + 1), (df - size - 1) * scale)

    def var(self, df: Any, scale: Any) -> Any:
        """Return the variance of each entry."""
        df, scale, _, is_valid = self._read(df, scale)
        return _squeezed(is_valid, df * (scale * scale + _products_of_diagonal(scale)))

    def entropy(self, df: Any, scale: Any) -> Any:
        """Return the differential entropy."""
        df, scale, size, is_valid = self._read(df, scale)
        half, log_det = 0.5 * df, _log_det(cholesky(scale))
        mean = _digammas(half, size) + size * math.log(2) + log_det
        y = half * size * (1 + math.log(2)) + half * log_det + multigammaln(half, size)
        return where(is_valid, y - 0.5 * (df - size - 1) * mean, math.nan)

    def _spread(self, factor: Any) -> Any:
        return factor


def _digammas(half: Any, size: int) -> Any:
    total = digamma(half)
    for j in range(1, size):
        total = total + digamma(half - 0.5 * j)
    return total


def _bartlett(df: Any, count: int, size: Any, random_state: Any) -> Any:
    """Draw the Cholesky factor of a standard Wishart matrix by Bartlett's decomposition."""
    shape, dtype = as_shape(size, "size"), numpy_dtype_of(df)
    source = draws.source_of(random_state)
    chi = [draws.gamma(source, shape, dtype, 0.5 * (df - j)) for j in range(count)]
    below = triangle(draws.normal(source, (*shape, count, count), dtype), True, -1)
    return below + matrix_diag(sqrt(2 * stack(chi, -1)))


@dataclass(eq=False, repr=False)
class FrozenWishart(FrozenDensity):
    """A Wishart or inverse Wishart distribution with fixed parameters.

    >>> FrozenWishart(Wishart(), 3.0, [1.0, 2.0]).mean().tolist()
    [[3.0, 0.0], [0.0, 6.0]]
    """

    dist: Any
    df: Any
    scale: Any
    seed: Any = None

    def mean(self) -> Any:
        """Return the mean."""
        return self.dist.mean(self.df, self.scale)

    def mode(self) -> Any:
        """Return the mode."""
        return self.dist.mode(self.df, self.scale)

    def var(self) -> Any:
        """Return the variance of each entry."""
        return self.dist.var(self.df, self.scale)


class InverseWishart(_Squares):
    """The inverse Wishart distribution, differentiable in df and scale; SciPy's `invwishart`.

    >>> invwishart = InverseWishart()
    >>> round(float(invwishart.logpdf(2.0, 3.0, 1.0)), 4)
    -2.9018
    """

    _name = "invwishart"

    def _log_density(self, root: Any, df: Any, factor: Any, size: int) -> Any:
        spread = triangular_solve(root, factor)
        half = 0.5 * df
        y = half * (_log_det(factor) - size * math.log(2)) - multigammaln(half, size)
        return (
            y - 0.5 * (df + size + 1) * _log_det(root) - 0.5 * sum_over(spread * spread, (-2, -1))
        )

    def mean(self, df: Any, scale: Any) -> Any:
        """Return the mean; NaN for df up to size + 1."""
        df, scale, size, _ = self._read(df, scale)
        excess = df - size - 1
        is_valid = excess > 0
        return _squeezed(is_valid, scale / where(is_valid, excess, 1.0))

    def mode(self, df: Any, scale: Any) -> Any:
        """Return the mode."""
        df, scale, size, is_valid = self._read(df, scale)
        return _squeezed(is_valid, scale / (df + size + 1))

    def var(self, df: Any, scale: Any) -> Any:
        """Return the variance of each entry; NaN for df up to size + 3."""
        df, scale, size, _ = self._read(df, scale)
        is_valid = df > size + 3
        excess = where(is_valid, df, size + 4.0) - size
        top = (excess + 1) * scale * scale + (excess - 1) * _products_of_diagonal(scale)
        y = top / (excess * (excess - 1) ** 2 * (excess - 3))
        return _squeezed(is_valid, y)

    def entropy(self, df: Any, scale: Any) -> Any:
        """Return the differential entropy."""
        df, scale, size, is_valid = self._read(df, scale)
        half, log_det = 0.5 * df, _log_det(cholesky(scale))
        rest = 0.5 * (size + 1) * (log_det - size * math.log(2))
        spread = 0.5 * (df + size + 1) * _digammas(half, size)
        y = multigammaln(half, size) + half * size + rest - spread
        return where(is_valid, y, math.nan)

    def _spread(self, factor: Any) -> Any:
        # For the factor B of a Wishart matrix, (C B⁻ᵀ)(C B⁻ᵀ)ᵀ has the inverse Wishart
        # distribution.
        return matrix_transpose(inv(factor))


class MatrixNormal:
    """The matrix normal distribution with row and column covariances; SciPy's `matrix_normal`.

    >>> matrix_normal = MatrixNormal()
    >>> round(float(matrix_normal.logpdf([[0.0, 1.0]], rowcov=1.0, colcov=[1.0, 2.0])), 4)
    -2.4345
    """

    def __call__(
        self, mean: Any = None, rowcov: Any = 1, colcov: Any = 1, seed: Any = None
    ) -> FrozenMatrixNormal:
        """Return the frozen distribution with these parameters."""
        return FrozenMatrixNormal(self, mean, rowcov, colcov, seed)

    def logpdf(self, X: Any, mean: Any = None, rowcov: Any = 1, colcov: Any = 1) -> Any:
        """Return the logarithm of the density at matrices along the last two axes of X."""
        X, mean, rows, columns = operands(X, 0.0 if mean is None else mean, rowcov, colcov)
        if X.ndim < 2:
            raise ShapeError(
                f"matrix_normal needs matrices along the last two axes. Got shape {X.shape}."
            )
        mean, rows, columns = _matrix_parameters(mean, rows, columns, X.shape[-2:])
        n, p = X.shape[-2:]
        left, right = cholesky(rows), cholesky(columns)
        gap = triangular_solve(left, X - mean)
        gap = triangular_solve(right, matrix_transpose(gap))
        volume = 0.5 * (p * _log_det(left) + n * _log_det(right) + n * p * math.log(2 * math.pi))
        return -0.5 * sum_over(gap * gap, (-2, -1)) - volume

    def pdf(self, X: Any, mean: Any = None, rowcov: Any = 1, colcov: Any = 1) -> Any:
        """Return the density."""
        return exp(self.logpdf(X, mean, rowcov, colcov))

    def entropy(self, mean: Any = None, rowcov: Any = 1, colcov: Any = 1) -> Any:
        """Return the differential entropy."""
        mean, rows, columns = _matrix_parameters(mean, rowcov, colcov, None)
        n, p = mean.shape
        volume = p * _log_det(cholesky(rows)) + n * _log_det(cholesky(columns))
        return 0.5 * (volume + n * p * (1 + math.log(2 * math.pi)))

    def rvs(
        self,
        mean: Any = None,
        rowcov: Any = 1,
        colcov: Any = 1,
        size: Any = 1,
        random_state: Any = None,
    ) -> Any:
        """Draw `[*size, rows, columns]` matrices, differentiable in all parameters."""
        mean, rows, columns = _matrix_parameters(mean, rowcov, colcov, None)
        outer = as_shape(size, "size")
        noise = draws.normal(
            draws.source_of(random_state), (*outer, *mean.shape), numpy_dtype_of(mean)
        )
        y = cholesky(rows) @ noise @ matrix_transpose(cholesky(columns)) + mean
        return reshape_p(y, shape=tuple(mean.shape)) if outer == (1,) else y


def _matrix_parameters(mean: Any, rows: Any, columns: Any, shape: Any) -> tuple[Any, Any, Any]:
    """Return the mean and both covariances as matrices; numbers and vectors are diagonals."""
    mean, rows, columns = operands(0.0 if mean is None else mean, rows, columns)
    if shape is None and mean.ndim == 2:
        shape = tuple(mean.shape)
    sizes = []
    for axis, cov in enumerate((rows, columns)):
        sizes.append(cov.shape[-1] if cov.shape else (1 if shape is None else shape[axis]))
    full = tuple(sizes)
    given = full if shape is None else shape
    if full != given or (mean.shape and mean.shape != full):
        raise ShapeError(
            "matrix_normal needs mean, rowcov and colcov that match the matrices. Got matrices of "
            f"shape {given}, a mean of shape {mean.shape}, and covariances of shapes "
            f"{rows.shape} and {columns.shape}."
        )
    covariances = [_covariance(cov, size) for cov, size in zip((rows, columns), full)]
    center = mean if mean.shape else broadcast_p(mean, shape=full)
    return center, covariances[0], covariances[1]


def _covariance(cov: Any, size: int) -> Any:
    if cov.ndim == 2:
        return cov
    return matrix_diag(broadcast_p(cov, shape=(size,)))


@dataclass(eq=False, repr=False)
class FrozenMatrixNormal(FrozenDensity):
    """A matrix normal distribution with fixed parameters.

    >>> frozen = FrozenMatrixNormal(MatrixNormal(), [[1.0, 2.0]], 1.0, 1.0)
    >>> round(float(frozen.entropy()), 4)
    2.8379
    """

    dist: Any
    mean: Any
    rowcov: Any
    colcov: Any
    seed: Any = None

    def logpdf(self, X: Any) -> Any:
        """Return the logarithm of the density at X."""
        return self.dist.logpdf(X, self.mean, self.rowcov, self.colcov)

    def pdf(self, X: Any) -> Any:
        """Return the density at X."""
        return self.dist.pdf(X, self.mean, self.rowcov, self.colcov)


wishart = Wishart()
invwishart = InverseWishart()
matrix_normal = MatrixNormal()
