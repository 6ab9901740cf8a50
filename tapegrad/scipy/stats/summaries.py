"""Summary statistics of samples: means, moments and scores."""

from __future__ import annotations

import math
from typing import Any

from tapegrad.core.primitive.operand import normalize_axis
from tapegrad.errors import ArgumentError
from tapegrad.scipy.stats.logarithms import log_or_minus_infinity
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
    x = _present(values)
    logs = where(x < 0, math.nan, log_or_minus_infinity(x))
    return values.without_axis(exp(_weighted(values, logs, weights, axis)), keepdims)


def hmean(
    a: Any,
    axis: Any = 0,
    dtype: Any = None,
    *,
    weights: Any = None,
    nan_policy: str = "propagate",
    keepdims: bool = False,
) -> Any:
    """Return the harmonic mean of non-negative numbers.

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
    """Return the power mean of non-negative numbers; p is a Python number.

    >>> round(float(pmean([1.0, 7.0], 2)), 6)
    5.0
    """
    if p == 0:
        return gmean(a, axis, dtype, weights, nan_policy, keepdims)
    values = read_values(_as_dtype(a, dtype), axis, nan_policy, "pmean")
    x = _present(values)
    is_negative = x < 0
    x = where(is_negative, math.nan, x)
    is_zero = x == 0
    powers = where(is_zero, 0.0 if p > 0 else math.inf, where(is_zero, 1.0, x) ** p)
    mean = _weighted(values, powers, weights, axis)
    is_end = (mean == 0) | (mean == math.inf)
    at_end = where((mean == 0) == (p > 0), 0.0, math.inf)
    y = where(is_end, at_end, where(is_end, 1.0, mean) ** (1 / p))
    return values.without_axis(y, keepdims)


def _present(values: Values) -> Any:
    """Return the values, with 1 in place of missing ones."""
    return values.x if values.is_present is None else where(values.is_present, values.x, 1.0)


def _as_dtype(a: Any, dtype: Any) -> Any:
    return a if dtype is None else cast(operand(a), dtype)


def _weighted(values: Values, y: Any, weights: Any, axis: Any) -> Any:
    if weights is None:
        return values.mean(y)
    y, weights = operands(y, weights)
    if axis is None:
        weights = reshape_p(weights, shape=(-1,))
    if weights.ndim == 1 and weights.shape[0] == y.shape[values.axis]:
        # One weight per position along the axis.
        weights = reshape_p(weights, shape=(-1,) + (1,) * (y.ndim - 1 - values.axis))
    y, weights = broadcast_arrays(y, weights)
    # Values of weight 0 are ignored, even infinite ones.
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
    """Return the central moment of an integer order, or of a list of orders.

    >>> float(moment([1.0, 2.0, 3.0, 6.0], 2))
    3.5
    """
    if isinstance(order, list | tuple) and len(order):
        parts = [moment(a, k, axis, nan_policy, center=center, keepdims=keepdims) for k in order]
        return stack(parts)
    if int(order) != order or order < 0:
        raise ArgumentError(f"moment needs a non-negative integer order. Got {order!r}.")
    values = read_values(a, axis, nan_policy, "moment")
    deviations = values.deviations() if center is None else values.x - operands(values.x, center)[1]
    # The first central moment is exactly 0 and has no gradient.
    if order == 0 or (order == 1 and center is None):
        deviations = where(isnan(values.x), values.x, 1.0 - int(order))
    else:
        deviations = deviations ** int(order)
    return values.without_axis(values.mean(deviations), keepdims)


def _standard_moment(values: Values, order: int) -> tuple[Any, Any]:
    """Return the standardized moment, and whether all values are equal."""
    deviations = values.deviations()
    square = values.mean(deviations * deviations)
    eps = 2.3e-16 if str(numpy_dtype_of(values.x)) == "float64" else 1.2e-7
    is_constant = square <= (eps * values.mean(values.x)) ** 2
    safe = where(is_constant, 1.0, square)
    return values.mean(deviations**order) / safe ** (0.5 * order), is_constant


def _enough(count: Any, few: int) -> Any:
    """Return the count, replaced by a larger number where it is at most `few`."""
    if isinstance(count, float):
        return max(count, few + 1.0)
    return where(count > few, count, few + 1.0)


def _unless_few(count: Any, few: int, corrected: Any, y: Any) -> Any:
    """Return the bias-corrected value, and y where there are at most `few` values."""
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
    """Return the skewness: the third standardized moment.

    >>> round(float(skew([1.0, 2.0, 3.0, 6.0])), 6)
    0.687243
    """
    values = read_values(a, axis, nan_policy, "skew")
    y, is_constant = _standard_moment(values, 3)
    if not bias:
        n = _enough(values.count, 2)
        y = _unless_few(values.count, 2, y * (n * (n - 1)) ** 0.5 / (n - 2), y)
    return values.without_axis(where(is_constant, math.nan, y), keepdims)


def kurtosis(
    a: Any,
    axis: Any = 0,
    fisher: bool = True,
    bias: bool = True,
    nan_policy: str = "propagate",
    *,
    keepdims: bool = False,
) -> Any:
    """Return the kurtosis: the fourth standardized moment, minus 3 if `fisher`.

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
    return values.without_axis(y, keepdims)


def variation(
    a: Any, axis: Any = 0, nan_policy: str = "propagate", ddof: float = 0, *, keepdims: bool = False
) -> Any:
    """Return the coefficient of variation: standard deviation divided by mean.

    >>> round(float(variation([1.0, 3.0])), 6)
    0.5
    """
    values = read_values(a, axis, nan_policy, "variation")
    return values.without_axis(root(values.var(ddof)) / values.mean(values.x), keepdims)


def sem(
    a: Any, axis: Any = 0, ddof: float = 1, nan_policy: str = "propagate", *, keepdims: bool = False
) -> Any:
    """Return the standard error of the mean.

    >>> round(float(sem([1.0, 3.0])), 6)
    1.0
    """
    values = read_values(a, axis, nan_policy, "sem")
    return values.without_axis(root(values.var(ddof) / values.count), keepdims)


# Scores


def zscore(a: Any, axis: Any = 0, ddof: float = 0, nan_policy: str = "propagate") -> Any:
    """Return the z-scores: deviations from the mean divided by the standard deviation.

    >>> zscore([1.0, 3.0]).tolist()
    [-1.0, 1.0]
    """
    return zmap(a, a, axis, ddof, nan_policy)


def zmap(
    scores: Any, compare: Any, axis: Any = 0, ddof: float = 0, nan_policy: str = "propagate"
) -> Any:
    """Return the z-scores of `scores` relative to mean and standard deviation of `compare`.

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
    # Keep NaN out of the division: its gradient would be 0 times NaN.
    is_none = isnan(scores) | (deviation == 0)
    y = (where(is_none, 0.0, scores) - mean) / where(deviation == 0, 1.0, deviation)
    return where(is_none, math.nan, y)


def gzscore(a: Any, *, axis: Any = 0, ddof: float = 0, nan_policy: str = "propagate") -> Any:
    """Return the z-scores of the logarithms.

    >>> gzscore([1.0, 3.0]).round(6).tolist()
    [-1.0, 1.0]
    """
    return zscore(log(operand(a)), axis, ddof, nan_policy)
