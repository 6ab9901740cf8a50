"""Reductions that leave NaN out; nothing flows back to an element that is NaN."""

from __future__ import annotations

import math
from typing import Any

from tapegrad.core.dtypes import as_dtype
from tapegrad.errors import ArgumentError, DTypeError
from tapegrad.numpy import reductions
from tapegrad.numpy.values import NoValue, as_array, deliver, dtype_of, with_dtype
from tapegrad.ops import nan_reduction, reduction
from tapegrad.ops.selection import where as choose
from tapegrad.ops.shape import broadcast_to


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
    """Return the product over `axis` of what is not NaN.

    >>> nanprod([2.0, math.nan, 3.0]).tolist()
    6.0
    """
    reductions.check_start(initial, where)
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
    return x if where is True else choose(as_array(where, x), x, math.nan)


def _has_no_nan(name: str, x: Any, dtype: Any) -> bool:
    """Whether the elements are of a kind without NaN; else their dtype must stay one with it."""
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
    """Return the mean over `axis` of what is not NaN.

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
    """Return the variance over `axis` of what is not NaN.

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
    """Return the standard deviation over `axis` of what is not NaN.

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
    """Return a variance or deviation of what is there; NaN where that is too little."""
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
    """Return the largest element over `axis` that is not NaN.

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
    """Return the smallest element over `axis` that is not NaN.

    >>> nanmin([1.0, math.nan, 3.0]).tolist()
    1.0
    """
    if where is not True or not (initial is None or initial is NoValue):
        return reductions.min(_filled(a, math.inf), axis, out, keepdims, initial, where)
    return deliver(nan_reduction.nanmin(as_array(a), axis, keepdims), out)


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
