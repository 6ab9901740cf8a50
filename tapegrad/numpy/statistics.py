"""Averages, medians, quantiles, covariance and correlation."""

from __future__ import annotations

from typing import Any

import numpy as np

from tapegrad.core.operand import normalize_axes
from tapegrad.errors import ArgumentError, ShapeError
from tapegrad.numpy.joining import concat
from tapegrad.numpy.manipulation import atleast_2d
from tapegrad.numpy.reductions import sum as total
from tapegrad.numpy.values import (
    NoValue,
    as_array,
    deliver,
    dtype_of,
    floating,
    side_by_side,
    with_dtype,
)
from tapegrad.ops import reduction
from tapegrad.ops.arithmetic import conj
from tapegrad.ops.complex_numbers import real
from tapegrad.ops.indexing import getitem
from tapegrad.ops.kinds import is_complex
from tapegrad.ops.products import matmul
from tapegrad.ops.selection import where as choose
from tapegrad.ops.shape import broadcast_to, moveaxis, reshape
from tapegrad.ops.sorting import sort_p


def average(
    a: Any,
    axis: Any = None,
    weights: Any = None,
    returned: bool = False,
    *,
    keepdims: bool = False,
) -> Any:
    """Return the mean over `axis`, weighted where `weights` are given.

    >>> average([1, 2, 6], weights=[1, 1, 2]).tolist()
    3.75
    """
    x, w = (as_array(a), None) if weights is None else side_by_side(a, weights)
    if w is None:
        result = reduction.mean(x, axis, keepdims)
        count = int(np.prod(x.shape)) // max(int(np.prod(result.shape)), 1)
        share = result * 0 + count
        return (result, share) if returned else result
    if tuple(w.shape) != tuple(x.shape):
        w = _spread(w, x, axis)
    kind = np.result_type(dtype_of(x), dtype_of(w), *(() if dtype_of(x).kind in "fc" else ("f8",)))
    share = total(with_dtype(w, kind), axis, keepdims=keepdims)
    result = total(with_dtype(x, kind) * with_dtype(w, kind), axis, keepdims=keepdims) / share
    return (result, broadcast_to(share, tuple(result.shape))) if returned else result


def _spread(w: Any, x: Any, axis: Any) -> Any:
    """Return weights along some axes in the shape of the array."""
    if axis is None:
        raise ArgumentError("average needs axis= where weights have another shape than the array.")
    axes = normalize_axes(axis, len(x.shape), "average")
    if tuple(w.shape) != tuple(x.shape[k] for k in axes):
        raise ShapeError(
            f"average needs weights of shape {tuple(x.shape[k] for k in axes)} along axes {axes}. "
            f"Got shape {tuple(w.shape)}."
        )
    lengths = tuple(n if k in axes else 1 for k, n in enumerate(x.shape))
    return broadcast_to(reshape(w, lengths), tuple(x.shape))


# Order statistics

METHODS = {
    "linear": lambda n, q: q * (n - 1),
    "lower": lambda n, q: np.floor(q * (n - 1)),
    "higher": lambda n, q: np.ceil(q * (n - 1)),
    "nearest": lambda n, q: np.round(q * (n - 1)),
    "midpoint": lambda n, q: 0.5 * (np.floor(q * (n - 1)) + np.ceil(q * (n - 1))),
    "hazen": lambda n, q: n * q - 0.5,
    "weibull": lambda n, q: (n + 1) * q - 1,
    "median_unbiased": lambda n, q: (n + 1 / 3) * q + 1 / 3 - 1,
    "normal_unbiased": lambda n, q: (n + 0.25) * q + 3 / 8 - 1,
    "interpolated_inverted_cdf": lambda n, q: n * q - 1,
    "inverted_cdf": lambda n, q: np.ceil(n * q - 1),
    "averaged_inverted_cdf": lambda n, q: np.where(n * q % 1 == 0, n * q - 0.5, np.ceil(n * q - 1)),
    "closest_observation": lambda n, q: np.where(
        (n * q - 0.5) % 2 == 0, n * q - 1.5, np.floor(n * q - 0.5)
    ),
}
"""Where a quantile lies among n values in order, by the names of NumPy."""

DISCRETE = ("lower", "higher", "nearest", "inverted_cdf", "closest_observation")
"""Methods that take an element as it is."""


def rows_of(a: Any, axis: Any) -> tuple[Any, tuple[int, ...], tuple[int, ...]]:
    """Return the array with the axes that are reduced as its last one, and both result shapes."""
    x = floating(a)
    axes = normalize_axes(axis, len(x.shape), "quantile")
    rest = tuple(k for k in range(len(x.shape)) if k not in axes)
    lengths = tuple(x.shape[k] for k in rest)
    kept = tuple(1 if k in axes else n for k, n in enumerate(x.shape))
    moved = moveaxis(x, rest, tuple(range(len(rest)))) if rest else x
    count = int(np.prod([x.shape[k] for k in axes]))
    return reshape(moved, (*lengths, count)), lengths, kept


def fractions_of(q: Any, top: float) -> np.ndarray[Any, Any]:
    """Return the wanted fractions on the host."""
    values = q.numpy() if hasattr(q, "numpy") else q
    fractions = np.asarray(values, dtype=float) / top
    if not np.all((fractions >= 0) & (fractions <= 1)):
        raise ArgumentError(f"q must lie between 0 and {top:g}. Got {values}.")
    return fractions


def _between(ordered: Any, place: np.ndarray[Any, Any]) -> Any:
    """Return values at places that need not be whole along the last axis, as a first axis."""
    last = ordered.shape[-1] - 1
    place = np.clip(place, 0, last)
    low = np.floor(place).astype(int)
    share = (place - low).astype(dtype_of(ordered))
    below = getitem(ordered, (..., low))
    above = getitem(ordered, (..., np.minimum(low + 1, last)))
    weights = as_array(share, ordered)
    # Where nothing lies between, an infinity above must not spread.
    step = choose(as_array(share == 0, ordered), 0.0, (above - below)) * weights
    return moveaxis(below + step, -1, 0)


def _quantiles(
    a: Any, q: np.ndarray[Any, Any], axis: Any, out: Any, method: str, keepdims: bool
) -> Any:
    if method not in METHODS:
        raise ArgumentError(f"method must be one of {', '.join(METHODS)}. Got {method!r}.")
    rows, lengths, kept = rows_of(a, axis)
    count = rows.shape[-1]
    if not count:
        raise ArgumentError("A quantile of no elements has no value.")
    ordered = sort_p(rows, axis=len(lengths), descending=False)
    if q.ndim and method not in DISCRETE:
        # As in NumPy a list of fractions is float64, a single one adapts to the array.
        ordered = with_dtype(ordered, np.result_type(dtype_of(ordered), "float64"))
    found = _between(ordered, METHODS[method](count, q.reshape(-1)))
    broken = reduction.any(rows != rows, -1)
    found = choose(broken, np.nan, found)
    shape = (*q.shape, *(kept if keepdims else lengths))
    return deliver(reshape(found, shape), out)


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
    """Return the `q`-quantiles over `axis`; a list of fractions gives a new first axis.

    >>> quantile([1.0, 2.0, 3.0, 4.0], [0.5, 1.0]).tolist()
    [2.5, 4.0]
    """
    _refuse_weights(weights)
    return _quantiles(a, fractions_of(q, 1.0), axis, out, method, keepdims)


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
    _refuse_weights(weights)
    return _quantiles(a, fractions_of(q, 100.0), axis, out, method, keepdims)


def _refuse_weights(weights: Any) -> None:
    if weights is not None:
        raise ArgumentError("Quantiles take no weights here. Repeat the values instead.")


def median(
    a: Any,
    axis: Any = None,
    out: Any = None,
    overwrite_input: bool = False,
    keepdims: bool = False,
) -> Any:
    """Return the middle element over `axis`, or the mean of the two in the middle.

    >>> median([1, 9, 2, 4]).tolist()
    3.0
    """
    return _quantiles(a, np.asarray(0.5), axis, out, "linear", keepdims)


# Covariance


def cov(
    m: Any,
    y: Any = None,
    rowvar: bool = True,
    bias: bool = False,
    ddof: int | None = None,
    fweights: Any = None,
    aweights: Any = None,
    *,
    dtype: Any = None,
) -> Any:
    """Return the covariance matrix of variables in rows (or columns), observations across.

    >>> cov([[1.0, 2.0], [2.0, 4.0]]).tolist()
    [[0.5, 1.0], [1.0, 2.0]]
    """
    if y is not None:
        m, y = side_by_side(m, y)
    x = _variables(m, rowvar, dtype)
    if y is not None:
        x = concat([x, _variables(y, rowvar, dtype)], axis=0)
    degrees = (0 if bias else 1) if ddof is None else ddof
    weights = None if fweights is None else floating(fweights, x)
    if aweights is not None:
        weights = floating(aweights, x) if weights is None else weights * floating(aweights, x)
    if weights is None:
        count: Any = x.shape[1]
        centre = reduction.mean(x, 1, True)
        factor: Any = count - degrees
    else:
        count = weights.sum()
        centre = total(x * weights, 1, keepdims=True) / count
        factor = count - degrees
        if aweights is not None and degrees:
            factor = count - degrees * (weights * floating(aweights, x)).sum() / count
    x = x - centre
    other = x if weights is None else x * weights
    other = conj(other) if is_complex(other) else other
    result = matmul(x, other, transpose_b=True) / factor
    return reshape(result, ()) if result.shape[0] == 1 else result


def _variables(m: Any, rowvar: bool, dtype: Any) -> Any:
    x = floating(m)
    x = with_dtype(x, np.result_type(dtype_of(x), "float64") if dtype is None else dtype)
    if len(x.shape) > 2:
        raise ShapeError(f"cov needs one or two axes. Got shape {tuple(x.shape)}.")
    rows = atleast_2d(x)
    return rows if rowvar or rows.shape[0] == 1 else rows.T


def corrcoef(
    x: Any, y: Any = None, rowvar: bool = True, bias: Any = NoValue, ddof: Any = NoValue,
    *, dtype: Any = None,
) -> Any:  # fmt: skip
    """Return the correlation coefficients of variables in rows (or columns).

    >>> corrcoef([[1.0, 2.0], [2.0, 4.0]]).round(6).tolist()
    [[1.0, 1.0], [1.0, 1.0]]
    """
    c = cov(x, y, rowvar, dtype=dtype)
    if not c.shape:
        return c / c
    size = real(c.diagonal()) ** 0.5 if is_complex(c) else c.diagonal() ** 0.5
    return c / reshape(size, (-1, 1)) / size
