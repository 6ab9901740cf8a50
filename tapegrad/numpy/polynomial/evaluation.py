"""Evaluation of series at points and on grids, and Vandermonde matrices."""

from __future__ import annotations

import math
from typing import Any

from tapegrad.core.argument_checks import check_count
from tapegrad.errors import ArgumentError, ShapeError
from tapegrad.numpy.manipulation import atleast_1d
from tapegrad.numpy.polynomial.basis import Basis, beside, series
from tapegrad.numpy.values import as_array, floating
from tapegrad.ops.shape.functions import reshape
from tapegrad.ops.shape.joining import stack


class Evaluation(Basis):
    """Evaluation of series of one family."""

    def val(self, x: Any, c: Any, tensor: bool = True) -> Any:
        """Return the value of a series at each `x`.

        Further axes of `c` hold further series. Each is evaluated at all points, or, if `tensor` is
        False, at the points with the same index.

        >>> from tapegrad.numpy.polynomial.chebyshev import chebval
        >>> chebval([0.0, 0.5], [1.0, 2.0, 3.0]).tolist()
        [-2.0, 0.5]
        """
        x, c = beside(x, c)
        c = atleast_1d(c)
        return self._along(x, _open(c, len(x.shape)) if tensor else c)

    def _along(self, x: Any, c: Any) -> Any:
        found = self.summed(c, None, lambda y: x * y)
        return found if c.shape[0] > 1 else found + 0 * x

    def _at(self, coordinates: tuple[Any, ...], c: Any) -> Any:
        *points, c = beside(*coordinates, c)
        if len({tuple(x.shape) for x in points}) != 1:
            shapes = ", ".join([str(tuple(x.shape)) for x in points])
            raise ShapeError(f"Coordinates of points must have the same shape. Got {shapes}.")
        c = _open(c, max(len(points) - len(c.shape), 0))
        c = _open(c, len(points[0].shape))
        for x in points:
            c = self._along(x, c)
        return c

    def val2d(self, x: Any, y: Any, c: Any) -> Any:
        """Return the sum of c[i, j] p[i](x) p[j](y) at each pair of points.

        >>> from tapegrad.numpy.polynomial.polynomial import polyval2d
        >>> polyval2d(1.0, 1.0, [[1, 2, 3], [4, 5, 6]]).tolist()
        21.0
        """
        return self._at((x, y), c)

    def val3d(self, x: Any, y: Any, z: Any, c: Any) -> Any:
        """Return the sum of c[i, j, k] p[i](x) p[j](y) p[k](z) at each triple of points.

        >>> from tapegrad.numpy.polynomial.polynomial import polyval3d
        >>> polyval3d(1.0, 1.0, 2.0, [[[1, 2]], [[3, 4]]]).tolist()
        16.0
        """
        return self._at((x, y, z), c)

    def valnd(self, pts: Any, c: Any) -> Any:
        """Return the sum of c[i, j, ...] p[i](x) p[j](y) ... at points with coordinates `pts`.

        >>> from tapegrad.numpy.polynomial.polynomial import polyvalnd
        >>> polyvalnd((1.0, 1.0, 2.0), [[[1, 2]], [[3, 4]]]).tolist()
        16.0
        """
        return self._at(tuple(pts), c)

    def grid2d(self, x: Any, y: Any, c: Any) -> Any:
        """Return the sum of c[i, j] p[i](x) p[j](y) on the grid of `x` and `y`.

        >>> from tapegrad.numpy.polynomial.polynomial import polygrid2d
        >>> polygrid2d([0.0, 1.0], [0.0, 1.0], [[1, 2, 3], [4, 5, 6]]).tolist()
        [[1.0, 6.0], [5.0, 21.0]]
        """
        return self._on_grid((x, y), c)

    def grid3d(self, x: Any, y: Any, z: Any, c: Any) -> Any:
        """Return the sum of c[i, j, k] p[i](x) p[j](y) p[k](z) on a grid.

        >>> from tapegrad.numpy.polynomial.polynomial import polygrid3d
        >>> polygrid3d([0.0, 1.0], [1.0], [2.0], [[[1, 2]], [[3, 4]]]).tolist()
        [[[5.0]], [[16.0]]]
        """
        return self._on_grid((x, y, z), c)

    def _on_grid(self, coordinates: tuple[Any, ...], c: Any) -> Any:
        *points, c = beside(*coordinates, c)
        for x in points:
            c = self._along(x, _open(c, len(x.shape)))
        return c

    def vander(self, x: Any, deg: int) -> Any:
        """Return the polynomials up to a degree at each `x`, along a new last axis.

        >>> from tapegrad.numpy.polynomial.chebyshev import chebvander
        >>> chebvander([0.5], 2).tolist()
        [[1.0, 0.5, -0.5]]
        """
        deg = check_count("deg", deg, "vander")
        x = atleast_1d(floating(x))
        a, b, c = self.steps(deg + 1)
        rows = [0 * x + 1]
        for n in range(deg):
            y = (a[n] * x + b[n]) * rows[n]
            rows.append(y if not n or c[n] == 0 else y - c[n] * rows[n - 1])
        return stack(rows, axis=-1)

    def vander2d(self, x: Any, y: Any, deg: Any) -> Any:
        """Return p[i](x) p[j](y) for all i and j up to two degrees, along a new last axis.

        >>> from tapegrad.numpy.polynomial.polynomial import polyvander2d
        >>> polyvander2d([2.0], [3.0], [1, 1]).tolist()
        [[1.0, 3.0, 2.0, 6.0]]
        """
        return self._products((x, y), deg)

    def vander3d(self, x: Any, y: Any, z: Any, deg: Any) -> Any:
        """Return p[i](x) p[j](y) p[k](z) up to three degrees, along a new last axis.

        >>> from tapegrad.numpy.polynomial.polynomial import polyvander3d
        >>> polyvander3d([2.0], [3.0], [5.0], [1, 0, 1]).tolist()
        [[1.0, 5.0, 2.0, 10.0]]
        """
        return self._products((x, y, z), deg)

    def _products(self, points: tuple[Any, ...], deg: Any) -> Any:
        if len(deg) != len(points):
            raise ArgumentError(f"deg needs {len(points)} degrees, one per axis. Got {deg!r}.")
        found = None
        for x, degree in zip(beside(*points), deg, strict=True):
            more = self.vander(x, degree)
            if found is None:
                found = more
                continue
            wide = reshape(found, (*found.shape, 1)) * reshape(more, (*more.shape[:-1], 1, -1))
            found = reshape(wide, (*wide.shape[:-2], math.prod(wide.shape[-2:])))
        return found

    def weight(self, x: Any) -> Any:
        """Return the weight function of the orthogonality.

        >>> from tapegrad.numpy.polynomial.laguerre import lagweight
        >>> lagweight([0.0]).tolist()
        [1.0]
        """
        assert self.weights is not None
        return self.weights(floating(x))

    def gauss(self, deg: int) -> tuple[Any, Any]:
        """Return points and weights of Gauss quadrature, exact up to the degree 2 deg - 1.

        >>> from tapegrad.numpy.polynomial.legendre import leggauss
        >>> [part.tolist() for part in leggauss(1)]
        [[0.0], [2.0]]
        """
        points, weights = getattr(self.numpys, f"{self.prefix}gauss")(deg)
        return as_array(points), as_array(weights)


def _open(c: Any, count: int) -> Any:
    """Return coefficients with trailing axes of length 1."""
    return reshape(c, (*c.shape, *[1] * count)) if count else c


def value_from_roots(x: Any, r: Any, tensor: bool = True) -> Any:
    """Return the product of x - r over the first axis of the roots, at each `x`.

    >>> value_from_roots([0.0, 3.0], [1.0, 2.0]).tolist()
    [2.0, 2.0]
    """
    x, r = beside(x, r)
    r = atleast_1d(r)
    r = _open(r, len(x.shape)) if tensor else r
    found = x - r[0]
    for k in range(1, r.shape[0]):
        found = found * (x - r[k])
    return found


__all__ = ["Evaluation", "series", "value_from_roots"]
