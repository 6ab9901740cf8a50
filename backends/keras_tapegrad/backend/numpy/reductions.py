"""Reductions, statistics and cumulative functions with Keras' dtypes."""

from __future__ import annotations

from builtins import max as builtin_max
from collections.abc import Callable
from typing import Any

from keras.src.backend.common import standardize_dtype
from keras.src.backend.config import floatx

import tapegrad as tg
import tapegrad.numpy as np
from keras_tapegrad.backend.numpy.elementwise import wide_dtype
from keras_tapegrad.backend.promotion import result_type
from keras_tapegrad.backend.tensors import axes_of, cast_to, convert_to_tensor, is_whole

_SMALL = {"bool": "int32", "int8": "int32", "int16": "int32", "uint8": "uint32", "uint16": "uint32"}


def summed_dtype(name: str) -> str:
    """Return the dtype of sums: small integers become 32 bits wide."""
    return _SMALL.get(name, name)


def _sums(function: Callable[..., Any]) -> Callable[..., Any]:
    def run(x: Any, axis: Any = None, keepdims: bool = False) -> Any:
        x = convert_to_tensor(x)
        dtype = summed_dtype(x.dtype.name)
        y = function(tg.cast(x, dtype), axis=axes_of(axis), keepdims=keepdims)
        return tg.cast(y, dtype)

    run.__name__, run.__doc__ = function.__name__, function.__doc__
    return run


sum = _sums(np.sum)
nansum = _sums(np.nansum)
nanprod = _sums(np.nanprod)
_prod = _sums(np.prod)


def prod(x: Any, axis: Any = None, keepdims: bool = False, dtype: Any = None) -> Any:
    """Return the product along axes."""
    x = convert_to_tensor(x, dtype)
    found = _prod(x, axis, keepdims)
    return found if dtype is None else tg.cast(found, x.dtype)


def _kept(function: Callable[..., Any]) -> Callable[..., Any]:
    def run(x: Any, axis: Any = None, keepdims: bool = False) -> Any:
        return function(convert_to_tensor(x), axis=axes_of(axis), keepdims=keepdims)

    run.__name__, run.__doc__ = function.__name__, function.__doc__
    return run


all = _kept(np.all)
amax = _kept(np.amax)
amin = _kept(np.amin)
any = _kept(np.any)
nanmax = _kept(np.nanmax)
nanmin = _kept(np.nanmin)
ptp = _kept(np.ptp)


def _extreme(function: Callable[..., Any], pair: Callable[..., Any]) -> Callable[..., Any]:
    def run(x: Any, axis: Any = None, keepdims: bool = False, initial: Any = None) -> Any:
        x = convert_to_tensor(x)
        if initial is None:
            return function(x, axis=axes_of(axis), keepdims=keepdims)
        first = convert_to_tensor(initial, x.dtype)
        axes = axes_of(axis)
        if x.size == 0:
            counted = np.sum(x, axis=axes, keepdims=keepdims)
            return np.broadcast_to(first, counted.shape)
        return pair(function(x, axis=axes, keepdims=keepdims), first)

    run.__name__, run.__doc__ = function.__name__, function.__doc__
    return run


max = _extreme(np.max, np.maximum)
min = _extreme(np.min, np.minimum)


def _averaged(function: Callable[..., Any], int64: str | None = None) -> Callable[..., Any]:
    """Return a function that computes in at least float32, with a floating result."""

    def run(x: Any, axis: Any = None, keepdims: bool = False) -> Any:
        x = convert_to_tensor(x)
        whole = is_whole(x)
        dtype = result_type(x.dtype, "float32") if whole else x.dtype.name
        if whole and int64 is not None and x.dtype.name == "int64":
            dtype = int64
        wide = dtype if dtype not in ("float16", "bfloat16") else "float32"
        y = function(tg.cast(x, wide), axis=axes_of(axis), keepdims=keepdims)
        return tg.cast(y, dtype)

    run.__name__, run.__doc__ = function.__name__, function.__doc__
    return run


mean = _averaged(np.mean)
median = _averaged(np.median)
nanmean = _averaged(np.nanmean)
nanmedian = _averaged(np.nanmedian)
nanstd = _averaged(np.nanstd)
nanvar = _averaged(np.nanvar)
std = _averaged(np.std)
var = _averaged(np.var)


def _quantiles(function: Callable[..., Any]) -> Callable[..., Any]:
    def run(
        x: Any, q: Any, axis: Any = None, method: str = "linear", keepdims: bool = False
    ) -> Any:
        x = convert_to_tensor(x)
        dtype = floatx() if x.dtype.name == "int64" else result_type(x.dtype, float)
        wide = dtype if dtype not in ("float16", "bfloat16") else "float32"
        y = function(
            tg.cast(x, wide),
            convert_to_tensor(q, wide),
            axis=axes_of(axis),
            method=method,
            keepdims=keepdims,
        )
        return tg.cast(y, dtype)

    run.__name__, run.__doc__ = function.__name__, function.__doc__
    return run


nanpercentile = _quantiles(np.nanpercentile)
nanquantile = _quantiles(np.nanquantile)
percentile = _quantiles(np.percentile)
quantile = _quantiles(np.quantile)


def average(x: Any, axis: Any = None, weights: Any = None) -> Any:
    """Return the weighted mean."""
    x = convert_to_tensor(x)
    if weights is None:
        return np.average(tg.cast(x, result_type(x.dtype, float)), axis=axes_of(axis))
    weights = convert_to_tensor(weights)
    dtype = result_type(x.dtype, weights.dtype, float)
    return np.average(tg.cast(x, dtype), axis=axes_of(axis), weights=tg.cast(weights, dtype))


def _places(function: Callable[..., Any]) -> Callable[..., Any]:
    def run(x: Any, axis: Any = None, keepdims: bool = False) -> Any:
        x = convert_to_tensor(x)
        if x.dtype.name == "bool":
            x = tg.cast(x, "int32")
        return tg.cast(function(x, axis=axis, keepdims=keepdims), "int32")

    run.__name__, run.__doc__ = function.__name__, function.__doc__
    return run


argmax = _places(np.argmax)
argmin = _places(np.argmin)


def _nan_places(function: Callable[..., Any], worst: float) -> Callable[..., Any]:
    def run(x: Any, axis: Any = None, keepdims: bool = False) -> Any:
        x = convert_to_tensor(x)
        if is_whole(x):
            return function(x, axis, keepdims)
        is_nan = np.isnan(x)
        found = function(np.where(is_nan, worst, x), axis, keepdims)
        return np.where(np.all(is_nan, axis=axis, keepdims=keepdims), -1, found)

    run.__doc__ = f"{function.__doc__} NaN is ignored; -1 where there is nothing else."
    return run


nanargmax = _nan_places(argmax, float("-inf"))
nanargmin = _nan_places(argmin, float("inf"))


def _cumulative(function: Callable[..., Any]) -> Callable[..., Any]:
    def run(x: Any, axis: Any = None, dtype: Any = None) -> Any:
        x = convert_to_tensor(x)
        name = result_type(dtype or x.dtype)
        name = "int32" if name == "bool" else name
        return tg.cast(function(tg.cast(x, name), axis=axis), name)

    run.__name__, run.__doc__ = function.__name__, function.__doc__
    return run


cumprod = _cumulative(np.cumprod)
cumsum = _cumulative(np.cumsum)
nancumprod = _cumulative(np.nancumprod)
nancumsum = _cumulative(np.nancumsum)


def count_nonzero(x: Any, axis: Any = None) -> Any:
    """Return the number of entries that are not 0."""
    return tg.cast(np.count_nonzero(convert_to_tensor(x), axis=axes_of(axis)), "int32")


def trace(x: Any, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Any:
    """Return the sums of diagonals."""
    x = convert_to_tensor(x)
    dtype = summed_dtype(x.dtype.name)
    return tg.cast(np.trace(tg.cast(x, dtype), offset=offset, axis1=axis1, axis2=axis2), dtype)


def trapezoid(y: Any, x: Any = None, dx: Any = 1.0, axis: int = -1) -> Any:
    """Integrate by the trapezoidal rule."""
    y = convert_to_tensor(y)
    dtype = result_type(y.dtype, float)
    x = None if x is None else convert_to_tensor(x, dtype)
    step = convert_to_tensor(dx, dtype)
    return tg.cast(np.trapezoid(tg.cast(y, dtype), x, dx=step, axis=axis), dtype)


def corrcoef(x: Any) -> Any:
    """Return the correlation coefficients of rows."""
    x = convert_to_tensor(x)
    dtype = wide_dtype(standardize_dtype(x.dtype))
    wide = dtype if dtype not in ("float16", "bfloat16") else "float32"
    return tg.cast(np.corrcoef(tg.cast(x, wide)), dtype)


def bincount(x: Any, weights: Any = None, minlength: int = 0, sparse: bool = False) -> Any:
    """Count each integer; the rows of a matrix have counts each."""
    if sparse:
        raise ValueError("Unsupported value `sparse=True` with tapegrad backend")
    x = convert_to_tensor(x)
    dtype = "int32"
    if weights is not None:
        weights = convert_to_tensor(weights)
        dtype = result_type(x.dtype, weights.dtype)
    if x.ndim == 1:
        return tg.cast(np.bincount(x, weights, minlength), dtype)
    most = builtin_max(minlength, int(np.max(x)) + 1 if x.size else 0)
    rows = [
        np.bincount(row, None if weights is None else weights[place], most)
        for place, row in enumerate(x)
    ]
    return tg.cast(np.stack(rows), dtype)


def histogram(x: Any, bins: int = 10, range: Any = None) -> Any:  # Keras' name
    """Return the counts and the edges of a histogram."""
    x = convert_to_tensor(x)
    if is_whole(x):
        x = tg.cast(x, floatx())
    counts, edges = np.histogram(x, bins=bins, range=range)
    return tg.cast(counts, "int32"), cast_to(edges, x.dtype)
