"""Interpolation along an axis, as a product with a matrix of weights."""

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


_KERNELS: dict[str, Callable[[Host], Host]] = {
    "bilinear": _triangle,
    "bicubic": _cubic,
    "lanczos3": _lanczos(3),
    "lanczos5": _lanczos(5),
}


def kernel_names() -> tuple[str, ...]:
    """Return the names of all interpolations.

    >>> kernel_names()
    ('bilinear', 'bicubic', 'lanczos3', 'lanczos5')
    """
    return tuple(_KERNELS)


@lru_cache(maxsize=64)
def weights(size: int, wanted: int, kernel: str, antialias: bool = False) -> Host:
    """Return the matrix `[wanted, size]` that resamples an axis of `size` to `wanted` elements.

    Samples are at the centres of their intervals. At the edges, the weights of the existing
    elements are rescaled to sum to 1. With `antialias`, the kernel is widened by the scale factor
    when the axis shrinks.

    >>> weights(2, 4, "bilinear").tolist()
    [[1.0, 0.0], [0.75, 0.25], [0.25, 0.75], [0.0, 1.0]]
    """
    step = size / wanted
    places = (np.arange(wanted) + 0.5) * step - 0.5
    distances = places[:, None] - np.arange(size)
    found = _KERNELS[kernel](distances / max(step, 1.0) if antialias else distances)
    matrix: Host = found / found.sum(axis=1, keepdims=True)
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
    matrix = weights(size, wanted, kernel, antialias).astype(numpy_dtype_of(x))
    # One large product is much faster than one small product per row.
    product = matmul(moveaxis(x, axis, -1), place_next_to(x, matrix), transpose_b=True)
    return moveaxis(product, -1, axis)
