"""Order statistics of rows: quantiles by NumPy's methods, without NaN, or with weights."""

from __future__ import annotations

import math
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np

from tapegrad.core.primitive.operand import normalize_axes
from tapegrad.errors import DTypeError
from tapegrad.ops.casting.cast import cast, in_dtype
from tapegrad.ops.creation import numpy_dtype_of
from tapegrad.ops.elementwise import rounding
from tapegrad.ops.elementwise.selection import clip, maximum, minimum, where
from tapegrad.ops.indexing.along_axis import take_along_axis_p
from tapegrad.ops.indexing.functions import getitem
from tapegrad.ops.indexing.gather import place_next_to
from tapegrad.ops.indexing.sorting import argsort_p, sort_p
from tapegrad.ops.reduction.cumulative import cumsum
from tapegrad.ops.reduction.primitives import any as any_of, sum as sum_over
from tapegrad.ops.shape.functions import broadcast_to, moveaxis, reshape

Position = Callable[[Any, Any, Any], Any]

METHODS: dict[str, Position] = {
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
"""NumPy's methods: the position of the q-quantile among n sorted values; `m` has the rounding
functions for host arrays or for tensors."""

DISCRETE = ("lower", "higher", "nearest", "inverted_cdf", "closest_observation")
"""Methods that return an element without interpolating."""

_TENSOR_FUNCTIONS = SimpleNamespace(
    floor=rounding.floor, ceil=rounding.ceil, rint=rounding.rint, where=where
)


def rows_over(x: Any, axis: Any) -> tuple[Any, tuple[int, ...], tuple[int, ...]]:
    """Return `x` with the reduced axes merged into the last one, and the two result shapes.

    The first shape drops the reduced axes, the second keeps them with length 1.
    """
    axes = normalize_axes(axis, len(x.shape), "quantile")
    rest = tuple(k for k in range(len(x.shape)) if k not in axes)
    lengths = tuple(x.shape[k] for k in rest)
    kept = tuple(1 if k in axes else n for k, n in enumerate(x.shape))
    moved = moveaxis(x, rest, tuple(range(len(rest)))) if rest else x
    count = int(np.prod([x.shape[k] for k in axes]))
    return reshape(moved, (*lengths, count)), lengths, kept


def check_real(kind: str, method: str) -> None:
    """Raise for the dtype kinds that have no quantiles with this method."""
    if kind == "c" or (kind == "b" and method not in DISCRETE):
        raise DTypeError(
            f"A quantile with method={method!r} needs real numbers. Got "
            f"{'complex numbers' if kind == 'c' else 'booleans'}; convert them with astype first."
        )


def row_quantiles(
    rows: Any,
    q: Any,
    method: str = "linear",
    *,
    omit_nan: bool = False,
    weights: Any = None,
    promote: bool = False,
) -> Any:
    """Return the quantiles of each row, along the last axis.

    `q` is a vector of fractions, on the host or a tensor. A row that contains NaN gives NaN unless
    `omit_nan` is set. `weights` has the shape of `rows`. With `promote` the dtype of `q` takes part
    in the dtype of the result, as for a list of fractions in NumPy.
    """
    is_missing = rows != rows
    count = sum_over(cast(~is_missing, "float64"), -1, True) if omit_nan else rows.shape[-1]
    if weights is not None:
        found = _weighted_quantiles(rows, weights, q, is_missing)
    else:
        found = _interpolated_quantiles(rows, is_missing, q, method, count, promote)
    is_undefined = count == 0 if omit_nan else any_of(is_missing, -1, True)
    return where(is_undefined, math.nan, found)


def _interpolated_quantiles(
    rows: Any, is_missing: Any, q: Any, method: str, count: Any, promote: bool
) -> Any:
    full = rows if isinstance(count, int) else where(is_missing, math.inf, rows)
    ordered = sort_p(full, axis=len(rows.shape) - 1, descending=False)
    if promote and method not in DISCRETE:
        q_dtype = q.dtype if isinstance(q, np.ndarray) else numpy_dtype_of(q)
        ordered = in_dtype(ordered, np.result_type(numpy_dtype_of(ordered), q_dtype))
    if isinstance(count, int) and isinstance(q, np.ndarray):
        return _at_host_positions(ordered, METHODS[method](count, q, np))
    position = METHODS[method](count, _on_device_of(rows, q), _TENSOR_FUNCTIONS)
    return _at_positions(ordered, position, count)


def _on_device_of(x: Any, values: Any) -> Any:
    return place_next_to(x, values) if isinstance(values, np.ndarray) else values


def _at_host_positions(ordered: Any, position: np.ndarray) -> Any:
    """Interpolate along the last axis at positions that are known on the host."""
    last = ordered.shape[-1] - 1
    position = np.clip(position, 0, last)
    low = np.floor(position).astype(int)
    fraction = (position - low).astype(numpy_dtype_of(ordered))
    below = getitem(ordered, (..., low))
    above = getitem(ordered, (..., np.minimum(low + 1, last)))
    # An infinite upper neighbour with weight 0 must not give NaN, nor must an infinite lower one.
    is_flat = place_next_to(ordered, fraction == 0) | _stays_infinite(below, above)
    gap = where(is_flat, 0.0, above - below)
    return below + gap * place_next_to(ordered, fraction)


def _at_positions(ordered: Any, position: Any, count: Any) -> Any:
    """Interpolate along the last axis at positions that differ between rows."""
    last = ordered.shape[-1] - 1
    position = maximum(minimum(position, count - 1.0), 0.0 * position)
    low = rounding.floor(position)
    fraction = in_dtype(position - low, numpy_dtype_of(ordered))
    below = _take_along_rows(ordered, clip(cast(low, "int64"), 0, last))
    above = _take_along_rows(ordered, clip(cast(low, "int64") + 1, 0, last))
    is_whole = (fraction == 0) | _stays_infinite(below, above)
    return below + where(is_whole, 0.0, where(is_whole, below, above) - below) * fraction


def _stays_infinite(below: Any, above: Any) -> Any:
    """Return where all numbers between two neighbours are the infinite lower one."""
    return (abs(below) == math.inf) & ((below == above) | (above < math.inf))


def _take_along_rows(ordered: Any, index: Any) -> Any:
    index = broadcast_to(index, (*ordered.shape[:-1], index.shape[-1]))
    return take_along_axis_p(ordered, index, axis=len(ordered.shape) - 1, unique=False)


def _weighted_quantiles(rows: Any, weights: Any, q: Any, is_missing: Any) -> Any:
    """Return the first value at which the cumulative fraction of the weights reaches `q`."""
    axis = len(rows.shape) - 1
    weights = where(is_missing, 0.0, weights)
    order = argsort_p(where(is_missing, math.inf, rows), axis=axis, descending=False, stable=True)
    ordered = take_along_axis_p(rows, order, axis=axis, unique=True)
    running = cumsum(take_along_axis_p(weights, order, axis=axis, unique=True), axis)
    fraction = running / running[..., -1:]
    # An element of weight 0 is never the smallest, not even for q = 0.
    fraction = where(fraction == 0, -1.0, fraction)
    targets = _on_device_of(rows, q)
    below = reshape(fraction, (*fraction.shape, 1)) < reshape(targets, (-1,))
    index = clip(sum_over(cast(below, "int64"), axis), 0, rows.shape[-1] - 1)
    return _take_along_rows(ordered, index)
