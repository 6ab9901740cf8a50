"""Interpolation between the elements along an axis, as a product with a matrix of weights."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from math import prod
from typing import Any

import numpy as np

from tapegrad.core.operand import as_operand
from tapegrad.ops.creation import numpy_dtype_of
from tapegrad.ops.gather import place_next_to
from tapegrad.ops.products import matmul
from tapegrad.ops.shape import reshape

Host = np.ndarray[Any, Any]


def _triangle(x: Host) -> Host:
    return np.maximum(0.0, 1.0 - np.abs(x))


def _cubic(x: Host) -> Host:
    """Keys' cubic with a = -1/2, which continues a parabola exactly."""
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
def weights(size: int, factor: int, kernel: str) -> Host:
    """Return the matrix `[size * factor, size]` that makes an axis `factor` times as long.

    Elements are intervals, and their values stand in the middle. At the ends the weights of the
    elements that there are add up to 1.

    >>> weights(2, 2, "bilinear").tolist()
    [[1.0, 0.0], [0.75, 0.25], [0.25, 0.75], [0.0, 1.0]]
    """
    places = (np.arange(size * factor) + 0.5) / factor - 0.5
    found = _KERNELS[kernel](places[:, None] - np.arange(size))
    matrix: Host = found / found.sum(axis=1, keepdims=True)
    return matrix


def interpolated(x: Any, axis: int, factor: int, kernel: str) -> Any:
    """Return a tensor that is `factor` times as long along an axis.

    >>> x = [[0.0, 4.0]]
    >>> interpolated(x, 1, 2, "bilinear").tolist()
    [[0.0, 1.0, 3.0, 4.0]]
    """
    x = as_operand(x)
    shape = tuple(x.shape)
    size = shape[axis]
    matrix = place_next_to(x, weights(size, factor, kernel).astype(numpy_dtype_of(x)))
    after = prod(shape[axis + 1 :])
    product = matmul(matrix, reshape(x, (prod(shape[:axis]), size, after)))
    return reshape(product, (*shape[:axis], size * factor, *shape[axis + 1 :]))
