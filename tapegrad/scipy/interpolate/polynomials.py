"""Polynomial interpolation through all points, in Newton's and Lagrange's form."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np

from tapegrad.core.argument_checks import check_count
from tapegrad.errors import ArgumentError
from tapegrad.ops.reduction.primitives import prod
from tapegrad.scipy.interpolate.common import (
    as_columns,
    host_values,
    points_and_values,
    query,
    restore_shape,
)
from tapegrad.scipy.vocabulary import place_next_to, reshape_p, stack, sum_over, where, zeros_like


class KroghInterpolator:
    """The interpolating polynomial in Newton's form, differentiable in points and values.

    As in SciPy, the values of a point repeated in a row are its value and derivatives.

    >>> KroghInterpolator([0.0, 1.0, 2.0], [0.0, 1.0, 4.0])(1.5).tolist()
    2.25
    """

    def __init__(self, xi: Any, yi: Any, axis: int = 0) -> None:
        name = "KroghInterpolator"
        self.xi, self.yi, self.axis = points_and_values(xi, yi, axis, name, 1, ordered=False)
        self.c = _divided_differences(self.xi, self.yi, _runs(self.xi, xi))
        self.n = self.xi.shape[0]

    def __call__(self, x: Any) -> Any:
        """Evaluate at points of any shape."""
        return self.derivative(x, 0)

    def derivatives(self, x: Any, der: Any = None) -> Any:
        """Return the derivatives of orders 0 to der - 1 (default: all) along a new first axis."""
        q, shape = query(x, self.xi)
        count = self.n if der is None else check_count("der", der, "derivatives")
        rows = newton(self.c, self.xi, q, count)
        return stack([restore_shape(row, shape, self.axis) for row in rows])

    def derivative(self, x: Any, der: int = 1) -> Any:
        """Evaluate one derivative at points of any shape."""
        q, shape = query(x, self.xi)
        return restore_shape(newton(self.c, self.xi, q, der + 1)[der], shape, self.axis)


def _divided_differences(x: Any, y: Any, same: list[int]) -> Any:
    """Return the divided differences: the coefficients of Newton's form."""
    column = [y[k - same[k]] for k in range(x.shape[0])]
    found = [column[0]]
    for order in range(1, x.shape[0]):
        column = [
            y[k + order - same[k + order] + order] / float(math.factorial(order))
            if same[k + order] >= order
            else (column[k + 1] - column[k]) / as_columns(x[k + order] - x[k], y[0])
            for k in range(x.shape[0] - order)
        ]
        found.append(column[0])
    return stack(found)


def _runs(x: Any, given: Any) -> list[int]:
    """Return how often each point was repeated directly before, if available on the host."""
    values = host_values(x, given)
    if values is None or values.ndim != 1:
        return [0] * x.shape[0]
    runs = [0]
    for before, value in itertools.pairwise(values):
        runs.append(runs[-1] + 1 if value == before else 0)
    return runs


def newton(c: Any, x: Any, q: Any, count: int) -> list[Any]:
    """Return value and derivatives of Newton's form at points by Horner's rule."""
    size = c.shape[0]
    rows = [zeros_like(as_columns(q, c)) * c[-1] for _ in range(count)]
    rows[0] = rows[0] + c[-1]
    for k in range(size - 2, -1, -1):
        step = as_columns(q - x[k], rows[0])
        for order in range(count - 1, 0, -1):
            rows[order] = rows[order] * step + float(order) * rows[order - 1]
        rows[0] = rows[0] * step + c[k]
    return rows


class BarycentricInterpolator:
    """The interpolating polynomial in Lagrange's form, stable for well-chosen points.

    It is computed from products, so that it is differentiable at the points themselves, too.

    >>> BarycentricInterpolator([0.0, 1.0, 2.0], [0.0, 1.0, 4.0])(1.5).tolist()
    2.25
    """

    def __init__(
        self, xi: Any, yi: Any = None, axis: int = 0, *, wi: Any = None, rng: Any = None
    ) -> None:
        if yi is None:
            raise ArgumentError("BarycentricInterpolator needs the values yi of the points.")
        name = "BarycentricInterpolator"
        self.xi, self.yi, self.axis = points_and_values(xi, yi, axis, name, 1, ordered=False)
        self.n = self.xi.shape[0]
        values = host_values(self.xi, xi)
        if values is not None and len(np.unique(values)) < values.size:
            raise ArgumentError("BarycentricInterpolator needs distinct points xi.")

    def __call__(self, x: Any) -> Any:
        """Evaluate at points of any shape."""
        q, shape = query(x, self.xi)
        weights = _lagrange(self.xi, q)
        values = reshape_p(self.yi, shape=(1, *self.yi.shape))
        return restore_shape(
            sum_over(as_columns(weights, values) * values, axis=1), shape, self.axis
        )

    def derivative(self, x: Any, der: int = 1) -> Any:
        """Evaluate one derivative at points of any shape."""
        return self._in_newtons_form().derivative(x, der)

    def derivatives(self, x: Any, der: Any = None) -> Any:
        """Return the derivatives of orders 0 to der - 1 (default: all) along a new first axis."""
        return self._in_newtons_form().derivatives(x, der)

    def _in_newtons_form(self) -> KroghInterpolator:
        made = KroghInterpolator.__new__(KroghInterpolator)
        made.xi, made.yi, made.axis, made.n = self.xi, self.yi, self.axis, self.n
        made.c = _divided_differences(self.xi, self.yi, [0] * self.n)
        return made


def _lagrange(x: Any, q: Any) -> Any:
    """Return the Lagrange polynomials [point, k], products of (q - x_j) / (x_k - x_j), j != k."""
    count = x.shape[0]
    row, column = reshape_p(x, shape=(1, count)), reshape_p(x, shape=(count, 1))
    others = place_next_to(x, ~np.eye(count, dtype=bool))
    gaps = where(others, column - row, 1.0)
    far = reshape_p(q, shape=(q.shape[0], 1, 1)) - reshape_p(x, shape=(1, 1, count))
    ratios = where(others, far / gaps, 1.0)
    return prod(ratios, axis=-1)


def krogh_interpolate(xi: Any, yi: Any, x: Any, der: Any = 0, axis: int = 0) -> Any:
    """Evaluate the interpolating polynomial, or one of its derivatives, at points.

    >>> krogh_interpolate([0.0, 1.0, 2.0], [0.0, 1.0, 4.0], 1.5, der=1).tolist()
    3.0
    """
    return KroghInterpolator(xi, yi, axis).derivative(x, check_count("der", der))


def barycentric_interpolate(
    xi: Any, yi: Any, x: Any, axis: int = 0, *, der: Any = 0, rng: Any = None
) -> Any:
    """Evaluate the interpolating polynomial, or one of its derivatives, at points.

    >>> barycentric_interpolate([0.0, 1.0, 2.0], [0.0, 1.0, 4.0], 1.5).tolist()
    2.25
    """
    polynomial = BarycentricInterpolator(xi, yi, axis)
    order = check_count("der", der, "barycentric_interpolate")
    return polynomial.derivative(x, order) if order else polynomial(x)
