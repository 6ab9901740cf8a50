"""Reductions that leave NaN out; nothing flows back to an element that is NaN."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tapegrad.errors import ArgumentError
from tapegrad.numpy import reductions
from tapegrad.numpy.statistics import METHODS, fractions_of, rows_of
from tapegrad.numpy.values import (
    NoValue,
    as_array,
    deliver,
    dtype_of,
    floating,
    selected,
    with_dtype,
)
from tapegrad.ops import nan_reduction, reduction
from tapegrad.ops.along_axis import take_along_axis_p
from tapegrad.ops.cast import cast
from tapegrad.ops.joining import stack
from tapegrad.ops.rounding import floor
from tapegrad.ops.selection import where as choose
from tapegrad.ops.shape import reshape
from tapegrad.ops.sorting import sort_p


def _filled(a: Any, value: Any, where: Any = True) -> Any:
    """Return the array with a neutral value where it is NaN or not selected."""
    x = as_array(a)
    if dtype_of(x).kind in "fc":
        x = choose(x != x, value, x)
    return x if where is True else choose(as_array(where), x, value)


def nansum(
    a: Any,
    axis: Any = None,
    dtype: Any = None,
    out: Any = None,
    keepdims: bool = False,
    initial: Any = 0,
    where: Any = True,
) -> Any:
    """Return the sum over `axis` of what is not NaN.

    >>> nansum([1.0, math.nan, 3.0]).tolist()
    4.0
    """
    return reductions.sum(_filled(a, 0, where), axis, dtype, out, keepdims, initial)


def nanprod(
    a: Any,
    axis: Any = None,
    dtype: Any = None,
    out: Any = None,
    keepdims: bool = False,
    initial: Any = 1,
    where: Any = True,
) -> Any:
    """Return the product over `axis` of what is not NaN.

    >>> nanprod([2.0, math.nan, 3.0]).tolist()
    6.0
    """
    return reductions.prod(_filled(a, 1, where), axis, dtype, out, keepdims, initial)


def nancumsum(a: Any, axis: int | None = None, dtype: Any = None, out: Any = None) -> Any:
    """Return the running sum with NaN as 0.

    >>> nancumsum([1.0, math.nan, 3.0]).tolist()
    [1.0, 1.0, 4.0]
    """
    return reductions.cumsum(_filled(a, 0), axis, dtype, out)


def nancumprod(a: Any, axis: int | None = None, dtype: Any = None, out: Any = None) -> Any:
    """Return the running product with NaN as 1.

    >>> nancumprod([2.0, math.nan, 3.0]).tolist()
    [2.0, 2.0, 6.0]
    """
    return reductions.cumprod(_filled(a, 1), axis, dtype, out)


def _present(a: Any, dtype: Any, where: Any) -> Any:
    x = with_dtype(as_array(a), dtype)
    return x if where is True else selected(floating(x), where, as_array(math.nan))


def _is_present(a: Any, where: Any) -> Any:
    x = as_array(a)
    return x == x if where is True else (x == x) & as_array(where, x)


def nanmean(
    a: Any,
    axis: Any = None,
    dtype: Any = None,
    out: Any = None,
    keepdims: bool = False,
    *,
    where: Any = True,
) -> Any:
    """Return the mean over `axis` of what is not NaN.

    >>> nanmean([1.0, math.nan, 3.0]).tolist()
    2.0
    """
    return deliver(nan_reduction.nanmean(_present(a, dtype, where), axis, keepdims), out)


def nanvar(
    a: Any,
    axis: Any = None,
    dtype: Any = None,
    out: Any = None,
    ddof: Any = 0,
    keepdims: bool = False,
    *,
    where: Any = True,
    mean: Any = NoValue,
    correction: Any = NoValue,
) -> Any:
    """Return the variance over `axis` of what is not NaN.

    >>> nanvar([1.0, math.nan, 3.0]).tolist()
    1.0
    """
    if mean is not NoValue:
        given = {"where": _is_present(a, where), "mean": mean, "correction": correction}
        return reductions.var(_filled(a, 0), axis, dtype, out, ddof, keepdims, **given)
    less = reductions.divisor(ddof, correction)
    return deliver(nan_reduction.nanvar(_present(a, dtype, where), axis, less, keepdims), out)


def nanstd(
    a: Any,
    axis: Any = None,
    dtype: Any = None,
    out: Any = None,
    ddof: Any = 0,
    keepdims: bool = False,
    *,
    where: Any = True,
    mean: Any = NoValue,
    correction: Any = NoValue,
) -> Any:
    """Return the standard deviation over `axis` of what is not NaN.

    >>> nanstd([1.0, math.nan, 3.0]).tolist()
    1.0
    """
    if mean is not NoValue:
        given = {"where": _is_present(a, where), "mean": mean, "correction": correction}
        return reductions.std(_filled(a, 0), axis, dtype, out, ddof, keepdims, **given)
    less = reductions.divisor(ddof, correction)
    return deliver(nan_reduction.nanstd(_present(a, dtype, where), axis, less, keepdims), out)


def nanmax(
    a: Any,
    axis: Any = None,
    out: Any = None,
    keepdims: bool = False,
    initial: Any = NoValue,
    where: Any = True,
) -> Any:
    """Return the largest element over `axis` that is not NaN.

    >>> nanmax([1.0, math.nan, 3.0]).tolist()
    3.0
    """
    if initial is not NoValue:
        return reductions.max(_filled(a, -math.inf), axis, out, keepdims, initial, where)
    return deliver(nan_reduction.nanmax(_present(a, None, where), axis, keepdims), out)


def nanmin(
    a: Any,
    axis: Any = None,
    out: Any = None,
    keepdims: bool = False,
    initial: Any = NoValue,
    where: Any = True,
) -> Any:
    """Return the smallest element over `axis` that is not NaN.

    >>> nanmin([1.0, math.nan, 3.0]).tolist()
    1.0
    """
    if initial is not NoValue:
        return reductions.min(_filled(a, math.inf), axis, out, keepdims, initial, where)
    return deliver(nan_reduction.nanmin(_present(a, None, where), axis, keepdims), out)


def nanargmax(a: Any, axis: int | None = None, out: Any = None, *, keepdims: bool = False) -> Any:
    """Return where the largest element that is not NaN stands.

    >>> nanargmax([1.0, math.nan, 3.0]).tolist()
    2
    """
    return reductions.argmax(_checked(a, axis, -math.inf), axis, out, keepdims=keepdims)


def nanargmin(a: Any, axis: int | None = None, out: Any = None, *, keepdims: bool = False) -> Any:
    """Return where the smallest element that is not NaN stands.

    >>> nanargmin([1.0, math.nan, 3.0]).tolist()
    0
    """
    return reductions.argmin(_checked(a, axis, math.inf), axis, out, keepdims=keepdims)


def _checked(a: Any, axis: int | None, value: float) -> Any:
    x = as_array(a)
    if dtype_of(x).kind in "fc" and bool(reduction.any(reduction.all(x != x, axis))):
        raise ArgumentError(
            "All of a slice is NaN, so no element of it is the largest or smallest."
        )
    return _filled(x, value) if dtype_of(x).kind in "fc" else x


# Order statistics


def _quantiles(
    a: Any, q: np.ndarray[Any, Any], axis: Any, out: Any, method: str, keepdims: bool
) -> Any:
    """Like quantiles, but each row has as many values as are not NaN."""
    if method != "linear":
        raise ArgumentError(f"Quantiles without NaN know method 'linear' only. Got {method!r}.")
    rows, lengths, kept = rows_of(a, axis)
    missing = rows != rows
    count = reduction.sum(cast(~missing, "float64"), -1, True)
    ordered = sort_p(choose(missing, math.inf, rows), axis=len(lengths), descending=False)
    if q.ndim:
        ordered = with_dtype(ordered, np.result_type(dtype_of(ordered), "float64"))
    parts = [
        _at(ordered, METHODS[method](count, float(fraction)), count) for fraction in q.reshape(-1)
    ]
    shape = (*q.shape, *(kept if keepdims else lengths))
    return deliver(reshape(stack(parts), shape), out)


def _at(ordered: Any, place: Any, count: Any) -> Any:
    """Return the value at a place of each row, interpolated; NaN for a row of nothing."""
    last = ordered.shape[-1] - 1
    low = cast(floor(place), "int64").clip(0, last)
    share = with_dtype((place - cast(low, "float64")).clip(0.0, 1.0), dtype_of(ordered))
    axis = len(ordered.shape) - 1
    below = take_along_axis_p(ordered, low, axis=axis, unique=True)
    above = take_along_axis_p(ordered, (low + 1).clip(0, last), axis=axis, unique=True)
    step = choose(share == 0, 0.0, choose(share == 0, below, above) - below) * share
    return choose(count == 0, math.nan, below + step)[..., 0]


def nanmedian(
    a: Any,
    axis: Any = None,
    out: Any = None,
    overwrite_input: bool = False,
    keepdims: bool = False,
) -> Any:
    """Return the middle of what is not NaN.

    >>> nanmedian([1.0, math.nan, 3.0]).tolist()
    2.0
    """
    return _quantiles(a, np.asarray(0.5), axis, out, "linear", keepdims)


def nanquantile(
    a: Any,
    q: Any,
    axis: Any = None,
    out: Any = None,
    overwrite_input: bool = False,
    method: str = "linear",
    keepdims: bool = False,
) -> Any:
    """Return quantiles of what is not NaN.

    >>> nanquantile([1.0, math.nan, 3.0], 0.25).tolist()
    1.5
    """
    return _quantiles(a, fractions_of(q, 1.0), axis, out, method, keepdims)


def nanpercentile(
    a: Any,
    q: Any,
    axis: Any = None,
    out: Any = None,
    overwrite_input: bool = False,
    method: str = "linear",
    keepdims: bool = False,
) -> Any:
    """Return percentiles of what is not NaN.

    >>> nanpercentile([1.0, math.nan, 3.0], 25).tolist()
    1.5
    """
    return _quantiles(a, fractions_of(q, 100.0), axis, out, method, keepdims)
