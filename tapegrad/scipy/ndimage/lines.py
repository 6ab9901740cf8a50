"""Correlation of image lines with weights by matrix products, the core of most filters.

A short line is multiplied by one banded matrix that includes the boundary mode. A long line is
split into blocks, each of which also reads the beginning of the next block.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tapegrad.ops.convolution.arguments import remembered
from tapegrad.ops.products.primitives import matmul_p
from tapegrad.ops.shape.padding import pad
from tapegrad.scipy.ndimage.boundaries import extend, fold_index
from tapegrad.scipy.vocabulary import broadcast_p, move_axis, place_next_to, reshape_p, take_add_p

Array = np.ndarray

BLOCK = 64
"""The minimum length of a block."""


def filter_line(x: Any, w: Any, axis: int, before: int, after: int, mode: str, cval: Any) -> Any:
    """Correlate the lines of a real image along one axis with real weights.

    The window extends `before` and `after` each pixel.
    """
    length, last = x.shape[axis], x.ndim - 1
    if not length:
        return x
    has_edge = mode == "constant" and not (isinstance(cval, int | float) and cval == 0)
    whole = not has_edge and length <= 2 * max(BLOCK, before + after) + BLOCK
    if not whole:
        x = extend(x, axis, before, after, mode, cval)
    lines = move_axis(x, axis, last)
    shape = (*lines.shape[:-1], length)
    flat = reshape_p(lines, shape=(math.prod(shape[:-1]), lines.shape[-1]))
    if whole:
        places = remembered(_whole_places, length, before, after, mode)
        y = _product(flat, _matrix(w, places, length, length))
    else:
        y = _by_blocks(flat, w, length)
    return move_axis(reshape_p(y, shape=shape), last, axis)


def _product(x: Any, matrix: Any) -> Any:
    return matmul_p(x, matrix, transpose_a=False, transpose_b=False)


def _by_blocks(x: Any, w: Any, length: int) -> Any:
    """Correlate extended lines [line, length + reach] by blocks."""
    reach = w.shape[0] - 1
    size = max(BLOCK, reach)
    count = -(-length // size)
    lines = x.shape[0]
    x = pad(x, [(0, 0), (0, (count + 1) * size - x.shape[1])])
    blocks = reshape_p(x, shape=(lines, count + 1, size))
    matrix = _matrix(w, remembered(_block_places, size, reach), size + reach, size)
    here = reshape_p(blocks[:, :-1], shape=(lines * count, size))
    y = _product(here, matrix[:size])
    if reach:
        ahead = reshape_p(blocks[:, 1:, :reach], shape=(lines * count, reach))
        y = y + _product(ahead, matrix[size:])
    return reshape_p(y, shape=(lines, count * size))[:, :length]


def _matrix(w: Any, places: Array, rows: int, columns: int) -> Any:
    """Return a matrix with the weights at the given places; places past the end are dropped."""
    taps = w.shape[0]
    spread = broadcast_p(reshape_p(w, shape=(1, taps)), shape=(columns, taps))
    spread = reshape_p(spread, shape=(columns * taps,))
    size = rows * columns
    flat = take_add_p(spread, place_next_to(w, places), axis=0, size=size + 1)
    return reshape_p(flat[:size], shape=(rows, columns))


def _whole_places(length: int, before: int, after: int, mode: str) -> Array:
    columns = np.arange(length)[:, None]
    seen = columns + np.arange(-before, after + 1)
    places: Array = fold_index(seen, length, mode) * length + columns
    if mode == "constant":
        places = np.where((seen < 0) | (seen >= length), length * length, places)
    return places.ravel()


def _block_places(size: int, reach: int) -> Array:
    columns = np.arange(size)[:, None]
    return ((columns + np.arange(reach + 1)) * size + columns).ravel()
