"""Interpolation of scattered data by radial basis functions and a polynomial."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np

from tapegrad.core.argument_checks import check_choice
from tapegrad.errors import ArgumentError, ShapeError
from tapegrad.ops.linalg.solve import solve_p
from tapegrad.scipy.vocabulary import (
    cast,
    concat,
    exp,
    largest,
    log,
    matrix_transpose,
    numbers_like,
    numpy_dtype_of,
    ones_like,
    operand,
    operands,
    reshape_p,
    smallest,
    sqrt,
    stack,
    sum_over,
    where,
    zeros_for,
)

# The minimum polynomial degree that makes the system solvable, and the scale-invariant kernels, for
# which epsilon has no effect.
_LEAST_DEGREE = {"linear": 0, "thin_plate_spline": 1, "cubic": 1, "quintic": 2, "multiquadric": 0}
_SCALE_FREE = ("linear", "thin_plate_spline", "cubic", "quintic")
KERNELS = (*_LEAST_DEGREE, "inverse_multiquadric", "inverse_quadratic", "gaussian")


class RBFInterpolator:
    """RBF interpolation, differentiable in points, values and evaluation points.

    >>> f = RBFInterpolator([[0.0], [1.0], [2.0]], [0.0, 1.0, 2.0])
    >>> f([[0.5]]).round(6).tolist()
    [0.5]
    """

    def __init__(
        self,
        y: Any,
        d: Any,
        neighbors: int | None = None,
        smoothing: Any = 0.0,
        kernel: str = "thin_plate_spline",
        epsilon: Any = None,
        degree: int | None = None,
    ) -> None:
        if neighbors is not None:
            raise ArgumentError("RBFInterpolator always uses all points. Pass neighbors=None.")
        check_choice("The kernel", kernel, KERNELS)
        self.kernel = kernel
        self.y, d = operands(y, d)
        if self.y.ndim != 2 or not d.shape or d.shape[0] != self.y.shape[0]:
            raise ShapeError(
                "RBFInterpolator needs y of shape [point, coordinate] and one value per point. "
                f"Got shapes {self.y.shape} and {d.shape}."
            )
        self.epsilon = _scale(epsilon, kernel)
        points, rank = self.y.shape
        highest = _degree(degree, kernel)
        needed = _least_points(highest, rank) if highest < points else highest + 1
        if needed > points:
            raise ShapeError(
                f"The polynomial of this kernel and degree needs at least {needed} "
                f"points. Got {points}. Add points or lower the degree."
            )
        self._powers = _powers(highest, rank)
        low, high = smallest(self.y, axis=0), largest(self.y, axis=0)
        self._middle = (low + high) / 2.0
        self._half = where(high > low, (high - low) / 2.0, 1.0)
        self._rest = d.shape[1:]
        self._weights = self._solved(d, smoothing)

    def __call__(self, x: Any) -> Any:
        """Evaluate at points [point, coordinate]."""
        places = operand(x)
        if places.ndim != 2 or places.shape[1] != self.y.shape[1]:
            raise ShapeError(
                f"x of RBFInterpolator must have shape [point, {self.y.shape[1]}]. "
                f"Got shape {places.shape}."
            )
        places = cast(places, numpy_dtype_of(self.y))
        row = concat([self._kernel(places), self._polynomials(places)], axis=1)
        return reshape_p(row @ self._weights, shape=(places.shape[0], *self._rest))

    def _solved(self, d: Any, smoothing: Any) -> Any:
        count, extra = self.y.shape[0], len(self._powers)
        smooth = cast(operand(smoothing), numpy_dtype_of(d)) * ones_like(self.y[:, 0])
        identity = numbers_like(d, np.eye(count))
        bumps = self._kernel(self.y) + identity * reshape_p(smooth, shape=(1, count))
        tail = self._polynomials(self.y)
        empty = zeros_for(d, (extra, extra), numpy_dtype_of(d))
        below = concat([matrix_transpose(tail), empty], axis=1)
        matrix = concat([concat([bumps, tail], axis=1), below])
        values = reshape_p(d, shape=(count, math.prod(self._rest)))
        zeros = zeros_for(d, (extra, values.shape[1]), numpy_dtype_of(d))
        return solve_p(matrix, concat([values, zeros]), adjoint=False)

    def _kernel(self, x: Any) -> Any:
        gaps = reshape_p(x, shape=(x.shape[0], 1, x.shape[1])) - self.y
        return radial(self.kernel, sum_over(gaps * gaps, axis=-1) * (self.epsilon * self.epsilon))

    def _polynomials(self, x: Any) -> Any:
        """Return the monomials of coordinates scaled to [-1, 1], which keeps powers moderate."""
        x = (x - self._middle) / self._half
        columns = []
        for powers in self._powers:
            column = ones_like(x[:, 0])
            for axis in powers:
                column = column * x[:, axis]
            columns.append(column)
        if not columns:
            return x[:, :0]
        return stack(columns, axis=1)


def radial(kernel: str, square: Any) -> Any:
    """Return a kernel of the squared distance, with derivative 0 at distance 0.

    >>> import tapegrad
    >>> radial("cubic", tapegrad.constant([0.0, 4.0])).tolist()
    [0.0, 8.0]
    """
    if kernel == "gaussian":
        return exp(-square)
    if kernel == "inverse_quadratic":
        return 1.0 / (square + 1.0)
    if kernel == "multiquadric":
        return -sqrt(square + 1.0)
    if kernel == "inverse_multiquadric":
        return 1.0 / sqrt(square + 1.0)
    apart = square > 0.0
    safe = where(apart, square, 1.0)
    if kernel == "thin_plate_spline":
        return where(apart, 0.5 * square * log(safe), 0.0)
    r = where(apart, sqrt(safe), 0.0)
    return {"linear": -r, "cubic": r * square, "quintic": -r * square * square}[kernel]


def _scale(epsilon: Any, kernel: str) -> Any:
    if epsilon is not None:
        return epsilon if isinstance(epsilon, int | float) else operand(epsilon)
    if kernel not in _SCALE_FREE:
        raise ArgumentError(f"RBFInterpolator with kernel={kernel!r} needs epsilon.")
    return 1.0


def _degree(degree: int | None, kernel: str) -> int:
    least = _LEAST_DEGREE.get(kernel, -1)
    if degree is None:
        return max(least, 0)
    if degree < -1:
        raise ArgumentError(f"degree must be at least -1, which means no polynomial. Got {degree}.")
    return int(degree)


def _least_points(degree: int, rank: int) -> int:
    """Return the number of monomials up to a degree."""
    return math.comb(degree + rank, rank) if degree >= 0 else 0


def _powers(degree: int, rank: int) -> list[tuple[int, ...]]:
    """Return the monomials up to a degree, each as a tuple of the axes that it multiplies."""
    return [
        axes
        for order in range(degree + 1)
        for axes in itertools.combinations_with_replacement(range(rank), order)
    ]
