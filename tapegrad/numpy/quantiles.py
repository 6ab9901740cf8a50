"""Medians, quantiles and percentiles: of all elements, of what is not NaN, or with weights."""

from __future__ import annotations

import math
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np

from tapegrad.core.choices import check_choice
from tapegrad.core.operand import normalize_axes
from tapegrad.errors import ArgumentError, DTypeError, ShapeError
from tapegrad.numpy.values import as_array, deliver, dtype_of, floating, is_array, with_dtype
from tapegrad.ops import reduction, rounding
from tapegrad.ops.along_axis import take_along_axis_p
from tapegrad.ops.cast import cast
from tapegrad.ops.cumulative import cumsum
from tapegrad.ops.indexing import getitem
from tapegrad.ops.selection import clip, maximum, minimum, where as choose
from tapegrad.ops.shape import broadcast_to, moveaxis, reshape
from tapegrad.ops.sorting import argsort_p, sort_p

Place = Callable[[Any, Any, Any], Any]

METHODS: dict[str, Place] = {
    "linear": lambda n, q, m: q * (n - 1),
    "lower": lambda n, q, m: m.floor(q * (n - 1)),
    "higher": lambda n, q, m: m.ceil(q * (n - 1)),
    "nearest": lambda n, q, m: m.rint(q * (n - 1)),
    "midpoint": lambda n, q, m: 0.5 * (m.floor(q * (n - 1)) + m.ceil(q * (n - 1))),
    "hazen": lambda n, q, m: n * q - 0.5,
    "weibull": lambda n, q, m: (n + 1) * q - 1,
    "median_unbiased": lambda n, q, m: (n + 1 / 3) * q + 1 / 3 - 1,
    "normal_unbiased": lambda n, q, m: (n + 0.25) * q + 3 / 8 - 1,
    "interpolated_inverted_cdf": lambda n, q, m: n * q - 1,
    "inverted_cdf": lambda n, q, m: m.ceil(n * q - 1),
    "averaged_inverted_cdf": lambda n, q, m: m.where(
        n * q % 1 == 0, n * q - 0.5, m.ceil(n * q - 1)
    ),
    "closest_observation": lambda n, q, m: m.where(
        (n * q - 0.5) % 2 == 0, n * q - 1.5, m.floor(n * q - 0.5)
    ),
}
"""Where a quantile lies among n values in order, by the names of NumPy; m rounds numbers."""

DISCRETE = ("lower", "higher", "nearest", "inverted_cdf", "closest_observation")
"""Methods that take an element as it is."""

_TENSORS = SimpleNamespace(
    floor=rounding.floor, ceil=rounding.ceil, rint=rounding.rint, where=choose
)


def _rows_of(x: Any, axis: Any) -> tuple[Any, tuple[int, ...], tuple[int, ...]]:
    """Return the array with the axes that are reduced as its last one, and both result shapes."""
    axes = normalize_axes(axis, len(x.shape), "quantile")
    rest = tuple(k for k in range(len(x.shape)) if k not in axes)
    lengths = tuple(x.shape[k] for k in rest)
    kept = tuple(1 if k in axes else n for k, n in enumerate(x.shape))
    moved = moveaxis(x, rest, tuple(range(len(rest)))) if rest else x
    count = int(np.prod([x.shape[k] for k in axes]))
    return reshape(moved, (*lengths, count)), lengths, kept


def _fractions_of(q: Any, top: float, near: Any) -> Any:
    """Return the wanted fractions: on the host, where they are checked, or a tensor."""
    if is_array(q):
        return floating(q, near) / top
    fractions = np.asarray(q, dtype=float) / top
    if not np.all((fractions >= 0) & (fractions <= 1)):
        raise ArgumentError(f"q must lie between 0 and {top:g}. Got {q}.")
    return fractions


def _between(ordered: Any, place: np.ndarray) -> Any:
    """Return values at places, known on the host, along the last axis."""
    last = ordered.shape[-1] - 1
    place = np.clip(place, 0, last)
    low = np.floor(place).astype(int)
    share = (place - low).astype(dtype_of(ordered))
    below = getitem(ordered, (..., low))
    above = getitem(ordered, (..., np.minimum(low + 1, last)))
    weights = as_array(share, ordered)
    # Where nothing lies between, an infinity above must not spread.
    return below + choose(as_array(share == 0, ordered), 0.0, (above - below)) * weights


def _at(ordered: Any, place: Any, count: Any) -> Any:
    """Return values at places that each row has for itself, along the last axis."""
    last = ordered.shape[-1] - 1
    place = maximum(minimum(place, count - 1.0), 0.0 * place)
    low = rounding.floor(place)
    share = with_dtype(place - low, dtype_of(ordered))
    below = _picked(ordered, clip(cast(low, "int64"), 0, last))
    above = _picked(ordered, clip(cast(low, "int64") + 1, 0, last))
    is_whole = share == 0
    return below + choose(is_whole, 0.0, choose(is_whole, below, above) - below) * share


def _picked(ordered: Any, place: Any) -> Any:
    rows = broadcast_to(place, (*ordered.shape[:-1], place.shape[-1]))
    return take_along_axis_p(ordered, rows, axis=len(ordered.shape) - 1, unique=False)


def _weighted(rows: Any, weights: Any, q: Any, is_missing: Any) -> Any:
    """Return the first value at which the running share of the weights reaches `q`."""
    axis = len(rows.shape) - 1
    weights = choose(is_missing, 0.0, weights)
    order = argsort_p(choose(is_missing, math.inf, rows), axis=axis, descending=False, stable=True)
    ordered = take_along_axis_p(rows, order, axis=axis, unique=True)
    running = cumsum(take_along_axis_p(weights, order, axis=axis, unique=True), axis)
    share = running / running[..., -1:]
    # What weighs nothing is not the smallest, also for q = 0.
    share = choose(share == 0, -1.0, share)
    targets = as_array(q, rows)
    below = reshape(share, (*share.shape, 1)) < reshape(targets, (-1,))
    place = clip(reduction.sum(cast(below, "int64"), axis), 0, rows.shape[-1] - 1)
    return _picked(ordered, place)


def _spread_weights(weights: Any, x: Any, axis: Any, method: str) -> Any:
    """Return weights in the rows of the array."""
    if method != "inverted_cdf":
        raise ArgumentError(f"Weights go with method='inverted_cdf' only. Got {method!r}.")
    if not is_array(weights) and np.any(np.asarray(weights) < 0):
        raise ArgumentError(f"Weights must be 0 or more. Got {weights}.")
    w = cast(as_array(weights, x), "float64")
    if w.shape != x.shape:
        axes = normalize_axes(axis, len(x.shape), "quantile")
        if axis is None or w.shape != tuple(x.shape[k] for k in axes):
            raise ShapeError(
                f"Weights need the shape of the array, {x.shape}, or that of the axes given "
                f"by axis=. Got {w.shape}."
            )
        lengths = tuple(n if k in axes else 1 for k, n in enumerate(x.shape))
        w = broadcast_to(reshape(w, lengths), tuple(x.shape))
    return _rows_of(w, axis)[0]


def _quantiles(
    a: Any, q: Any, top: float, axis: Any, out: Any, method: str, keepdims: bool, weights: Any,
    *, leaves_nan: bool, is_median: bool = False,
) -> Any:  # fmt: skip
    check_choice("method", method, METHODS)
    given = as_array(a, next((as_array(part) for part in (q, weights) if is_array(part)), None))
    is_element = method in DISCRETE or (method == "linear" and top == 1.0 and _is_whole(q))
    if not is_median:
        _check_real(dtype_of(given).kind, method)
    x = floating(given)
    q = _fractions_of(q, top, x)
    flat = q.reshape(-1)
    rows, lengths, kept = _rows_of(x, axis)
    if not rows.shape[-1]:
        raise ArgumentError("A quantile of no elements has no value.")
    is_missing = rows != rows
    count = reduction.sum(cast(~is_missing, "float64"), -1, True) if leaves_nan else rows.shape[-1]
    if weights is not None:
        found = _weighted(rows, _spread_weights(weights, x, axis, method), flat, is_missing)
    else:
        is_list = len(q.shape) > 0 and not is_element
        found = _in_order(rows, is_missing, flat, method, count, is_list=is_list)
    broken = count == 0 if leaves_nan else reduction.any(is_missing, -1, True)
    found = choose(broken, math.nan, found)
    if is_element and dtype_of(given).kind in "biu":
        found = with_dtype(found, dtype_of(given))
    shape = (*q.shape, *(kept if keepdims else lengths))
    return deliver(reshape(moveaxis(found, -1, 0), shape), out)


def _is_whole(q: Any) -> bool:
    """Whether only the smallest and the largest element are asked for, by 0 and 1."""
    return not is_array(q) and np.asarray(q).dtype.kind in "iu"


def _check_real(kind: str, method: str) -> None:
    """Refuse what has no quantiles: complex numbers, and what lies between truth values."""
    if kind == "c" or (kind == "b" and method not in DISCRETE):
        raise DTypeError(
            f"A quantile with method={method!r} needs real numbers. Got "
            f"{'complex ones' if kind == 'c' else 'truth values'}; convert them by astype first."
        )


def _in_order(rows: Any, is_missing: Any, q: Any, method: str, count: Any, *, is_list: bool) -> Any:
    full = rows if isinstance(count, int) else choose(is_missing, math.inf, rows)
    ordered = sort_p(full, axis=len(rows.shape) - 1, descending=False)
    if is_list and method not in DISCRETE:
        # As in NumPy a single fraction adapts to the array, and a list of them has its own dtype.
        wanted = q.dtype if isinstance(q, np.ndarray) else dtype_of(q)
        ordered = with_dtype(ordered, np.result_type(dtype_of(ordered), wanted))
    if isinstance(count, int) and isinstance(q, np.ndarray):
        return _between(ordered, METHODS[method](count, q, np))
    return _at(ordered, METHODS[method](count, as_array(q, rows), _TENSORS), count)


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

    With `weights` (and method 'inverted_cdf') the smallest element at which the running share of
    the weights reaches `q`. Nothing flows to weights: the result moves with them in steps.

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
    """Return the middle element over `axis`, or the mean of the two in the middle.

    >>> median([1, 9, 2, 4]).tolist()
    3.0
    """
    return _quantiles(
        a, 0.5, 1.0, axis, out, "linear", keepdims, None, leaves_nan=False, is_median=True
    )


def nanmedian(
    a: Any, axis: Any = None, out: Any = None, overwrite_input: bool = False, keepdims: bool = False
) -> Any:
    """Return the middle of what is not NaN.

    >>> nanmedian([1.0, math.nan, 3.0]).tolist()
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
    """Return quantiles of what is not NaN.

    >>> nanquantile([1.0, math.nan, 3.0], 0.25).tolist()
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
    """Return percentiles of what is not NaN.

    >>> nanpercentile([1.0, math.nan, 3.0], 25).tolist()
    1.5
    """
    return _quantiles(a, q, 100.0, axis, out, method, keepdims, weights, leaves_nan=True)
