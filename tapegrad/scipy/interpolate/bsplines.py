"""B-splines: basis functions and BSpline."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tapegrad.core.argument_checks import check_rounds
from tapegrad.core.primitive.operand import normalize_axis
from tapegrad.errors import ArgumentError, ShapeError
from tapegrad.scipy.interpolate.common import (
    as_columns,
    host_values,
    interval,
    query,
    wrap_period,
)
from tapegrad.scipy.interpolate.pieces import Piecewise, checked_extrapolate
from tapegrad.scipy.vocabulary import (
    cast,
    clip,
    concat,
    cumsum,
    diff,
    floor,
    move_axis,
    numbers_like,
    numpy_dtype_of,
    ones_like,
    operand,
    operands,
    place_next_to,
    reshape_p,
    stack,
    take,
    where,
    zeros_like,
)


def basis(t: Any, k: int, q: Any, nu: int = 0) -> tuple[Any, list[Any]]:
    """Return the index of the first nonzero basis function at each point, and all k + 1 of them.

    This is the Cox-de Boor recursion, which raises the degree by one per step. For a derivative of
    order nu the last nu steps use the recursion of the derivative.
    """
    place = interval(t, q, k, t.shape[0] - k - 2)
    knots = {j: take(t, place + j) for j in range(1 - k, k + 1)}
    functions = [ones_like(q)]
    for p in range(1, k + 1):
        raised: list[Any] = [0.0] * (p + 1)
        for r, function in enumerate(functions):
            left, right = knots[1 + r - p], knots[1 + r]
            width = right - left
            scaled = where(width > 0.0, function, 0.0) / where(width > 0.0, width, 1.0)
            if p <= k - nu:
                raised[r] = raised[r] + (right - q) * scaled
                raised[r + 1] = raised[r + 1] + (q - left) * scaled
            else:
                raised[r] = raised[r] - p * scaled
                raised[r + 1] = raised[r + 1] + p * scaled
        functions = raised
    return place - k, [zeros_like(q) for _ in functions] if nu > k else functions


def design(t: Any, k: int, q: Any, nu: int = 0) -> Any:
    """Return the design matrix [point, basis function] of the basis or of its derivatives.

    >>> import tapegrad
    >>> knots = tapegrad.constant([0.0, 0.0, 1.0, 2.0, 2.0])
    >>> design(knots, 1, tapegrad.constant([0.5, 2.0])).tolist()
    [[0.5, 0.5, 0.0], [0.0, 0.0, 1.0]]
    """
    first, functions = basis(t, k, q, nu)
    numbers = place_next_to(t, np.arange(t.shape[0] - k - 1))
    matrix: Any = 0.0
    for r, function in enumerate(functions):
        hits = reshape_p(first + r, shape=(*first.shape, 1)) == numbers
        matrix = matrix + cast(hits, numpy_dtype_of(t)) * reshape_p(
            function, shape=(*function.shape, 1)
        )
    return matrix


class BSpline(Piecewise):
    """A spline of degree k in the B-spline basis; differentiable in t, c and evaluation points.

    >>> BSpline([0.0, 0.0, 1.0, 2.0, 2.0], [0.0, 1.0, 4.0], 1)([0.5, 1.5]).tolist()
    [0.5, 2.5]
    """

    def __init__(self, t: Any, c: Any, k: int, extrapolate: Any = True, axis: int = 0) -> None:
        given = t
        t, c = operand(t), operand(c)
        if k not in range(100):
            raise ArgumentError(f"BSpline needs a non-negative integer degree k. Got {k!r}.")
        if t.ndim != 1 or t.shape[0] < 2 * k + 2:
            raise ShapeError(
                f"BSpline of degree {k} needs at least {2 * k + 2} knots along one axis. "
                f"Got shape {t.shape}."
            )
        axis = normalize_axis(axis, c.ndim, "BSpline")
        count = t.shape[0] - k - 1
        if not c.shape or c.shape[axis] < count:
            raise ShapeError(
                f"BSpline of degree {k} with {t.shape[0]} knots needs {count} coefficients along "
                f"axis {axis}. Got shape {c.shape}."
            )
        values = host_values(t, given)
        if values is not None and (np.diff(values) < 0).any():
            raise ArgumentError("BSpline needs knots t that do not decrease.")
        self._set(t, move_axis(c, axis, 0), int(k), extrapolate, axis)

    def _set(self, t: Any, c: Any, k: int, extrapolate: Any, axis: int) -> None:
        self.t, self.c, self.k, self.axis = t, c, k, axis
        self.extrapolate = checked_extrapolate(extrapolate, True)

    @classmethod
    def construct_fast(
        cls, t: Any, c: Any, k: int, extrapolate: Any = True, axis: int = 0
    ) -> BSpline:
        """Return a spline from tensors without checking them."""
        made = cls.__new__(cls)
        made._set(t, c, k, extrapolate, axis)
        return made

    @property
    def tck(self) -> tuple[Any, Any, int]:
        """Knots, coefficients and degree."""
        return self.t, self.c, self.k

    def _ends(self) -> tuple[Any, Any]:
        return self.t[self.k], self.t[self.t.shape[0] - self.k - 1]

    def _at(self, q: Any, nu: int = 0) -> Any:
        first, functions = basis(self.t, self.k, q, nu)
        y: Any = 0.0
        for r, function in enumerate(functions):
            part = take(self.c, first + r)
            y = y + as_columns(function, part) * part
        return y

    def power_form(self) -> tuple[Any, Any]:
        """Return the coefficients [power, interval, ...] and breakpoints of the power basis."""
        start, stop = self.k, self.t.shape[0] - self.k - 1
        x = self.t[start : stop + 1]
        rows = [self._at(x[:-1], nu) / float(math.factorial(nu)) for nu in range(self.k, -1, -1)]
        return stack(rows), x

    def derivative(self, nu: int = 1) -> BSpline:
        """Return the derivative as a spline of lower degree."""
        if nu < 0:
            return self.antiderivative(-nu)
        t, c, k = self.t, self.c[: self.t.shape[0] - self.k - 1], self.k
        if nu > k:
            raise ArgumentError(f"nu must be between 0 and the degree {k} of the spline. Got {nu}.")
        for _ in range(nu):
            width = t[k + 1 : -1] - t[1 : -k - 1]
            width = as_columns(where(width > 0.0, width, 1.0), c)
            c, t, k = diff(c, axis=0) * float(k) / width, t[1:-1], k - 1
        return BSpline.construct_fast(t, c, k, self.extrapolate, self.axis)

    def antiderivative(self, nu: int = 1) -> BSpline:
        """Return the antiderivative as a spline of higher degree; it is 0 at the first knot."""
        if nu < 0:
            return self.derivative(-nu)
        check_rounds("nu", nu, "antiderivative")
        t, c, k = self.t, self.c[: self.t.shape[0] - self.k - 1], self.k
        for _ in range(nu):
            areas = cumsum(c * as_columns(t[k + 1 :] - t[: -k - 1], c), axis=0) / float(k + 1)
            c = concat([zeros_like(areas[:1]), areas])
            t, k = concat([t[:1], t, t[-1:]]), k + 1
        beyond = False if self.extrapolate == "periodic" else self.extrapolate
        return BSpline.construct_fast(t, c, k, beyond, self.axis)

    def integrate(self, a: Any, b: Any, extrapolate: Any = None) -> Any:
        """Return the integral from a to b; without extrapolation the spline is 0 outside."""
        beyond = checked_extrapolate(extrapolate, self.extrapolate)
        start, stop = self._ends()
        (low, _), (high, _) = query(a, self.t), query(b, self.t)
        if not beyond:
            low, high = clip(low, start, stop), clip(high, start, stop)
        whole = self.antiderivative()
        if beyond != "periodic":
            return (whole._at(high) - whole._at(low))[0]
        once = whole._at(reshape_p(stop, shape=(1,))) - whole._at(reshape_p(start, shape=(1,)))
        period = stop - start
        parts = [
            as_columns(floor((q - start) / period), once) * once
            + whole._at(wrap_period(q, start, stop))
            for q in (low, high)
        ]
        return (parts[1] - parts[0])[0]

    @classmethod
    def design_matrix(cls, x: Any, t: Any, k: int, extrapolate: Any = False) -> Any:
        """Return the dense design matrix [point, basis function]."""
        x, t = operands(x, t)
        return design(t, int(k), x)

    @classmethod
    def basis_element(cls, t: Any, extrapolate: Any = True) -> BSpline:
        """Return the single basis function over the given knots."""
        t = operand(t)
        k = t.shape[0] - 2
        t = concat([t[:1]] * k + [t] + [t[-1:]] * k)
        numbers = np.zeros(2 * k + 1)
        numbers[k] = 1.0
        c = numbers_like(t, numbers)
        return BSpline.construct_fast(t, c, k, extrapolate)
