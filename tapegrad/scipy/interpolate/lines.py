"""Interpolation in one variable: interp1d."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tapegrad.errors import ArgumentError
from tapegrad.ops.indexing.sorting import argsort_p
from tapegrad.scipy.interpolate.common import (
    as_columns,
    broadcast_condition,
    count_before,
    host_range,
    host_values,
    interval,
    is_host_data,
    points_and_values,
    query,
    restore_shape,
)
from tapegrad.scipy.interpolate.spline_fit import make_interp_spline
from tapegrad.scipy.vocabulary import clip, operand, take, where

_DEGREES = {"slinear": 1, "quadratic": 2, "cubic": 3}
_STEPS = ("nearest", "nearest-up", "previous", "next", "zero")


class interp1d:  # noqa: N801  # SciPy's name
    """Interpolation in one variable, differentiable in values and points.

    Queries out of range raise if they are host data or tensors on the CPU. For tensors on a GPU,
    and inside a recorded function, the result is NaN.

    >>> f = interp1d([0.0, 1.0, 2.0], [0.0, 10.0, 40.0])
    >>> f([0.5, 1.5]).tolist()
    [5.0, 25.0]
    """

    def __init__(
        self,
        x: Any,
        y: Any,
        kind: Any = "linear",
        axis: int = -1,
        copy: bool = True,
        bounds_error: bool | None = None,
        fill_value: Any = math.nan,
        assume_sorted: bool = False,
    ) -> None:
        given = x
        x, y, self.axis = points_and_values(x, y, axis, "interp1d", least=1, ordered=False)
        self._ends = host_range(x, given)
        if not assume_sorted:
            order = argsort_p(x, axis=0, descending=False, stable=True)
            x, y = take(x, order), take(y, order)
        self.x, self.y, self._kind = x, y, _checked_kind(kind)
        is_filled = not (isinstance(fill_value, float) and math.isnan(fill_value))
        self._extrapolates = isinstance(fill_value, str) and fill_value == "extrapolate"
        if self._extrapolates and bounds_error:
            raise ArgumentError(
                "interp1d cannot combine fill_value='extrapolate' with bounds_error=True. "
                "Drop one of them."
            )
        self.bounds_error = not is_filled if bounds_error is None else bool(bounds_error)
        self.fill_value = fill_value
        self._spline = None
        if isinstance(self._kind, int):
            self._spline = make_interp_spline(x, y, self._kind)

    def __call__(self, x: Any) -> Any:
        """Evaluate at points of any shape."""
        q, shape = query(x, self.x)
        low, high = q < self.x[0], q > self.x[-1]
        y = self._at(q)
        if not self._extrapolates:
            self._check_bounds(q, x, low, high)
            y = self._filled(y, low, high)
        return restore_shape(y, shape, self.axis)

    def _at(self, q: Any) -> Any:
        if self._spline is not None:
            return self._spline._at(q)
        if self._kind == "linear":
            if self.x.shape[0] < 2:
                return take(self.y, interval(self.x, q, 0, 0))
            place = clip(count_before(self.x, q, right=False), 1, self.x.shape[0] - 1)
            x0, x1 = take(self.x, place - 1), take(self.x, place)
            y0, y1 = take(self.y, place - 1), take(self.y, place)
            return (y1 - y0) / as_columns(x1 - x0, y0) * as_columns(q - x0, y0) + y0
        y = take(self.y, self._nearest(q))
        # Outside of the range 'previous' and 'next' have no value, even where SciPy extrapolates.
        if self._kind == "previous":
            return where(broadcast_condition(q < self.x[0], y), math.nan, y)
        return (
            where(broadcast_condition(q > self.x[-1], y), math.nan, y)
            if self._kind == "next"
            else y
        )

    def _nearest(self, q: Any) -> Any:
        last = self.x.shape[0] - 1
        if self._kind in ("previous", "zero"):
            return interval(self.x, q, 0, last)
        if self._kind == "next":
            return clip(count_before(self.x, q, right=False), 0, last)
        half = self.x / 2.0
        middle = half[1:] + half[:-1]
        return clip(count_before(middle, q, right=self._kind == "nearest-up"), 0, last)

    def _check_bounds(self, q: Any, given: Any, low: Any, high: Any) -> None:
        values = host_values(q, given) if self.bounds_error else None
        if values is None or self._ends is None:
            return
        first, last = self._ends
        beyond = host_values(low | high)
        if beyond is None and is_host_data(given):
            beyond = (values < first) | (values > last)
        if beyond is not None and beyond.any():
            raise ArgumentError(
                f"interp1d has data from {first} to {last}. Got {values[beyond][0]}. "
                "Pass fill_value, or fill_value='extrapolate'."
            )

    def _filled(self, y: Any, low: Any, high: Any) -> Any:
        fill = self.fill_value
        below, above = fill if isinstance(fill, tuple) and len(fill) == 2 else (fill, fill)
        y = where(broadcast_condition(low, y), _filling(below), y)
        return where(broadcast_condition(high, y), _filling(above), y)


def _checked_kind(kind: Any) -> str | int:
    if isinstance(kind, str) and kind in _DEGREES:
        return _DEGREES[kind]
    if isinstance(kind, int | np.integer) and kind >= 0:
        return int(kind) or "zero"
    if kind == "linear" or kind in _STEPS:
        return str(kind)
    names = ", ".join(["linear", *_DEGREES, *_STEPS])
    raise ArgumentError(f"kind of interp1d must be one of {names} or a degree. Got {kind!r}.")


def _filling(value: Any) -> Any:
    return float(value) if isinstance(value, int | float) else operand(value)
