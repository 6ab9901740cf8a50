"""Order statistics: median, quantiles and percentiles, by sorting and linear interpolation."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tapegrad.core.operand import as_operand, normalize_axes
from tapegrad.core.tensor import Tensor
from tapegrad.errors import ArgumentError
from tapegrad.ops.axes import count_over, kept_shape
from tapegrad.ops.basic import permute_p, reshape_p
from tapegrad.ops.cast import cast
from tapegrad.ops.joining import stack
from tapegrad.ops.kinds import is_integer
from tapegrad.ops.slicing import slice_p
from tapegrad.ops.sorting import sort_p


def quantile(x: Any, q: Any, axis: Any = None, keepdims: bool = False) -> Any:
    """Return the `q`-quantiles over `axis`, interpolated linearly between neighbours in order.

    `q` is a number or a list of numbers between 0 and 1; a list gives a new first axis. The
    derivative is with respect to `x` only.

    >>> quantile([4.0, 1.0, 2.0], [0.5, 0.75]).tolist()
    [2.0, 3.0]
    """
    return _quantile("quantile", x, _fractions("quantile", q, 1.0), axis, keepdims)


def percentile(x: Any, q: Any, axis: Any = None, keepdims: bool = False) -> Any:
    """Return the `q`-th percentiles over `axis`: `quantile` with `q` between 0 and 100.

    >>> float(percentile([4.0, 1.0, 2.0], 75.0))
    3.0
    """
    return _quantile("percentile", x, _fractions("percentile", q, 100.0), axis, keepdims)


def median(x: Any, axis: Any = None, keepdims: bool = False) -> Any:
    """Return the middle element over `axis`, or the mean of the two in the middle.

    >>> float(median([4.0, 1.0, 2.0]))
    2.0
    """
    return _quantile("median", x, np.asarray(0.5), axis, keepdims)


def _fractions(name: str, q: Any, top: float) -> np.ndarray:
    values = q.numpy() if isinstance(q, Tensor) else q
    fractions = np.asarray(values, dtype=float) / top
    if fractions.ndim > 1 or not np.all((fractions >= 0) & (fractions <= 1)):
        raise ArgumentError(f"{name} needs q between 0 and {top:g}, one or a list. Got {values}.")
    return fractions


def _quantile(name: str, x: Any, q: np.ndarray, axis: Any, keepdims: bool) -> Any:
    x = as_operand(x)
    x = cast(x, "float64") if is_integer(x) else x
    axes = normalize_axes(axis, len(x.shape), name)
    shape = tuple(x.shape)
    rest = tuple(i for i in range(len(shape)) if i not in axes)
    lengths = tuple(shape[i] for i in rest)
    count = count_over(shape, axes)
    if not count:
        raise ArgumentError(f"{name} of no elements: shape {shape} over axes {axes}.")
    rows = reshape_p(permute_p(x, axes=(*rest, *axes)), shape=(*lengths, count))
    ordered = sort_p(rows, axis=len(rest), descending=False)
    final = kept_shape(shape, axes) if keepdims else lengths
    parts = [reshape_p(_between(ordered, f * (count - 1)), shape=final) for f in q.reshape(-1)]
    return parts[0] if q.ndim == 0 else stack(parts)


def _between(ordered: Any, place: float) -> Any:
    """Return the value at a place that need not be whole along the last axis."""
    low = math.floor(place)
    share = float(place - low)
    whole = (slice(None),) * (len(ordered.shape) - 1)
    below = slice_p(ordered, index=(*whole, low))
    if share == 0.0:
        return below
    above = slice_p(ordered, index=(*whole, low + 1))
    return below + (above - below) * share
