"""Differences, gradients, integrals and interpolation of sampled functions."""

from __future__ import annotations

from typing import Any

import numpy as np

from tapegrad.core.primitive.operand import normalize_axes, normalize_axis
from tapegrad.errors import ArgumentError, ArgumentTypeError, DTypeError, ShapeError
from tapegrad.numpy.joining import concat
from tapegrad.numpy.manipulation import ravel
from tapegrad.numpy.searching import searchsorted
from tapegrad.numpy.values import (
    as_array,
    as_array_like,
    as_arrays,
    check_cast,
    dtype_of,
    floating,
    inexact,
    is_array,
    side_by_side,
    with_dtype,
)
from tapegrad.ops.convolution.sequences import convolve as _convolve, correlate as _correlate
from tapegrad.ops.elementwise import complex_numbers, rounding
from tapegrad.ops.elementwise.comparison import not_equal
from tapegrad.ops.elementwise.selection import where as choose
from tapegrad.ops.indexing.functions import getitem
from tapegrad.ops.kinds import is_complex
from tapegrad.ops.reduction import cumulative, primitives as reduction
from tapegrad.ops.shape.functions import broadcast_to, reshape


def diff(a: Any, n: int = 1, axis: int = -1, prepend: Any = None, append: Any = None) -> Any:
    """Return the `n`-th differences of neighbours along an axis.

    >>> diff([1, 4, 9]).tolist()
    [3, 5]
    """
    x = as_array(a)
    if not isinstance(n, int | np.integer):
        raise ArgumentTypeError(f"diff needs an integer n. Got {n!r}.")
    if n < 0:
        raise ArgumentError(f"diff needs n of 0 or more. Got {n}.")
    if n == 0:
        return x  # also with prepend or append, as in NumPy
    if not x.shape:
        raise ShapeError("diff needs an array with axes. Got a single value.")
    axis = normalize_axis(axis, len(x.shape), "diff")
    parts = [x]
    if prepend is not None:
        parts.insert(0, _beside(prepend, x, axis))
    if append is not None:
        parts.append(_beside(append, x, axis))
    x = concat(parts, axis=axis) if len(parts) > 1 else x
    if dtype_of(x).kind == "b":
        for _ in range(min(n, x.shape[axis])):
            x = not_equal(_part(x, axis, 1, None), _part(x, axis, None, -1))
        return x
    return cumulative.diff(x, n, axis)


def _beside(value: Any, x: Any, axis: int) -> Any:
    """Return the value to prepend or append; a number becomes one slice."""
    value = as_array(value, x)
    if value.shape:
        return value
    return broadcast_to(value, (*x.shape[:axis], 1, *x.shape[axis + 1 :]))


def _part(x: Any, axis: int, start: int | None, stop: int | None) -> Any:
    return getitem(x, (*[slice(None)] * axis, slice(start, stop)))


def ediff1d(ary: Any, to_end: Any = None, to_begin: Any = None) -> Any:
    """Return the differences of neighbours of the flattened array, with values added at the ends.

    >>> ediff1d([1, 4, 9], to_begin=0).tolist()
    [0, 3, 5]
    """
    x = ravel(ary)
    parts = [cumulative.diff(x)]
    if to_begin is not None:
        parts.insert(0, _end_of(to_begin, x))
    if to_end is not None:
        parts.append(_end_of(to_end, x))
    return concat(parts) if len(parts) > 1 else parts[0]


def _end_of(value: Any, x: Any) -> Any:
    """Return the added values in the dtype of the array, or raise if the kind differs."""
    end = as_array_like(value, x)
    check_cast("ediff1d", dtype_of(end), dtype_of(x), "same_kind")
    return with_dtype(ravel(end), dtype_of(x))


def gradient(f: Any, *varargs: Any, axis: Any = None, edge_order: int = 1) -> Any:
    """Return central differences along each axis; `varargs` are spacings or coordinates.

    >>> gradient([1.0, 4.0, 9.0]).tolist()
    [3.0, 4.0, 5.0]
    """
    x = floating(f)
    if dtype_of(as_array(f)).kind == "b":
        raise DTypeError("gradient needs numbers. Got booleans; convert them by astype first.")
    axes = (
        normalize_axes(None, len(x.shape), "gradient")
        if axis is None
        else tuple(normalize_axis(int(a), len(x.shape), "gradient") for a in np.atleast_1d(axis))
    )
    if len(set(axes)) < len(axes):
        raise ArgumentError(f"gradient needs distinct axes. Got {axis}.")
    is_one = len(varargs) == 1 and not as_array(varargs[0]).shape
    if len(varargs) not in (0, len(axes)) and not is_one:
        raise ArgumentTypeError(
            f"gradient needs no spacing, one spacing, or one spacing or coordinate vector for each "
            f"of {len(axes)} axes. Got {len(varargs)}."
        )
    if edge_order not in (1, 2):
        raise ArgumentError(f"gradient needs edge_order 1 or 2. Got {edge_order}.")
    spacings = list(varargs) or [1.0]
    spacings = spacings * len(axes) if len(spacings) == 1 else spacings
    slopes = [_slope(x, k, h, edge_order) for k, h in zip(axes, spacings, strict=True)]
    if axis is not None and np.ndim(axis) == 0:
        return slopes[0]
    return slopes[0] if len(slopes) == 1 else tuple(slopes)


def _slope(x: Any, axis: int, spacing: Any, edge_order: int) -> Any:
    if x.shape[axis] < edge_order + 1:
        raise ShapeError(
            f"gradient needs {edge_order + 1} entries along axis {axis}. Got {x.shape[axis]}."
        )
    h = as_array_like(spacing, x)
    if h.shape:
        h = reshape(cumulative.diff(floating(h)), (-1, *[1] * (len(x.shape) - axis - 1)))
        before, after = h[:-1], h[1:]
    else:
        before = after = h
    left, middle, right = _part(x, axis, None, -2), _part(x, axis, 1, -1), _part(x, axis, 2, None)
    if h.shape:
        inner = (
            before * before * right
            + (after * after - before * before) * middle
            - after * after * left
        ) / (before * after * (before + after))
    else:
        inner = (right - left) / (2.0 * h)
    first = _end(x, axis, h, edge_order, at_front=True)
    last = _end(x, axis, h, edge_order, at_front=False)
    return with_dtype(concat([first, inner, last], axis=axis), dtype_of(x))


def _end(x: Any, axis: int, h: Any, edge_order: int, at_front: bool) -> Any:
    """Return the difference at one end, by the formula of first or second order."""
    count = x.shape[axis]
    places = (0, 1, 2) if at_front else (count - 1, count - 2, count - 3)
    values = [_part(x, axis, k, k + 1) for k in places[: edge_order + 1]]
    steps = [h, h]
    if h.shape:
        steps = [h[0:1], h[1:2]] if at_front else [h[-1:], h[-2:-1]]
    sign = 1.0 if at_front else -1.0
    if edge_order == 1:
        return sign * (values[1] - values[0]) / steps[0]
    d1, d2 = steps
    return sign * (
        -(2.0 * d1 + d2) / (d1 * (d1 + d2)) * values[0]
        + (d1 + d2) / (d1 * d2) * values[1]
        - d1 / (d2 * (d1 + d2)) * values[2]
    )


def trapezoid(y: Any, x: Any = None, dx: Any = 1.0, axis: int = -1) -> Any:
    """Return the integral along an axis by the trapezoidal rule, with points `x` or spacing `dx`.

    >>> trapezoid([1, 2, 3]).tolist()
    4.0
    """
    y = as_array(y)
    steps = None if x is None else as_array(x, y)
    if steps is None:
        y = floating(y)
    else:
        y = with_dtype(y, inexact(np.result_type(dtype_of(y), dtype_of(steps))))
    axis = normalize_axis(axis, len(y.shape), "trapezoid")
    high, low = _part(y, axis, 1, None), _part(y, axis, None, -1)
    if steps is None:
        return reduction.sum(dx * (high + low) / 2.0, axis)
    if len(steps.shape) == 1:
        steps = reshape(cumulative.diff(steps), (-1, *[1] * (len(y.shape) - axis - 1)))
    else:
        steps = cumulative.diff(steps, 1, axis)
    return reduction.sum(steps * (high + low) / 2.0, axis)


def convolve(a: Any, v: Any, mode: str = "full") -> Any:
    """Return the convolution of two sequences.

    >>> convolve([1, 2, 3], [0, 1]).tolist()
    [0, 1, 2, 3]
    """
    return _convolve(*_sequences(a, v, "convolve"), mode)


def correlate(a: Any, v: Any, mode: str = "valid") -> Any:
    """Return the cross-correlation of two sequences.

    >>> correlate([1, 2, 3], [0, 1]).tolist()
    [2, 3]
    """
    return _correlate(*_sequences(a, v, "correlate"), mode)


def _sequences(a: Any, v: Any, name: str) -> tuple[Any, Any]:
    """Return two vectors of a common dtype; numbers are vectors of length 1."""
    first, second = as_arrays([a, v])
    for x in (first, second):
        if len(x.shape) > 1:
            raise ShapeError(f"{name} needs vectors. Got shape {tuple(x.shape)}.")
    return ravel(first), ravel(second)


def interp(
    x: Any, xp: Any, fp: Any, left: Any = None, right: Any = None, period: float | None = None
) -> Any:
    """Interpolate linearly between points; differentiable in all arguments.

    Decreasing points raise, unless they are on a device. At repeated points, the last value
    applies to the right.

    >>> interp([0.5, 1.5], [0.0, 1.0, 2.0], [0.0, 10.0, 40.0]).tolist()
    [5.0, 25.0]
    """
    if period is None and not is_array(xp) and np.any(np.diff(np.asarray(xp, dtype=float)) < 0):
        raise ArgumentError(f"interp needs points xp in increasing order. Got {xp}.")
    at, knots, values = (floating(part) for part in side_by_side(x, xp, fp))
    if is_complex(at) or is_complex(knots):
        raise DTypeError("interp needs real x and xp. Got complex ones; only fp may be complex.")
    if not knots.shape or not knots.shape[0]:
        raise ShapeError("interp needs points xp. Got none.")
    if len(knots.shape) != 1 or knots.shape != values.shape:
        raise ShapeError(
            f"interp needs as many points as values. Got shapes {knots.shape} and {values.shape}."
        )
    if period is not None:
        if period == 0:
            raise ArgumentError("interp needs a period other than 0.")
        at, knots, values = _periodic(at, knots, values, abs(period))
        left = right = None
    # The dtype of the result is that of the computation, as in NumPy.
    common = np.result_type(*[dtype_of(part) for part in (at, knots, values)])
    at, knots = [with_dtype(part, np.empty(0, common).real.dtype) for part in (at, knots)]
    values = with_dtype(values, at.dtype if not is_complex(values) else common)
    count = knots.shape[0]
    place = searchsorted(knots, at, side="right").clip(1, max(count - 1, 1))
    low, high = getitem(knots, place - 1), getitem(knots, place.clip(0, count - 1))
    below, above = getitem(values, place - 1), getitem(values, place.clip(0, count - 1))
    if is_complex(values):
        result = complex_numbers.complex(
            _on_line(at, low, high, complex_numbers.real(below), complex_numbers.real(above)),
            _on_line(at, low, high, complex_numbers.imag(below), complex_numbers.imag(above)),
        )
    else:
        result = _on_line(at, low, high, below, above)
    result = choose(at < knots[0], values[0] if left is None else left, result)
    result = choose(at > knots[-1], values[-1] if right is None else right, result)
    return choose(at == knots[-1], values[-1], result)


def _on_line(at: Any, low: Any, high: Any, below: Any, above: Any) -> Any:
    """Return the value at a point of the line through two points.

    Infinite points and values give NaN in the usual formula. They are measured from the other end,
    and a line between two equal values is constant.
    """
    gap = choose(high == low, 1.0, high - low)
    slope = (above - below) / gap
    result = below + slope * (at - low)
    result = choose((result != result) & (at == low), below, result)
    result = choose(result != result, above + slope * (at - high), result)
    return choose((result != result) & (below == above) & (at == at), below, result)


def _periodic(at: Any, knots: Any, values: Any, period: float) -> tuple[Any, Any, Any]:
    """Map points into one period, and repeat the end points outside of it."""
    at, knots = rounding.mod(at, period), rounding.mod(knots, period)
    order = knots.argsort()
    knots, values = getitem(knots, order), getitem(values, order)
    knots = concat([knots[-1:] - period, knots, knots[:1] + period])
    return at, knots, concat([values[-1:], values, values[:1]])


def unwrap(
    p: Any, discont: float | None = None, axis: int = -1, *, period: float = 2 * np.pi
) -> Any:
    """Return angles without jumps: neighbours differ by at most half a period.

    >>> unwrap([0.0, 6.0]).round(4).tolist()
    [0.0, -0.2832]
    """
    x = as_array(p)
    axis = normalize_axis(axis, len(x.shape), "unwrap")
    half = period / 2 if dtype_of(x).kind not in "iu" or period % 2 else period // 2
    limit = half if discont is None else discont
    steps = cumulative.diff(x, 1, axis)
    wrapped = rounding.mod(steps + half, period) - half
    wrapped = choose((wrapped == -half) & (steps > 0), half, wrapped)
    jumps = choose(abs(steps) < limit, 0, wrapped - steps)
    moved = _part(x, axis, 1, None) + cumulative.cumsum(jumps, axis)
    return concat([_part(x, axis, 0, 1), moved], axis=axis)
