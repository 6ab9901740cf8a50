"""Spline interpolation between pixels, the core of map_coordinates, zoom, shift and rotate.

`Sampler` holds the spline coefficients of the leading axes of an image. It evaluates arbitrary
points, or a grid that is the product of coordinates per axis.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from tapegrad.scipy.ndimage.boundaries import extend, fold_coordinate, fold_index, is_inside
from tapegrad.scipy.ndimage.splines import neighbours, spline_coefficients
from tapegrad.scipy.vocabulary import (
    cast,
    numpy_dtype_of,
    place_next_to,
    reshape_p,
    sum_over,
    take,
    take_p,
    where,
)

MARGIN = 12
"""Pixels that SciPy adds around an image whose mode has no exact prefilter."""

# The mode for neighbours beyond the edge, where it differs from the mode of the image.
_NEIGHBOURS = {"constant": "mirror", "wrap": "mirror"}


class Sampler:
    """Evaluates an image between its pixels along the `rank` leading axes."""

    def __init__(
        self, x: Any, rank: int, order: int, mode: str, cval: Any, prefilter: bool
    ) -> None:
        self.order = order
        self.mode = mode
        self.cval = cval
        self.margin = MARGIN if self._needs_margin(prefilter) else 0
        if mode == "grid-constant":
            # The weights sum to 1, so the constant can be subtracted here and added at the end.
            x = x - cval
        for axis in range(rank):
            if self.margin:
                x = extend(x, axis, self.margin, self.margin, mode, 0.0)
            if prefilter:
                x = spline_coefficients(x, order, axis, mode)
        self.coefficients = x
        self.rank = rank

    def _needs_margin(self, prefilter: bool) -> bool:
        return prefilter and self.order > 1 and self.mode in ("nearest", "grid-constant")

    def at_points(self, coordinates: Sequence[Any]) -> Any:
        """Evaluate at points given by one coordinate array per axis, all of one shape."""
        rest = self.coefficients.shape[self.rank :]
        points = tuple(coordinates[0].shape) if coordinates else ()
        found = [self._along(x, axis) for axis, x in enumerate(coordinates)]
        y = contract(self.coefficients, [f[:2] for f in found], points)
        inside = None
        for _, _, within in found:
            if within is not None:
                inside = within if inside is None else inside & within
        if inside is not None:
            inside = reshape_p(inside, shape=(*points, *[1] * len(rest)))
        return self._with_constant(y, inside)

    def at_lines(self, coordinates: Sequence[Any]) -> Any:
        """Evaluate on the grid with the given coordinates along each axis."""
        y = self.coefficients
        size, inside = y.ndim, None
        for axis, x in enumerate(coordinates):
            index, weights, within = self._along(x, axis)
            taken = take_p(y, index, axis=axis)
            tail = [1] * (y.ndim - axis - 1)
            y = sum_over(taken * reshape_p(weights, shape=(*weights.shape, *tail)), axis=axis)
            if within is not None:
                within = reshape_p(within, shape=(within.shape[0], *[1] * (size - axis - 1)))
                inside = within if inside is None else inside & within
        return self._with_constant(y, inside)

    def _with_constant(self, y: Any, inside: Any) -> Any:
        if self.mode == "grid-constant":
            return y + self.cval
        return y if inside is None else where(inside, y, self.cval)

    def _along(self, x: Any, axis: int) -> tuple[Any, Any, Any]:
        """Return the neighbours along an axis, their weights, and which points are inside."""
        length = self.coefficients.shape[axis]
        inside = None
        if self.mode == "constant":
            inside = is_inside(x, length)
            x = where(inside, x, 0.0)
        x = fold_coordinate(x + float(self.margin) if self.margin else x, length, self.mode)
        first, weights = neighbours(x, self.order)
        steps = np.arange(self.order + 1).reshape(-1, *[1] * x.ndim)
        index = cast(reshape_p(first, shape=(1, *first.shape)), "int64")
        index = index + place_next_to(x, steps)
        weights = cast(weights, numpy_dtype_of(self.coefficients))
        if self.mode == "grid-constant":
            within = (index >= 0) & (index < length)
            weights = where(within, weights, 0.0)
        fold = _NEIGHBOURS.get(self.mode, self.mode)
        return fold_index(index, length, fold), weights, inside


def contract(values: Any, along: Sequence[tuple[Any, Any]], points: tuple[int, ...]) -> Any:
    """Sum over neighbours; `along` has their indices [k, *points] and weights per axis.

    >>> import tapegrad
    >>> index, half = tapegrad.constant([[0], [1]]), tapegrad.constant([[0.5], [0.5]])
    >>> contract(tapegrad.constant([1.0, 3.0]), [(index, half)], (1,)).tolist()
    [2.0]
    """
    rank = len(along)
    rest = values.shape[rank:]
    place: Any = None
    for axis, (index, _) in enumerate(along):
        spread = [1] * rank
        spread[axis] = index.shape[0]
        index = reshape_p(index, shape=(*spread, *points))
        place = index if place is None else place * values.shape[axis] + index
    if place is None:
        return values
    flat = reshape_p(values, shape=(math.prod(values.shape[:rank]), *rest))
    y = take(flat, place)
    for axis, (_, weights) in enumerate(along):
        left = [1] * (rank - axis - 1)
        shape = (weights.shape[0], *left, *points, *[1] * len(rest))
        y = sum_over(y * reshape_p(weights, shape=shape), axis=0)
    return y
