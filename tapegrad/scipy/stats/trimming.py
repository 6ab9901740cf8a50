"""What is left of a sample after trimming, and how wide its middle is."""

from __future__ import annotations

import math
from typing import Any

from tapegrad.core.choices import check_choice
from tapegrad.core.operand import normalize_axis
from tapegrad.errors import ArgumentError
from tapegrad.numpy.quantiles import median, nanmedian, nanpercentile, percentile
from tapegrad.ops.reduction import any as any_over
from tapegrad.ops.sorting import sort
from tapegrad.scipy.stats.samples import Values, read_values, root
from tapegrad.scipy.vocabulary import (
    expand_dims,
    isnan,
    largest,
    operand,
    reshape_p,
    smallest,
    where,
)

# Trimming


def _between(
    a: Any, limits: Any, inclusive: tuple[bool, bool], axis: Any, nan_policy: str, name: str
) -> Values:
    """The values within limits: those outside get no gradient, and NaN is within."""
    values = read_values(a, axis, nan_policy, name)
    if limits is None:
        return values
    x = values.x
    low, high = limits
    there = x == x
    if low is not None:
        there = there & ((x >= low) if inclusive[0] else (x > low))
    if high is not None:
        there = there & ((x <= high) if inclusive[1] else (x < high))
    there = isnan(x) | (there if values.there is None else there & values.there)
    return Values(where(there, x, 0.0), values.axis, there, values.kept)


def tmean(
    a: Any,
    limits: Any = None,
    inclusive: tuple[bool, bool] = (True, True),
    axis: Any = None,
    *,
    nan_policy: str = "propagate",
    keepdims: bool = False,
) -> Any:
    """Return the mean of what lies within limits.

    >>> float(tmean([1.0, 2.0, 3.0, 90.0], (0, 10)))
    2.0
    """
    values = _between(a, limits, inclusive, axis, nan_policy, "tmean")
    return values.dropped(values.mean(values.x), keepdims)


def tvar(
    a: Any,
    limits: Any = None,
    inclusive: tuple[bool, bool] = (True, True),
    axis: Any = 0,
    ddof: float = 1,
    *,
    nan_policy: str = "propagate",
    keepdims: bool = False,
) -> Any:
    """Return the variance of what lies within limits.

    >>> float(tvar([1.0, 2.0, 3.0, 90.0], (0, 10)))
    1.0
    """
    values = _between(a, limits, inclusive, axis, nan_policy, "tvar")
    return values.dropped(values.var(ddof), keepdims)


def tstd(
    a: Any,
    limits: Any = None,
    inclusive: tuple[bool, bool] = (True, True),
    axis: Any = 0,
    ddof: float = 1,
    *,
    nan_policy: str = "propagate",
    keepdims: bool = False,
) -> Any:
    """Return the standard deviation of what lies within limits.

    >>> float(tstd([1.0, 2.0, 3.0, 90.0], (0, 10)))
    1.0
    """
    options: Any = {"nan_policy": nan_policy, "keepdims": keepdims}
    return root(tvar(a, limits, inclusive, axis, ddof, **options))


def tsem(
    a: Any,
    limits: Any = None,
    inclusive: tuple[bool, bool] = (True, True),
    axis: Any = 0,
    ddof: float = 1,
    *,
    nan_policy: str = "propagate",
    keepdims: bool = False,
) -> Any:
    """Return the standard error of the mean of what lies within limits.

    >>> round(float(tsem([1.0, 3.0, 90.0], (0, 10))), 6)
    1.0
    """
    values = _between(a, limits, inclusive, axis, nan_policy, "tsem")
    return values.dropped(root(values.var(ddof) / values.count), keepdims)


def tmin(
    a: Any,
    lowerlimit: Any = None,
    axis: Any = 0,
    inclusive: bool = True,
    nan_policy: str = "propagate",
    *,
    keepdims: bool = False,
) -> Any:
    """Return the smallest of what is not below a limit; NaN of nothing.

    >>> float(tmin([1.0, 2.0, 3.0], 1.5))
    2.0
    """
    limits = None if lowerlimit is None else (lowerlimit, None)
    values = _between(a, limits, (inclusive, True), axis, nan_policy, "tmin")
    return _extreme(values, smallest, math.inf, keepdims)


def tmax(
    a: Any,
    upperlimit: Any = None,
    axis: Any = 0,
    inclusive: bool = True,
    nan_policy: str = "propagate",
    *,
    keepdims: bool = False,
) -> Any:
    """Return the largest of what is not above a limit; NaN of nothing.

    >>> float(tmax([1.0, 2.0, 3.0], 2.5))
    2.0
    """
    limits = None if upperlimit is None else (None, upperlimit)
    values = _between(a, limits, (True, inclusive), axis, nan_policy, "tmax")
    return _extreme(values, largest, -math.inf, keepdims)


def _extreme(values: Values, pick: Any, outside: float, keepdims: bool) -> Any:
    """The smallest or largest of what is there; NaN of nothing."""
    x = values.x if values.there is None else where(values.there, values.x, outside)
    y = pick(x, values.axis, True)
    y = y if values.there is None else where(values.count == 0, math.nan, y)
    return values.dropped(y, keepdims)


def trim_mean(
    a: Any,
    proportiontocut: float,
    axis: Any = 0,
    *,
    nan_policy: str = "propagate",
    keepdims: bool = False,
) -> Any:
    """Return the mean without this share of the smallest and of the largest values.

    >>> float(trim_mean([90.0, 2.0, 1.0, 3.0], 0.25))
    2.5
    """
    check_choice("nan_policy of trim_mean", nan_policy, ("propagate",))
    values = read_values(a, axis, nan_policy, "trim_mean")
    length = values.x.shape[values.axis]
    cut = int(proportiontocut * length)
    if not 0 <= 2 * cut < max(length, 1):
        raise ArgumentError(
            f"trim_mean needs a share below 0.5 as proportiontocut. Got {proportiontocut!r}."
        )
    rest = (slice(None),) * values.axis
    ordered = sort(values.x, values.axis)[(*rest, slice(cut, length - cut))]
    # NaN is the largest in order, and may have been cut away.
    broken = any_over(isnan(values.x), values.axis, True)
    mean = Values(ordered, values.axis).mean(ordered)
    return values.dropped(where(broken, math.nan, mean), keepdims)


# Order


def iqr(
    x: Any,
    axis: Any = None,
    rng: tuple[float, float] = (25, 75),
    scale: Any = 1.0,
    nan_policy: str = "propagate",
    interpolation: str = "linear",
    keepdims: bool = False,
) -> Any:
    """Return the distance between two percentiles; scale "normal" makes it a deviation.

    >>> float(iqr([1.0, 2.0, 3.0, 4.0, 5.0]))
    2.0
    """
    find = _by_policy(nan_policy, percentile, nanpercentile, "iqr")
    x = _with_an_axis(x, axis)
    if not math.prod(x.shape):
        return read_values(x, axis, "propagate", "iqr").nothing(keepdims)
    low, high = sorted(rng)
    ends = (find(x, q, axis, method=interpolation, keepdims=keepdims) for q in (low, high))
    below, above = ends
    return (above - below) / _unit(scale, 1.3489795003921634, "iqr")


def _with_an_axis(x: Any, axis: Any) -> Any:
    x = operand(x)
    return x if x.shape or axis is None else reshape_p(x, shape=(1,))


def _by_policy(nan_policy: str, propagate: Any, omit: Any, name: str) -> Any:
    check_choice(f"nan_policy of {name}", nan_policy, ("propagate", "omit"))
    return propagate if nan_policy == "propagate" else omit


def _unit(scale: Any, normal: float, name: str) -> Any:
    """The number by which a distance is divided: for a normal sample, its standard deviation's."""
    if not isinstance(scale, str):
        return scale
    if scale != "normal":
        raise ArgumentError(f"scale of {name} must be a number or 'normal'. Got {scale!r}.")
    return normal


def median_abs_deviation(
    x: Any,
    axis: Any = 0,
    center: Any = None,
    scale: Any = 1.0,
    nan_policy: str = "propagate",
    *,
    keepdims: bool = False,
) -> Any:
    """Return the median of the distances from the median; scale "normal" makes it a deviation.

    `center` is a function that is called with a sample and an axis, in place of the median.

    >>> float(median_abs_deviation([1.0, 2.0, 3.0, 9.0, 4.0]))
    1.0
    """
    middle = _by_policy(nan_policy, median, nanmedian, "median_abs_deviation")
    factor = _unit(scale, 0.6744897501960817, "median_abs_deviation")
    x = _with_an_axis(x, axis)
    if not math.prod(x.shape):
        return read_values(x, axis, "propagate", "median_abs_deviation").nothing(keepdims)
    if axis is not None:
        axis = normalize_axis(axis, x.ndim, "median_abs_deviation")
    if center is None:
        place = middle(x, axis, keepdims=True)
    else:
        place = center(x, axis=axis)
        place = place if axis is None else expand_dims(place, axis)
    return middle(abs(x - place), axis, keepdims=keepdims) / factor
