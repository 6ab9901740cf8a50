"""Rank filters: maximum, minimum, median, percentile and any rank of the neighbours.

The gradient flows to the selected pixel.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from tapegrad.errors import ArgumentError, DTypeError, ShapeError
from tapegrad.ops.indexing.sorting import sort
from tapegrad.scipy.ndimage.boundaries import extend, filter_mode
from tapegrad.scipy.ndimage.correlation import reach_of
from tapegrad.scipy.ndimage.results import (
    apply_to_parts,
    by_axis,
    normalize_filter_axes,
    per_axis,
)
from tapegrad.scipy.vocabulary import is_complex, maximum, minimum, operand, stack


class Window(NamedTuple):
    """The footprint of a filter, with its axes, reach and modes."""

    mask: np.ndarray
    axes: Sequence[int]
    reaches: list[tuple[int, int]]
    modes: list[str]


def maximum_filter1d(
    input: Any,
    size: int,
    axis: int = -1,
    output: Any = None,
    mode: str = "reflect",
    cval: Any = 0.0,
    origin: int = 0,
) -> Any:
    """Return the maximum of `size` neighbours along an axis.

    >>> maximum_filter1d([1.0, 3.0, 2.0, 0.0], 3).tolist()
    [3.0, 3.0, 3.0, 2.0]
    """
    return maximum_filter(input, (size,), None, output, mode, cval, origin, axes=axis)


def minimum_filter1d(
    input: Any,
    size: int,
    axis: int = -1,
    output: Any = None,
    mode: str = "reflect",
    cval: Any = 0.0,
    origin: int = 0,
) -> Any:
    """Return the minimum of `size` neighbours along an axis.

    >>> minimum_filter1d([1.0, 3.0, 2.0, 0.0], 3).tolist()
    [1.0, 1.0, 0.0, 0.0]
    """
    return minimum_filter(input, (size,), None, output, mode, cval, origin, axes=axis)


def maximum_filter(
    input: Any,
    size: Any = None,
    footprint: Any = None,
    output: Any = None,
    mode: Any = "reflect",
    cval: Any = 0.0,
    origin: Any = 0,
    *,
    axes: Any = None,
) -> Any:
    """Return the maximum of the neighbours in a box or a footprint.

    >>> maximum_filter(np.array([[0.0, 1.0], [2.0, 0.0]]), size=(1, 2)).tolist()
    [[0.0, 1.0], [2.0, 2.0]]
    """
    window = _window(input, size, footprint, mode, origin, axes, "maximum_filter")
    return _extremes(input, window, maximum, output, cval, "maximum_filter")


def minimum_filter(
    input: Any,
    size: Any = None,
    footprint: Any = None,
    output: Any = None,
    mode: Any = "reflect",
    cval: Any = 0.0,
    origin: Any = 0,
    *,
    axes: Any = None,
) -> Any:
    """Return the minimum of the neighbours in a box or a footprint.

    >>> minimum_filter(np.array([[0.0, 1.0], [2.0, 0.0]]), size=(1, 2)).tolist()
    [[0.0, 0.0], [2.0, 0.0]]
    """
    window = _window(input, size, footprint, mode, origin, axes, "minimum_filter")
    return _extremes(input, window, minimum, output, cval, "minimum_filter")


def median_filter(
    input: Any,
    size: Any = None,
    footprint: Any = None,
    output: Any = None,
    mode: Any = "reflect",
    cval: Any = 0.0,
    origin: Any = 0,
    *,
    axes: Any = None,
) -> Any:
    """Return the median of the neighbours in a box or a footprint; the upper one of two.

    >>> median_filter([1.0, 9.0, 2.0, 3.0], 3).tolist()
    [1.0, 2.0, 3.0, 3.0]
    """
    window = _window(input, size, footprint, mode, origin, axes, "median_filter")
    return _ranked(input, window, lambda count: count // 2, output, cval, "median_filter")


def rank_filter(
    input: Any,
    rank: int,
    size: Any = None,
    footprint: Any = None,
    output: Any = None,
    mode: Any = "reflect",
    cval: Any = 0.0,
    origin: Any = 0,
    *,
    axes: Any = None,
) -> Any:
    """Return the neighbour of a given rank in increasing order; -1 is the largest.

    >>> rank_filter([1.0, 9.0, 2.0, 3.0], 0, 3).tolist()
    [1.0, 1.0, 2.0, 2.0]
    """
    window = _window(input, size, footprint, mode, origin, axes, "rank_filter")
    return _ranked(input, window, lambda count: int(rank), output, cval, "rank_filter")


def percentile_filter(
    input: Any,
    percentile: float,
    size: Any = None,
    footprint: Any = None,
    output: Any = None,
    mode: Any = "reflect",
    cval: Any = 0.0,
    origin: Any = 0,
    *,
    axes: Any = None,
) -> Any:
    """Return a percentile of the neighbours in a box or a footprint.

    >>> percentile_filter([1.0, 9.0, 2.0, 3.0], 100, 3).tolist()
    [9.0, 9.0, 9.0, 3.0]
    """
    percent = float(percentile) + (100.0 if percentile < 0 else 0.0)
    if not 0 <= percent <= 100:
        raise ArgumentError(f"percentile must be between -100 and 100. Got {percentile}.")

    def place(count: int) -> int:
        return count - 1 if percent == 100.0 else int(count * percent / 100.0)

    window = _window(input, size, footprint, mode, origin, axes, "percentile_filter")
    return _ranked(input, window, place, output, cval, "percentile_filter")


def _window(
    input: Any, size: Any, footprint: Any, mode: Any, origin: Any, axes: Any, name: str
) -> Window:
    if is_complex(operand(input)):
        raise DTypeError(f"{name} orders real numbers. Got a complex image.")
    is_separable = name in ("maximum_filter", "minimum_filter")
    chosen = normalize_filter_axes(axes, np.ndim(input), name)
    count = len(chosen)
    if footprint is not None:
        mask = np.asarray(footprint, dtype=bool)
    elif size is not None:
        mask = np.ones([int(n) for n in per_axis(size, count, "size", name)], dtype=bool)
    else:
        raise ArgumentError(f"{name} needs size or footprint. Got neither.")
    if mask.ndim != count or not mask.any():
        raise ShapeError(
            f"{name} over {count} axes needs a non-empty footprint with as many axes. "
            f"Got shape {mask.shape}."
        )
    origins = per_axis(origin, count, "origin", name)
    modes = [filter_mode(m, name) for m in per_axis(mode, count, "mode", name)]
    if not (is_separable and mask.all()):
        rank = np.ndim(input)
        modes = by_axis(chosen, rank, modes, plain=False)
        origins = by_axis(chosen, rank, origins, plain=True)
        chosen = sorted(chosen)
    reaches = [reach_of(n, o, name) for n, o in zip(mask.shape, origins, strict=True)]
    return Window(mask, chosen, reaches, modes)


def _neighbours(x: Any, window: Window, cval: Any) -> list[Any]:
    """Return the image shifted to each place of the footprint."""
    mask, axes, reaches, modes = window
    shape = tuple(x.shape)
    for axis, (before, after), mode in zip(axes, reaches, modes, strict=True):
        x = extend(x, axis, before, after, mode, cval)
    found = []
    for place in np.argwhere(mask):
        index = [slice(None)] * len(shape)
        for axis, start in zip(axes, place, strict=True):
            index[axis] = slice(int(start), int(start) + shape[axis])
        found.append(x[tuple(index)])
    return found


def _extremes(input: Any, window: Window, choose: Any, output: Any, cval: Any, name: str) -> Any:
    def apply(x: Any, cval: Any) -> Any:
        if not window.mask.all():
            return _best(_neighbours(x, window, cval), choose)
        # A box filter is separable.
        for n, axis, reach, mode in zip(window.mask.shape, *window[1:], strict=True):
            line = Window(np.ones(n, dtype=bool), [axis], [reach], [mode])
            x = _best(_neighbours(x, line, cval), choose)
        return x

    return apply_to_parts(input, cval, output, apply, name)


def _best(values: list[Any], choose: Any) -> Any:
    """Reduce pairwise, which keeps the graph shallow."""
    while len(values) > 1:
        pairs = [choose(a, b) for a, b in zip(values[::2], values[1::2])]
        values = pairs + values[len(values) - len(values) % 2 :]
    return values[0]


def _ranked(input: Any, window: Window, place: Any, output: Any, cval: Any, name: str) -> Any:
    count = int(window.mask.sum())
    number = place(count)
    if not -count <= number < count:
        raise ArgumentError(
            f"The rank of {name} with {count} neighbours must be from {-count} to {count - 1}. "
            f"Got {number}."
        )

    def apply(x: Any, cval: Any) -> Any:
        every = stack(_neighbours(x, window, cval))
        return sort(every, 0)[number % count]

    return apply_to_parts(input, cval, output, apply, name)
