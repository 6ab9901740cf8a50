"""Samples along an axis with missing values: counts, sums, means and variances."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from tapegrad.core.argument_checks import check_choice
from tapegrad.core.primitive.operand import normalize_axes, normalize_axis
from tapegrad.scipy.vocabulary import (
    cast,
    conjugate,
    is_complex,
    isnan,
    moveaxis,
    numpy_dtype_of,
    operand,
    real,
    reshape_p,
    sum_over,
    where,
)


@dataclass(frozen=True)
class Values:
    """Values along an axis; values where `is_present` is False are 0 and ignored.

    >>> values = read_values([1.0, float("nan"), 3.0], 0, "omit", "gmean")
    >>> float(values.mean(values.x))
    2.0
    """

    x: Any
    axis: int
    is_present: Any = None
    """None if all values are present."""
    kept: tuple[int, ...] | None = None
    """The shape of a result with keepdims, if several axes were merged."""

    @property
    def count(self) -> Any:
        """The number of present values, with the axis kept."""
        if self.is_present is None:
            return float(self.x.shape[self.axis])
        return sum_over(cast(self.is_present, numpy_dtype_of(self.x)), self.axis, keepdims=True)

    def total(self, y: Any) -> Any:
        """Return the sum of y over the axis, with the axis kept."""
        y = y if self.is_present is None else where(self.is_present, y, 0.0)
        return sum_over(y, self.axis, keepdims=True)

    def mean(self, y: Any) -> Any:
        """Return the mean of y over the axis, with the axis kept; NaN for no values."""
        count = self.count
        if self.is_present is None:
            return self.total(y) / count if count else self.total(y) + math.nan
        is_none = count == 0
        return where(is_none, math.nan, self.total(y) / where(is_none, 1.0, count))

    def deviations(self) -> Any:
        """Return the deviations from the mean."""
        return self.x - self.mean(self.x)

    def var(self, ddof: Any = 0) -> Any:
        """Return the variance with the axis kept; a division by 0, or NaN, for too few values."""
        deviations = self.deviations()
        if is_complex(deviations):
            squares = self.total(real(deviations * conjugate(deviations)))
        else:
            squares = self.total(deviations * deviations)
        left = self.count - ddof
        if isinstance(left, float | int):
            return squares / left if left > 0 else _divided_by_zero(squares, left == 0)
        is_enough = left > 0
        few = _divided_by_zero(squares, left == 0)
        return where(is_enough, squares / where(is_enough, left, 1.0), few)

    def without_axis(self, y: Any, keepdims: bool = False) -> Any:
        """Remove the kept axis from a result unless `keepdims` is set."""
        if keepdims:
            return y if self.kept is None else reshape_p(y, shape=self.kept)
        shape = tuple(y.shape)
        return reshape_p(y, shape=shape[: self.axis] + shape[self.axis + 1 :])

    def all_nan(self, keepdims: bool = False) -> Any:
        """Return a result of NaN."""
        return self.without_axis(self.mean(self.x) * math.nan, keepdims)


def _divided_by_zero(squares: Any, is_zero: Any) -> Any:
    """Return squares / 0, and NaN where there are no values at all."""
    infinite = where(squares > 0, math.inf, math.nan)
    return where(is_zero, infinite, math.nan)


def read_values(a: Any, axis: Any, nan_policy: str, name: str) -> Values:
    """Return the values of an argument along an axis; with axis None all values are flattened.

    Several axes are merged into the last one.

    >>> read_values([[1.0, 2.0]], None, "propagate", "skew").x.shape
    (2,)
    """
    check_choice(f"nan_policy of {name}", nan_policy, ("propagate", "omit"))
    x = operand(a)
    kept = None
    if axis is None:
        kept = (1,) * x.ndim
        x, axis = reshape_p(x, shape=(-1,)), 0
    elif not x.shape:
        x = reshape_p(x, shape=(1,))
    elif isinstance(axis, list | tuple):
        x, kept, axis = _joined(x, axis, name)
    axis = normalize_axis(axis, x.ndim, name)
    if nan_policy == "propagate":
        return Values(x, axis, None, kept)
    is_present = ~isnan(x)
    return Values(where(is_present, x, 0.0), axis, is_present, kept)


def _joined(x: Any, axis: Any, name: str) -> tuple[Any, tuple[int, ...], int]:
    """Merge several axes into the last one; also return the shape of a result with keepdims."""
    axes = normalize_axes(axis, x.ndim, name)
    kept = tuple(1 if i in axes else n for i, n in enumerate(x.shape))
    rest = tuple(n for i, n in enumerate(x.shape) if i not in axes)
    x = moveaxis(x, axes, tuple(range(-len(axes), 0)))
    count = math.prod(x.shape[len(rest) :])
    return reshape_p(x, shape=(*rest, count)), kept, -1


def root(y: Any) -> Any:
    """Return the square root, without a gradient at 0.

    >>> import tapegrad
    >>> root(tapegrad.constant([0.0, 4.0])).tolist()
    [0.0, 2.0]
    """
    is_zero = y == 0
    return where(is_zero, 0.0, where(is_zero, 1.0, y) ** 0.5)
