"""Maximum and average pooling over `x[n, *spatial, c]`, and their derivatives.

Maximum pooling also returns the position of each maximum. Its derivatives in either mode are then
gathers and scatters at those positions (`pool_gather`, `pool_scatter`), each the transpose of the
other.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tapegrad.core.backend.registry import by_name
from tapegrad_numpy.kernels.convolution import (
    Array,
    Padding,
    Shape,
    output_shape,
    overlap,
    overlaps,
)
from tapegrad_numpy.kernels.half import accumulator


def max_pool(
    x: Array, *, window: Shape, strides: Shape, padding: Padding, dilation: Shape
) -> tuple[Array, Array]:
    """Return the maximum of each window and its flat position in the spatial block of `x`.

    Padding never wins. Of equal elements the first in row-major order wins; a NaN beats any number.
    """
    spatial = x.shape[1:-1]
    count = output_shape(spatial, window, strides, padding, dilation)
    places = math.prod(window)
    number = np.uint8 if places <= 256 else np.int32
    y = np.full((x.shape[0], *count, x.shape[-1]), _lowest(x.dtype), x.dtype)
    winner = np.empty(y.shape, number)
    winner[...] = _first_real_place(spatial, count, window, strides, padding, dilation)
    with_nan = x.dtype.kind not in "biu" and bool(np.isnan(x).any())
    for place, seen_by, elements in overlaps(spatial, count, window, strides, padding, dilation):
        candidate, best = x[elements], y[seen_by]
        better = candidate > best
        if with_nan:
            better |= np.isnan(candidate) & ~np.isnan(best)
        np.maximum(best, candidate, out=best)
        # Positions are in rising order and a later one wins only if it is better, so the winner is
        # the highest number.
        won = better.view(np.uint8) * number(_flat(place, window))
        np.maximum(winner[seen_by], won, out=winner[seen_by])
    return y, _positions(winner, spatial, window, strides, padding, dilation)


def pool_gather(x: Array, indices: Array) -> Array:
    """Pick `x[n, indices, c]`, with the spatial dimensions of `x` taken as one."""
    y: Array = np.take(x, _flat_indices(indices, x.shape))
    return y


def pool_scatter(t: Array, indices: Array, *, spatial: Shape, unique: bool = False) -> Array:
    """Transpose `pool_gather`: add each `t[n, ..., c]` to the position it was read from.

    `spatial` is the spatial shape of the result. If `unique`, no position was read twice.
    """
    shape = (t.shape[0], *spatial, t.shape[-1])
    if unique and not (indices.size and indices.min() < 0):
        placed = np.zeros(math.prod(shape), t.dtype)
        placed[_flat_indices(indices, shape).reshape(-1)] = t.reshape(-1)
        return placed.reshape(shape)
    wide = accumulator(t.dtype)
    g = np.zeros(math.prod(shape), wide)
    np.add.at(g, _flat_indices(indices, shape).reshape(-1), t.astype(wide, copy=False).reshape(-1))
    return g.reshape(shape).astype(t.dtype, copy=False)


def avg_pool(
    x: Array, *, window: Shape, strides: Shape, padding: Padding, count_padding: bool
) -> Array:
    """Return the mean of each window.

    With `count_padding` the zeros of the padding count as elements; without it, as in TensorFlow,
    the sum is divided by the number of real elements alone.
    """
    spatial = x.shape[1:-1]
    count = output_shape(spatial, window, strides, padding, (1,) * len(window))
    y: Array = x.astype(accumulator(x.dtype), copy=False)
    for axis, windows in enumerate(count, start=1):
        y = _sum_windows(y, axis, windows, window[axis - 1], strides[axis - 1], padding[axis - 1])
    y = np.divide(y, _divisor(spatial, count, window, strides, padding, count_padding, y.dtype))
    return y.astype(x.dtype, copy=False)


def avg_pool_gradient(
    t: Array,
    *,
    spatial: Shape,
    window: Shape,
    strides: Shape,
    padding: Padding,
    count_padding: bool,
) -> Array:
    """Transpose `avg_pool`: share each cotangent among the elements of its window."""
    g = t.astype(accumulator(t.dtype), copy=False)
    divisor = _divisor(spatial, t.shape[1:-1], window, strides, padding, count_padding, g.dtype)
    g = np.divide(g, divisor)
    for axis, size in enumerate(spatial, start=1):
        g = _spread_windows(g, axis, size, window[axis - 1], strides[axis - 1], padding[axis - 1])
    return g.astype(t.dtype, copy=False)


def _lowest(dtype: np.dtype[Any]) -> Any:
    return np.iinfo(dtype).min if dtype.kind in "biu" else -math.inf


def _flat(place: Shape, shape: Shape) -> int:
    flat = 0
    for index, size in zip(place, shape):
        flat = flat * size + index
    return flat


def _flat_grid(coordinates: list[Array], shape: Shape) -> Array:
    """Return the flat index in `shape` of every point of a grid.

    The coordinates of the points are given for each dimension. The result has an axis for each
    dimension and one of length 1 for the channels.
    """
    flat: Array = np.zeros((), np.int64)
    for along, size in zip(coordinates, shape):
        flat = flat[..., None] * size + along
    return flat[..., None]


def _first_real_place(
    spatial: Shape, count: Shape, window: Shape, strides: Shape, padding: Padding, dilation: Shape
) -> Array:
    """Return the number of the first position of each window that is not padding."""
    firsts = []
    for axis, (size, windows, extent, stride, (low, _), step) in enumerate(
        zip(spatial, count, window, strides, padding, dilation)
    ):
        origin = np.arange(windows) * stride - low
        first = np.maximum(0, -(origin // step))
        if np.any((first >= extent) | (origin + first * step >= size)):
            raise ValueError(
                f"max_pool needs a real element in every window. Along spatial dimension {axis}, a "
                f"window of {extent} (dilation {step}) lies in the padding {padding[axis]} alone."
            )
        firsts.append(first)
    return _flat_grid(firsts, window)


def _positions(
    winner: Array, spatial: Shape, window: Shape, strides: Shape, padding: Padding, dilation: Shape
) -> Array:
    """Convert positions in the window to flat positions in the spatial block.

    A flat position is linear in the coordinates, so it is that of the window plus that inside the
    window.
    """
    origins = [
        np.arange(windows) * stride - low
        for windows, stride, (low, _) in zip(winner.shape[1:-1], strides, padding)
    ]
    steps = [np.arange(extent) * step for extent, step in zip(window, dilation)]
    positions: Array = _flat_grid(steps, spatial).reshape(-1)[winner]
    positions += _flat_grid(origins, spatial)
    return positions


def _flat_indices(indices: Array, shape: Shape) -> Array:
    """Convert positions in the spatial block to positions in the whole array of this shape."""
    batch, *spatial, channels = shape
    inner = (1,) * (indices.ndim - 2)
    image = np.arange(batch).reshape(batch, *inner, 1) * math.prod(spatial)
    flat: Array = indices + image
    flat *= channels
    flat += np.arange(channels)
    return flat


def _along(axis: int, part: slice) -> tuple[slice, ...]:
    return (*(slice(None),) * axis, part)


# Sums over windows are separable: k1 + k2 additions instead of k1 * k2.


def _sum_windows(
    x: Array, axis: int, count: int, extent: int, stride: int, padding: tuple[int, int]
) -> Array:
    y = np.zeros((*x.shape[:axis], count, *x.shape[axis + 1 :]), x.dtype)
    for index in range(extent):
        pair = overlap(x.shape[axis], count, stride, padding[0], index)
        if pair is not None:
            y[_along(axis, pair[0])] += x[_along(axis, pair[1])]
    return y


def _spread_windows(
    t: Array, axis: int, size: int, extent: int, stride: int, padding: tuple[int, int]
) -> Array:
    g = np.zeros((*t.shape[:axis], size, *t.shape[axis + 1 :]), t.dtype)
    for index in range(extent):
        pair = overlap(size, t.shape[axis], stride, padding[0], index)
        if pair is not None:
            g[_along(axis, pair[1])] += t[_along(axis, pair[0])]
    return g


def _divisor(
    spatial: Shape,
    count: Shape,
    window: Shape,
    strides: Shape,
    padding: Padding,
    count_padding: bool,
    dtype: np.dtype[Any],
) -> Any:
    if count_padding or not any(map(any, padding)):
        return dtype.type(math.prod(window))
    real = np.ones((), dtype)
    for size, windows, extent, stride, pads in zip(spatial, count, window, strides, padding):
        real = real[..., None] * _sum_windows(np.ones(size), 0, windows, extent, stride, pads)
    # A window that is all padding has the sum 0, and so the mean 0.
    return np.maximum(real, 1)[..., None].astype(dtype)


KERNELS = by_name(max_pool, pool_gather, pool_scatter, avg_pool, avg_pool_gradient)
