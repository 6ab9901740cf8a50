"""What functions of samples share: an axis, missing values, means over what is there."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from tapegrad.core.operand import normalize_axis
from tapegrad.errors import ArgumentError
from tapegrad.ops.basic import reshape_p
from tapegrad.ops.cast import cast
from tapegrad.ops.comparison import isnan
from tapegrad.ops.creation import numpy_dtype_of
from tapegrad.ops.reduction import sum as sum_over
from tapegrad.ops.selection import where
from tapegrad.scipy.operands import operand


@dataclass(frozen=True)
class Values:
    """Numbers along an axis; what is not `there` is 0 and counts for nothing.

    >>> values = read_values([1.0, float("nan"), 3.0], 0, "omit", "gmean")
    >>> float(values.mean(values.x))
    2.0
    """

    x: Any
    axis: int
    there: Any = None
    """None for all of them."""

    @property
    def count(self) -> Any:
        """How many there are, along the axis, which is kept."""
        if self.there is None:
            return float(self.x.shape[self.axis])
        return sum_over(cast(self.there, numpy_dtype_of(self.x)), self.axis, keepdims=True)

    def total(self, y: Any) -> Any:
        """Return the sum over the axis, which is kept, of values like x."""
        y = y if self.there is None else where(self.there, y, 0.0)
        return sum_over(y, self.axis, keepdims=True)

    def mean(self, y: Any) -> Any:
        """Return the mean over the axis, which is kept; NaN of nothing."""
        count = self.count
        if self.there is None:
            return self.total(y) / count if count else self.total(y) + math.nan
        is_none = count == 0
        return where(is_none, math.nan, self.total(y) / where(is_none, 1.0, count))

    def gaps(self) -> Any:
        """Return the distances from the mean."""
        return self.x - self.mean(self.x)

    def var(self, ddof: Any = 0) -> Any:
        """Return the variance over the axis, which is kept; NaN of too few."""
        gaps = self.gaps()
        return self.total(gaps * gaps) / self.degrees(ddof)

    def degrees(self, ddof: Any) -> Any:
        """Return the count less ddof, and NaN where nothing is left of it."""
        left = self.count - ddof
        if isinstance(left, float):
            return left if left > 0 else math.nan
        return where(left > 0, left, math.nan)

    def dropped(self, y: Any, keepdims: bool = False) -> Any:
        """Return a result without the axis that was kept, unless it is to be."""
        if keepdims:
            return y
        shape = tuple(y.shape)
        return reshape_p(y, shape=shape[: self.axis] + shape[self.axis + 1 :])


def read_values(a: Any, axis: Any, nan_policy: str, name: str) -> Values:
    """Return the values of an argument; all of them in a row if the axis is None.

    >>> read_values([[1.0, 2.0]], None, "propagate", "skew").x.shape
    (2,)
    """
    if nan_policy not in ("propagate", "omit"):
        raise ArgumentError(
            f"nan_policy of {name} must be 'propagate' or 'omit'. Got {nan_policy!r}."
        )
    x = operand(a)
    if axis is None or not x.shape:
        x, axis = reshape_p(x, shape=(-1,)), 0
    axis = normalize_axis(axis, len(x.shape), name)
    if nan_policy == "propagate":
        return Values(x, axis)
    there = ~isnan(x)
    return Values(where(there, x, 0.0), axis, there)


def root(y: Any) -> Any:
    """Return the square root, without a gradient at 0.

    >>> import tapegrad
    >>> root(tapegrad.constant([0.0, 4.0])).numpy().tolist()
    [0.0, 2.0]
    """
    is_zero = y == 0
    return where(is_zero, 0.0, where(is_zero, 1.0, y) ** 0.5)
