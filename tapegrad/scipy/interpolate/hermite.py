"""Cubic Hermite splines with given slopes, PCHIP and Akima interpolation."""

from __future__ import annotations

from typing import Any

from tapegrad.core.argument_checks import check_choice
from tapegrad.errors import ShapeError
from tapegrad.scipy.interpolate.common import as_columns, points_and_values
from tapegrad.scipy.interpolate.pieces import PPoly
from tapegrad.scipy.vocabulary import concat, diff, largest, move_axis, operands, sign, stack, where


def hermite_coefficients(x: Any, y: Any, slopes: Any) -> Any:
    """Return the coefficients [power, interval, ...] of the cubic Hermite spline."""
    step = as_columns(diff(x), y)
    rise = diff(y, axis=0) / step
    bend = (slopes[:-1] + slopes[1:] - 2.0 * rise) / step
    return stack([bend / step, (rise - slopes[:-1]) / step - bend, slopes[:-1], y[:-1]])


class CubicHermiteSpline(PPoly):
    """The piecewise cubic with given values and slopes, differentiable in both and in the points.

    >>> CubicHermiteSpline([0.0, 1.0], [0.0, 1.0], [0.0, 0.0])(0.5).tolist()
    0.5
    """

    def __init__(self, x: Any, y: Any, dydx: Any, axis: int = 0, extrapolate: Any = None) -> None:
        y, dydx = operands(y, dydx)
        if y.shape != dydx.shape:
            raise ShapeError(
                "CubicHermiteSpline needs y and dydx of the same shape. Got shapes "
                f"{y.shape} and {dydx.shape}."
            )
        x, y, axis = points_and_values(x, y, axis, type(self).__name__)
        slopes = move_axis(operands(dydx, y)[0], axis, 0)
        self._set(hermite_coefficients(x, y, slopes), x, extrapolate, axis)


class PchipInterpolator(CubicHermiteSpline):
    """The monotone piecewise cubic (PCHIP), which does not overshoot between values.

    >>> PchipInterpolator([0.0, 1.0, 2.0], [0.0, 0.0, 1.0])([0.5, 1.5]).tolist()
    [0.0, 0.3125]
    """

    def __init__(self, x: Any, y: Any, axis: int = 0, extrapolate: Any = None) -> None:
        x, y, axis = points_and_values(x, y, axis, "PchipInterpolator")
        self._set(hermite_coefficients(x, y, pchip_slopes(x, y)), x, extrapolate, axis)


def pchip_slopes(x: Any, y: Any) -> Any:
    """Return slopes: 0 at local extrema, else the weighted harmonic mean of both sides."""
    step = as_columns(diff(x), y)
    rise = diff(y, axis=0) / step
    if rise.shape[0] == 1:
        return concat([rise, rise])
    before, after = rise[:-1], rise[1:]
    flat = (sign(before) != sign(after)) | (before == 0.0) | (after == 0.0)
    w1, w2 = 2.0 * step[1:] + step[:-1], step[1:] + 2.0 * step[:-1]
    # Replace zero slopes by 1: their unused reciprocals would give NaN gradients.
    mean = w1 / where(flat, 1.0, before) + w2 / where(flat, 1.0, after)
    inner = where(flat, 0.0, (w1 + w2) / where(flat, 1.0, mean))
    first = _end_slope(step[:1], step[1:2], rise[:1], rise[1:2])
    last = _end_slope(step[-1:], step[-2:-1], rise[-1:], rise[-2:-1])
    return concat([first, inner, last])


def _end_slope(h0: Any, h1: Any, m0: Any, m1: Any) -> Any:
    """Return the slope of the parabola through three points, limited to preserve monotonicity."""
    slope = ((2.0 * h0 + h1) * m0 - h0 * m1) / (h0 + h1)
    steep = (sign(m0) != sign(m1)) & (abs(slope) > 3.0 * abs(m0))
    return where(sign(slope) != sign(m0), 0.0, where(steep, 3.0 * m0, slope))


class Akima1DInterpolator(CubicHermiteSpline):
    """Akima's piecewise cubic, whose slopes depend on two neighbours on each side.

    `method="makima"` is the modified form, which avoids overshoot next to flat data.

    >>> Akima1DInterpolator([0.0, 1.0, 2.0, 3.0], [0.0, 1.0, 4.0, 9.0])(1.5).tolist()
    2.25
    """

    def __init__(
        self, x: Any, y: Any, axis: int = 0, *, method: str = "akima", extrapolate: Any = None
    ) -> None:
        check_choice("The method of Akima1DInterpolator", method, ("akima", "makima"))
        x, y, axis = points_and_values(x, y, axis, "Akima1DInterpolator")
        slopes = _akima_slopes(x, y, method)
        beyond = False if extrapolate is None else extrapolate
        self._set(hermite_coefficients(x, y, slopes), x, beyond, axis)


def _akima_slopes(x: Any, y: Any, method: str) -> Any:
    rise = diff(y, axis=0) / as_columns(diff(x), y)
    if rise.shape[0] == 1:
        return concat([rise, rise])
    low1 = 2.0 * rise[:1] - rise[1:2]
    low0 = 2.0 * low1 - rise[:1]
    high1 = 2.0 * rise[-1:] - rise[-2:-1]
    high2 = 2.0 * high1 - rise[-1:]
    m = concat([low0, low1, rise, high1, high2])
    change = abs(diff(m, axis=0))
    if method == "makima":
        change = change + 0.5 * abs(m[1:] + m[:-1])
    left, right = change[2:], change[:-2]
    both = left + right
    counts = both > 1e-9 * largest(both)
    blend = (left * m[1:-2] + right * m[2:-1]) / where(counts, both, 1.0)
    return where(counts, blend, 0.5 * (m[3:] + m[:-3]))


def pchip_interpolate(xi: Any, yi: Any, x: Any, der: int = 0, axis: int = 0) -> Any:
    """Evaluate the PCHIP interpolant, or one of its derivatives, at points.

    >>> pchip_interpolate([0.0, 1.0, 2.0], [0.0, 0.0, 1.0], [0.5, 1.5]).tolist()
    [0.0, 0.3125]
    """
    return PchipInterpolator(xi, yi, axis)(x, int(der))
