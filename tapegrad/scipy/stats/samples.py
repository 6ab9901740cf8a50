"""What functions of samples share: an axis, missing values, means over what is there."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from tapegrad.core.choices import check_choice
from tapegrad.core.operand import normalize_axes, normalize_axis
from tapegrad.scipy.vocabulary import (
    cast,
    isnan,
    moveaxis,
    numpy_dtype_of,
    operand,
    reshape_p,
    sum_over,
    where,
)


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
    kept: tuple[int, ...] | None = None
    """The shape of a result that keeps its axes, if several of them were made into one."""

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
        """Return the variance over the axis, which is kept; as over 0, or NaN, of too few."""
        gaps = self.gaps()
        squares = self.total(gaps * gaps)
        left = self.count - ddof
        if isinstance(left, float | int):
            return squares / left if left > 0 else _over_nothing(squares, left == 0)
        is_enough = left > 0
        few = _over_nothing(squares, left == 0)
        return where(is_enough, squares / where(is_enough, left, 1.0), few)

    def dropped(self, y: Any, keepdims: bool = False) -> Any:
        """Return a result without the axis that was kept, unless it is to be."""
        if keepdims:
            return y if self.kept is None else reshape_p(y, shape=self.kept)
        shape = tuple(y.shape)
        return reshape_p(y, shape=shape[: self.axis] + shape[self.axis + 1 :])

    def nothing(self, keepdims: bool = False) -> Any:
        """Return NaN in the shape of a result."""
        return self.dropped(self.mean(self.x) * math.nan, keepdims)


def _over_nothing(squares: Any, is_nothing: Any) -> Any:
    """What squares over 0 are, or NaN where there is not even nothing."""
    infinite = where(squares > 0, math.inf, math.nan)
    return where(is_nothing, infinite, math.nan)


def read_values(a: Any, axis: Any, nan_policy: str, name: str) -> Values:
    """Return the values of an argument; all of them in a row if the axis is None.

    Several axes become the last one.

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
    there = ~isnan(x)
    return Values(where(there, x, 0.0), axis, there, kept)


def _joined(x: Any, axis: Any, name: str) -> tuple[Any, tuple[int, ...], int]:
    """Several axes as one, which is the last; and the shape of a result that keeps them."""
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
