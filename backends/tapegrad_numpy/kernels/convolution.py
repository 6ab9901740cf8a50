"""Convolution in any number of spatial dimensions, and its two transposes.

Data is channels-last, `x[n, *spatial, c_in]`; filters are `w[*window, c_in // groups, c_out]`; the
window slides without being flipped (cross-correlation). These are TensorFlow's conventions. `conv`
is linear in `x` and in `w`, and the two other kernels are its transposes, so the three are closed
under differentiation. The transposes do not conjugate; the rules do.

The window geometry at the top of the file is shared with pooling.py.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import product
from typing import Any, NamedTuple

import numpy as np
from numpy.lib.stride_tricks import as_strided
from numpy.typing import NDArray

from tapegrad.core.backend.registry import by_name
from tapegrad_numpy.kernels.half import accumulator

Array = NDArray[Any]
Shape = tuple[int, ...]
Padding = tuple[tuple[int, int], ...]
Slices = tuple[slice, ...]

# The most elements of unrolled patches held at a time: 512 KiB of float32, which stay in the cache.
_TILE = 1 << 17


def output_shape(
    spatial: Shape, window: Shape, strides: Shape, padding: Padding, dilation: Shape
) -> Shape:
    """Return the number of windows along each dimension, 0 if none fits.

    >>> output_shape((7, 7), (3, 3), (2, 2), ((0, 0), (1, 1)), (1, 1))
    (3, 4)
    """
    return tuple(
        max(0, (size + low + high - (extent - 1) * step - 1) // stride + 1)
        for size, extent, stride, (low, high), step in zip(
            spatial, window, strides, padding, dilation
        )
    )


def overlap(size: int, count: int, stride: int, low: int, reach: int) -> tuple[slice, slice] | None:
    """Pair the windows with the input elements that they read at one position of the window.

    Window `o` of `count` reads input element `o * stride + reach - low`. The first slice selects
    the windows for which that element is not padding, the second selects the elements.
    """
    origin = reach - low
    first = max(0, -(origin // stride))
    last = min(count - 1, (size - 1 - origin) // stride)
    if first > last:
        return None
    start = origin + first * stride
    return slice(first, last + 1), slice(start, origin + last * stride + 1, stride)


def overlaps(
    spatial: Shape, count: Shape, window: Shape, strides: Shape, padding: Padding, dilation: Shape
) -> Iterator[tuple[Shape, Slices, Slices]]:
    """Yield each position of the window in row-major order, with the slices from `overlap`."""
    everything = slice(None)
    for place in product(*map(range, window)):
        pairs = [
            overlap(size, windows, stride, low, index * step)
            for size, windows, stride, (low, _), index, step in zip(
                spatial, count, strides, padding, place, dilation
            )
        ]
        found = [pair for pair in pairs if pair is not None]
        if len(found) == len(pairs):
            seen_by = (everything, *(pair[0] for pair in found))
            elements = (everything, *(pair[1] for pair in found))
            yield place, seen_by, elements


def conv(
    x: Array, w: Array, *, strides: Shape, padding: Padding, dilation: Shape, groups: int
) -> Array:
    """Slide the filters over the data.

    `strides` and `dilation` hold one number and `padding` one (low, high) pair of counts of zeros
    for each spatial dimension.
    """
    x, w, dtype = _widen(x, w)
    window, (fan_in, c_out) = w.shape[:-2], w.shape[-2:]
    if _is_depthwise(fan_in, groups):
        return _depthwise(x, w, strides, padding, dilation).astype(dtype, copy=False)
    patches = _patches(x, window, strides, padding, dilation)
    y = np.empty((*patches.shape[: x.ndim - 1], c_out), x.dtype)
    filters = w.reshape(math.prod(window) * fan_in, groups, c_out // groups).transpose(1, 0, 2)
    for tile in _tiles(patches, window):
        np.matmul(_columns(patches[tile], window, groups), filters, out=_by_group(y[tile], groups))
    return y.astype(dtype, copy=False)


def conv_input_gradient(
    t: Array,
    w: Array,
    *,
    input_shape: Shape,
    strides: Shape,
    padding: Padding,
    dilation: Shape,
    groups: int,
) -> Array:
    """Transpose `conv` in `x`: spread each output cotangent over the window it came from.

    `input_shape` is the whole shape of `x`. This is also transposed convolution.
    """
    t, w, dtype = _widen(t, w)
    window, (fan_in, c_out) = w.shape[:-2], w.shape[-2:]
    if _is_depthwise(fan_in, groups):
        g = _depthwise_input_gradient(t, w, input_shape, strides, padding, dilation)
        return g.astype(dtype, copy=False)
    # Per group, the filters of the transpose have the outputs as inputs.
    filters = w.reshape(*window, fan_in, groups, c_out // groups)
    filters = filters.swapaxes(-1, -3).reshape(*window, c_out // groups, groups * fan_in)
    g = np.zeros(input_shape, t.dtype)  # some elements may be read by no window
    geometry = zip(input_shape[1:-1], t.shape[1:-1], window, strides, padding, dilation)
    for phases in product(*[_phases(*sizes) for sizes in geometry]):
        taps = filters[tuple([phase.taps for phase in phases])]
        g[(slice(None), *[phase.elements for phase in phases])] = conv(
            t[(slice(None), *[phase.windows for phase in phases])],
            taps,
            strides=(1,) * len(window),
            padding=tuple([phase.padding for phase in phases]),
            dilation=tuple([phase.dilation for phase in phases]),
            groups=groups,
        )
    return g.astype(dtype, copy=False)


class _Phase(NamedTuple):
    """Elements of the data along one dimension that see the same positions of the window.

    Their gradients are a convolution of the windows' gradients with these positions, backwards.
    """

    elements: slice
    taps: slice
    windows: slice
    padding: tuple[int, int]
    dilation: int


def _phases(
    size: int, count: int, extent: int, stride: int, padding: tuple[int, int], step: int
) -> Iterator[_Phase]:
    """Yield the phases along one dimension: one per remainder of a position by the stride.

    Element i is read by window o at position k of the filter if `i = o * stride + k * step - low`.
    """
    apart = stride // math.gcd(stride, step)  # positions that see the same elements
    dilation = apart * step // stride
    for first in range(min(apart, extent)):
        start = (first * step - padding[0]) % stride
        number = len(range(start, size, stride))
        positions = range(first, extent, apart)
        if not number or not count:
            continue
        # Element `start + m * stride` is read by window `newest + m - j * dilation` at position j.
        newest = (start + padding[0] - first * step) // stride
        reach = (len(positions) - 1) * dilation
        low, high = reach - newest, number + newest - count
        yield _Phase(
            slice(start, None, stride),
            slice(positions[-1], first - 1 if first else None, -apart),
            slice(max(0, -low), count - max(0, -high)),
            (max(0, low), max(0, high)),
            dilation,
        )


def conv_filter_gradient(
    x: Array,
    t: Array,
    *,
    window: Shape,
    strides: Shape,
    padding: Padding,
    dilation: Shape,
    groups: int,
) -> Array:
    """Transpose `conv` in `w`: correlate the data with the output cotangents.

    `window` is the spatial shape of the filters.
    """
    x, t, dtype = _widen(x, t)
    fan_in, c_out = x.shape[-1] // groups, t.shape[-1]
    if _is_depthwise(fan_in, groups):
        g = _depthwise_filter_gradient(x, t, window, strides, padding, dilation)
        return g.astype(dtype, copy=False)
    patches = _patches(x, window, strides, padding, dilation)
    g = np.zeros((groups, math.prod(window) * fan_in, c_out // groups), x.dtype)
    for tile in _tiles(patches, window):
        columns = _columns(patches[tile], window, groups)
        g += columns.transpose(0, 2, 1) @ _by_group(t[tile], groups)
    return g.transpose(1, 0, 2).reshape(*window, fan_in, c_out).astype(dtype, copy=False)


def _widen(a: Array, b: Array) -> tuple[Array, Array, np.dtype[Any]]:
    dtype = np.result_type(a, b)
    wide = accumulator(dtype)
    return a.astype(wide, copy=False), b.astype(wide, copy=False), dtype


def _is_depthwise(fan_in: int, groups: int) -> bool:
    return fan_in == 1 and groups > 1


def _pad(x: Array, padding: Padding) -> Array:
    if not any(map(any, padding)):
        return x
    sizes = [low + size + high for size, (low, high) in zip(x.shape[1:-1], padding)]
    padded = np.zeros((x.shape[0], *sizes, x.shape[-1]), x.dtype)
    inner = (slice(low, low + size) for size, (low, _) in zip(x.shape[1:-1], padding))
    padded[(slice(None), *inner)] = x
    return padded


def _patches(x: Array, window: Shape, strides: Shape, padding: Padding, dilation: Shape) -> Array:
    """View the padded data as `[n, *windows, *window, c]`; only padding copies."""
    count = output_shape(x.shape[1:-1], window, strides, padding, dilation)
    padded = _pad(x, padding)
    batch, *along, channel = padded.strides
    return as_strided(
        padded,
        (x.shape[0], *count, *window, x.shape[-1]),
        (
            batch,
            *(bytes_ * stride for bytes_, stride in zip(along, strides)),
            *(bytes_ * step for bytes_, step in zip(along, dilation)),
            channel,
        ),
        writeable=False,
    )


def _tiles(patches: Array, window: Shape) -> Iterator[tuple[slice, slice]]:
    """Split the windows by image, or by rows of one image, into tiles of at most _TILE elements."""
    batch, rows = patches.shape[:2]
    if math.prod(window) == 1:
        yield slice(batch), slice(rows)
        return
    row = max(1, math.prod(patches.shape[2:]))
    images = max(1, _TILE // (row * max(1, rows)))
    height = max(1, min(rows, _TILE // row))
    for image in range(0, batch, images):
        for top in range(0, rows, height):
            yield slice(image, image + images), slice(top, top + height)


def _columns(patches: Array, window: Shape, groups: int) -> Array:
    """Unroll patches into `[groups, windows, window * c]`; a view if the window is 1 element."""
    *lead, channels = patches.shape
    fan_in = channels // groups
    split = patches.reshape(*lead, groups, fan_in)
    by_group = split.transpose(split.ndim - 2, *range(split.ndim - 2), split.ndim - 1)
    area = math.prod(window)
    return by_group.reshape(groups, math.prod(lead) // area, area * fan_in)


def _by_group(values: Array, groups: int) -> Array:
    """View contiguous `[..., channels]` as `[groups, ..., channels of the group]`."""
    *lead, channels = values.shape
    rows = values.reshape(math.prod(lead), groups, channels // groups)
    return rows.transpose(1, 0, 2)


# Depthwise: one input channel per output channel. There is no matrix product, so unrolling would
# only cost memory. With a multiplier, the input channels are repeated first.


def _depthwise_patches(
    x: Array, c_out: int, window: Shape, strides: Shape, padding: Padding, dilation: Shape
) -> tuple[Array, list[int], list[int], list[int]]:
    """Return the patches and einsum's labels for them, for the windows, and for the window."""
    if c_out != x.shape[-1]:
        x = np.repeat(x, c_out // x.shape[-1], axis=-1)
    n = len(window)
    over, inside = list(range(1, n + 1)), list(range(n + 1, 2 * n + 1))
    patches = _patches(x, window, strides, padding, dilation)
    return patches, [0, *over, *inside, 2 * n + 1], over, inside


def _depthwise(x: Array, w: Array, strides: Shape, padding: Padding, dilation: Shape) -> Array:
    window, c_out = w.shape[:-2], w.shape[-1]
    patches, labels, over, inside = _depthwise_patches(x, c_out, window, strides, padding, dilation)
    channel = labels[-1]
    y: Array = np.einsum(
        patches, labels, w.reshape(*window, c_out), [*inside, channel], [0, *over, channel]
    )
    return y


def _depthwise_input_gradient(
    t: Array, w: Array, input_shape: Shape, strides: Shape, padding: Padding, dilation: Shape
) -> Array:
    window, c_out = w.shape[:-2], w.shape[-1]
    share = np.empty(t.shape, t.dtype)
    g = np.zeros((*input_shape[:-1], c_out), t.dtype)
    for place, seen_by, elements in overlaps(
        input_shape[1:-1], t.shape[1:-1], window, strides, padding, dilation
    ):
        np.multiply(t, w[place][0], out=share)
        g[elements] += share[seen_by]
    multiplier = c_out // input_shape[-1]
    return sum((g[..., j::multiplier] for j in range(1, multiplier)), g[..., ::multiplier])


def _depthwise_filter_gradient(
    x: Array, t: Array, window: Shape, strides: Shape, padding: Padding, dilation: Shape
) -> Array:
    patches, labels, over, inside = _depthwise_patches(
        x, t.shape[-1], window, strides, padding, dilation
    )
    channel = labels[-1]
    # One sum for each image, then over the images: shorter chains of additions round less.
    per_image = np.einsum(patches, labels, t, [0, *over, channel], [0, *inside, channel])
    g: Array = per_image.sum(axis=0).reshape(*window, 1, t.shape[-1])
    return g


KERNELS = by_name(conv, conv_input_gradient, conv_filter_gradient)
