"""Derivatives, integrals, roots, fits and changes of basis, mostly by NumPy's matrices."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from tapegrad.core.argument_checks import check_rounds, check_whole, described, is_whole
from tapegrad.core.primitive.operand import normalize_axis
from tapegrad.core.values.convert import read_on_host
from tapegrad.errors import ArgumentError, ShapeError
from tapegrad.numpy import linalg
from tapegrad.numpy.joining import concat
from tapegrad.numpy.manipulation import atleast_1d
from tapegrad.numpy.polynomial.arithmetic import Arithmetic
from tapegrad.numpy.polynomial.basis import padded, series, zeros_like_row
from tapegrad.numpy.polynomial.evaluation import Evaluation
from tapegrad.numpy.products import tensordot
from tapegrad.numpy.values import (
    as_array,
    as_array_like,
    as_arrays,
    dtype_of,
    floating,
    side_by_side,
)
from tapegrad.ops.creation import full_like_p
from tapegrad.ops.elementwise.complex_numbers import real
from tapegrad.ops.elementwise.selection import where
from tapegrad.ops.indexing.sorting import sort_p
from tapegrad.ops.kinds import is_complex
from tapegrad.ops.products.functions import matmul
from tapegrad.ops.reduction import primitives as reduction
from tapegrad.ops.shape.functions import moveaxis, reshape


class Family(Arithmetic, Evaluation):
    """A family of polynomials with all of NumPy's functions."""

    def der(self, c: Any, m: int = 1, scl: Any = 1, axis: int = 0) -> Any:
        """Return the series of the `m`-th derivative; each is multiplied by `scl`.

        >>> from tapegrad.numpy.polynomial.legendre import legder
        >>> legder([1.0, 2.0, 3.0]).tolist()
        [2.0, 9.0]
        """
        c, axis, times = _moved(c, m, axis, "derivative")
        if not times:
            return moveaxis(c, 0, axis)
        c = _applied(_matrix(self, "der", c.shape[0], times), c)
        return moveaxis(c if _is_one(scl) else c * scl**times, 0, axis)

    def int(
        self, c: Any, m: int = 1, k: Any = (), lbnd: Any = 0, scl: Any = 1, axis: int = 0
    ) -> Any:
        """Return the series of the `m`-th integral from `lbnd`, plus the constants `k`.

        >>> from tapegrad.numpy.polynomial.polynomial import polyint
        >>> polyint([2.0, 6.0], k=1.0).tolist()
        [1.0, 2.0, 3.0]
        """
        c, axis, times = _moved(c, m, axis, "integral")
        check_rounds("m", times, "the integral of a series")
        if np.ndim(lbnd) or np.ndim(scl):
            raise ShapeError("An integral needs one number as lbnd and as scl.")
        constants = list(k) if np.ndim(k) else [k]
        if len(constants) > times:
            raise ArgumentError(f"An integral of order {times} needs {times} constants. Got {k!r}.")
        for step in range(times):
            c = _applied(_matrix(self, "int", c.shape[0], 1), c)
            c = c if _is_one(scl) else c * scl
            shift: Any = constants[step] if step < len(constants) else None
            if not (type(lbnd) in (int, float) and lbnd == 0):
                start = self.val(lbnd, c)
                shift = -start if shift is None else shift - start
            if shift is not None:
                c = concat([c[:1] + as_array_like(shift, c), c[1:]])
        return moveaxis(c, 0, axis)

    def companion(self, c: Any) -> Any:
        """Return the matrix whose eigenvalues are the roots of a series.

        >>> from tapegrad.numpy.polynomial.polynomial import polycompanion
        >>> polycompanion([2.0, 3.0, 1.0]).tolist()
        [[0.0, -2.0], [1.0, -3.0]]
        """
        (c,) = series(c)
        if c.shape[0] < 2:
            raise ShapeError("A companion matrix needs a series of degree 1 or more. Got degree 0.")
        base, slope = (part.astype(dtype_of(c)) for part in _companion(self, c.shape[0] - 1))
        column = reshape(c[:-1] / c[-1] * as_array(slope, c), (-1, 1))
        size = base.shape[0]
        zeros = full_like_p(c, shape=(size, size - 1), value=0, dtype=dtype_of(column))
        return as_array(base, c) + concat([zeros, column], axis=1)

    def roots(self, c: Any) -> Any:
        """Return the sorted roots of a series. Sorting reads them on the host.

        >>> from tapegrad.numpy.polynomial.polynomial import polyroots
        >>> polyroots([2.0, -3.0, 1.0]).round(9).tolist()
        [1.0, 2.0]
        """
        c = self.trim(c)
        if c.shape[0] < 2:
            return zeros_like_row(c, 0)
        matrix = self.companion(c)
        found = reshape(matrix, (1,)) if c.shape[0] == 2 else linalg.eigvals(matrix[::-1, ::-1])
        if not is_complex(found):
            return sort_p(found, axis=0, descending=False)
        values = read_on_host(found, "roots of a polynomial")
        order = np.lexsort((values.imag, values.real))
        is_real = not is_complex(c) and not np.iscomplex(values).any()
        return real(found)[order] if is_real else found[order]

    def fit(
        self, x: Any, y: Any, deg: Any, rcond: Any = None, full: bool = False, w: Any = None
    ) -> Any:
        """Fit a series of a degree, or of a list of degrees, to points by least squares.

        With `full`, also return a list of residuals, rank, singular values and their limit.

        >>> from tapegrad.numpy.polynomial.polynomial import polyfit
        >>> polyfit([0.0, 1.0, 2.0], [1.0, 3.0, 5.0], 1).round(9).tolist()
        [1.0, 2.0]
        """
        x, y = (floating(part) for part in side_by_side(x, y))
        if len(x.shape) != 1 or len(y.shape) not in (1, 2) or x.shape[0] != y.shape[0]:
            raise ShapeError(
                f"A fit needs as many values as points. Got shapes {x.shape} and {y.shape}."
            )
        degrees = np.atleast_1d(np.asarray(deg))
        if degrees.ndim != 1 or degrees.dtype.kind not in "iu" or degrees.min() < 0:
            raise ArgumentError(f"deg must be an integer >= 0, or a list of them. Got {deg!r}.")
        wanted = np.arange(degrees[0] + 1) if np.ndim(deg) == 0 else np.sort(degrees)
        matrix, right = as_arrays([self.vander(x, int(degrees.max()))[:, wanted], y])
        if w is not None:
            weights = floating(w, x)
            matrix = matrix * reshape(weights, (-1, 1))
            right = right * (reshape(weights, (-1, 1)) if len(y.shape) == 2 else weights)
        limit = x.shape[0] * float(np.finfo(dtype_of(x)).eps) if rcond is None else rcond
        size = reduction.sum(abs(matrix) ** 2, 0) ** 0.5
        size = where(size == 0, 1.0, size)
        found = matmul(linalg.pinv(matrix / size, limit), right)
        found = found / (reshape(size, (-1, 1)) if len(y.shape) == 2 else size)
        if len(wanted) <= wanted[-1]:
            places = np.eye(int(wanted[-1]) + 1, dtype=dtype_of(found))[:, wanted]
            found = matmul(as_array(places, found), found)
        if not full:
            return found
        _, residuals, rank, values = linalg.lstsq(matrix / size, right, limit)
        return found, [residuals, int(rank), values, limit]

    def to_powers(self, c: Any) -> Any:
        """Convert to the coefficients of powers of x.

        >>> from tapegrad.numpy.polynomial.chebyshev import cheb2poly
        >>> cheb2poly([0.0, 0.0, 1.0]).tolist()
        [-1.0, 0.0, 2.0]
        """
        (c,) = series(c)
        return _applied(_change(self, f"{self.prefix}2poly", c.shape[0]), c)

    def from_powers(self, pol: Any) -> Any:
        """Convert from the coefficients of powers of x.

        >>> from tapegrad.numpy.polynomial.chebyshev import poly2cheb
        >>> poly2cheb([-1.0, 0.0, 2.0]).tolist()
        [0.0, 0.0, 1.0]
        """
        (pol,) = series(pol)
        return _applied(_change(self, f"poly2{self.prefix}", pol.shape[0]), pol)

    def in_basis(self, other: Family, c: Any, off: Any, scl: Any) -> Any:
        """Return x -> (this series at off + scl x) as a series of another family."""
        (c,) = series(c)
        one = padded(zeros_like_row(c, 1) + 1, c.shape[0])
        return self.summed(c, one, lambda y: y * off + other.times_x(y) * scl)


def _moved(c: Any, m: Any, axis: int, what: str) -> tuple[Any, int, int]:
    """Return coefficients with the axis moved to the front, its position, and the order."""
    if not is_whole(m) or m < 0:
        raise ArgumentError(f"The order of {what}s must be an integer >= 0. Got {described(m)}.")
    m = check_whole("m", m)
    c = atleast_1d(floating(c))
    axis = normalize_axis(axis, len(c.shape), what)
    return moveaxis(c, axis, 0), axis, m


def _is_one(value: Any) -> bool:
    return type(value) in (int, float) and value == 1


def _applied(matrix: np.ndarray, c: Any) -> Any:
    factors = as_array(matrix.astype(dtype_of(c)), c)
    return (
        matmul(factors, reshape(c, (-1, 1)))[:, 0]
        if len(c.shape) == 1
        else tensordot(factors, c, axes=1)
    )


@cache
def _matrix(family: Family, name: str, count: int, times: int) -> np.ndarray:
    """Return the matrix whose columns are the derivatives or integrals of the polynomials."""
    function = getattr(family.numpys, family.prefix + name)
    return np.asarray(function(np.eye(count), times))


@cache
def _change(family: Family, name: str, count: int) -> np.ndarray:
    """Return the matrix that expresses one basis in another, in columns."""
    matrix = np.zeros((count, count))
    for k in range(count):
        column = getattr(family.numpys, name)(np.eye(count)[k])
        matrix[: len(column), k] = column
    return matrix


@cache
def _companion(family: Family, degree: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the companion matrix of p[degree], and the dependence of its last column."""
    function = getattr(family.numpys, f"{family.prefix}companion")
    base = function(np.eye(degree + 1)[-1])
    return base, (function(np.ones(degree + 1)) - base)[:, -1]
