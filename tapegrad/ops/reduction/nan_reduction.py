"""Reductions that ignore NaN; elements that are NaN have gradient 0."""

from __future__ import annotations

import math
from typing import Any

from tapegrad.core.primitive.operand import as_operand
from tapegrad.ops.casting.cast import cast
from tapegrad.ops.elementwise.comparison import isnan, logical_not
from tapegrad.ops.elementwise.powers import sqrt
from tapegrad.ops.elementwise.selection import keep, where
from tapegrad.ops.kinds import is_integer
from tapegrad.ops.reduction import primitives as reduction_primitives
from tapegrad.ops.reduction.squares import euclidean_norm, sum_of_squares


def _count(valid: Any, x: Any, axis: Any, keepdims: bool) -> Any:
    return reduction_primitives.sum(cast(valid, x.dtype), axis, keepdims)


def nansum(x: Any, axis: Any = None, keepdims: bool = False) -> Any:
    """Return the sum over `axis`, ignoring NaN.

    >>> float(nansum([1.0, float("nan"), 3.0]))
    4.0
    """
    x = as_operand(x)
    if is_integer(x):
        return reduction_primitives.sum(x, axis, keepdims)
    return reduction_primitives.sum(keep(x, logical_not(isnan(x))), axis, keepdims)


def nanprod(x: Any, axis: Any = None, keepdims: bool = False) -> Any:
    """Return the product over `axis`, ignoring NaN.

    >>> float(nanprod([2.0, float("nan"), 3.0]))
    6.0
    """
    x = as_operand(x)
    if is_integer(x):
        return reduction_primitives.prod(x, axis, keepdims)
    return reduction_primitives.prod(where(isnan(x), 1.0, x), axis, keepdims)


def nanmean(x: Any, axis: Any = None, keepdims: bool = False) -> Any:
    """Return the mean over `axis`, ignoring NaN.

    >>> float(nanmean([1.0, float("nan"), 3.0]))
    2.0
    """
    x = as_operand(x)
    if is_integer(x):
        return reduction_primitives.mean(x, axis, keepdims)
    valid = logical_not(isnan(x))
    count = _count(valid, x, axis, keepdims)
    return reduction_primitives.sum(keep(x, valid), axis, keepdims) / where(
        count == 0, math.nan, count
    )


def _deviations(x: Any, axis: Any, correction: float, keepdims: bool) -> tuple[Any, Any]:
    """Return the deviations from the mean, with 0 for NaN, and the divisor of the variance."""
    x = as_operand(x)
    x = cast(x, "float64") if is_integer(x) else x
    valid = logical_not(isnan(x))
    count = _count(valid, x, axis, keepdims) - correction
    return keep(x - nanmean(x, axis, True), valid), where(count <= 0, math.nan, count)


def nanvar(x: Any, axis: Any = None, correction: float = 0, keepdims: bool = False) -> Any:
    """Return the variance over `axis`, ignoring NaN.

    >>> float(nanvar([1.0, float("nan"), 3.0]))
    1.0
    """
    deviations, degrees = _deviations(x, axis, correction, keepdims)
    return sum_of_squares(deviations, axis, keepdims) / degrees


def nanstd(x: Any, axis: Any = None, correction: float = 0, keepdims: bool = False) -> Any:
    """Return the standard deviation over `axis`, ignoring NaN; see `std` for its derivative.

    >>> float(nanstd([1.0, float("nan"), 3.0]))
    1.0
    """
    deviations, degrees = _deviations(x, axis, correction, keepdims)
    return euclidean_norm(deviations, axis, keepdims) / sqrt(degrees)


def nanmax(x: Any, axis: Any = None, keepdims: bool = False) -> Any:
    """Return the maximum over `axis`, ignoring NaN; NaN if all elements are NaN.

    >>> float(nanmax([1.0, float("nan"), 3.0]))
    3.0
    """
    return _extreme(reduction_primitives.max, -math.inf, x, axis, keepdims)


def nanmin(x: Any, axis: Any = None, keepdims: bool = False) -> Any:
    """Return the minimum over `axis`, ignoring NaN; NaN if all elements are NaN.

    >>> float(nanmin([1.0, float("nan"), 3.0]))
    1.0
    """
    return _extreme(reduction_primitives.min, math.inf, x, axis, keepdims)


def _extreme(reduce: Any, worst: float, x: Any, axis: Any, keepdims: bool) -> Any:
    x = as_operand(x)
    if is_integer(x):
        return reduce(x, axis, keepdims)
    missing = isnan(x)
    result = reduce(where(missing, worst, x), axis, keepdims)
    return where(reduction_primitives.all(missing, axis, keepdims), math.nan, result)
