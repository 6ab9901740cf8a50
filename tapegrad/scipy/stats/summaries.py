"""Numbers that describe a sample: means, moments, scores, and what is left after trimming."""

from __future__ import annotations

import math
from typing import Any

from tapegrad.core.operand import normalize_axis
from tapegrad.errors import ArgumentError
from tapegrad.ops.basic import reshape_p
from tapegrad.ops.comparison import isnan
from tapegrad.ops.creation import numpy_dtype_of
from tapegrad.ops.exponential import exp, log
from tapegrad.ops.indexing import getitem
from tapegrad.ops.joining import stack
from tapegrad.ops.magnitude import abs as absolute
from tapegrad.ops.quantile import median, percentile
from tapegrad.ops.reduction import max as largest
from tapegrad.ops.reduction import mean as mean_over
from tapegrad.ops.reduction import min as smallest
from tapegrad.ops.selection import where
from tapegrad.ops.shape import broadcast_arrays
from tapegrad.ops.sorting import sort
from tapegrad.scipy.operands import operand, operands
from tapegrad.scipy.stats.logarithms import log_or_nothing
from tapegrad.scipy.stats.samples import Values, read_values, root

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
    values = read_values(a, axis, nan_policy, "gmean")
    logs = log_or_nothing(_there(values))
    return values.dropped(exp(_weighted(values, logs, weights)), keepdims)


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
    return pmean(a, -1, axis=axis, weights=weights, nan_policy=nan_policy, keepdims=keepdims)


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
        return gmean(a, axis, None, weights, nan_policy, keepdims)
    values = read_values(a, axis, nan_policy, "pmean")
    x = _there(values)
    is_negative = x < 0
    x = where(is_negative, math.nan, x)
    is_zero = x == 0
    powers = where(is_zero, 0.0 if p > 0 else math.inf, where(is_zero, 1.0, x) ** p)
    mean = _weighted(values, powers, weights)
    is_end = (mean == 0) | (mean == math.inf)
    at_end = where((mean == 0) == (p > 0), 0.0, math.inf)
    y = where(is_end, at_end, where(is_end, 1.0, mean) ** (1 / p))
    return values.dropped(y, keepdims)


def _there(values: Values) -> Any:
    """The values, and 1 for those that are not there."""
    return values.x if values.there is None else where(values.there, values.x, 1.0)


def _weighted(values: Values, y: Any, weights: Any) -> Any:
    if weights is None:
        return values.mean(y)
    y, weights = broadcast_arrays(*operands(y, weights))
    return values.total(y * weights) / values.total(weights)


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
    if isinstance(order, list | tuple):
        parts = [moment(a, k, axis, nan_policy, center=center, keepdims=keepdims) for k in order]
        return stack(parts)
    if int(order) != order or order < 0:
        raise ArgumentError(f"moment needs a whole number as order, at least 0. Got {order!r}.")
    values = read_values(a, axis, nan_policy, "moment")
    gaps = values.gaps() if center is None else values.x - operands(values.x, center)[1]
    # Around the mean the first moment is 0 and has no gradient, whatever rounding makes of it.
    gaps = 0.0 * gaps if order == 1 and center is None else gaps ** int(order)
    return values.dropped(values.mean(gaps), keepdims)


def _standard_moment(values: Values, order: int) -> tuple[Any, Any]:
    """The moment in units of the standard deviation, and whether all values are the same."""
    gaps = values.gaps()
    square = values.mean(gaps * gaps)
    eps = 2.3e-16 if str(numpy_dtype_of(values.x)) == "float64" else 1.2e-7
    is_constant = square <= (eps * values.mean(values.x)) ** 2
    safe = where(is_constant, 1.0, square)
    return values.mean(gaps**order) / safe ** (0.5 * order), is_constant


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
        n = values.count
        y = y * (n * (n - 1)) ** 0.5 / values.degrees(2)
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
        n = values.count
        y = ((n * n - 1) * y - 3 * (n - 1) ** 2) / (values.degrees(2) * values.degrees(3)) + 3
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

    >>> zscore([1.0, 3.0]).numpy().tolist()
    [-1.0, 1.0]
    """
    return zmap(a, a, axis, ddof, nan_policy)


def zmap(
    scores: Any, compare: Any, axis: Any = 0, ddof: float = 0, nan_policy: str = "propagate"
) -> Any:
    """Return the distances of `scores` from the mean of `compare`, in its standard deviations.

    >>> zmap([5.0], [1.0, 3.0]).numpy().tolist()
    [3.0]
    """
    scores, compare = operands(scores, compare)
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

    >>> gzscore([1.0, 3.0]).numpy().round(6).tolist()
    [-1.0, 1.0]
    """
    return zscore(log(operand(a)), axis, ddof, nan_policy)


# Trimming


def _between(a: Any, limits: Any, inclusive: tuple[bool, bool], axis: Any, name: str) -> Values:
    """The values within limits: those outside get no gradient."""
    values = read_values(a, axis, "propagate", name)
    x = values.x
    low, high = (None, None) if limits is None else limits
    there = x == x
    if low is not None:
        there = there & ((x >= low) if inclusive[0] else (x > low))
    if high is not None:
        there = there & ((x <= high) if inclusive[1] else (x < high))
    return Values(where(there, x, 0.0), values.axis, there) if limits is not None else values


def tmean(
    a: Any,
    limits: Any = None,
    inclusive: tuple[bool, bool] = (True, True),
    axis: Any = None,
    *,
    keepdims: bool = False,
) -> Any:
    """Return the mean of what lies within limits.

    >>> float(tmean([1.0, 2.0, 3.0, 90.0], (0, 10)))
    2.0
    """
    values = _between(a, limits, inclusive, axis, "tmean")
    return values.dropped(values.mean(values.x), keepdims)


def tvar(
    a: Any,
    limits: Any = None,
    inclusive: tuple[bool, bool] = (True, True),
    axis: Any = 0,
    ddof: float = 1,
    *,
    keepdims: bool = False,
) -> Any:
    """Return the variance of what lies within limits.

    >>> float(tvar([1.0, 2.0, 3.0, 90.0], (0, 10)))
    1.0
    """
    values = _between(a, limits, inclusive, axis, "tvar")
    return values.dropped(values.var(ddof), keepdims)


def tstd(
    a: Any,
    limits: Any = None,
    inclusive: tuple[bool, bool] = (True, True),
    axis: Any = 0,
    ddof: float = 1,
    *,
    keepdims: bool = False,
) -> Any:
    """Return the standard deviation of what lies within limits.

    >>> float(tstd([1.0, 2.0, 3.0, 90.0], (0, 10)))
    1.0
    """
    return root(tvar(a, limits, inclusive, axis, ddof, keepdims=keepdims))


def tsem(
    a: Any,
    limits: Any = None,
    inclusive: tuple[bool, bool] = (True, True),
    axis: Any = 0,
    ddof: float = 1,
    *,
    keepdims: bool = False,
) -> Any:
    """Return the standard error of the mean of what lies within limits.

    >>> round(float(tsem([1.0, 3.0, 90.0], (0, 10))), 6)
    1.0
    """
    values = _between(a, limits, inclusive, axis, "tsem")
    return values.dropped(root(values.var(ddof) / values.count), keepdims)


def tmin(
    a: Any, lowerlimit: Any = None, axis: Any = 0, inclusive: bool = True, *, keepdims: bool = False
) -> Any:
    """Return the smallest of what is not below a limit; NaN of nothing.

    >>> float(tmin([1.0, 2.0, 3.0], 1.5))
    2.0
    """
    limits = None if lowerlimit is None else (lowerlimit, None)
    values = _between(a, limits, (inclusive, True), axis, "tmin")
    x = values.x if values.there is None else where(values.there, values.x, math.inf)
    y = smallest(x, values.axis, True)
    return values.dropped(where(y == math.inf, math.nan, y), keepdims)


def tmax(
    a: Any, upperlimit: Any = None, axis: Any = 0, inclusive: bool = True, *, keepdims: bool = False
) -> Any:
    """Return the largest of what is not above a limit; NaN of nothing.

    >>> float(tmax([1.0, 2.0, 3.0], 2.5))
    2.0
    """
    limits = None if upperlimit is None else (None, upperlimit)
    values = _between(a, limits, (True, inclusive), axis, "tmax")
    x = values.x if values.there is None else where(values.there, values.x, -math.inf)
    y = largest(x, values.axis, True)
    return values.dropped(where(y == -math.inf, math.nan, y), keepdims)


def trim_mean(a: Any, proportiontocut: float, axis: Any = 0, *, keepdims: bool = False) -> Any:
    """Return the mean without this share of the smallest and of the largest values.

    >>> float(trim_mean([90.0, 2.0, 1.0, 3.0], 0.25))
    2.5
    """
    values = read_values(a, axis, "propagate", "trim_mean")
    length = int(values.x.shape[values.axis])
    cut = int(proportiontocut * length)
    if not 0 <= 2 * cut < max(length, 1):
        raise ArgumentError(
            f"trim_mean needs a share below 0.5 as proportiontocut. Got {proportiontocut!r}."
        )
    rest = (slice(None),) * values.axis
    ordered = getitem(sort(values.x, values.axis), (*rest, slice(cut, length - cut)))
    return mean_over(ordered, values.axis, keepdims)


# Order


def iqr(
    x: Any,
    axis: Any = None,
    rng: tuple[float, float] = (25, 75),
    scale: float = 1.0,
    *,
    keepdims: bool = False,
) -> Any:
    """Return the distance between two percentiles.

    >>> float(iqr([1.0, 2.0, 3.0, 4.0, 5.0]))
    2.0
    """
    x = operand(x)
    low, high = (percentile(x, q, axis, keepdims) for q in rng)
    return (high - low) / scale


def median_abs_deviation(x: Any, axis: Any = 0, scale: Any = 1.0, *, keepdims: bool = False) -> Any:
    """Return the median of the distances from the median; scale "normal" makes it a deviation.

    >>> float(median_abs_deviation([1.0, 2.0, 3.0, 9.0, 4.0]))
    1.0
    """
    x = operand(x)
    if axis is not None:
        axis = normalize_axis(axis, len(x.shape), "median_abs_deviation")
    factor = 0.6744897501960817 if scale == "normal" else scale
    return median(absolute(x - median(x, axis, True)), axis, keepdims) / factor
