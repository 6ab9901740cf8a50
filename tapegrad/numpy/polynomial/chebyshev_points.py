"""Chebyshev points, and interpolation at them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from numpy.polynomial import chebyshev as numpys

from tapegrad.errors import ArgumentError
from tapegrad.numpy.joining import concat
from tapegrad.numpy.polynomial.families import CHEBYSHEV
from tapegrad.numpy.values import as_array, as_arrays
from tapegrad.ops.products.functions import matmul


def chebpts1(npts: int) -> Any:
    """Return the zeros of a Chebyshev polynomial in ascending order.

    >>> chebpts1(2).round(4).tolist()
    [-0.7071, 0.7071]
    """
    if npts != int(npts) or npts < 1:
        raise ArgumentError(f"chebpts1 needs npts >= 1. Got {npts!r}.")
    return as_array(numpys.chebpts1(npts))


def chebpts2(npts: int) -> Any:
    """Return the extrema of the Chebyshev polynomial of degree npts - 1 in ascending order.

    >>> chebpts2(3).round(4).tolist()
    [-1.0, 0.0, 1.0]
    """
    if npts != int(npts) or npts < 2:
        raise ArgumentError(f"chebpts2 needs npts >= 2. Got {npts!r}.")
    return as_array(numpys.chebpts2(npts))


def chebinterpolate(func: Callable[..., Any], deg: int, args: Sequence[Any] = ()) -> Any:
    """Return the series that interpolates a function at Chebyshev points of the first kind.

    >>> chebinterpolate(lambda x: 2.0 * x * x + x, 2).round(9).tolist()
    [1.0, 1.0, 1.0]
    """
    if deg != int(deg) or deg < 0:
        raise ArgumentError(f"chebinterpolate needs deg >= 0. Got {deg!r}.")
    points = chebpts1(deg + 1)
    values, matrix = as_arrays([func(points, *args), CHEBYSHEV.vander(points, deg)])
    sums = matmul(matrix.T, values[:, None])[:, 0]
    return concat([sums[:1], 2.0 * sums[1:]]) / (deg + 1)
