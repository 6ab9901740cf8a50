"""Convolution and pooling in Array API terms: correct on any backend, one pass per window place.

Backends with something better put it into their kernel tables under the same names.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from math import inf, prod
from typing import Any

from tapegrad.ops.windows import Padding, Shape

Index = tuple[slice, ...]


def window_counts(
    spatial: Shape, window: Shape, strides: Shape, padding: Padding, dilation: Shape
) -> Shape:
    """Return how many windows fit along each dimension."""
    return tuple(
        max(0, (size + low + high - (extent - 1) * step - 1) // stride + 1)
        for size, extent, stride, (low, high), step in zip(
            spatial, window, strides, padding, dilation
        )
    )


def _places(
    counts: Shape, window: Shape, strides: Shape, dilation: Shape
) -> Iterator[tuple[Shape, Index]]:
    """Yield each place of the window with the slices of padded data seen from there."""
    for place in product(*map(range, window)):
        parts = (
            slice(at * step, at * step + (count - 1) * stride + 1, stride)
            for at, step, count, stride in zip(place, dilation, counts, strides)
        )
        yield place, (slice(None), *parts, slice(None))


def _padded(xp: Any, x: Any, padding: Padding, value: float = 0) -> Any:
    if not any(map(any, padding)):
        return x
    sizes = [low + size + high for size, (low, high) in zip(x.shape[1:-1], padding)]
    shape = (x.shape[0], *sizes, x.shape[-1])
    full = xp.full(shape, value, dtype=x.dtype, device=x.device)
    full[_inner(x.shape[1:-1], padding)] = x
    return full


def _inner(spatial: Shape, padding: Padding) -> Index:
    inner = (slice(low, low + size) for size, (low, _) in zip(spatial, padding))
    return (slice(None), *inner, slice(None))


def _grouped(xp: Any, a: Any, groups: int) -> Any:
    """[..., g * c] to [g, rows, c]."""
    split = xp.reshape(a, (prod(a.shape[:-1]), groups, a.shape[-1] // groups))
    return xp.permute_dims(split, (1, 0, 2))


def _ungrouped(xp: Any, a: Any, lead: Shape) -> Any:
    return xp.reshape(xp.permute_dims(a, (1, 0, 2)), (*lead, a.shape[0] * a.shape[2]))


def conv(
    xp: Any, x: Any, w: Any, *, strides: Shape, padding: Padding, dilation: Shape, groups: int
) -> Any:
    """Slide filters over data: the sum over window places of a matrix product for each."""
    window = w.shape[:-2]
    counts = window_counts(x.shape[1:-1], window, strides, padding, dilation)
    lead = (x.shape[0], *counts)
    padded = _padded(xp, x, padding)
    total: Any = None
    for place, seen in _places(counts, window, strides, dilation):
        filters = _grouped(xp, w[(*place, slice(None), slice(None))], groups)
        share = xp.matmul(_grouped(xp, padded[seen], groups), filters)
        total = share if total is None else total + share
    return _ungrouped(xp, total, lead)


def conv_input_gradient(
    xp: Any,
    t: Any,
    w: Any,
    *,
    input_shape: Shape,
    strides: Shape,
    padding: Padding,
    dilation: Shape,
    groups: int,
) -> Any:
    """Spread each cotangent over the window it came from."""
    spatial = input_shape[1:-1]
    sizes = [low + size + high for size, (low, high) in zip(spatial, padding)]
    full = (t.shape[0], *sizes, input_shape[-1])
    dtype = xp.result_type(t, w)
    g = xp.zeros(full, dtype=dtype, device=t.device)
    rows = _grouped(xp, t, groups)
    for place, seen in _places(t.shape[1:-1], w.shape[:-2], strides, dilation):
        filters = _grouped(xp, w[(*place, slice(None), slice(None))], groups)
        share = xp.matmul(rows, xp.matrix_transpose(filters))
        g[seen] = g[seen] + _ungrouped(xp, share, t.shape[:-1])
    return g[_inner(spatial, padding)]


def conv_filter_gradient(
    xp: Any,
    x: Any,
    t: Any,
    *,
    window: Shape,
    strides: Shape,
    padding: Padding,
    dilation: Shape,
    groups: int,
) -> Any:
    """Correlate data with cotangents, one matrix product for each window place."""
    padded = _padded(xp, x, padding)
    rows = _grouped(xp, t, groups)
    fan_in, c_out = x.shape[-1] // groups, t.shape[-1]
    parts = []
    for _, seen in _places(t.shape[1:-1], window, strides, dilation):
        columns = xp.matrix_transpose(_grouped(xp, padded[seen], groups))
        parts.append(_ungrouped(xp, xp.matmul(columns, rows), (fan_in,)))
    return xp.reshape(xp.stack(parts), (*window, fan_in, c_out))


def max_pool(
    xp: Any, x: Any, *, window: Shape, strides: Shape, padding: Padding, dilation: Shape
) -> tuple[Any, Any]:
    """Return each window's maximum and its flat position; the first of equal elements wins."""
    spatial = x.shape[1:-1]
    counts = window_counts(spatial, window, strides, padding, dilation)
    floating = xp.isdtype(x.dtype, "real floating")
    padded = _padded(xp, x, padding, -inf if floating else xp.iinfo(x.dtype).min)
    positions = _padded(xp, _positions(xp, spatial, x), padding, -1)
    best: Any = None
    for _, seen in _places(counts, window, strides, dilation):
        candidate = padded[seen]
        where = xp.broadcast_to(positions[seen], candidate.shape)
        if best is None:
            best, found = candidate, where
            continue
        better = (candidate > best) | ((found < 0) & (where >= 0))
        if floating:
            better = better | (xp.isnan(candidate) & ~xp.isnan(best))
        best, found = xp.where(better, candidate, best), xp.where(better, where, found)
    return best, found


def _positions(xp: Any, spatial: Shape, x: Any) -> Any:
    return xp.reshape(xp.arange(prod(spatial), dtype=xp.int64, device=x.device), (1, *spatial, 1))


def _flat_indices(xp: Any, indices: Any, shape: Shape) -> Any:
    """Positions in the spatial block as positions in the whole array of this shape, 1-d."""
    batch, *spatial, channels = shape
    ones = (1,) * (len(indices.shape) - 1)
    image = xp.reshape(xp.arange(batch, dtype=xp.int64, device=indices.device), (batch, *ones))
    channel = xp.arange(channels, dtype=xp.int64, device=indices.device)
    return xp.reshape((image * prod(spatial) + indices) * channels + channel, (-1,))


def pool_gather(xp: Any, x: Any, indices: Any) -> Any:
    """Pick `x[n, indices, c]`, with the spatial dimensions of `x` taken as one."""
    flat = xp.take(xp.reshape(x, (-1,)), _flat_indices(xp, indices, x.shape), axis=0)
    return xp.reshape(flat, indices.shape)


def pool_scatter(xp: Any, t: Any, indices: Any, *, spatial: Shape) -> Any:
    """Transpose `pool_gather`, one window after the other (the Array API has no scatter)."""
    n, channels = t.shape[0], t.shape[-1]
    area = prod(spatial)
    values = xp.reshape(t, (n, -1, channels))
    places = xp.reshape(indices, (n, -1, channels))
    row = xp.reshape(xp.arange(area, dtype=indices.dtype, device=t.device), (1, area, 1))
    g = xp.zeros((n, area, channels), dtype=t.dtype, device=t.device)
    for k in range(values.shape[1]):
        value, place = values[:, k : k + 1, :], places[:, k : k + 1, :]
        g = g + xp.where(place == row, value, xp.zeros_like(value))
    return xp.reshape(g, (n, *spatial, channels))


def _window_sum(
    xp: Any, x: Any, window: Shape, strides: Shape, padding: Padding, counts: Shape
) -> Any:
    padded = _padded(xp, x, padding)
    total: Any = None
    for _, seen in _places(counts, window, strides, (1,) * len(window)):
        total = padded[seen] if total is None else total + padded[seen]
    return total


def _divisor(
    xp: Any, like: Any, spatial: Shape, window: Shape, strides: Shape, padding: Padding, counts: Any
) -> Any:
    ones = xp.ones((1, *spatial, 1), dtype=like.dtype, device=like.device)
    real = _window_sum(xp, ones, window, strides, padding, counts)
    return xp.where(real == 0, xp.ones_like(real), real)


def avg_pool(
    xp: Any, x: Any, *, window: Shape, strides: Shape, padding: Padding, count_padding: bool
) -> Any:
    """Return the mean of each window, over its real elements unless `count_padding`."""
    spatial = x.shape[1:-1]
    counts = window_counts(spatial, window, strides, padding, (1,) * len(window))
    total = _window_sum(xp, x, window, strides, padding, counts)
    if count_padding:
        return total / prod(window)
    return total / _divisor(xp, x, spatial, window, strides, padding, counts)


def avg_pool_gradient(
    xp: Any,
    t: Any,
    *,
    spatial: Shape,
    window: Shape,
    strides: Shape,
    padding: Padding,
    count_padding: bool,
) -> Any:
    """Share each cotangent among the elements of its window."""
    counts = t.shape[1:-1]
    if count_padding:
        t = t / prod(window)
    else:
        t = t / _divisor(xp, t, spatial, window, strides, padding, counts)
    sizes = [low + size + high for size, (low, high) in zip(spatial, padding)]
    g = xp.zeros((t.shape[0], *sizes, t.shape[-1]), dtype=t.dtype, device=t.device)
    for _, seen in _places(counts, window, strides, (1,) * len(window)):
        g[seen] = g[seen] + t
    return g[_inner(spatial, padding)]
