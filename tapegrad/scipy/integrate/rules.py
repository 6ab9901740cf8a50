"""Quadrature of samples, and of functions at fixed points."""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np

from tapegrad.core.primitive.operand import normalize_axis
from tapegrad.errors import ArgumentError, ShapeError
from tapegrad.scipy.vocabulary import (
    as_constant,
    concat,
    cumsum,
    moveaxis,
    numbers_like,
    numpy_dtype_of,
    operand,
    operands,
    place_next_to,
    sum_over,
    where,
    zeros_for,
)


def _last(x: Any, start: int | None, stop: int | None, step: int | None = None) -> Any:
    return x[..., start:stop:step]


def _gaps(y: Any, x: Any, dx: Any, axis: int, name: str) -> tuple[Any, Any, int]:
    """Return the samples along the last axis, the spacings, and the original axis."""
    y, x = operands(y, dx if x is None else x)
    axis = normalize_axis(axis, y.ndim, name)
    y = moveaxis(y, axis, -1)
    if not x.shape:
        return y, x + zeros_for(y, (max(y.shape[-1] - 1, 0),), numpy_dtype_of(y)), axis
    x = moveaxis(x, axis, -1) if x.ndim > 1 else x
    if x.shape[-1] != y.shape[-1]:
        raise ShapeError(
            f"{name} needs as many points x as samples y. Got {x.shape[-1]} and {y.shape[-1]}."
        )
    return y, _last(x, 1, None) - _last(x, None, -1), axis


def _areas(y: Any, x: Any, dx: Any, axis: int, name: str) -> tuple[Any, int]:
    """Return the areas of the trapezoids along the last axis, and the original axis."""
    y, gap, axis = _gaps(y, x, dx, axis, name)
    return 0.5 * gap * (_last(y, 1, None) + _last(y, None, -1)), axis


def trapezoid(y: Any, x: Any = None, dx: Any = 1.0, axis: int = -1) -> Any:
    """Integrate samples at points `x`, or `dx` apart, by the trapezoidal rule.

    >>> float(trapezoid([1.0, 2.0, 3.0]))
    4.0
    """
    return sum_over(_areas(y, x, dx, axis, "trapezoid")[0], -1)


def cumulative_trapezoid(
    y: Any, x: Any = None, dx: Any = 1.0, axis: int = -1, initial: float | None = None
) -> Any:
    """Return the cumulative integrals by the trapezoidal rule; `initial=0` prepends a 0.

    >>> cumulative_trapezoid([1.0, 2.0, 3.0], initial=0).tolist()
    [0.0, 1.5, 4.0]
    """
    areas, axis = _areas(y, x, dx, axis, "cumulative_trapezoid")
    sums = cumsum(areas, -1)
    if initial is not None:
        shape = (*sums.shape[:-1], 1)
        sums = concat([zeros_for(sums, shape, numpy_dtype_of(sums)) + initial, sums], -1)
    return moveaxis(sums, -1, axis)


def simpson(y: Any, x: Any = None, *, dx: Any = 1.0, axis: int = -1) -> Any:
    """Integrate samples at points `x`, or `dx` apart, by Simpson's rule.

    For an even number of samples the last interval uses the parabola through the last three points
    (Cartwright's correction), as in SciPy.

    >>> round(float(simpson([0.0, 1.0, 4.0])), 6)
    2.666667
    """
    y = operand(y)
    axis = normalize_axis(axis, y.ndim, "simpson")
    count = y.shape[axis]
    if count < 3:
        if count < 2:
            raise ShapeError(f"simpson needs at least 2 samples. Got {count}.")
        return trapezoid(y, x, dx, axis)
    y, gap, _ = _gaps(y, x, dx, axis, "simpson")
    if count % 2:
        return _pairs(y, gap)
    pieces = _backward(_last(y, -3, None), _last(gap, -2, None))
    return _pairs(_last(y, None, -1), _last(gap, None, -1)) + sum_over(pieces, -1)


def _pairs(y: Any, gap: Any) -> Any:
    """Sum Simpson's rule over pairs of intervals."""
    first, middle, last = _last(y, 0, -2, 2), _last(y, 1, -1, 2), _last(y, 2, None, 2)
    left, right = _last(gap, 0, None, 2), _last(gap, 1, None, 2)
    whole, ratio = left + right, left / right
    parts = first * (2 - 1 / ratio) + middle * whole * whole / (left * right) + last * (2 - ratio)
    return sum_over(whole / 6 * parts, -1)


def _forward(y: Any, gap: Any) -> Any:
    """Integrate each interval but the last under the parabola that includes the next point."""
    ends = _last(y, None, -2), _last(y, 1, -1), _last(y, 2, None)
    return _under_parabola(*ends, _last(gap, None, -1), _last(gap, 1, None))


def _backward(y: Any, gap: Any) -> Any:
    """Integrate each interval but the first under the parabola that includes the previous point."""
    ends = _last(y, 2, None), _last(y, 1, -1), _last(y, None, -2)
    return _under_parabola(*ends, _last(gap, 1, None), _last(gap, None, -1))


def _under_parabola(near: Any, middle: Any, far: Any, own: Any, other: Any) -> Any:
    """Integrate from `near` to `middle`, at distance `own`, with `far` at distance `other` on."""
    fraction, square = own / (own + other), own * own / ((own + other) * other)
    return own / 6 * ((3 - fraction) * near + (3 + square + fraction) * middle - square * far)


def cumulative_simpson(
    y: Any, *, x: Any = None, dx: Any = 1.0, axis: int = -1, initial: Any = None
) -> Any:
    """Return the cumulative integrals by Simpson's rule.

    `initial` is prepended and added to all results.

    >>> cumulative_simpson([0.0, 1.0, 4.0, 9.0], initial=0.0).round(4).tolist()
    [0.0, 0.3333, 2.6667, 9.0]
    """
    y = operand(y)
    axis = normalize_axis(axis, y.ndim, "cumulative_simpson")
    count = y.shape[axis]
    if count < 3:
        start = None if initial is None else 0.0
        sums = cumulative_trapezoid(y, x, dx, axis, start)
        return sums if initial is None else sums + initial
    y, gap, _ = _gaps(y, x, dx, axis, "cumulative_simpson")
    ahead, behind = _forward(y, gap), _backward(y, gap)
    ahead = concat([ahead, _last(ahead, -1, None)], -1)
    behind = concat([_last(behind, 0, 1), behind], -1)
    takes_ahead = np.arange(count - 1) % 2 == 0
    takes_ahead[-1] = False
    sums = cumsum(where(place_next_to(y, takes_ahead), ahead, behind), -1)
    if initial is not None:
        front = zeros_for(sums, (*sums.shape[:-1], 1), numpy_dtype_of(sums))
        sums = concat([front, sums], -1) + initial
    return moveaxis(sums, -1, axis)


def romb(y: Any, dx: Any = 1.0, axis: int = -1) -> Any:
    """Integrate 2^k + 1 samples by Romberg's method.

    >>> round(float(romb([0.0, 1.0, 4.0, 9.0, 16.0])), 6)
    21.333333
    """
    y, dx = operands(y, dx)
    axis = normalize_axis(axis, y.ndim, "romb")
    y = moveaxis(y, axis, -1)
    intervals = y.shape[-1] - 1
    if intervals < 1 or intervals & (intervals - 1):
        raise ShapeError(f"romb needs 2^k + 1 samples. Got {intervals + 1}.")
    step = intervals
    rows = []
    while step:
        samples = _last(y, None, None, step)
        inner = sum_over(samples, -1) - 0.5 * (samples[..., 0] + samples[..., -1])
        rows.append(inner * (dx * float(step)))
        step //= 2
    for order in range(1, len(rows)):
        fraction = 1.0 / (4.0**order - 1.0)
        rows = [fine + (fine - crude) * fraction for crude, fine in pairwise(rows)]
    return rows[0]


def newton_cotes(rn: Any, equal: int = 0) -> tuple[Any, float]:
    """Return the weights of the Newton-Cotes rule at 0..n or at `rn`, and its error coefficient.

    >>> weights, factor = newton_cotes(2)
    >>> weights.round(4).tolist(), round(factor, 6)
    ([0.3333, 1.3333, 0.3333], -0.011111)
    """
    places = np.arange(rn + 1) if isinstance(rn, int) else np.asarray(rn, float)
    count = len(places) - 1
    is_equal = bool(equal) or isinstance(rn, int) or bool(np.all(np.diff(places) == 1))
    if places[0] != 0 or places[-1] != count:
        raise ArgumentError(f"The points of newton_cotes must go from 0 to {count}. Got {rn!r}.")
    fraction = places / count
    # Legendre polynomials keep the system well conditioned; only the first has a nonzero integral.
    table = np.polynomial.legendre.legvander(2 * fraction - 1, count).T
    wanted = np.zeros(count + 1)
    wanted[0] = 1.0
    weights = np.linalg.solve(table, wanted)
    power = count + 2 if is_equal and count % 2 == 0 else count + 1
    error_estimate = 1.0 / (power + 1) - float(fraction**power @ weights)
    factor = error_estimate * math.exp((power + 1) * math.log(count) - math.lgamma(power + 1))
    return as_constant(weights * count), factor


def fixed_quad(
    func: Callable[..., Any], a: Any, b: Any, args: tuple[Any, ...] = (), n: int = 5
) -> tuple[Any, None]:
    """Return the integral of func from a to b by n-point Gauss-Legendre quadrature, and None.

    `func` takes a vector of points and returns values along the last axis.

    >>> round(float(fixed_quad(lambda x: x * x, 0.0, 3.0)[0]), 6)
    9.0
    """
    a, b = operands(a, b)
    nodes, weights = np.polynomial.legendre.leggauss(int(n))
    half = 0.5 * (b - a)
    points = half * (numbers_like(a, nodes) + 1) + a
    values = func(points, *args)
    return half * sum_over(values * numbers_like(a, weights), -1), None
