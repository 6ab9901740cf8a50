"""Trimmed statistics, interquartile range and median absolute deviation."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tapegrad.core.argument_checks import check_choice
from tapegrad.core.primitive.operand import normalize_axis
from tapegrad.core.values.convert import read_on_host
from tapegrad.errors import ArgumentError
from tapegrad.ops.indexing.sorting import sort
from tapegrad.ops.reduction.order_statistics import METHODS, check_real, row_quantiles, rows_over
from tapegrad.ops.reduction.primitives import any as any_over
from tapegrad.scipy.stats.samples import Values, read_values, root
from tapegrad.scipy.vocabulary import (
    expand_dims,
    isnan,
    largest,
    moveaxis,
    numpy_dtype_of,
    operand,
    place_next_to,
    reshape_p,
    smallest,
    stack,
    take,
    where,
)

# Trimming


def _between(
    a: Any, limits: Any, inclusive: tuple[bool, bool], axis: Any, nan_policy: str, name: str
) -> Values:
    """Return the values within limits; others get no gradient, and NaN counts as inside."""
    values = read_values(a, axis, nan_policy, name)
    if limits is None:
        return values
    x = values.x
    low, high = limits
    is_present = x == x
    if low is not None:
        is_present = is_present & ((x >= low) if inclusive[0] else (x > low))
    if high is not None:
        is_present = is_present & ((x <= high) if inclusive[1] else (x < high))
    is_present = isnan(x) | (
        is_present if values.is_present is None else is_present & values.is_present
    )
    return Values(where(is_present, x, 0.0), values.axis, is_present, values.kept)


def tmean(
    a: Any,
    limits: Any = None,
    inclusive: tuple[bool, bool] = (True, True),
    axis: Any = None,
    *,
    nan_policy: str = "propagate",
    keepdims: bool = False,
) -> Any:
    """Return the mean of the values within limits.

    >>> float(tmean([1.0, 2.0, 3.0, 90.0], (0, 10)))
    2.0
    """
    values = _between(a, limits, inclusive, axis, nan_policy, "tmean")
    return values.without_axis(values.mean(values.x), keepdims)


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
    """Return the variance of the values within limits.

    >>> float(tvar([1.0, 2.0, 3.0, 90.0], (0, 10)))
    1.0
    """
    values = _between(a, limits, inclusive, axis, nan_policy, "tvar")
    return values.without_axis(values.var(ddof), keepdims)


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
    """Return the standard deviation of the values within limits.

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
    """Return the standard error of the mean of the values within limits.

    >>> round(float(tsem([1.0, 3.0, 90.0], (0, 10))), 6)
    1.0
    """
    values = _between(a, limits, inclusive, axis, nan_policy, "tsem")
    return values.without_axis(root(values.var(ddof) / values.count), keepdims)


def tmin(
    a: Any,
    lowerlimit: Any = None,
    axis: Any = 0,
    inclusive: bool = True,
    nan_policy: str = "propagate",
    *,
    keepdims: bool = False,
) -> Any:
    """Return the minimum of the values not below a limit; NaN if there are none.

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
    """Return the maximum of the values not above a limit; NaN if there are none.

    >>> float(tmax([1.0, 2.0, 3.0], 2.5))
    2.0
    """
    limits = None if upperlimit is None else (None, upperlimit)
    values = _between(a, limits, (True, inclusive), axis, nan_policy, "tmax")
    return _extreme(values, largest, -math.inf, keepdims)


def _extreme(values: Values, pick: Any, outside: float, keepdims: bool) -> Any:
    """Return the minimum or maximum of the present values; NaN if there are none."""
    x = values.x if values.is_present is None else where(values.is_present, values.x, outside)
    y = pick(x, values.axis, True)
    y = y if values.is_present is None else where(values.count == 0, math.nan, y)
    return values.without_axis(y, keepdims)


def trim_mean(
    a: Any,
    proportiontocut: float,
    axis: Any = 0,
    *,
    nan_policy: str = "propagate",
    keepdims: bool = False,
) -> Any:
    """Return the mean without this fraction of the smallest and of the largest values.

    >>> float(trim_mean([90.0, 2.0, 1.0, 3.0], 0.25))
    2.5
    """
    check_choice("nan_policy of trim_mean", nan_policy, ("propagate",))
    values = read_values(a, axis, nan_policy, "trim_mean")
    length = values.x.shape[values.axis]
    cut = int(proportiontocut * length)
    if not 0 <= 2 * cut < max(length, 1):
        raise ArgumentError(
            f"proportiontocut of trim_mean must be below 0.5. Got {proportiontocut!r}."
        )
    rest = (slice(None),) * values.axis
    ordered = sort(values.x, values.axis)[(*rest, slice(cut, length - cut))]
    # NaN sorts last and may have been trimmed.
    is_undefined = any_over(isnan(values.x), values.axis, True)
    mean = Values(ordered, values.axis).mean(ordered)
    return values.without_axis(where(is_undefined, math.nan, mean), keepdims)


# Quantiles


def iqr(
    x: Any,
    axis: Any = None,
    rng: tuple[float, float] = (25, 75),
    scale: Any = 1.0,
    nan_policy: str = "propagate",
    interpolation: str = "linear",
    keepdims: bool = False,
) -> Any:
    """Return the interquartile range, or the range between the percentiles `rng`.

    scale="normal" divides it by its value for a standard normal distribution.

    >>> float(iqr([1.0, 2.0, 3.0, 4.0, 5.0]))
    2.0
    """
    omit_nan = _omits_nan(nan_policy, "iqr")
    check_choice("interpolation of iqr", interpolation, METHODS)
    low, high = sorted(rng)
    if not 0 <= low <= high <= 100:
        raise ArgumentError(f"rng of iqr must hold percentages between 0 and 100. Got {rng!r}.")
    x = _with_an_axis(x, axis)
    check_real(numpy_dtype_of(x).kind, interpolation)
    if not math.prod(x.shape):
        return read_values(x, axis, "propagate", "iqr").all_nan(keepdims)
    below, above = (
        _quantile(x, q / 100, axis, keepdims, omit_nan, interpolation) for q in (low, high)
    )
    return (above - below) / _unit(scale, 1.3489795003921634, "iqr")


def _with_an_axis(x: Any, axis: Any) -> Any:
    x = operand(x)
    return x if x.shape or axis is None else reshape_p(x, shape=(1,))


def _omits_nan(nan_policy: str, name: str) -> bool:
    check_choice(f"nan_policy of {name}", nan_policy, ("propagate", "omit"))
    return nan_policy == "omit"


def _quantile(
    x: Any, q: float, axis: Any, keepdims: bool, omit_nan: bool, method: str = "linear"
) -> Any:
    rows, lengths, kept = rows_over(x, axis)
    y = row_quantiles(rows, np.array([float(q)]), method, omit_nan=omit_nan)
    return reshape_p(y, shape=kept if keepdims else lengths)


def _unit(scale: Any, normal: float, name: str) -> Any:
    """Return the divisor for `scale`, a number or 'normal'."""
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
    """Return the median absolute deviation from the median.

    scale="normal" divides it by its value for a standard normal distribution. `center` is a
    function of a sample and an axis that replaces the median.

    >>> float(median_abs_deviation([1.0, 2.0, 3.0, 9.0, 4.0]))
    1.0
    """
    omit_nan = _omits_nan(nan_policy, "median_abs_deviation")
    factor = _unit(scale, 0.6744897501960817, "median_abs_deviation")
    x = _with_an_axis(x, axis)
    if not math.prod(x.shape):
        return read_values(x, axis, "propagate", "median_abs_deviation").all_nan(keepdims)
    if axis is not None:
        axis = normalize_axis(axis, x.ndim, "median_abs_deviation")
    if center is None:
        place = _quantile(x, 0.5, axis, True, omit_nan)
    elif omit_nan:
        place = _centers_of_numbers(x, axis, center)
    else:
        place = center(x, axis=axis)
        place = place if axis is None else expand_dims(place, axis)
    return _quantile(abs(x - place), 0.5, axis, keepdims, omit_nan) / factor


def _centers_of_numbers(x: Any, axis: int | None, center: Any) -> Any:
    """Return the centers of samples without their NaN, which the host looks for."""
    rows = reshape_p(x, shape=(1, -1)) if axis is None else moveaxis(x, axis, -1)
    shape = tuple(rows.shape[:-1])
    rows = reshape_p(rows, shape=(-1, rows.shape[-1]))
    is_number = ~read_on_host(isnan(rows), "median_abs_deviation with nan_policy='omit'")
    places = [np.flatnonzero(row) for row in is_number]
    centers = [
        operand(center(take(row, place_next_to(row, own)), axis=0)) if own.size else row[0]
        for row, own in zip(rows, places, strict=True)
    ]
    found = stack(centers)
    return found if axis is None else expand_dims(reshape_p(found, shape=shape), axis)
