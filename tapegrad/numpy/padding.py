"""Padding of arrays at the ends of their axes."""

from __future__ import annotations

from typing import Any

import numpy as np

from tapegrad.core.values.sizes import computed
from tapegrad.errors import ArgumentError
from tapegrad.numpy import reductions
from tapegrad.numpy.quantiles import median
from tapegrad.numpy.values import as_array, as_arrays, dtype_of, with_dtype
from tapegrad.ops.creation import full_like_p
from tapegrad.ops.elementwise.rounding import floor
from tapegrad.ops.indexing.functions import getitem
from tapegrad.ops.shape import padding
from tapegrad.ops.shape.functions import broadcast_to
from tapegrad.ops.shape.joining import concat


def pad(array: Any, pad_width: Any, mode: Any = "constant", **kwargs: Any) -> Any:
    """Pad an array at both ends of each axis.

    The mode is 'constant' (with `constant_values`), 'edge', 'reflect', 'symmetric', 'wrap',
    'linear_ramp' (with `end_values`), 'maximum', 'minimum', 'mean', 'median' (all with
    `stat_length`, a number of entries at each end) or 'empty'. 'reflect' and 'symmetric' continue
    the slope at the ends with `reflect_type="odd"`. A function as mode gets each padded row, the
    two widths, the axis and the options, and writes into the row.

    >>> pad([1, 2], 1).tolist(), pad([1, 2, 3], (2, 0), "reflect").tolist()
    ([0, 1, 2, 0], [3, 2, 1, 2, 3])
    """
    x = as_array(array)
    if callable(mode):
        return _pad_by_function(x, _widths(pad_width, len(x.shape)), mode, kwargs)
    _check_options(mode, kwargs)
    pad_width = _widths(pad_width, len(x.shape))
    if mode not in ("empty", "constant"):
        _refuse_empty(x, pad_width, mode)
    if mode == "empty":
        return padding.pad(x, pad_width)
    if mode == "constant":
        values = kwargs.get("constant_values", 0)
        if np.ndim(values) == 0:
            return padding.pad(x, pad_width, "CONSTANT", _plain(values, x))
        return _pad_ends(x, pad_width, values, _constant)
    if mode == "linear_ramp":
        return _pad_ends(x, pad_width, kwargs.get("end_values", 0), _ramp)
    if mode in _STATISTICS:
        return _pad_statistic(x, pad_width, mode, kwargs.get("stat_length"))
    if kwargs.get("reflect_type", "even") == "odd":
        for axis, pair in enumerate(pad_width):
            x = _reflect_odd(x, axis, pair, mode) if any(pair) else x
        return x
    return padding.pad(x, pad_width, str(mode).upper())


_STATISTICS: dict[str, Any] = {
    "maximum": reductions.max,
    "minimum": reductions.min,
    "mean": reductions.mean,
    "median": median,
}
_OPTIONS = {
    "constant": ("constant_values",),
    "linear_ramp": ("end_values",),
    "reflect": ("reflect_type",),
    "symmetric": ("reflect_type",),
    **dict.fromkeys(_STATISTICS, ("stat_length",)),
}


def _widths(pad_width: Any, rank: int) -> list[tuple[int, int]]:
    """Return the checked widths of the padding, one pair per axis."""
    if isinstance(pad_width, dict):
        pairs: list[Any] = [(0, 0)] * rank
        for axis, width in pad_width.items():
            pairs[axis] = (width, width) if np.ndim(width) == 0 else tuple(width)
        pad_width = pairs
    return list(padding.padding_pairs(pad_width, rank))


def _refuse_empty(x: Any, widths: list[tuple[int, int]], mode: str) -> None:
    for axis, pair in enumerate(widths):
        if any(pair) and not x.shape[axis]:
            raise ArgumentError(
                f"pad with mode {mode!r} cannot extend axis {axis}, which has length 0. "
                "Use 'constant' or 'empty'."
            )


def _pad_by_function(x: Any, widths: list[tuple[int, int]], function: Any, options: Any) -> Any:
    """Let a function write the padding into each row of the array padded with zeros."""
    padded = padding.pad(x, widths) + 0  # a function may write into an array without padding too
    for axis, pair in enumerate(widths):
        lengths = (*padded.shape[:axis], *padded.shape[axis + 1 :])
        for place in np.ndindex(*lengths):
            row = padded[(*place[:axis], slice(None), *place[axis:])]
            function(row, pair, axis, options)
    return padded


def _reflect_odd(x: Any, axis: int, pair: tuple[int, int], mode: str) -> Any:
    """Continue an axis by rotating the values around the ends.

    The result has the slope of the whole axis: two periods on, it has risen by twice the
    difference of the ends.
    """
    length = x.shape[axis]
    place = np.arange(-pair[0], length + pair[1])
    if mode == "reflect" and length == 1:
        return getitem(x, (*[slice(None)] * axis, np.zeros_like(place)))
    period = length - 1 if mode == "reflect" else length
    turns, offset = np.divmod(place, 2 * period)
    is_turned = offset >= length
    back = 2 * period - offset - (mode == "symmetric")
    sign, last, first = (
        as_array(part.reshape(-1, *[1] * (len(x.shape) - axis - 1)).astype(dtype_of(x)), x)
        for part in (np.where(is_turned, -1, 1), 2 * turns + 2 * is_turned, -2 * turns)
    )
    rows = getitem(x, (*[slice(None)] * axis, np.where(is_turned, back, offset)))
    return rows * sign + _edge(x, axis, -1) * last + _edge(x, axis, 0) * first


def _check_options(mode: Any, options: dict[str, Any]) -> None:
    """Raise for options that this mode does not take."""
    known = _OPTIONS.get(mode, ())
    strange = [name for name in options if name not in known]
    if strange:
        raise ArgumentError(
            f"pad with mode={mode!r} takes {' and '.join(known) or 'no options'}. "
            f"Got {', '.join(strange)}."
        )


def _plain(value: Any, x: Any) -> Any:
    """Return a Python number of the array's kind, or the value itself if it is an array."""
    if hasattr(value, "shape"):
        return with_dtype(as_array(value), dtype_of(x))
    return dtype_of(x).type(value).item()


def _pairs(values: Any, rank: int) -> Any:
    return np.broadcast_to(np.asarray(values), (rank, 2))


def _pad_ends(x: Any, pad_width: Any, values: Any, make: Any) -> Any:
    """Pad the axes in sequence; `make` computes the padding of an end from the edge and a value."""
    widths, ends = _pairs(pad_width, len(x.shape)), _pairs(values, len(x.shape))
    for axis in range(len(x.shape)):
        before, after = (int(n) for n in widths[axis])
        parts = [x]
        if before:
            parts.insert(0, make(_edge(x, axis, 0), before, ends[axis][0], axis, True))
        if after:
            parts.append(make(_edge(x, axis, -1), after, ends[axis][1], axis, False))
        x = concat(as_arrays(parts), axis) if len(parts) > 1 else x
    return x


def _edge(x: Any, axis: int, k: int) -> Any:
    part = slice(0, 1) if k == 0 else slice(x.shape[axis] - 1, None)
    return x[(*[slice(None)] * axis, part)]


def _constant(edge: Any, count: int, value: Any, axis: int, at_front: bool) -> Any:
    return full_like_p(edge, shape=_long(edge, axis, count), value=value, dtype=dtype_of(edge))


def _ramp(edge: Any, count: int, value: Any, axis: int, at_front: bool) -> Any:
    steps = np.arange(float(count)) if at_front else np.arange(count - 1.0, -1.0, -1.0)
    steps = steps.reshape(-1, *[1] * (len(edge.shape) - axis - 1))
    # In the steps of linspace: another rounding could fall below a whole number.
    ramp = as_array(steps, edge) * ((edge - float(value)) / max(count, 1)) + float(value)
    if dtype_of(edge).kind in "iu":
        ramp = floor(ramp)
    return with_dtype(ramp, dtype_of(edge))


def _pad_statistic(x: Any, pad_width: Any, mode: str, stat_length: Any) -> Any:
    rank = len(x.shape)
    widths, lengths = _pairs(pad_width, rank), _pairs(stat_length, rank)
    for axis in range(rank):
        if not any(widths[axis]):
            continue
        front, back = (
            broadcast_to(_centre(x, axis, k, lengths[axis][k], mode), _long(x, axis, int(n)))
            for k, n in enumerate(widths[axis])
        )
        x = concat([front, x, back], axis)
    return x


def _long(x: Any, axis: int, count: int) -> tuple[int, ...]:
    return (*x.shape[:axis], count, *x.shape[axis + 1 :])


def _centre(x: Any, axis: int, end: int, length: Any, mode: str) -> Any:
    """Return a statistic of the first (end 0) or last entries along an axis; None takes all."""
    if length is not None:
        if length < 1:
            raise ArgumentError(f"pad needs stat_length >= 1. Got {length}.")
        count = computed(min, int(length), x.shape[axis])
        part = slice(0, count) if end == 0 else slice(x.shape[axis] - count, None)
        x = x[(*[slice(None)] * axis, part)]
    found = _STATISTICS[mode](x, axis, keepdims=True)
    if dtype_of(x).kind in "iu" and mode in ("mean", "median"):
        found = found.round()
    return with_dtype(found, dtype_of(x))
