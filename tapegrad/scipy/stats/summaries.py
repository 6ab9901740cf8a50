"""Numbers that describe a sample: means, moments and scores."""

from __future__ import annotations

import math
from typing import Any

from tapegrad.core.operand import normalize_axis
from tapegrad.errors import ArgumentError
from tapegrad.scipy.stats.logarithms import log_or_nothing
from tapegrad.scipy.stats.samples import Values, read_values, root
from tapegrad.scipy.vocabulary import (
    broadcast_arrays,
    cast,
    exp,
    isnan,
    log,
    numpy_dtype_of,
    operand,
    operands,
    reshape_p,
    stack,
    where,
)

# Means


def gmean(
    a: Any,
    axis: Any = 0,
    dtype: Any = None,
    weights: Any = None,
    nan_policy: str = "propagate",
    keepdims: bool = False,
) -> Any:
    """Return the geometric mean.

    >>> round(float(gmean([1.0, 4.0])), 6)
    2.0
    """
    values = read_values(_as_dtype(a, dtype), axis, nan_policy, "gmean")
    x = _there(values)
    logs = where(x < 0, math.nan, log_or_nothing(x))
    return values.dropped(exp(_weighted(values, logs, weights, axis)), keepdims)


def hmean(
    a: Any,
    axis: Any = 0,
    dtype: Any = None,
    *,
    weights: Any = None,
    nan_policy: str = "propagate",
    keepdims: bool = False,
) -> Any:
    """Return the harmonic mean of numbers that are not negative.

    >>> round(float(hmean([1.0, 3.0])), 6)
    1.5
    """
    options = {"axis": axis, "weights": weights, "nan_policy": nan_policy, "keepdims": keepdims}
    return pmean(a, -1, dtype=dtype, **options)


def pmean(
    a: Any,
    p: float,
    *,
    axis: Any = 0,
    dtype: Any = None,
    weights: Any = None,
    nan_policy: str = "propagate",
    keepdims: bool = False,
) -> Any:
    """Return the power mean of numbers that are not negative; p is a Python number.

    >>> round(float(pmean([1.0, 7.0], 2)), 6)
    5.0
    """
    if p == 0:
        return gmean(a, axis, dtype, weights, nan_policy, keepdims)
    values = read_values(_as_dtype(a, dtype), axis, nan_policy, "pmean")
    x = _there(values)
    is_negative = x < 0
    x = where(is_negative, math.nan, x)
    is_zero = x == 0
    powers = where(is_zero, 0.0 if p > 0 else math.inf, where(is_zero, 1.0, x) ** p)
    mean = _weighted(values, powers, weights, axis)
    is_end = (mean == 0) | (mean == math.inf)
    at_end = where((mean == 0) == (p > 0), 0.0, math.inf)
    y = where(is_end, at_end, where(is_end, 1.0, mean) ** (1 / p))
    return values.dropped(y, keepdims)


def _there(values: Values) -> Any:
    """The values, and 1 for those that are not there."""
    return values.x if values.there is None else where(values.there, values.x, 1.0)


def _as_dtype(a: Any, dtype: Any) -> Any:
    return a if dtype is None else cast(operand(a), dtype)


def _weighted(values: Values, y: Any, weights: Any, axis: Any) -> Any:
    if weights is None:
        return values.mean(y)
    y, weights = operands(y, weights)
    if axis is None:
        weights = reshape_p(weights, shape=(-1,))
    if weights.ndim == 1 and weights.shape[0] == y.shape[values.axis]:
        # A weight for each place along the axis.
        weights = reshape_p(weights, shape=(-1,) + (1,) * (y.ndim - 1 - values.axis))
    y, weights = broadcast_arrays(y, weights)
    # Without a weight nothing counts, not even an infinity.
    return values.total(where(weights == 0, 0.0, y) * weights) / values.total(weights)


# Moments


def moment(
    a: Any,
    order: Any = 1,
    axis: Any = 0,
    nan_policy: str = "propagate",
    *,
    center: Any = None,
    keepdims: bool = False,
) -> Any:
    """Return the moment of this order (a whole number, or a list of them) around the mean.

    >>> float(moment([1.0, 2.0, 3.0, 6.0], 2))
    3.5
    """
    if isinstance(order, list | tuple) and len(order):
        parts = [moment(a, k, axis, nan_policy, center=center, keepdims=keepdims) for k in order]
        return stack(parts)
    if int(order) != order or order < 0:
        raise ArgumentError(f"moment needs a whole number as order, at least 0. Got {order!r}.")
    values = read_values(a, axis, nan_policy, "moment")
    gaps = values.gaps() if center is None else values.x - operands(values.x, center)[1]
    # Around the mean the first moment is 0 and has no gradient, whatever rounding makes of it.
    if order == 0 or (order == 1 and center is None):
        gaps = where(isnan(values.x), values.x, 1.0 - int(order))
    else:
        gaps = gaps ** int(order)
    return values.dropped(values.mean(gaps), keepdims)


def _standard_moment(values: Values, order: int) -> tuple[Any, Any]:
    """The moment in units of the standard deviation, and whether all values are the same."""
    gaps = values.gaps()
    square = values.mean(gaps * gaps)
    eps = 2.3e-16 if str(numpy_dtype_of(values.x)) == "float64" else 1.2e-7
    is_constant = square <= (eps * values.mean(values.x)) ** 2
    safe = where(is_constant, 1.0, square)
    return values.mean(gaps**order) / safe ** (0.5 * order), is_constant


def _enough(count: Any, few: int) -> Any:
    """The count, or a larger one than it where there are `few` or less."""
    if isinstance(count, float):
        return max(count, few + 1.0)
    return where(count > few, count, few + 1.0)


def _unless_few(count: Any, few: int, corrected: Any, y: Any) -> Any:
    """What is corrected, and y where there are too few values for that."""
    if isinstance(count, float):
        return corrected if count > few else y
    return where(count > few, corrected, y)


def skew(
    a: Any,
    axis: Any = 0,
    bias: bool = True,
    nan_policy: str = "propagate",
    *,
    keepdims: bool = False,
) -> Any:
    """Return the skewness: the third moment in units of the standard deviation.

    >>> round(float(skew([1.0, 2.0, 3.0, 6.0])), 6)
    0.687243
    """
    values = read_values(a, axis, nan_policy, "skew")
    y, is_constant = _standard_moment(values, 3)
    if not bias:
        n = _enough(values.count, 2)
        y = _unless_few(values.count, 2, y * (n * (n - 1)) ** 0.5 / (n - 2), y)
    return values.dropped(where(is_constant, math.nan, y), keepdims)


def kurtosis(
    a: Any,
    axis: Any = 0,
    fisher: bool = True,
    bias: bool = True,
    nan_policy: str = "propagate",
    *,
    keepdims: bool = False,
) -> Any:
    """Return the kurtosis: the fourth moment in units of the variance, less 3 if `fisher`.

    >>> round(float(kurtosis([1.0, 2.0, 3.0, 6.0])), 6)
    -1.0
    """
    values = read_values(a, axis, nan_policy, "kurtosis")
    y, is_constant = _standard_moment(values, 4)
    if not bias:
        n = _enough(values.count, 3)
        moved = ((n * n - 1) * y - 3 * (n - 1) ** 2) / ((n - 2) * (n - 3)) + 3
        y = _unless_few(values.count, 3, moved, y)
    y = where(is_constant, math.nan, y - 3 if fisher else y)
    return values.dropped(y, keepdims)


def variation(
    a: Any, axis: Any = 0, nan_policy: str = "propagate", ddof: float = 0, *, keepdims: bool = False
) -> Any:
    """Return the standard deviation over the mean.

    >>> round(float(variation([1.0, 3.0])), 6)
    0.5
    """
    values = read_values(a, axis, nan_policy, "variation")
    return values.dropped(root(values.var(ddof)) / values.mean(values.x), keepdims)


def sem(
    a: Any, axis: Any = 0, ddof: float = 1, nan_policy: str = "propagate", *, keepdims: bool = False
) -> Any:
    """Return the standard error of the mean.

    >>> round(float(sem([1.0, 3.0])), 6)
    1.0
    """
    values = read_values(a, axis, nan_policy, "sem")
    return values.dropped(root(values.var(ddof) / values.count), keepdims)


# Scores


def zscore(a: Any, axis: Any = 0, ddof: float = 0, nan_policy: str = "propagate") -> Any:
    """Return the distances from the mean in units of the standard deviation.

    >>> zscore([1.0, 3.0]).tolist()
    [-1.0, 1.0]
    """
    return zmap(a, a, axis, ddof, nan_policy)


def zmap(
    scores: Any, compare: Any, axis: Any = 0, ddof: float = 0, nan_policy: str = "propagate"
) -> Any:
    """Return the distances of `scores` from the mean of `compare`, in its standard deviations.

    >>> zmap([5.0], [1.0, 3.0]).tolist()
    [3.0]
    """
    scores, compare = operands(scores, compare)
    if axis is not None:
        normalize_axis(axis, compare.ndim, "zmap")
    values = read_values(compare, axis, nan_policy, "zmap")
    mean, deviation = values.mean(values.x), root(values.var(ddof))
    if axis is None:
        mean, deviation = reshape_p(mean, shape=()), reshape_p(deviation, shape=())
    # What is no number must not reach the division: 0 times NaN would be the gradient.
    is_none = isnan(scores) | (deviation == 0)
    y = (where(is_none, 0.0, scores) - mean) / where(deviation == 0, 1.0, deviation)
    return where(is_none, math.nan, y)


def gzscore(a: Any, *, axis: Any = 0, ddof: float = 0, nan_policy: str = "propagate") -> Any:
    """Return the z-scores of the logarithms.

    >>> gzscore([1.0, 3.0]).round(6).tolist()
    [-1.0, 1.0]
    """
    return zscore(log(operand(a)), axis, ddof, nan_policy)
