"""Polynomials in several variables, the lowest power first, as NumPy's `polynomial.polynomial`."""

from __future__ import annotations

from typing import Any

from tapegrad.errors import ShapeError
from tapegrad.numpy.values import side_by_side
from tapegrad.ops.shape import reshape


def _evaluated(coefficients: Any, x: Any) -> Any:
    """Horner's scheme over the first axis; the others of the coefficients stay in front."""
    result = coefficients[-1] + 0 * x
    for k in range(coefficients.shape[0] - 2, -1, -1):
        result = coefficients[k] + result * x
    return result


def _open(coefficients: Any, x: Any) -> Any:
    """Append to the coefficients one axis for each of `x`."""
    return reshape(coefficients, (*coefficients.shape, *[1] * len(x.shape)))


def polyval2d(x: Any, y: Any, c: Any) -> Any:
    """Return the sum of c[i, j] x**i y**j at each pair of points.

    >>> polyval2d(1.0, 1.0, [[1, 2, 3], [4, 5, 6]]).tolist()
    21.0
    """
    return polyvalnd((x, y), c)


def polyvalnd(pts: Any, c: Any) -> Any:
    """Return the sum of c[i, j, ...] x**i y**j ... at points whose coordinates are `pts`.

    >>> polyvalnd((1.0, 1.0, 2.0), [[[1, 2]], [[3, 4]]]).tolist()
    16.0
    """
    *points, c = side_by_side(*pts, c)
    if len({tuple(x.shape) for x in points}) != 1:
        shapes = ", ".join([str(tuple(x.shape)) for x in points])
        raise ShapeError(f"Coordinates of points need one shape. Got {shapes}.")
    missing = len(points) - len(c.shape)
    result = _open(reshape(c, (*c.shape, *[1] * missing)), points[0])
    for x in points:
        result = _evaluated(result, x)
    return result


def polygrid2d(x: Any, y: Any, c: Any) -> Any:
    """Return the sum of c[i, j] x**i y**j at each `x` with each `y`.

    >>> polygrid2d([0.0, 1.0], [0.0, 1.0], [[1, 2, 3], [4, 5, 6]]).tolist()
    [[1.0, 6.0], [5.0, 21.0]]
    """
    x, y, c = side_by_side(x, y, c)
    along_x = _evaluated(_open(c, x), x)
    return _evaluated(_open(along_x, y), y)
