"""Piecewise polynomials in the local power basis."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from typing import Any

import numpy as np

from tapegrad.core.argument_checks import check_rounds
from tapegrad.errors import ArgumentError, ShapeError
from tapegrad.scipy.interpolate.common import (
    as_columns,
    broadcast_condition,
    check_increasing,
    interval,
    query,
    restore_shape,
    wrap_period,
)
from tapegrad.scipy.vocabulary import (
    concat,
    cumsum,
    diff,
    floor,
    is_complex,
    moveaxis,
    operands,
    real,
    stack,
    take,
    take_p,
    where,
    zeros_like,
)


class Piecewise(ABC):
    """Base class of functions that are polynomials between breakpoints."""

    extrapolate: bool | str
    axis: int

    @abstractmethod
    def _ends(self) -> tuple[Any, Any]:
        """Return the first and the last breakpoint."""

    @abstractmethod
    def _at(self, q: Any, nu: int = 0) -> Any:
        """Return a derivative at a vector of points."""

    def __call__(self, x: Any, nu: int = 0, extrapolate: Any = None) -> Any:
        """Evaluate the function or its derivative of order `nu` at points of any shape."""
        beyond = checked_extrapolate(extrapolate, self.extrapolate)
        start, stop = self._ends()
        q, shape = query(x, start)
        if beyond == "periodic":
            q = wrap_period(q, start, stop)
        y = self._at(q, nu)
        if not beyond:
            inside = (q >= start) & (q <= stop)
            y = where(broadcast_condition(inside, y), y, math.nan)
        return restore_shape(y, shape, self.axis)


class PPoly(Piecewise):
    """A piecewise polynomial: the sum of c[k, i] (x - x[i])^(n-k) between x[i] and x[i+1].

    It is differentiable in coefficients, breakpoints and evaluation points.

    >>> p = PPoly([[1.0, 2.0], [0.0, 1.0]], [0.0, 1.0, 3.0])
    >>> p([0.5, 2.0]).tolist(), float(p.integrate(0.0, 2.0))
    ([0.5, 3.0], 2.5)
    """

    c: Any
    x: Any

    def __init__(self, c: Any, x: Any, extrapolate: Any = None, axis: int = 0) -> None:
        given = x
        c, x = operands(c, x)
        if is_complex(x):
            x = real(x)
        if c.ndim < 2 or not 0 <= axis < c.ndim - 1:
            raise ShapeError(
                "PPoly needs coefficients c with an axis for powers and one for intervals. "
                f"Got shape {c.shape} and axis {axis}."
            )
        c = moveaxis(c, (axis, axis + 1), (0, 1))
        if x.ndim != 1 or x.shape[0] < 2 or x.shape[0] != c.shape[1] + 1:
            raise ShapeError(
                "PPoly needs one more breakpoint than intervals. Got "
                f"{c.shape[1]} intervals and breakpoints of shape {x.shape}."
            )
        check_increasing(x, "PPoly", given=given)
        self._set(c, x, extrapolate, axis)

    def _set(self, c: Any, x: Any, extrapolate: Any, axis: int) -> None:
        self.c = c
        self.x = x
        self.axis = axis
        self.extrapolate = checked_extrapolate(extrapolate, True)

    @classmethod
    def construct_fast(cls, c: Any, x: Any, extrapolate: Any = None, axis: int = 0) -> Any:
        """Return a piecewise polynomial from tensors without checking them."""
        made = PPoly.__new__(cls)
        made._set(c, x, extrapolate, axis)
        return made

    @classmethod
    def from_spline(cls, tck: Any, extrapolate: Any = None) -> Any:
        """Convert a B-spline to a piecewise polynomial.

        >>> from tapegrad.scipy.interpolate.bsplines import BSpline
        >>> PPoly.from_spline(BSpline([0.0, 0.0, 1.0, 1.0], [0.0, 2.0], 1))(0.5).tolist()
        1.0
        """
        if isinstance(tck, tuple):
            raise ArgumentError("PPoly.from_spline needs a BSpline. Pass BSpline(t, c, k).")
        beyond = tck.extrapolate if extrapolate is None else extrapolate
        c, x = tck.power_form()
        return cls.construct_fast(c, x, beyond, tck.axis)

    def _ends(self) -> tuple[Any, Any]:
        return self.x[0], self.x[-1]

    def _at(self, q: Any, nu: int = 0) -> Any:
        nu = _checked_derivative(nu)
        place = interval(self.x, q, 0, self.c.shape[1] - 1)
        rows = take_p(self.c, place, axis=1)
        step = as_columns(q - take(self.x, place), rows[0])
        order = rows.shape[0] - 1
        if nu > order:
            return zeros_like(rows[0])
        y = rows[0] * float(math.perm(order, nu))
        for k in range(1, order - nu + 1):
            y = y * step + rows[k] * float(math.perm(order - k, nu))
        return y if nu < order else y + step * 0.0

    def derivative(self, nu: int = 1) -> Any:
        """Return the derivative as a piecewise polynomial of lower degree."""
        if nu < 0:
            return self.antiderivative(-nu)
        order = self.c.shape[0] - 1
        if nu > order:
            c = zeros_like(self.c[:1])
        else:
            powers = [float(math.perm(order - k, nu)) for k in range(order - nu + 1)]
            c = stack([self.c[k] * power for k, power in enumerate(powers)])
        return PPoly.construct_fast(c, self.x, self.extrapolate, self.axis)

    def antiderivative(self, nu: int = 1) -> Any:
        """Return the `nu`-fold antiderivative, which is 0 at the first breakpoint."""
        if nu < 0:
            return self.derivative(-nu)
        check_rounds("nu", nu, "antiderivative")
        c, steps = self.c, diff(self.x)
        for _ in range(nu):
            order = c.shape[0]
            rows = [c[k] / float(order - k) for k in range(order)]
            width = as_columns(steps, rows[0])
            areas = rows[0]
            for row in rows[1:]:
                areas = areas * width + row
            areas = areas * width
            start = cumsum(areas, axis=0) - areas
            c = stack([*rows, start])
        beyond = False if self.extrapolate == "periodic" else self.extrapolate
        return PPoly.construct_fast(c, self.x, beyond, self.axis)

    def integrate(self, a: Any, b: Any, extrapolate: Any = None) -> Any:
        """Return the integral from a to b, which may be numbers or tensors."""
        beyond = checked_extrapolate(extrapolate, self.extrapolate)
        whole = PPoly.construct_fast(self.antiderivative().c, self.x, True, 0)
        (low, _), (high, _) = query(a, self.x), query(b, self.x)
        if beyond == "periodic":
            return (self._through(whole, high) - self._through(whole, low))[0]
        y = whole._at(high) - whole._at(low)
        if not beyond:
            start, stop = self._ends()
            ends = concat([low, high])
            inside = (ends >= start) & (ends <= stop)
            y = where(inside[0] & inside[1], y, math.nan)
        return y[0]

    def _through(self, whole: Any, q: Any) -> Any:
        """Return the integral from the first breakpoint to q over all periods between them."""
        start, stop = self._ends()
        rounds = as_columns(floor((q - start) / (stop - start)), whole.c[0])
        once = whole._at(self.x[-1:])
        return rounds * once + whole._at(wrap_period(q, start, stop))


def checked_extrapolate(value: Any, default: bool | str) -> bool | str:
    """Return True, False or 'periodic'.

    >>> checked_extrapolate(None, True)
    True
    """
    if value is None:
        return default
    if isinstance(value, str) and value == "periodic":
        return value
    if isinstance(value, bool | int | np.bool_):
        return bool(value)
    raise ArgumentError(f"extrapolate must be True, False or 'periodic'. Got {value!r}.")


def _checked_derivative(nu: Any) -> int:
    if nu not in range(100):
        raise ArgumentError(f"The order nu of a derivative must be 0 or more. Got {nu!r}.")
    return int(nu)
