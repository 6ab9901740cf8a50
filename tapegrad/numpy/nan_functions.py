"""Reductions that ignore NaN; elements that are NaN get no gradient."""

from __future__ import annotations

import math
from typing import Any

from tapegrad.core.values.dtypes import as_dtype
from tapegrad.errors import ArgumentError, DTypeError
from tapegrad.numpy import reductions
from tapegrad.numpy.values import NoValue, as_array, deliver, dtype_of, with_dtype
from tapegrad.ops.elementwise.selection import where as choose
from tapegrad.ops.reduction import nan_reduction, primitives as reduction
from tapegrad.ops.shape.functions import broadcast_to


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
    """Return the sum over `axis`, ignoring NaN.

    >>> nansum([1.0, math.nan, 3.0]).tolist()
    4.0
    """
    reductions.check_start(initial, where)
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
    """Return the product over `axis`, ignoring NaN.

    >>> nanprod([2.0, math.nan, 3.0]).tolist()
    6.0
    """
    reductions.check_start(initial, where)
    return reductions.prod(_filled(a, 1, where), axis, dtype, out, keepdims, initial)


def nancumsum(a: Any, axis: int | None = None, dtype: Any = None, out: Any = None) -> Any:
    """Return the cumulative sum; NaN counts as 0.

    >>> nancumsum([1.0, math.nan, 3.0]).tolist()
    [1.0, 1.0, 4.0]
    """
    return reductions.cumsum(_filled(a, 0), axis, dtype, out)


def nancumprod(a: Any, axis: int | None = None, dtype: Any = None, out: Any = None) -> Any:
    """Return the cumulative product; NaN counts as 1.

    >>> nancumprod([2.0, math.nan, 3.0]).tolist()
    [2.0, 2.0, 6.0]
    """
    return reductions.cumprod(_filled(a, 1), axis, dtype, out)


def _present(a: Any, dtype: Any, where: Any) -> Any:
    x = with_dtype(as_array(a), dtype)
    return x if where is True else choose(as_array(where, x), x, math.nan)


def _has_no_nan(name: str, x: Any, dtype: Any) -> bool:
    """Return whether the dtype has no NaN; otherwise a requested dtype must have NaN too."""
    if not as_dtype(dtype_of(x)).is_differentiable:
        return True
    if dtype is not None and not as_dtype(dtype).is_differentiable:
        raise DTypeError(
            f"{name} of {dtype_of(x)} needs a floating or complex dtype. Got {dtype!r}."
        )
    return False


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
    """Return the mean over `axis`, ignoring NaN.

    >>> nanmean([1.0, math.nan, 3.0]).tolist()
    2.0
    """
    x = as_array(a)
    if _has_no_nan("nanmean", x, dtype):
        return reductions.mean(x, axis, dtype, out, keepdims, where=where)
    return deliver(nan_reduction.nanmean(_present(x, dtype, where), axis, keepdims), out)


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
    """Return the variance over `axis`, ignoring NaN.

    >>> nanvar([1.0, math.nan, 3.0]).tolist()
    1.0
    """
    less = reductions.divisor(ddof, correction)
    both = reductions.var, nan_reduction.nanvar
    return deliver(_spread(*both, a, axis, dtype, less, keepdims, where, mean), out)


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
    """Return the standard deviation over `axis`, ignoring NaN.

    >>> nanstd([1.0, math.nan, 3.0]).tolist()
    1.0
    """
    less = reductions.divisor(ddof, correction)
    both = reductions.std, nan_reduction.nanstd
    return deliver(_spread(*both, a, axis, dtype, less, keepdims, where, mean), out)


def _spread(
    spread: Any,
    usual: Any,
    a: Any,
    axis: Any,
    dtype: Any,
    less: Any,
    keepdims: bool,
    where: Any,
    mean: Any,
) -> Any:
    """Return the variance or deviation of the selected elements; NaN if there are too few."""
    x = as_array(a)
    if _has_no_nan(usual.__name__, x, dtype):
        return spread(x, axis, dtype, None, less, keepdims, where=where, mean=mean)
    are_real = dtype_of(x).kind != "c" and (dtype is None or as_dtype(dtype).is_floating)
    if mean is NoValue and are_real:
        return usual(_present(x, dtype, where), axis, less, keepdims)
    there = _is_present(x, where)
    given = {"where": there, "mean": mean, "correction": less}
    result = spread(_filled(x, 0), axis, dtype, keepdims=keepdims, **given)
    count = reductions.count_nonzero(broadcast_to(there, tuple(x.shape)), axis, keepdims=keepdims)
    return choose(count <= less, math.nan, result)


def nanmax(
    a: Any,
    axis: Any = None,
    out: Any = None,
    keepdims: bool = False,
    initial: Any = NoValue,
    where: Any = True,
) -> Any:
    """Return the maximum over `axis`, ignoring NaN.

    >>> nanmax([1.0, math.nan, 3.0]).tolist()
    3.0
    """
    if where is not True or not (initial is None or initial is NoValue):
        return reductions.max(_filled(a, -math.inf), axis, out, keepdims, initial, where)
    return deliver(nan_reduction.nanmax(as_array(a), axis, keepdims), out)


def nanmin(
    a: Any,
    axis: Any = None,
    out: Any = None,
    keepdims: bool = False,
    initial: Any = NoValue,
    where: Any = True,
) -> Any:
    """Return the minimum over `axis`, ignoring NaN.

    >>> nanmin([1.0, math.nan, 3.0]).tolist()
    1.0
    """
    if where is not True or not (initial is None or initial is NoValue):
        return reductions.min(_filled(a, math.inf), axis, out, keepdims, initial, where)
    return deliver(nan_reduction.nanmin(as_array(a), axis, keepdims), out)


def nanargmax(a: Any, axis: int | None = None, out: Any = None, *, keepdims: bool = False) -> Any:
    """Return the index of the maximum, ignoring NaN.

    >>> nanargmax([1.0, math.nan, 3.0]).tolist()
    2
    """
    return reductions.argmax(_checked(a, axis, -math.inf), axis, out, keepdims=keepdims)


def nanargmin(a: Any, axis: int | None = None, out: Any = None, *, keepdims: bool = False) -> Any:
    """Return the index of the minimum, ignoring NaN.

    >>> nanargmin([1.0, math.nan, 3.0]).tolist()
    0
    """
    return reductions.argmin(_checked(a, axis, math.inf), axis, out, keepdims=keepdims)


def _checked(a: Any, axis: int | None, value: float) -> Any:
    x = as_array(a)
    if dtype_of(x).kind in "fc" and bool(reduction.any(reduction.all(x != x, axis))):
        raise ArgumentError("A slice contains only NaN, so it has no largest or smallest element.")
    return _filled(x, value) if dtype_of(x).kind in "fc" else x
