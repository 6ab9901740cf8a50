"""Correlation and convolution of images along one or several axes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from tapegrad.core.primitive.operand import normalize_axis
from tapegrad.errors import ArgumentError, ShapeError
from tapegrad.ops.convolution.primitives import conv_p
from tapegrad.ops.elementwise.complex_numbers import join
from tapegrad.ops.shape.rearranging import flip
from tapegrad.scipy.ndimage.boundaries import extend, filter_mode
from tapegrad.scipy.ndimage.lines import filter_line
from tapegrad.scipy.ndimage.results import (
    apply_to_parts,
    by_axis,
    deliver,
    normalize_filter_axes,
    per_axis,
)
from tapegrad.scipy.vocabulary import (
    imag,
    in_dtype,
    is_complex,
    moveaxis,
    numpy_dtype_of,
    operand,
    real,
    reshape_p,
)

MOST_AXES = 3
"""The largest number of spatial dimensions of the convolution kernels."""


def correlate1d(
    input: Any,
    weights: Any,
    axis: int = -1,
    output: Any = None,
    mode: str = "reflect",
    cval: Any = 0.0,
    origin: int = 0,
) -> Any:
    """Correlate an image with weights along an axis; differentiable in both.

    >>> correlate1d([1.0, 2.0, 4.0], [-1.0, 1.0]).tolist()
    [0.0, 1.0, 2.0]
    """
    return _along_one_axis(input, weights, axis, output, mode, cval, origin, "correlate1d")


def convolve1d(
    input: Any,
    weights: Any,
    axis: int = -1,
    output: Any = None,
    mode: str = "reflect",
    cval: Any = 0.0,
    origin: int = 0,
) -> Any:
    """Convolve an image with weights along an axis.

    >>> convolve1d([1.0, 2.0, 4.0], [1.0, -1.0], mode="constant").tolist()
    [1.0, 2.0, -4.0]
    """
    w = operand(weights)
    turned = flip(w) if w.ndim == 1 else w
    back = -origin - 1 if w.ndim and w.shape[0] % 2 == 0 else -origin
    return _along_one_axis(input, turned, axis, output, mode, cval, back, "convolve1d")


def correlate(
    input: Any,
    weights: Any,
    output: Any = None,
    mode: Any = "reflect",
    cval: Any = 0.0,
    origin: Any = 0,
    *,
    axes: Any = None,
) -> Any:
    """Correlate an image with weights along all axes, or along `axes`.

    >>> image = np.array([[1.0, 2.0], [3.0, 4.0]])
    >>> correlate(image, [[1.0, 0.0], [0.0, 1.0]], mode="constant").tolist()
    [[1.0, 2.0], [3.0, 5.0]]
    """
    return _along_axes(input, operand(weights), output, mode, cval, origin, axes, "correlate")


def convolve(
    input: Any,
    weights: Any,
    output: Any = None,
    mode: Any = "reflect",
    cval: Any = 0.0,
    origin: Any = 0,
    *,
    axes: Any = None,
) -> Any:
    """Convolve an image with weights along all axes, or along `axes`.

    >>> image = np.array([[1.0, 0.0], [0.0, 0.0]])
    >>> weights = [[9.0, 8.0, 7.0], [6.0, 5.0, 4.0], [3.0, 2.0, 1.0]]
    >>> convolve(image, weights, mode="constant").tolist()
    [[5.0, 4.0], [2.0, 1.0]]
    """
    w = operand(weights)
    turned = flip(w) if w.ndim else w
    return _along_axes(
        input, turned, output, mode, cval, origin, axes, "convolve", is_reversed=True
    )


def _along_one_axis(
    input: Any, weights: Any, axis: int, output: Any, mode: Any, cval: Any, origin: Any, name: str
) -> Any:
    w = operand(weights)
    if w.ndim != 1 or not w.shape[0]:
        raise ShapeError(f"{name} needs weights along one axis. Got shape {w.shape}.")
    mode = filter_mode(mode, name)
    before, after = reach_of(w.shape[0], origin, name)

    def apply(x: Any, cval: Any, w: Any) -> Any:
        where = normalize_axis(axis, x.ndim, name)
        return filter_line(x, w, where, before, after, mode, cval)

    return with_weights(input, w, output, cval, apply, name, is_reversed=name == "convolve1d")


def with_weights(
    input: Any, w: Any, output: Any, cval: Any, apply: Any, name: str, *, is_reversed: bool
) -> Any:
    """Apply a filter with real or complex weights; correlation conjugates complex weights."""
    if not is_complex(w):
        return apply_to_parts(input, cval, output, lambda x, c: apply(x, c, _fitted(w, x)), name)
    x = operand(input)
    kind = np.result_type(numpy_dtype_of(x), numpy_dtype_of(w))
    low = apply_to_parts(x, cval, None, lambda x, c: apply(x, c, _fitted(real(w), x)), name)
    high = apply_to_parts(x, cval, None, lambda x, c: apply(x, c, _fitted(imag(w), x)), name)
    high = high if is_reversed else -high
    if is_complex(x):
        y = join(real(low) - imag(high), imag(low) + real(high))
    else:
        y = join(low, high)
    return deliver(y, output, kind, name)


def _fitted(w: Any, x: Any) -> Any:
    return in_dtype(w, numpy_dtype_of(x))


def reach_of(size: int, origin: Any, name: str) -> tuple[int, int]:
    """Return the number of neighbours before and after a pixel in the window."""
    before = size // 2 + int(origin)
    if not 0 <= before < max(size, 1):
        raise ArgumentError(
            f"{name} with {size} weights along an axis needs an origin from {-(size // 2)} to "
            f"{(size - 1) // 2}. Got {origin}."
        )
    return before, size - 1 - before


def _along_axes(
    input: Any,
    w: Any,
    output: Any,
    mode: Any,
    cval: Any,
    origin: Any,
    axes: Any,
    name: str,
    is_reversed: bool = False,
) -> Any:
    chosen = normalize_filter_axes(axes, np.ndim(input), name)
    if w.ndim != len(chosen) or 0 in w.shape:
        raise ShapeError(
            f"{name} over {len(chosen)} axes needs non-empty weights with as many axes. "
            f"Got shape {w.shape}."
        )
    rank = np.ndim(input)
    modes = [filter_mode(m, name) for m in per_axis(mode, len(chosen), "mode", name)]
    modes = by_axis(chosen, rank, modes, plain=False)
    origins = by_axis(chosen, rank, per_axis(origin, len(chosen), "origin", name), plain=True)
    chosen = sorted(chosen)
    if is_reversed:
        origins = [-o - 1 if n % 2 == 0 else -o for o, n in zip(origins, w.shape, strict=True)]
    reaches = [reach_of(n, o, name) for n, o in zip(w.shape, origins, strict=True)]

    def apply(x: Any, cval: Any, w: Any) -> Any:
        return _by_convolution(x, w, chosen, reaches, modes, cval) if chosen else x * w

    return with_weights(input, w, output, cval, apply, name, is_reversed=is_reversed)


def _by_convolution(
    x: Any,
    w: Any,
    axes: Sequence[int],
    reaches: Sequence[tuple[int, int]],
    modes: Sequence[str],
    cval: Any,
) -> Any:
    rank, count = x.ndim, len(axes)
    shape = tuple(x.shape[k] for k in range(rank) if k not in axes)
    sizes = tuple(x.shape[k] for k in axes)
    for axis, (before, after), mode in zip(axes, reaches, modes, strict=True):
        x = extend(x, axis, before, after, mode, cval)
    ends = tuple(range(rank - count, rank))
    x = moveaxis(x, tuple(axes), ends)
    lines = math.prod(shape)
    seen = x.shape[rank - count :]
    if count > MOST_AXES:
        return moveaxis(_by_slices(x, w, sizes), ends, tuple(axes))
    flat = reshape_p(x, shape=(lines, *seen, 1))
    kernel = reshape_p(w, shape=(*w.shape, 1, 1))
    ones = (1,) * count
    y = conv_p(flat, kernel, strides=ones, padding=((0, 0),) * count, dilation=ones, groups=1)
    return moveaxis(reshape_p(y, shape=(*shape, *sizes)), ends, tuple(axes))


def _by_slices(x: Any, w: Any, sizes: tuple[int, ...]) -> Any:
    """Sum over the weights one by one, for more axes than the convolution kernels support."""
    total: Any = 0.0
    for place in np.ndindex(*w.shape):
        part = tuple(slice(k, k + n) for k, n in zip(place, sizes, strict=True))
        total = total + x[(..., *part)] * w[place]
    return total
