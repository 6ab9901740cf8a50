"""Convolution and pooling with Array API functions: one pass per window position.

They work on any backend. A backend can register faster kernels under the same names.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from math import inf, prod
from typing import Any

from tapegrad.ops.convolution.arguments import Padding, Shape

Index = tuple[slice, ...]


def window_counts(
    spatial: Shape, window: Shape, strides: Shape, padding: Padding, dilation: Shape
) -> Shape:
    """Return the number of windows along each axis."""
    return tuple(
        max(0, (size + low + high - (extent - 1) * step - 1) // stride + 1)
        for size, extent, stride, (low, high), step in zip(
            spatial, window, strides, padding, dilation
        )
    )


def _window_positions(
    counts: Shape, window: Shape, strides: Shape, dilation: Shape
) -> Iterator[tuple[Shape, Index]]:
    """Yield each window position with the slices of the padded data that it covers."""
    for position in product(*map(range, window)):
        parts = (
            slice(at * step, at * step + (count - 1) * stride + 1, stride)
            for at, step, count, stride in zip(position, dilation, counts, strides)
        )
        yield position, (slice(None), *parts, slice(None))


def _pad(xp: Any, x: Any, padding: Padding, value: float = 0) -> Any:
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


def _split_groups(xp: Any, a: Any, groups: int) -> Any:
    """Reshape [..., g * c] to [g, rows, c]."""
    split = xp.reshape(a, (prod(a.shape[:-1]), groups, a.shape[-1] // groups))
    return xp.permute_dims(split, (1, 0, 2))


def _merge_groups(xp: Any, a: Any, lead: Shape) -> Any:
    return xp.reshape(xp.permute_dims(a, (1, 0, 2)), (*lead, a.shape[0] * a.shape[2]))


def conv(
    xp: Any, x: Any, w: Any, *, strides: Shape, padding: Padding, dilation: Shape, groups: int
) -> Any:
    """Convolve: sum one matrix product per window position."""
    window = w.shape[:-2]
    counts = window_counts(x.shape[1:-1], window, strides, padding, dilation)
    lead = (x.shape[0], *counts)
    padded = _pad(xp, x, padding)
    total: Any = None
    for position, covered in _window_positions(counts, window, strides, dilation):
        filters = _split_groups(xp, w[(*position, slice(None), slice(None))], groups)
        term = xp.matmul(_split_groups(xp, padded[covered], groups), filters)
        total = term if total is None else total + term
    return _merge_groups(xp, total, lead)


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
    """Distribute each cotangent over its window."""
    spatial = input_shape[1:-1]
    sizes = [low + size + high for size, (low, high) in zip(spatial, padding)]
    full = (t.shape[0], *sizes, input_shape[-1])
    dtype = xp.result_type(t, w)
    g = xp.zeros(full, dtype=dtype, device=t.device)
    rows = _split_groups(xp, t, groups)
    for position, covered in _window_positions(t.shape[1:-1], w.shape[:-2], strides, dilation):
        filters = _split_groups(xp, w[(*position, slice(None), slice(None))], groups)
        term = xp.matmul(rows, xp.matrix_transpose(filters))
        g[covered] = g[covered] + _merge_groups(xp, term, t.shape[:-1])
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
    """Correlate data with cotangents, one matrix product per window position."""
    padded = _pad(xp, x, padding)
    rows = _split_groups(xp, t, groups)
    fan_in, c_out = x.shape[-1] // groups, t.shape[-1]
    parts = []
    for _, covered in _window_positions(t.shape[1:-1], window, strides, dilation):
        columns = xp.matrix_transpose(_split_groups(xp, padded[covered], groups))
        parts.append(_merge_groups(xp, xp.matmul(columns, rows), (fan_in,)))
    return xp.reshape(xp.stack(parts), (*window, fan_in, c_out))


def max_pool(
    xp: Any, x: Any, *, window: Shape, strides: Shape, padding: Padding, dilation: Shape
) -> tuple[Any, Any]:
    """Return the maximum of each window and its flat position, the first of equal elements."""
    spatial = x.shape[1:-1]
    counts = window_counts(spatial, window, strides, padding, dilation)
    floating = xp.isdtype(x.dtype, "real floating")
    padded = _pad(xp, x, padding, -inf if floating else xp.iinfo(x.dtype).min)
    positions = _pad(xp, _positions(xp, spatial, x), padding, -1)
    best: Any = None
    for _, covered in _window_positions(counts, window, strides, dilation):
        candidate = padded[covered]
        where = xp.broadcast_to(positions[covered], candidate.shape)
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
    """Convert positions in the spatial block to positions in the flattened array of `shape`."""
    batch, *spatial, channels = shape
    ones = (1,) * (len(indices.shape) - 1)
    image = xp.reshape(xp.arange(batch, dtype=xp.int64, device=indices.device), (batch, *ones))
    channel = xp.arange(channels, dtype=xp.int64, device=indices.device)
    return xp.reshape((image * prod(spatial) + indices) * channels + channel, (-1,))


def pool_gather(xp: Any, x: Any, indices: Any) -> Any:
    """Return `x[n, indices, c]`, with the spatial axes of `x` flattened."""
    flat = xp.take(xp.reshape(x, (-1,)), _flat_indices(xp, indices, x.shape), axis=0)
    return xp.reshape(flat, indices.shape)


def pool_scatter(xp: Any, t: Any, indices: Any, *, spatial: Shape, unique: bool = False) -> Any:
    """Apply the transpose of `pool_gather`, one window at a time: the Array API has no scatter.

    `unique` says that no element was picked twice; kernels may make use of it.
    """
    n, channels = t.shape[0], t.shape[-1]
    area = prod(spatial)
    values = xp.reshape(t, (n, -1, channels))
    positions = xp.reshape(indices, (n, -1, channels))
    row = xp.reshape(xp.arange(area, dtype=indices.dtype, device=t.device), (1, area, 1))
    g = xp.zeros((n, area, channels), dtype=t.dtype, device=t.device)
    for k in range(values.shape[1]):
        value, position = values[:, k : k + 1, :], positions[:, k : k + 1, :]
        g = g + xp.where(position == row, value, xp.zeros_like(value))
    return xp.reshape(g, (n, *spatial, channels))


def _window_sum(
    xp: Any, x: Any, window: Shape, strides: Shape, padding: Padding, counts: Shape
) -> Any:
    padded = _pad(xp, x, padding)
    total: Any = None
    for _, covered in _window_positions(counts, window, strides, (1,) * len(window)):
        total = padded[covered] if total is None else total + padded[covered]
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
    """Return the mean of each window; padding counts only with `count_padding`."""
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
    """Distribute each cotangent equally over the elements of its window."""
    counts = t.shape[1:-1]
    if count_padding:
        t = t / prod(window)
    else:
        t = t / _divisor(xp, t, spatial, window, strides, padding, counts)
    sizes = [low + size + high for size, (low, high) in zip(spatial, padding)]
    g = xp.zeros((t.shape[0], *sizes, t.shape[-1]), dtype=t.dtype, device=t.device)
    for _, covered in _window_positions(counts, window, strides, (1,) * len(window)):
        g[covered] = g[covered] + t
    return g[_inner(spatial, padding)]
