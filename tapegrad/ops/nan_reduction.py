"""Reductions that leave out NaN: nothing flows back to an element that is NaN."""

from __future__ import annotations

import math
from typing import Any

from tapegrad.core.operand import as_operand
from tapegrad.ops import reduction
from tapegrad.ops.cast import cast
from tapegrad.ops.comparison import isnan, logical_not
from tapegrad.ops.kinds import is_integer
from tapegrad.ops.powers import sqrt
from tapegrad.ops.selection import keep, where
from tapegrad.ops.squares import euclidean_norm, sum_of_squares


def _count(there: Any, x: Any, axis: Any, keepdims: bool) -> Any:
    return reduction.sum(cast(there, x.dtype), axis, keepdims)


def nansum(x: Any, axis: Any = None, keepdims: bool = False) -> Any:
    """Return the sum over `axis` of what is not NaN.

    >>> float(nansum([1.0, float("nan"), 3.0]))
    4.0
    """
    x = as_operand(x)
    if is_integer(x):
        return reduction.sum(x, axis, keepdims)
    return reduction.sum(keep(x, logical_not(isnan(x))), axis, keepdims)


def nanprod(x: Any, axis: Any = None, keepdims: bool = False) -> Any:
    """Return the product over `axis` of what is not NaN.

    >>> float(nanprod([2.0, float("nan"), 3.0]))
    6.0
    """
    x = as_operand(x)
    if is_integer(x):
        return reduction.prod(x, axis, keepdims)
    return reduction.prod(where(isnan(x), 1.0, x), axis, keepdims)


def nanmean(x: Any, axis: Any = None, keepdims: bool = False) -> Any:
    """Return the mean over `axis` of what is not NaN.

    >>> float(nanmean([1.0, float("nan"), 3.0]))
    2.0
    """
    x = as_operand(x)
    if is_integer(x):
        return reduction.mean(x, axis, keepdims)
    there = logical_not(isnan(x))
    count = _count(there, x, axis, keepdims)
    return reduction.sum(keep(x, there), axis, keepdims) / where(count == 0, math.nan, count)


def _distances(x: Any, axis: Any, correction: float, keepdims: bool) -> tuple[Any, Any]:
    """Return the distances from the mean, 0 for NaN, and the divisor of the variance."""
    x = as_operand(x)
    x = cast(x, "float64") if is_integer(x) else x
    there = logical_not(isnan(x))
    count = _count(there, x, axis, keepdims) - correction
    return keep(x - nanmean(x, axis, True), there), where(count <= 0, math.nan, count)


def nanvar(x: Any, axis: Any = None, correction: float = 0, keepdims: bool = False) -> Any:
    """Return the variance over `axis` of what is not NaN.

    >>> float(nanvar([1.0, float("nan"), 3.0]))
    1.0
    """
    distances, degrees = _distances(x, axis, correction, keepdims)
    return sum_of_squares(distances, axis, keepdims) / degrees


def nanstd(x: Any, axis: Any = None, correction: float = 0, keepdims: bool = False) -> Any:
    """Return the standard deviation over `axis` of what is not NaN; see `std` for its derivative.

    >>> float(nanstd([1.0, float("nan"), 3.0]))
    1.0
    """
    distances, degrees = _distances(x, axis, correction, keepdims)
    return euclidean_norm(distances, axis, keepdims) / sqrt(degrees)


def nanmax(x: Any, axis: Any = None, keepdims: bool = False) -> Any:
    """Return the largest element over `axis` that is not NaN; NaN if there is none.

    >>> float(nanmax([1.0, float("nan"), 3.0]))
    3.0
    """
    return _extreme(reduction.max, -math.inf, x, axis, keepdims)


def nanmin(x: Any, axis: Any = None, keepdims: bool = False) -> Any:
    """Return the smallest element over `axis` that is not NaN; NaN if there is none.

    >>> float(nanmin([1.0, float("nan"), 3.0]))
    1.0
    """
    return _extreme(reduction.min, math.inf, x, axis, keepdims)


def _extreme(reduce: Any, worst: float, x: Any, axis: Any, keepdims: bool) -> Any:
    x = as_operand(x)
    if is_integer(x):
        return reduce(x, axis, keepdims)
    missing = isnan(x)
    result = reduce(where(missing, worst, x), axis, keepdims)
    return where(reduction.all(missing, axis, keepdims), math.nan, result)
