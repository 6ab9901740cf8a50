"""Histograms. Edges and counts have no derivative; sums of weights have one."""

from __future__ import annotations

from typing import Any

import numpy as np

from tapegrad.core.values.convert import read_on_host
from tapegrad.errors import ArgumentError, ArgumentTypeError, DTypeError, ShapeError
from tapegrad.numpy.manipulation import ravel
from tapegrad.numpy.values import (
    as_array,
    dtype_of,
    floating,
    is_array,
    known_values,
    with_dtype,
)
from tapegrad.ops.casting.cast import cast
from tapegrad.ops.creation import as_constant
from tapegrad.ops.elementwise.complex_numbers import complex, imag, real
from tapegrad.ops.reduction import counting
from tapegrad.ops.shape.functions import reshape


def bincount(x: Any, /, weights: Any = None, minlength: int = 0) -> Any:
    """Return the count of each integer from 0 up, or the sum of its weights.

    >>> bincount([1, 3, 1]).tolist(), bincount([1, 1], [0.5, 0.25]).tolist()
    ([0, 2, 0, 1], [0.0, 0.75])
    """
    values = as_array(x, weights if is_array(weights) else None)
    is_nothing = not is_array(x) and not np.size(x)  # an empty list has no dtype
    values = cast(values, "int64") if dtype_of(values).kind == "b" or is_nothing else values
    if dtype_of(values).kind not in "iu":
        raise DTypeError(f"bincount needs integers. Got {values.dtype}.")
    if len(values.shape) != 1:
        raise ShapeError(f"bincount needs a vector. Got shape {tuple(values.shape)}.")
    if minlength < 0:
        raise ArgumentError(f"bincount needs minlength >= 0. Got {minlength}.")
    known = known_values(x)
    if known is not None and np.any(known < 0):
        raise ArgumentError(f"bincount needs nonnegative integers. Got {known.min()}.")
    if weights is None:
        return counting.bincount(values, minlength=minlength, dtype="int64")
    summed = as_array(weights, values)
    if dtype_of(summed).kind == "c":
        raise DTypeError(f"bincount needs real weights. Got {summed.dtype}.")
    return counting.bincount(values, cast(summed, "float64"), minlength=minlength)


def histogram_bin_edges(a: Any, bins: Any = 10, range: Any = None, weights: Any = None) -> Any:
    """Return the bin edges that `histogram` would use.

    >>> histogram_bin_edges([0.0, 1.0], 2).tolist()
    [0.0, 0.5, 1.0]
    """
    values = read_on_host(as_array(a), "histogram_bin_edges()")
    return as_constant(_bin_edges(values, bins, range, weights))


def _bin_edges(values: Any, bins: Any, range: Any, weights: Any) -> Any:
    if isinstance(bins, str) and weights is not None:
        raise ArgumentTypeError(f"bins={bins!r} counts values and takes no weights. Give a number.")
    try:
        limits = None if range is None else np.asarray(_edges(range)).tolist()
        return np.histogram_bin_edges(values, _edges(bins), limits)
    except TypeError as error:
        raise ArgumentTypeError(f"histogram: {str(error).rstrip('.')}.") from error
    except ValueError as error:
        raise ArgumentError(f"histogram: {str(error).rstrip('.')}.") from error


def _edges(bins: Any) -> Any:
    return read_on_host(bins, "histogram()") if hasattr(bins, "shape") else bins


def _is_number(bins: Any) -> bool:
    return not isinstance(bins, list | tuple) and np.ndim(bins) == 0


def histogram(
    a: Any, bins: Any = 10, range: Any = None, density: Any = None, weights: Any = None
) -> tuple[Any, Any]:
    """Return the number of values (or the sum of weights) in each bin, and the bin edges.

    >>> [part.tolist() for part in histogram([0.0, 1.0, 1.0], 2)]
    [[1, 2], [0.0, 0.5, 1.0]]
    """
    values = ravel(as_array(a, weights))
    edges = _bin_edges(read_on_host(values, "histogram()"), bins, range, weights)
    counts = _counts(
        [values], [edges], None if weights is None else ravel(as_array(weights, values))
    )
    if density:
        counts = floating(counts)
        counts = counts / as_array(np.diff(edges).astype(float), counts) / counts.sum()
    return counts, as_constant(edges)


def _counts(columns: list[Any], edges: list[np.ndarray], weights: Any) -> Any:
    """Count points whose coordinates are columns; those outside go to one extra bin."""
    shape = [len(edge) - 1 for edge in edges]
    place: Any = 0
    inside: Any = True
    for column, edge, size in zip(columns, edges, shape, strict=True):
        values = read_on_host(column, "histogram()")
        found = np.searchsorted(edge, values, side="right") - 1
        found = np.where(values == edge[-1], size - 1, found)
        inside = inside & (found >= 0) & (found < size)
        place = place * size + found
    size = int(np.prod(shape))
    index = as_array(np.where(inside, place, size), columns[0])
    if weights is not None and dtype_of(weights).kind == "c":
        parts = (bincount(index, part(weights), size + 1)[:size] for part in (real, imag))
        return with_dtype(complex(*parts), dtype_of(weights)).reshape(shape)
    counts = bincount(index, weights, size + 1)[:size]
    counts = counts if weights is None else with_dtype(counts, dtype_of(weights))
    return counts.reshape(shape)


def histogramdd(
    sample: Any, bins: Any = 10, range: Any = None, density: Any = None, weights: Any = None
) -> tuple[Any, list[Any]]:
    """Return the number of points in each cell of a grid, and the edges along each axis.

    The rows of an array are points; a list or tuple holds one array per coordinate, as in NumPy.

    >>> histogramdd(([0.0, 0.0, 1.0], [0.0, 1.0, 1.0]), 2)[0].tolist()
    [[1.0, 1.0], [0.0, 1.0]]
    """
    points = as_array(sample, weights)
    if len(points.shape) != 2:
        points = reshape(points, (-1, 1))
    elif isinstance(sample, list | tuple):
        points = points.T
    count = points.shape[1]
    columns = [points[:, k] for k in _range(count)]
    wanted = [bins] * count if _is_number(bins) else [_edges(b) for b in bins]
    ranges = [None] * count if range is None else list(range)
    if len(wanted) != count or len(ranges) != count:
        raise ArgumentError(
            f"histogramdd needs one entry of bins and range per coordinate. Got {len(wanted)} and "
            f"{len(ranges)} for {count} coordinates."
        )
    edges = [
        _bin_edges(read_on_host(c, "histogramdd()"), b, r, None)
        for c, b, r in zip(columns, wanted, ranges, strict=True)
    ]
    counts = _counts(columns, edges, None if weights is None else ravel(as_array(weights, points)))
    counts = floating(counts)
    if density:
        counts = counts / counts.sum()
        for axis, edge in enumerate(edges):
            width = np.diff(edge).reshape(-1, *[1] * (count - axis - 1))
            counts = counts / as_array(width, counts)
    return counts, [as_constant(edge) for edge in edges]


_range = range


def histogram2d(
    x: Any, y: Any, bins: Any = 10, range: Any = None, density: Any = None, weights: Any = None
) -> tuple[Any, Any, Any]:
    """Return the number of points in each cell of a grid over two axes, and the edges of both.

    >>> histogram2d([0.0, 1.0], [0.0, 1.0], 2)[0].tolist()
    [[1.0, 0.0], [0.0, 1.0]]
    """
    if not isinstance(bins, int) and len(bins) not in (1, 2):
        bins = [bins, bins]
    points = as_array([as_array(x), as_array(y)]).T
    counts, (first, second) = histogramdd(points, bins, range, density, weights)
    return counts, first, second
