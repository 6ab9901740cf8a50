"""Interpolation on a regular grid: RegularGridInterpolator and interpn."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from tapegrad.core.argument_checks import check_choice
from tapegrad.errors import ArgumentError, ShapeError
from tapegrad.ops.shape.joining import unstack
from tapegrad.ops.shape.rearranging import flip
from tapegrad.scipy.interpolate.bsplines import basis
from tapegrad.scipy.interpolate.common import (
    as_columns,
    broadcast_condition,
    check_increasing,
    host_range,
    host_values,
    interval,
    is_host_data,
)
from tapegrad.scipy.interpolate.hermite import pchip_slopes
from tapegrad.scipy.interpolate.spline_fit import make_interp_spline
from tapegrad.scipy.ndimage.sampling import contract
from tapegrad.scipy.vocabulary import (
    broadcast_p,
    cast,
    in_dtype,
    is_complex,
    move_axis,
    numpy_dtype_of,
    ones_like,
    operand,
    operands,
    place_next_to,
    real,
    reshape_p,
    stack,
    take,
    where,
)

_DEGREES = {"slinear": 1, "cubic": 3, "quintic": 5}
METHODS = ("linear", "nearest", *_DEGREES, "pchip")

Along = tuple[Any, Any]
"""Indices of neighbours along an axis [k, point], and their weights."""

Fit = tuple[list[Any], Any]
"""The knots along each axis and the coefficients of a spline."""


class RegularGridInterpolator:
    """Interpolation on a regular grid, differentiable in values, grid and evaluation points.

    Points outside of the grid raise if they are host data or tensors on the CPU; for tensors on a
    GPU the result is NaN. Splines are fitted exactly along each axis. SciPy's iterative solver
    stops at 1e-6, so its results differ by that much.

    >>> f = RegularGridInterpolator(([0.0, 1.0], [0.0, 2.0]), [[0.0, 2.0], [1.0, 3.0]])
    >>> f([[0.5, 1.0], [1.0, 0.5]]).tolist()
    [1.5, 1.5]
    """

    def __init__(
        self,
        points: Sequence[Any],
        values: Any,
        method: str = "linear",
        bounds_error: bool = True,
        fill_value: Any = math.nan,
        *,
        solver: Any = None,
        solver_args: Any = None,
    ) -> None:
        self.method = _checked_method(method)
        self.bounds_error = bounds_error
        self.fill_value = fill_value
        *grid, values = operands(*points, values)
        grid = [real(line) if is_complex(line) else line for line in grid]
        if len(grid) > values.ndim:
            raise ShapeError(
                f"values needs at least as many axes as the grid. Got {len(grid)} grid axes and "
                f"values with {values.ndim} axes."
            )
        self.grid: tuple[Any, ...] = ()
        for axis, line in enumerate(grid):
            line, values = _in_order(line, values, axis, points[axis])
            self.grid = (*self.grid, line)
        self._ends = [host_range(line, given) for line, given in zip(grid, points, strict=True)]
        self.values = values
        self._fit: tuple[str, Fit] | None = None
        if self.method in _DEGREES:
            self._fit = self.method, _fit_splines(self.grid, values, _DEGREES[self.method])

    def __call__(self, xi: Any, method: str | None = None, *, nu: Any = None) -> Any:
        """Evaluate at points [..., axis]; `nu` holds the derivative orders of a spline per axis."""
        method = self.method if method is None else _checked_method(method)
        places, shape = self._places(xi)
        orders = [0] * len(places) if nu is None else [int(n) for n in nu]
        if nu is not None and method not in _DEGREES:
            raise ArgumentError(f"nu needs a spline method. Got method={method!r}.")
        self._check_bounds(places, xi)
        if method == "pchip":
            y = _by_pchip(self.values, self.grid, places)
        else:
            y = self._contracted(method, places, orders)
        if self.fill_value is not None:
            y = self._filled(y, places)
        return reshape_p(y, shape=(*shape, *y.shape[1:]))

    def _contracted(self, method: str, places: list[Any], orders: list[int]) -> Any:
        values = self.values
        if method in _DEGREES:
            degree = _DEGREES[method]
            ready = self._fit if self._fit and self._fit[0] == method else None
            knots, values = ready[1] if ready else _fit_splines(self.grid, values, degree)
            along = [
                _by_spline(t, q, degree, n) for t, q, n in zip(knots, places, orders, strict=True)
            ]
        else:
            along = [_by_neighbours(x, q, method) for x, q in zip(self.grid, places, strict=True)]
        dtype = numpy_dtype_of(values)
        weighed = [(index, cast(weights, dtype)) for index, weights in along]
        return contract(values, weighed, (places[0].shape[0],))

    def _places(self, xi: Any) -> tuple[list[Any], tuple[int, ...]]:
        rank = len(self.grid)
        if isinstance(xi, tuple):
            parts = operands(*xi)
            shape = np.broadcast_shapes(*[part.shape for part in parts])
            xi = stack([broadcast_p(part, shape=shape) for part in parts], axis=-1)
        q = operand(xi)
        if q.ndim == 1 and rank == 1 and q.shape[0] != 1:
            q = reshape_p(q, shape=(*q.shape, 1))
        if not q.shape or q.shape[-1] != rank:
            raise ShapeError(
                f"xi needs {rank} coordinates along its last axis, one per grid axis. "
                f"Got shape {q.shape}."
            )
        shape = q.shape[:-1]
        if q.ndim == 1:
            shape = (1,)
        q = in_dtype(q, numpy_dtype_of(self.grid[0]))
        flat = reshape_p(q, shape=(math.prod(shape), rank))
        return list(unstack(flat, axis=1)), shape

    def _outside(self, places: list[Any]) -> Any:
        beyond: Any = None
        for line, q in zip(self.grid, places, strict=True):
            out = (q < line[0]) | (q > line[-1])
            beyond = out if beyond is None else beyond | out
        return beyond

    def _outside_as_given(self, xi: Any) -> Any:
        """Return where points given as host data are outside of the grid, else None."""
        ends = [pair for pair in self._ends if pair is not None]
        if len(ends) < len(self.grid) or not is_host_data(xi):
            return None
        given = np.stack(np.broadcast_arrays(*xi), axis=-1) if isinstance(xi, tuple) else xi
        values = np.asarray(given).real.astype(numpy_dtype_of(self.grid[0]))
        first, last = np.array(ends).T
        values = values.reshape(-1, len(ends))
        return ((values < first) | (values > last)).any(axis=1)

    def _check_bounds(self, places: list[Any], xi: Any) -> None:
        if not self.bounds_error:
            return
        beyond = host_values(self._outside(places))
        if beyond is None:
            beyond = self._outside_as_given(xi)
        if beyond is not None and beyond.any():
            raise ArgumentError(
                f"Point number {int(np.argmax(beyond))} is outside of the grid. Pass "
                "bounds_error=False to use fill_value there, and fill_value=None to extrapolate."
            )

    def _filled(self, y: Any, places: list[Any]) -> Any:
        return where(broadcast_condition(self._outside(places), y), self.fill_value, y)


def _checked_method(method: Any) -> str:
    name = str(method).removesuffix("_legacy")
    check_choice("The method", name, METHODS)
    return name


def _in_order(line: Any, values: Any, axis: int, given: Any) -> tuple[Any, Any]:
    if line.ndim != 1 or line.shape[0] != values.shape[axis]:
        raise ShapeError(
            f"The grid needs {values.shape[axis]} points along axis {axis}, one per value. "
            f"Got shape {line.shape}."
        )
    host = host_values(line, given)
    if host is not None and host.size > 1 and (np.diff(host) < 0).all():
        return flip(line), flip(values, axis)
    check_increasing(line, "RegularGridInterpolator", f"the points of axis {axis}", given)
    return line, values


def _by_neighbours(line: Any, q: Any, method: str) -> Along:
    count = line.shape[0]
    if count == 1:
        place = interval(line, q, 0, 0)
        return reshape_p(place, shape=(1, -1)), reshape_p(ones_like(q), shape=(1, -1))
    place = interval(line, q, 0, count - 2)
    low, high = take(line, place), take(line, place + 1)
    fraction = (q - low) / (high - low)
    if method == "nearest":
        near = where(fraction <= 0.5, place, place + 1)
        return reshape_p(near, shape=(1, -1)), reshape_p(fraction * 0.0 + 1.0, shape=(1, -1))
    return stack([place, place + 1]), stack([1.0 - fraction, fraction])


def _fit_splines(grid: Sequence[Any], values: Any, degree: int) -> Fit:
    """Replace the values by spline coefficients, axis by axis."""
    knots = []
    for axis, line in enumerate(grid):
        if line.shape[0] <= degree:
            raise ShapeError(
                f"A spline of degree {degree} needs at least {degree + 1} points along axis "
                f"{axis}. Got {line.shape[0]}."
            )
        spline = make_interp_spline(line, values, degree, axis=axis)
        knots.append(spline.t)
        values = move_axis(spline.c, 0, axis)
    return knots, values


def _by_spline(knots: Any, q: Any, degree: int, order: int) -> Along:
    first, bumps = basis(knots, degree, q, order)
    return stack([first + r for r in range(degree + 1)]), stack(bumps)


def _by_pchip(values: Any, grid: Sequence[Any], places: list[Any]) -> Any:
    """Interpolate by PCHIP along one axis after the other, from the last to the first."""
    y = None
    for axis in range(len(grid) - 1, -1, -1):
        line, q = grid[axis], places[axis]
        if y is None:
            # Along the last grid axis all points share the lines: [line, *axes before, *rest].
            lines = move_axis(values, axis, 0)
            y = _pchip_at(line, lines, q)
            y = move_axis(y, 0, axis)
        else:
            y = _pchip_each(line, y, q, axis)
    return y


def _pchip_at(line: Any, lines: Any, q: Any) -> Any:
    slopes = pchip_slopes(line, lines)
    place, weights = _hermite_weights(line, q, lines)
    parts = [take(lines, place), take(lines, place + 1), take(slopes, place)]
    parts.append(take(slopes, place + 1))
    return _sum_of(weights, parts)


def _pchip_each(line: Any, y: Any, q: Any, axis: int) -> Any:
    """Interpolate where each point has its own lines: y is [*axes before, line, point, *rest]."""
    front = move_axis(y, axis, 0)
    slopes = pchip_slopes(line, front)
    # Move to [line, *axes before, point, *rest] and merge lines and points into one axis.
    at = axis + 1
    front, slopes = move_axis(front, at, 1), move_axis(slopes, at, 1)
    count, points = front.shape[0], front.shape[1]
    merged = (count * points, *front.shape[2:])
    flat, flat_slopes = reshape_p(front, shape=merged), reshape_p(slopes, shape=merged)
    own = place_next_to(q, np.arange(points))
    place, weights = _hermite_weights(line, q, flat)
    low, high = place * points + own, (place + 1) * points + own
    parts = [take(flat, low), take(flat, high), take(flat_slopes, low), take(flat_slopes, high)]
    y = _sum_of(weights, parts)
    return move_axis(y, 0, axis)


def _hermite_weights(line: Any, q: Any, like: Any) -> tuple[Any, list[Any]]:
    """Return the Hermite weights of both values and both slopes of an interval."""
    place = interval(line, q, 0, line.shape[0] - 2)
    low, high = take(line, place), take(line, place + 1)
    step = high - low
    s = (q - low) / step
    first = (1.0 + 2.0 * s) * (1.0 - s) * (1.0 - s)
    weights = [first, 1.0 - first, step * s * (1.0 - s) * (1.0 - s), step * s * s * (s - 1.0)]
    return place, [as_columns(w, like) for w in weights]


def _sum_of(weights: Sequence[Any], parts: Sequence[Any]) -> Any:
    y: Any = 0.0
    for weight, part in zip(weights, parts, strict=True):
        y = y + weight * part
    return y


def interpn(
    points: Sequence[Any],
    values: Any,
    xi: Any,
    method: str = "linear",
    bounds_error: bool = True,
    fill_value: Any = math.nan,
) -> Any:
    """Interpolate values on a regular grid at points [..., axis].

    >>> interpn(([0.0, 1.0], [0.0, 2.0]), [[0.0, 2.0], [1.0, 3.0]], [0.5, 1.0]).tolist()
    [1.5]
    """
    f = RegularGridInterpolator(points, values, method, bounds_error, fill_value)
    return f(xi)
