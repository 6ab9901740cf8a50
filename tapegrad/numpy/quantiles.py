"""Medians, quantiles and percentiles: of all elements, ignoring NaN, or weighted."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tapegrad.core.argument_checks import check_choice
from tapegrad.core.primitive.operand import normalize_axes
from tapegrad.errors import ArgumentError, DTypeError, IndexOutOfRangeError, ShapeError
from tapegrad.numpy.values import (
    as_array,
    deliver,
    dtype_of,
    floating,
    is_array,
    known_values,
    with_dtype,
)
from tapegrad.ops.casting.cast import cast
from tapegrad.ops.creation import full_like_p
from tapegrad.ops.reduction.order_statistics import (
    DISCRETE,
    METHODS,
    check_real,
    row_quantiles,
    rows_over,
)
from tapegrad.ops.shape.functions import broadcast_to, moveaxis, reshape


def _fractions_of(q: Any, top: float, near: Any) -> Any:
    """Return the fractions, checked if they can be read without waiting."""
    known = known_values(q)
    if known is not None:
        fractions = known.astype(float) / top
        if not np.all((fractions >= 0) & (fractions <= 1)):
            raise ArgumentError(f"q must lie between 0 and {top:g}. Got {q}.")
    return floating(q, near) / top if is_array(q) else fractions


def _check_weights(weights: Any) -> None:
    """Raise for weights that are no weights, if they can be read without waiting."""
    known = known_values(weights)
    if known is None:
        return
    if known.dtype.kind not in "biuf":
        raise DTypeError(f"Weights must be real numbers. Got {known.dtype}.")
    if not np.all((known >= 0) & np.isfinite(known)):
        raise ArgumentError(f"Weights must be finite and 0 or more. Got {weights}.")
    if known.size and not known.any():
        raise ArgumentError(f"At least one weight must be more than 0. Got {weights}.")


def _spread_weights(weights: Any, x: Any, axis: Any, method: str) -> Any:
    """Return the weights in the layout of the rows of the array."""
    if method != "inverted_cdf":
        raise ArgumentError(f"Weights need method='inverted_cdf'. Got {method!r}.")
    _check_weights(weights)
    w = cast(as_array(weights, x), "float64")
    if w.shape != x.shape:
        axes = normalize_axes(axis, len(x.shape), "quantile")
        if axis is None or w.shape != tuple(x.shape[k] for k in axes):
            raise ShapeError(
                f"Weights must have the shape of the array, {x.shape}, or of the axes in axis=. "
                f"Got {w.shape}."
            )
        lengths = tuple(n if k in axes else 1 for k, n in enumerate(x.shape))
        w = broadcast_to(reshape(w, lengths), tuple(x.shape))
    return rows_over(w, axis)[0]


def _quantiles(
    a: Any, q: Any, top: float, axis: Any, out: Any, method: str, keepdims: bool, weights: Any,
    *, leaves_nan: bool, is_median: bool = False,
) -> Any:  # fmt: skip
    check_choice("method", method, METHODS)
    given = as_array(a, next((as_array(part) for part in (q, weights) if is_array(part)), None))
    is_element = method in DISCRETE or (method == "linear" and top == 1.0 and _is_whole(q))
    if not is_median:
        check_real(dtype_of(given).kind, method)
    x = floating(given)
    is_strong = is_array(q) or isinstance(q, np.generic) or np.ndim(q) > 0
    q = _fractions_of(q, top, x)
    flat = q.reshape(-1)
    rows, lengths, kept = rows_over(x, axis)
    if not rows.shape[-1]:
        if np.prod(lengths) and not (is_median or leaves_nan):
            raise IndexOutOfRangeError("A quantile of an empty array has no value.")
        lengths, kept = ((*q.shape, *shape) for shape in (lengths, kept))
        found = full_like_p(
            rows, shape=kept if keepdims else lengths, value=math.nan, dtype=dtype_of(rows)
        )
        return deliver(found, out)
    if weights is not None:
        weights = _spread_weights(weights, x, axis, method)
    found = row_quantiles(
        rows,
        flat,
        method,
        omit_nan=leaves_nan,
        weights=weights,
        promote=is_strong and not is_element,
    )
    if is_element and dtype_of(given).kind in "biu":
        found = with_dtype(found, dtype_of(given))
    shape = (*q.shape, *(kept if keepdims else lengths))
    return deliver(reshape(moveaxis(found, -1, 0), shape), out)


def _is_whole(q: Any) -> bool:
    """Return whether only the minimum and the maximum are requested, by 0 and 1."""
    return not is_array(q) and np.asarray(q).dtype.kind in "iu"


def quantile(
    a: Any,
    q: Any,
    axis: Any = None,
    out: Any = None,
    overwrite_input: bool = False,
    method: str = "linear",
    keepdims: bool = False,
    *,
    weights: Any = None,
) -> Any:
    """Return the `q`-quantiles over `axis`; several fractions form a new first axis.

    With `weights` (and method 'inverted_cdf'), the result is the smallest element at which the
    cumulative weight reaches `q`. Weights get no gradient, because the result is piecewise
    constant in them.

    >>> quantile([1.0, 2.0, 3.0, 4.0], [0.5, 1.0]).tolist()
    [2.5, 4.0]
    """
    return _quantiles(a, q, 1.0, axis, out, method, keepdims, weights, leaves_nan=False)


def percentile(
    a: Any,
    q: Any,
    axis: Any = None,
    out: Any = None,
    overwrite_input: bool = False,
    method: str = "linear",
    keepdims: bool = False,
    *,
    weights: Any = None,
) -> Any:
    """Return the `q`-th percentiles over `axis`.

    >>> percentile([1.0, 2.0, 3.0], 50).tolist()
    2.0
    """
    return _quantiles(a, q, 100.0, axis, out, method, keepdims, weights, leaves_nan=False)


def median(
    a: Any, axis: Any = None, out: Any = None, overwrite_input: bool = False, keepdims: bool = False
) -> Any:
    """Return the median over `axis`.

    >>> median([1, 9, 2, 4]).tolist()
    3.0
    """
    return _quantiles(
        a, 0.5, 1.0, axis, out, "linear", keepdims, None, leaves_nan=False, is_median=True
    )


def nanmedian(
    a: Any, axis: Any = None, out: Any = None, overwrite_input: bool = False, keepdims: bool = False
) -> Any:
    """Return the median, ignoring NaN.

    >>> nanmedian([1.0, np.nan, 3.0]).tolist()
    2.0
    """
    return _quantiles(
        a, 0.5, 1.0, axis, out, "linear", keepdims, None, leaves_nan=True, is_median=True
    )


def nanquantile(
    a: Any,
    q: Any,
    axis: Any = None,
    out: Any = None,
    overwrite_input: bool = False,
    method: str = "linear",
    keepdims: bool = False,
    *,
    weights: Any = None,
) -> Any:
    """Return quantiles, ignoring NaN.

    >>> nanquantile([1.0, np.nan, 3.0], 0.25).tolist()
    1.5
    """
    return _quantiles(a, q, 1.0, axis, out, method, keepdims, weights, leaves_nan=True)


def nanpercentile(
    a: Any,
    q: Any,
    axis: Any = None,
    out: Any = None,
    overwrite_input: bool = False,
    method: str = "linear",
    keepdims: bool = False,
    *,
    weights: Any = None,
) -> Any:
    """Return percentiles, ignoring NaN.

    >>> nanpercentile([1.0, np.nan, 3.0], 25).tolist()
    1.5
    """
    return _quantiles(a, q, 100.0, axis, out, method, keepdims, weights, leaves_nan=True)
