"""Integrals of samples and of functions by rules with fixed points."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tapegrad.core.operand import normalize_axis
from tapegrad.errors import ShapeError
from tapegrad.ops.creation import numpy_dtype_of, zeros_for
from tapegrad.ops.cumulative import cumsum
from tapegrad.ops.gather import place_next_to
from tapegrad.ops.joining import concat
from tapegrad.ops.reduction import sum as sum_over
from tapegrad.ops.shape import moveaxis
from tapegrad.ops.slicing import slice_p
from tapegrad.scipy.operands import operand, operands


def _last(x: Any, start: int | None, stop: int | None, step: int | None = None) -> Any:
    return slice_p(x, index=(..., slice(start, stop, step)))


def _areas(y: Any, x: Any, dx: Any, axis: int, name: str) -> tuple[Any, int]:
    """Return the areas of the trapezoids along the last axis, and the axis that it was."""
    y, x = operands(y, dx if x is None else x)
    axis = normalize_axis(axis, len(y.shape), name)
    y = moveaxis(y, axis, -1)
    if len(x.shape) > 1:
        x = moveaxis(x, axis, -1)
    if x.shape and x.shape[-1] != y.shape[-1]:
        raise ShapeError(
            f"{name} needs as many points as samples. Got {x.shape[-1]} and {y.shape[-1]}."
        )
    width = _last(x, 1, None) - _last(x, None, -1) if x.shape else x
    return 0.5 * width * (_last(y, 1, None) + _last(y, None, -1)), axis


def trapezoid(y: Any, x: Any = None, dx: Any = 1.0, axis: int = -1) -> Any:
    """Return the integral of samples by trapezoids, at points x or `dx` apart.

    >>> float(trapezoid([1.0, 2.0, 3.0]))
    4.0
    """
    return sum_over(_areas(y, x, dx, axis, "trapezoid")[0], -1)


def cumulative_trapezoid(
    y: Any, x: Any = None, dx: Any = 1.0, axis: int = -1, initial: float | None = None
) -> Any:
    """Return the integrals up to each sample but the first; `initial=0` puts a 0 in front.

    >>> cumulative_trapezoid([1.0, 2.0, 3.0], initial=0).numpy().tolist()
    [0.0, 1.5, 4.0]
    """
    areas, axis = _areas(y, x, dx, axis, "cumulative_trapezoid")
    sums = cumsum(areas, -1)
    if initial is not None:
        shape = (*sums.shape[:-1], 1)
        sums = concat([zeros_for(sums, shape, numpy_dtype_of(sums)) + initial, sums], -1)
    return moveaxis(sums, -1, axis)


def simpson(y: Any, x: Any = None, *, dx: Any = 1.0, axis: int = -1) -> Any:
    """Return the integral of an odd number of samples by parabolas, at points x or `dx` apart.

    >>> round(float(simpson([0.0, 1.0, 4.0])), 6)
    2.666667
    """
    y = operand(y)
    axis = normalize_axis(axis, len(y.shape), "simpson")
    y = moveaxis(y, axis, -1)
    count = int(y.shape[-1])
    if count < 3 or count % 2 == 0:
        raise ShapeError(f"simpson needs an odd number of samples, at least 3. Got {count}.")
    first, middle, last = _last(y, 0, -2, 2), _last(y, 1, -1, 2), _last(y, 2, None, 2)
    if x is None:
        y, dx = operands(y, dx)
        return sum_over(first + 4 * middle + last, -1) * dx / 3
    y, x = operands(y, x)
    x = moveaxis(x, axis, -1) if len(x.shape) > 1 else x
    gap = _last(x, 1, None) - _last(x, None, -1)
    left, right = _last(gap, 0, None, 2), _last(gap, 1, None, 2)
    whole, ratio = left + right, left / right
    parts = first * (2 - 1 / ratio) + middle * whole * whole / (left * right) + last * (2 - ratio)
    return sum_over(whole / 6 * parts, -1)


def fixed_quad(
    func: Callable[..., Any], a: Any, b: Any, args: tuple[Any, ...] = (), n: int = 5
) -> tuple[Any, None]:
    """Return the integral of func from a to b by Gauss' rule with n points, and None.

    `func` takes a vector of points and returns values along the last axis.

    >>> round(float(fixed_quad(lambda x: x * x, 0.0, 3.0)[0]), 6)
    9.0
    """
    a, b = operands(a, b)
    nodes, weights = np.polynomial.legendre.leggauss(int(n))
    dtype = numpy_dtype_of(a)
    half = 0.5 * (b - a)
    points = half * (place_next_to(a, nodes.astype(dtype)) + 1) + a
    values = func(points, *args)
    return half * sum_over(values * place_next_to(a, weights.astype(dtype)), -1), None
