"""B-splines on a grid: interpolation weights and the prefilter that computes coefficients.

A spline of order n is a sum of B-splines, one per grid point, times coefficients. Its values at the
grid points are the coefficients convolved with the sampled B-spline; the prefilter inverts this
convolution.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np

from tapegrad.ops.convolution.arguments import remembered
from tapegrad.scipy.ndimage.boundaries import checked_mode
from tapegrad.scipy.ndimage.lines import filter_line
from tapegrad.scipy.ndimage.results import apply_to_parts, checked_order
from tapegrad.scipy.vocabulary import cast, floor, numbers_like, reshape_p

Array = np.ndarray

_PERIOD = 512
"""The period of the circular deconvolution; the filter falls below 1e-17 within 50 points."""


def central_bspline(order: int, x: Fraction) -> Fraction:
    """Return the central B-spline of an order at a rational point.

    >>> central_bspline(3, Fraction(0)), central_bspline(3, Fraction(1))
    (Fraction(2, 3), Fraction(1, 6))
    """
    half = Fraction(order + 1, 2)
    total = Fraction(0)
    for j in range(order + 2):
        if x + half - j > 0:
            total += (-1) ** j * math.comb(order + 1, j) * (x + half - j) ** order
    return total / math.factorial(order)


def neighbour_weight_polynomials(order: int) -> Array:
    """Return a matrix [j, k] with the coefficient of t^j in the weight of neighbour k.

    For odd orders t is the distance from the grid point below, for even orders from the nearest
    one.
    """
    reach = order // 2
    rows = []
    for k in range(order + 1):
        # Sum the truncated powers of the B-spline that are nonzero in this interval.
        row = [Fraction(0)] * (order + 1)
        middle = Fraction(1, 2) if order % 2 else Fraction(0)
        for j in range(order + 2):
            start = Fraction(order + 1, 2) - j + reach - k
            if middle + start > 0:
                scale = (-1) ** j * Fraction(math.comb(order + 1, j), math.factorial(order))
                for power in range(order + 1):
                    row[power] += scale * math.comb(order, power) * start ** (order - power)
        rows.append([float(value) for value in row])
    return np.array(rows).T


def neighbours(x: Any, order: int) -> tuple[Any, Any]:
    """Return the index of the first neighbour, and the weights of all along a new first axis.

    >>> import tapegrad
    >>> first, weights = neighbours(tapegrad.constant([1.25]), 1)
    >>> first.tolist(), weights.tolist()
    ([1.0], [[0.75], [0.25]])
    """
    base = floor(x) if order % 2 else floor(x + 0.5)
    shape = (order + 1, *[1] * x.ndim)
    table = remembered(neighbour_weight_polynomials, order)
    rows = [reshape_p(numbers_like(x, row), shape=shape) for row in table]
    weights = rows[-1]
    t = reshape_p(x - base, shape=(1, *x.shape))
    for row in rows[-2::-1]:
        weights = weights * t + row
    if order == 0:
        weights = weights + t * 0.0
    return base - float(order // 2), weights


def _response(order: int) -> Array:
    """Return the inverse of the sampled B-spline as a filter, truncated where it is negligible."""
    samples = np.zeros(_PERIOD)
    for k in range(-(order // 2), order // 2 + 1):
        samples[k] = float(central_bspline(order, Fraction(k)))
    inverse = np.fft.irfft(1.0 / np.fft.rfft(samples).real, _PERIOD)
    reach = int(np.flatnonzero(np.abs(inverse[: _PERIOD // 2]) > 1e-18)[-1])
    # The FFT leaves rounding errors of about 1e-17; the exact filter decays geometrically.
    reach = min(reach, 48)
    return np.concatenate([inverse[-reach:], inverse[: reach + 1]])


def spline_coefficients(x: Any, order: int, axis: int, mode: str) -> Any:
    """Return the spline coefficients of a real image along an axis."""
    if order < 2 or x.shape[axis] < 2:
        return x
    fold = {"reflect": "reflect", "nearest": "reflect", "grid-wrap": "wrap"}.get(mode, "mirror")
    weights = numbers_like(x, remembered(_response, order))
    reach = weights.shape[0] // 2
    return filter_line(x, weights, axis, reach, reach, fold, 0.0)


def spline_filter1d(
    input: Any, order: int = 3, axis: int = -1, output: Any = "float64", mode: str = "mirror"
) -> Any:
    """Return the spline coefficients of an image along one axis.

    >>> spline_filter1d([0.0, 1.0, 0.0], order=2).round(4).tolist()
    [-0.5, 1.5, -0.5]
    """
    order = checked_order(order, "spline_filter1d")
    mode = checked_mode(mode, "spline_filter1d")

    def apply(x: Any, cval: Any) -> Any:
        return spline_coefficients(cast(x, "float64"), order, range(x.ndim)[axis], mode)

    return apply_to_parts(input, 0.0, output, apply, "spline_filter1d")


def spline_filter(input: Any, order: int = 3, output: Any = "float64", mode: str = "mirror") -> Any:
    """Return the spline coefficients of an image along all axes.

    >>> spline_filter([[1.0, 1.0], [1.0, 1.0]]).round(6).tolist()
    [[1.0, 1.0], [1.0, 1.0]]
    """
    order = checked_order(order, "spline_filter", least=2)
    mode = checked_mode(mode, "spline_filter")

    def apply(x: Any, cval: Any) -> Any:
        x = cast(x, "float64")
        for axis in range(x.ndim):
            x = spline_coefficients(x, order, axis, mode)
        return x

    return apply_to_parts(input, 0.0, output, apply, "spline_filter")
