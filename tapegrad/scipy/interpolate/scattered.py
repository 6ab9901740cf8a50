"""Functions given at scattered points: sums of radial bumps and a polynomial."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np

from tapegrad.core.choices import check_choice
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

# The least degree of the polynomial that makes the equations solvable, and whether a kernel looks
# the same at every scale, so that epsilon does not matter.
_LEAST_DEGREE = {"linear": 0, "thin_plate_spline": 1, "cubic": 1, "quintic": 2, "multiquadric": 0}
_SCALE_FREE = ("linear", "thin_plate_spline", "cubic", "quintic")
KERNELS = (*_LEAST_DEGREE, "inverse_multiquadric", "inverse_quadratic", "gaussian")


class RBFInterpolator:
    """A function through values at scattered points; differentiable in all of them and in places.

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
            raise ArgumentError("RBFInterpolator uses all points: neighbors must be None.")
        check_choice("The kernel", kernel, KERNELS)
        self.kernel = kernel
        self.y, d = operands(y, d)
        if self.y.ndim != 2 or not d.shape or d.shape[0] != self.y.shape[0]:
            raise ShapeError(
                "RBFInterpolator needs points [point, coordinate] and a value for each. Got shapes "
                f"{self.y.shape} and {d.shape}."
            )
        self.epsilon = _scale(epsilon, kernel)
        self._powers = _powers(_degree(degree, kernel), self.y.shape[1])
        if len(self._powers) > self.y.shape[0]:
            raise ShapeError(
                f"The polynomial of this kernel and degree needs at least {len(self._powers)} "
                f"points. Got {self.y.shape[0]}."
            )
        low, high = smallest(self.y, axis=0), largest(self.y, axis=0)
        self._middle = (low + high) / 2.0
        self._half = where(high > low, (high - low) / 2.0, 1.0)
        self._rest = d.shape[1:]
        self._weights = self._solved(d, smoothing)

    def __call__(self, x: Any) -> Any:
        """Return the values at places [place, coordinate]."""
        places = operand(x)
        if places.ndim != 2 or places.shape[1] != self.y.shape[1]:
            raise ShapeError(
                f"RBFInterpolator is asked at places [place, {self.y.shape[1]}]. "
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
        """Monomials of coordinates brought to -1 ... 1, where powers stay moderate."""
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
    """Return a kernel of the squared distance; where that is 0 the slope is taken to be 0.

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
        raise ArgumentError(f"RBFInterpolator with the kernel {kernel!r} needs epsilon.")
    return 1.0


def _degree(degree: int | None, kernel: str) -> int:
    least = _LEAST_DEGREE.get(kernel, -1)
    if degree is None:
        return max(least, 0)
    if degree < -1:
        raise ArgumentError(f"The degree of a polynomial is at least -1, for none. Got {degree}.")
    return int(degree)


def _powers(degree: int, rank: int) -> list[tuple[int, ...]]:
    """The monomials up to a degree, each by the axes whose coordinates it multiplies."""
    return [
        axes
        for order in range(degree + 1)
        for axes in itertools.combinations_with_replacement(range(rank), order)
    ]
