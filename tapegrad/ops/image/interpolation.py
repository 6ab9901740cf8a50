"""Interpolation along an axis, as a product with a matrix of weights or as a few gathers."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np

from tapegrad.core.primitive.operand import as_operand
from tapegrad.ops.creation import numpy_dtype_of
from tapegrad.ops.indexing.gather import place_next_to, take_p
from tapegrad.ops.products.functions import matmul
from tapegrad.ops.shape.functions import moveaxis

Host = np.ndarray[Any, Any]


def _triangle(x: Host) -> Host:
    return np.maximum(0.0, 1.0 - np.abs(x))


def _cubic(x: Host) -> Host:
    """Keys' cubic kernel with a = -1/2, which reproduces quadratics exactly."""
    d = np.abs(x)
    near = (1.5 * d - 2.5) * d**2 + 1.0
    far = ((-0.5 * d + 2.5) * d - 4.0) * d + 2.0
    return np.where(d < 1.0, near, np.where(d < 2.0, far, 0.0))


def _lanczos(radius: int) -> Callable[[Host], Host]:
    return lambda x: np.where(np.abs(x) < radius, np.sinc(x) * np.sinc(x / radius), 0.0)


def _gaussian(x: Host) -> Host:
    """A Gaussian of standard deviation 1/2, cut at three standard deviations."""
    return np.where(np.abs(x) < 1.5, np.exp(-2.0 * x**2), 0.0)


def _mitchell(x: Host) -> Host:
    """The cubic kernel of Mitchell and Netravali with B = C = 1/3."""
    d = np.abs(x)
    near = (7.0 / 6.0 * d - 2.0) * d**2 + 8.0 / 9.0
    far = ((-7.0 / 18.0 * d + 2.0) * d - 10.0 / 3.0) * d + 16.0 / 9.0
    return np.where(d < 1.0, near, np.where(d < 2.0, far, 0.0))


# Each kernel with the distance beyond which it is 0.
_KERNELS: dict[str, tuple[Callable[[Host], Host], float]] = {
    "bilinear": (_triangle, 1.0),
    "bicubic": (_cubic, 2.0),
    "lanczos3": (_lanczos(3), 3.0),
    "lanczos5": (_lanczos(5), 5.0),
    "gaussian": (_gaussian, 1.5),
    "mitchellcubic": (_mitchell, 2.0),
}

METHODS = ("nearest", *_KERNELS, "area")
"""The names of all interpolations."""


def kernel_names() -> tuple[str, ...]:
    """Return the names of the interpolations that Keras has beside "nearest".

    >>> kernel_names()
    ('bilinear', 'bicubic', 'lanczos3', 'lanczos5')
    """
    return "bilinear", "bicubic", "lanczos3", "lanczos5"


@lru_cache(maxsize=64)
def taps(size: int, wanted: int, kernel: str, antialias: bool = False) -> tuple[Host, Host]:
    """Return indices and weights `[wanted, count]`: the elements from which each result is made.

    Samples are at the centres of their intervals. At the edges, the weights of the existing
    elements are rescaled to sum to 1. With `antialias`, the kernel is widened by the scale factor
    when the axis shrinks. "area" gives the mean over the interval of each result.

    >>> index, weight = taps(2, 4, "bilinear")
    >>> weight.tolist()
    [[0.0, 1.0], [0.75, 0.25], [0.25, 0.75], [1.0, 0.0]]
    """
    step = size / wanted
    if kernel == "area":
        starts = np.arange(wanted) * step
        index = np.floor(starts).astype(np.int64)[:, None] + np.arange(int(np.ceil(step)) + 1)
        ends = (starts + step)[:, None]
        found = np.minimum(ends, index + 1.0) - np.maximum(starts[:, None], index)
        found = np.where(found > 1e-9 * step, found, 0.0)  # intervals that end at a pixel's edge
    else:
        function, radius = _KERNELS[kernel]
        stretch = max(step, 1.0) if antialias else 1.0
        places = (np.arange(wanted) + 0.5) * step - 0.5
        reach = np.floor(places - radius * stretch).astype(np.int64) + 1
        index = reach[:, None] + np.arange(int(np.ceil(2 * radius * stretch)))
        found = function((places[:, None] - index) / stretch)
    found = np.where((index >= 0) & (index < size), found, 0.0)
    weight: Host = found / found.sum(axis=1, keepdims=True)
    return np.clip(index, 0, size - 1), weight


@lru_cache(maxsize=16)
def weights(size: int, wanted: int, kernel: str, antialias: bool = False) -> Host:
    """Return the matrix `[wanted, size]` that resamples an axis of `size` to `wanted` elements.

    >>> weights(2, 4, "bilinear").tolist()
    [[1.0, 0.0], [0.75, 0.25], [0.25, 0.75], [0.0, 1.0]]
    """
    index, weight = taps(size, wanted, kernel, antialias)
    matrix = np.zeros((wanted, size))
    np.add.at(matrix, (np.arange(wanted)[:, None], index), weight)
    return matrix


def interpolated(x: Any, axis: int, factor: int, kernel: str) -> Any:
    """Return a tensor that is `factor` times as long along an axis.

    >>> x = [[0.0, 4.0]]
    >>> interpolated(x, 1, 2, "bilinear").tolist()
    [[0.0, 1.0, 3.0, 4.0]]
    """
    x = as_operand(x)
    return resized(x, axis, x.shape[axis] * factor, kernel)


def resized(x: Any, axis: int, wanted: int, kernel: str, antialias: bool = False) -> Any:
    """Return a tensor with `wanted` elements along an axis; the kernel may also be "nearest".

    >>> import tapegrad
    >>> resized(tapegrad.constant([1, 2, 3, 4]), 0, 2, "nearest").tolist()
    [2, 4]
    """
    size = x.shape[axis]
    if size == wanted:
        return x
    if kernel == "nearest":
        places = (2 * np.arange(wanted) + 1) * size // (2 * wanted)
        return take_p(x, place_next_to(x, places), axis=axis)
    index, weight = taps(size, wanted, kernel, antialias)
    if size > _GATHERED * index.shape[1]:
        return _gathered(x, axis, index, weight.astype(numpy_dtype_of(x)))
    matrix = weights(size, wanted, kernel, antialias).astype(numpy_dtype_of(x))
    # One large product is much faster than one small product per row.
    product = matmul(moveaxis(x, axis, -1), place_next_to(x, matrix), transpose_b=True)
    return moveaxis(product, -1, axis)


_GATHERED = 64
"""Axes with more elements than this per element of the kernel are resampled by gathers."""


def _gathered(x: Any, axis: int, index: Host, weight: Host) -> Any:
    total: Any = None
    shape = (-1, *[1] * (len(x.shape) - axis - 1))
    for k in range(index.shape[1]):
        part = take_p(x, place_next_to(x, np.ascontiguousarray(index[:, k])), axis=axis)
        part = part * place_next_to(x, weight[:, k].reshape(shape))
        total = part if total is None else total + part
    return total
