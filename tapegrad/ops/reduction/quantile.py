"""Median, quantiles and percentiles, by sorting and linear interpolation."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tapegrad.core.primitive.operand import as_operand, normalize_axes
from tapegrad.core.values.tensor import Tensor
from tapegrad.errors import ArgumentError
from tapegrad.ops.casting.cast import cast
from tapegrad.ops.indexing.primitives import slice_p
from tapegrad.ops.indexing.sorting import sort_p
from tapegrad.ops.kinds import is_integer
from tapegrad.ops.reduction.axes import count_over, kept_shape
from tapegrad.ops.shape.joining import stack
from tapegrad.ops.shape.primitives import permute_p, reshape_p


def quantile(x: Any, q: Any, axis: Any = None, keepdims: bool = False) -> Any:
    """Return the `q`-quantiles over `axis`, with linear interpolation.

    `q` is a number or a list of numbers between 0 and 1; a list gives a new first axis. Only `x`
    has a derivative.

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
    """Return the median over `axis`; for an even count, the mean of the two middle elements.

    >>> float(median([4.0, 1.0, 2.0]))
    2.0
    """
    return _quantile("median", x, np.asarray(0.5), axis, keepdims)


def _fractions(name: str, q: Any, top: float) -> np.ndarray:
    values = q.numpy() if isinstance(q, Tensor) else q
    fractions = np.asarray(values, dtype=float) / top
    if fractions.ndim > 1 or not np.all((fractions >= 0) & (fractions <= 1)):
        raise ArgumentError(
            f"{name} needs q between 0 and {top:g}, a number or a list. Got {values}."
        )
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
        raise ArgumentError(
            f"{name} needs at least one element. Got shape {shape} reduced over axes {axes}."
        )
    rows = reshape_p(permute_p(x, axes=(*rest, *axes)), shape=(*lengths, count))
    ordered = sort_p(rows, axis=len(rest), descending=False)
    final = kept_shape(shape, axes) if keepdims else lengths
    places = [f * (count - 1) for f in q.reshape(-1).tolist()]
    parts = [reshape_p(_interpolate(ordered, place), shape=final) for place in places]
    return parts[0] if q.ndim == 0 else stack(parts)


def _interpolate(ordered: Any, position: float) -> Any:
    """Return the linearly interpolated value at a fractional position along the last axis."""
    low = math.floor(position)
    weight = float(position - low)
    whole = (slice(None),) * (len(ordered.shape) - 1)
    below = slice_p(ordered, index=(*whole, low))
    if weight == 0.0:
        return below
    above = slice_p(ordered, index=(*whole, low + 1))
    return below + (above - below) * weight
