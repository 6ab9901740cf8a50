"""make_interp_spline: interpolating B-splines of any degree."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tapegrad.errors import ArgumentError, ShapeError
from tapegrad.ops.linalg.solve import solve_p
from tapegrad.scipy.interpolate.bsplines import BSpline, design
from tapegrad.scipy.interpolate.common import check_increasing, points_and_values
from tapegrad.scipy.vocabulary import (
    cast,
    concat,
    diff,
    in_dtype,
    numpy_dtype_of,
    operand,
    reshape_p,
    zeros_for,
)

Condition = tuple[int, Any]
"""An end condition: the order of a derivative and its value."""

_ENDS: dict[str, list[Condition]] = {"clamped": [(1, 0.0)], "natural": [(2, 0.0)]}


def make_interp_spline(
    x: Any,
    y: Any,
    k: int = 3,
    t: Any = None,
    bc_type: Any = None,
    axis: int = 0,
    check_finite: bool = True,
) -> BSpline:
    """Return the B-spline of degree k through values, differentiable in values and points.

    `bc_type` is None or 'not-a-knot', 'clamped', 'natural', 'periodic', or a pair with a list of
    (order, value) of derivatives for each end. The system is solved as a dense one.

    >>> make_interp_spline([0.0, 1.0, 2.0, 3.0], [0.0, 1.0, 8.0, 27.0])(1.5).numpy().round(12)
    np.float64(3.375)
    """
    if k not in range(100):
        raise ArgumentError(f"make_interp_spline needs a non-negative integer degree k. Got {k!r}.")
    x, y, axis = points_and_values(x, y, axis, "make_interp_spline", least=1)
    is_periodic = isinstance(bc_type, str) and bc_type == "periodic"
    if is_periodic and k > 1:
        return BSpline.construct_fast(*_periodic(x, y, k), k, "periodic", axis)
    first, last = _conditions(None if is_periodic else bc_type)
    if k < 2 and (first or last):
        raise ArgumentError(
            f"A spline of degree {k} has no end conditions. Got bc_type={bc_type!r}."
        )
    knots = _knots(x, k, bool(first or last)) if t is None else operand(t)
    check_increasing(x, "make_interp_spline")
    missing = knots.shape[0] - k - 1 - x.shape[0]
    if missing != len(first) + len(last):
        raise ShapeError(
            f"make_interp_spline needs {missing} end conditions for {x.shape[0]} points and "
            f"{knots.shape[0]} knots of degree {k}. Got {len(first) + len(last)}."
        )
    rows, right = [design(knots, k, x)], [y]
    for conditions, place in ((first, x[:1]), (last, x[-1:])):
        for order, value in conditions:
            rows.append(design(knots, k, place, order))
            right.append(_as_row(value, y))
    return BSpline.construct_fast(knots, _solved(rows, right), k, True, axis)


def _solved(rows: list[Any], right: list[Any]) -> Any:
    matrix, values = concat(rows), concat(right)
    shape = tuple(values.shape)
    flat = reshape_p(values, shape=(shape[0], math.prod(shape[1:])))
    matrix = in_dtype(matrix, numpy_dtype_of(flat))
    return reshape_p(solve_p(matrix, flat, adjoint=False), shape=shape)


def _as_row(value: Any, y: Any) -> Any:
    rest = y.shape[1:]
    if isinstance(value, int | float) and value == 0:
        return zeros_for(y, (1, *rest), numpy_dtype_of(y))
    given = cast(operand(value), numpy_dtype_of(y))
    if given.shape != rest:
        raise ShapeError(f"An end condition needs values of shape {rest}. Got {given.shape}.")
    return reshape_p(given, shape=(1, *rest))


def _conditions(bc_type: Any) -> tuple[list[Condition], list[Condition]]:
    if bc_type is None or isinstance(bc_type, str):
        bc_type = (bc_type, bc_type)
    if not isinstance(bc_type, list | tuple) or len(bc_type) != 2:
        raise ArgumentError(
            f"bc_type must be a name or a pair with one entry per end. Got {bc_type!r}."
        )
    found: list[list[Condition]] = []
    for given in bc_type:
        if given is None or (isinstance(given, str) and given == "not-a-knot"):
            found.append([])
        elif isinstance(given, str) and given in _ENDS:
            found.append(_ENDS[given])
        elif isinstance(given, str):
            raise ArgumentError(
                "bc_type must be not-a-knot, clamped, natural or periodic (not in a pair). "
                f"Got {given!r}."
            )
        else:
            pairs = [given] if isinstance(given[0], int) else list(given)
            found.append([(int(order), value) for order, value in pairs])
    return found[0], found[1]


def _knots(x: Any, k: int, has_conditions: bool) -> Any:
    if has_conditions:
        return concat([x[:1]] * k + [x] + [x[-1:]] * k)
    if k == 0:
        return concat([x, x[-1:]])
    if k == 1:
        return concat([x[:1], x, x[-1:]])
    count = x.shape[0]
    if count <= k:
        raise ShapeError(
            f"make_interp_spline of degree {k} needs at least {k + 1} points. Got {count}."
        )
    skip = (k + 1) // 2
    inner = x if k % 2 else (x[1:] + x[:-1]) / 2.0
    skip = skip if k % 2 else k // 2
    return concat([x[:1]] * (k + 1) + [inner[skip : skip + count - k - 1]] + [x[-1:]] * (k + 1))


def _periodic(x: Any, y: Any, k: int) -> tuple[Any, Any]:
    """Return the periodic spline: periodic knots and equal derivatives at both ends."""
    count = x.shape[0]
    inner = x
    if k % 2 == 0 and count > 2:
        inner = concat([x[:1], x[1:-1] - diff(x)[:-1] / 2.0, x[-1:]])
    steps, period = diff(inner), inner[-1:] - inner[:1]
    places = np.arange(-k, count + k)
    rounds, rest = np.divmod(places, count - 1)
    base = [inner[int(r) : int(r) + 1] + period * float(n) for n, r in zip(rounds, rest)]
    base[k + count - 1] = inner[-1:]
    knots = concat(base) if steps.shape[0] else inner
    rows, right = [design(knots, k, x)], [y]
    zero = zeros_for(y, (1, *y.shape[1:]), numpy_dtype_of(y))
    for order in range(1, k):
        rows.append(design(knots, k, x[:1], order) - design(knots, k, x[-1:], order))
        right.append(zero)
    return knots, _solved(rows, right)
