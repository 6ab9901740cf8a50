"""Cubic splines: piecewise cubics with two continuous derivatives.

The slopes at the points solve a tridiagonal system by cyclic reduction, which takes a logarithmic
number of steps and is differentiable to any order. The systems of splines are diagonally dominant
("not-a-knot" ends after one elimination), so no pivoting is needed.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tapegrad.errors import ArgumentError, ShapeError
from tapegrad.ops.creation import full_like_p
from tapegrad.scipy.interpolate.common import as_columns, host_values, points_and_values
from tapegrad.scipy.interpolate.hermite import CubicHermiteSpline, hermite_coefficients
from tapegrad.scipy.vocabulary import (
    cast,
    concat,
    diff,
    numpy_dtype_of,
    operand,
    reshape_p,
    sum_over,
    zeros_like,
)

End = tuple[int, Any]
"""An end condition: the order of the given derivative, or 0 for "not-a-knot", and its value."""

_NAMES: dict[str, End] = {"not-a-knot": (0, 0.0), "clamped": (1, 0.0), "natural": (2, 0.0)}


class CubicSpline(CubicHermiteSpline):
    """The cubic spline through values, differentiable in values, points and end conditions.

    `bc_type` is 'not-a-knot', 'clamped', 'natural' or 'periodic', or a pair with one entry per end:
    a name, or (order, value) of the first or second derivative.

    >>> CubicSpline([0.0, 1.0, 2.0, 3.0], [0.0, 1.0, 8.0, 27.0])(1.5).tolist()
    3.375
    """

    def __init__(
        self, x: Any, y: Any, axis: int = 0, bc_type: Any = "not-a-knot", extrapolate: Any = None
    ) -> None:
        given = y
        x, y, axis = points_and_values(x, y, axis, "CubicSpline")
        if isinstance(bc_type, str) and bc_type == "periodic":
            _check_closed(y, given, axis)
            slopes = _periodic_slopes(x, y)
            extrapolate = "periodic" if extrapolate is None else extrapolate
        else:
            slopes = _slopes(x, y, *_ends(bc_type, y))
        self._set(hermite_coefficients(x, y, slopes), x, extrapolate, axis)


def _check_closed(y: Any, given: Any, axis: int) -> None:
    values = host_values(y)
    if values is None:
        values = host_values(y, given)
        values = None if values is None else np.moveaxis(values, axis, 0)
    if values is not None and abs(values[0] - values[-1]).max() > 1e-15 + 1e-15 * abs(values).max():
        raise ArgumentError(
            "CubicSpline with bc_type='periodic' needs equal first and last values."
        )


def _ends(bc_type: Any, y: Any) -> tuple[End, End]:
    if isinstance(bc_type, str):
        bc_type = (bc_type, bc_type)
    if not isinstance(bc_type, list | tuple) or len(bc_type) != 2:
        raise ArgumentError(
            f"bc_type must be a name or a pair with one entry per end. Got {bc_type!r}."
        )
    first, last = (_end(given, y) for given in bc_type)
    if y.shape[0] == 2:
        # With two points there is no inner knot to remove, so a not-a-knot end uses a line.
        first, last = ((3, 0.0) if end[0] == 0 else end for end in (first, last))
    return first, last


def _end(given: Any, y: Any) -> End:
    if isinstance(given, str):
        if given not in _NAMES:
            names = ", ".join([*_NAMES, "periodic"])
            raise ArgumentError(f"bc_type must be one of {names} (not in a pair). Got {given!r}.")
        return _NAMES[given]
    if not isinstance(given, list | tuple) or len(given) != 2 or given[0] not in (1, 2):
        raise ArgumentError(
            f"An end condition must be (1, slope) or (2, curvature). Got {given!r}."
        )
    value = operand(given[1])
    if value.shape != y.shape[1:]:
        raise ShapeError(
            f"An end condition needs values of shape {y.shape[1:]}. Got {value.shape}."
        )
    return int(given[0]), cast(value, numpy_dtype_of(y))


def _slopes(x: Any, y: Any, first: End, last: End) -> Any:
    step, count = diff(x), x.shape[0]
    rise = diff(y, axis=0) / as_columns(step, y)
    if count == 3 and first[0] == last[0] == 0:
        return _parabola(step, rise)
    # Rows of the system for the slopes: inner points, then the two ends.
    low, high = step[1:], step[:-1]
    middle = 2.0 * (low + high)
    right = 3.0 * (as_columns(low, y) * rise[:-1] + as_columns(high, y) * rise[1:])
    head = _end_row(step, rise, first, y, is_last=False)
    tail = _end_row(step[::-1], rise[::-1], last, y, is_last=True)
    if first[0] == 0:
        # Subtracting the end row from the next one keeps it diagonally dominant.
        low, middle = _subtract_row(low, head[0], 0), _subtract_row(middle, head[1], 0)
        right = _subtract_row(right, head[2], 0)
    else:
        low, middle = concat([zeros_like(step[:1]), low]), concat([head[0], middle])
        high, right = concat([head[1], high]), concat([head[2], right])
    if last[0] == 0:
        high, middle = _subtract_row(high, tail[0], -1), _subtract_row(middle, tail[1], -1)
        right = _subtract_row(right, tail[2], -1)
    else:
        low, middle = concat([low, tail[1]]), concat([middle, tail[0]])
        high, right = concat([high, zeros_like(step[:1])]), concat([right, tail[2]])
    slopes = solve_tridiagonal(low, middle, high, right)
    start = [_end_slope_from(head, slopes[:1])] if first[0] == 0 else []
    stop = [_end_slope_from(tail, slopes[-1:])] if last[0] == 0 else []
    return concat([*start, slopes, *stop])


def _end_slope_from(row: tuple[Any, Any, Any], neighbour: Any) -> Any:
    """Return the slope at an end from its own equation."""
    own, other, right = row
    return (right - as_columns(other, right) * neighbour) / as_columns(own, right)


def _subtract_row(x: Any, part: Any, place: int) -> Any:
    """Subtract a row from the first or the last row."""
    return concat([x[:1] - part, x[1:]]) if place == 0 else concat([x[:-1], x[-1:] - part])


def _end_row(step: Any, rise: Any, end: End, y: Any, is_last: bool) -> tuple[Any, Any, Any]:
    """Return the equation of an end: its coefficient, the neighbour's, and the right side."""
    kind, value = end
    h0 = step[:1]
    one = h0 / h0
    if kind == 3:
        return one, zeros_like(h0), rise[:1]
    if kind == 0:
        h1 = step[1:2]
        both = h0 + h1
        wide, near = as_columns(h0, y), as_columns(h1, y)
        right = ((wide + 2.0 * (wide + near)) * near * rise[:1] + wide * wide * rise[1:2]) / (
            wide + near
        )
        return h1, both, right
    own = (
        value
        if hasattr(value, "shape")
        else full_like_p(rise, shape=rise.shape[1:], value=value, dtype=numpy_dtype_of(rise))
    )
    own = reshape_p(own, shape=(1, *own.shape))
    if kind == 1:
        return one, zeros_like(h0), own
    wide = as_columns(h0, y)
    bend = 0.5 * own * wide * wide
    return 2.0 * h0, h0, 3.0 * rise[:1] * wide + (bend if is_last else -bend)


def _parabola(step: Any, rise: Any) -> Any:
    """Return the slopes of the parabola through three points."""
    h0, h1 = as_columns(step[:1], rise), as_columns(step[1:], rise)
    bend = (rise[1:] - rise[:1]) / (h0 + h1)
    return concat([rise[:1] - bend * h0, rise[:1] + bend * h0, rise[1:] + bend * h1])


def _periodic_slopes(x: Any, y: Any) -> Any:
    step = diff(x)
    rise = diff(y, axis=0) / as_columns(step, y)
    if x.shape[0] == 2:
        return concat([rise * 0.0, rise * 0.0])
    if x.shape[0] == 3:
        weight = as_columns(1.0 / step, rise)
        slope = sum_over(rise * weight, 0, keepdims=True) / sum_over(weight, 0, keepdims=True)
        return concat([slope, slope, slope])
    before = concat([step[-1:], step[:-1]])
    rise_before = concat([rise[-1:], rise[:-1]])
    right = 3.0 * (as_columns(step, y) * rise_before + as_columns(before, y) * rise)
    inner = solve_cyclic(step, 2.0 * (before + step), before, right)
    return concat([inner, inner[:1]])


def solve_tridiagonal(a: Any, b: Any, c: Any, d: Any) -> Any:
    """Solve a[i] s[i-1] + b[i] s[i] + c[i] s[i+1] = d[i] for right sides d of shape [i, ...].

    >>> import tapegrad
    >>> ones = tapegrad.constant([1.0, 1.0, 1.0])
    >>> solve_tridiagonal(ones, 4.0 * ones, ones, tapegrad.constant([6.0, 12.0, 14.0])).numpy()
    array([1., 2., 3.], dtype=float32)
    """
    count, reach = b.shape[0], 1
    a = concat([zeros_like(a[:1]), a[1:]])
    c = concat([c[:-1], zeros_like(c[:1])])
    while reach < count:
        before, after = -a / _shift(b, reach, 1.0), -c / _shift(b, -reach, 1.0)
        b = b + before * _shift(c, reach, 0.0) + after * _shift(a, -reach, 0.0)
        d = (
            d
            + as_columns(before, d) * _shift(d, reach, 0.0)
            + as_columns(after, d) * _shift(d, -reach, 0.0)
        )
        a, c = before * _shift(a, reach, 0.0), after * _shift(c, -reach, 0.0)
        reach *= 2
    return d / as_columns(b, d)


def _shift(x: Any, steps: int, fill: float) -> Any:
    """Shift entries along axis 0 and fill the gap with a constant."""
    shape = (abs(steps), *x.shape[1:])
    empty = full_like_p(x, shape=shape, value=fill, dtype=numpy_dtype_of(x))
    return concat([empty, x[:-steps]]) if steps > 0 else concat([x[-steps:], empty])


def solve_cyclic(a: Any, b: Any, c: Any, d: Any) -> Any:
    """Solve a cyclic tridiagonal system, where the first and the last unknown are neighbours.

    The corners are a rank-one update of a tridiagonal matrix (Sherman-Morrison formula).
    """
    corner = -b[:1]
    inner = concat([b[:1] - corner, b[1:-1], b[-1:] - a[:1] * c[-1:] / corner])
    zeros = zeros_like(b[1:-1])
    u = as_columns(concat([corner, zeros, c[-1:]]), d)
    y = solve_tridiagonal(a, inner, c, d)
    z = solve_tridiagonal(a, inner, c, u)
    v = as_columns(a[:1] / corner, d)
    weight = (y[:1] + v * y[-1:]) / (1.0 + z[:1] + v * z[-1:])
    return y - weight * z
