"""Which matrices of a product to copy to rows that tensor cores read and write 16 bytes at a time.

If the rows of a matrix do not start at multiples of 16 bytes, libraries use kernels that are
several times slower. A copy with longer rows is often faster, although it moves all elements.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from tapegrad_cupy.library_calls.product_steps import Layout, matrix_of, product_shape

ALIGNMENT = 16
"""The bytes that tensor cores access at a time."""

COPY_SECONDS = 4e-6
BYTES_PER_SECOND = 2.5e12
"""The cost of a copy, and the bytes that it reads and writes per second."""


class Rates(NamedTuple):
    """Operations per second of kernels for aligned and for other matrices (on an H200)."""

    aligned: float
    other: float


HALF = Rates(400e12, 40e12)
TF32 = Rates(200e12, 50e12)


class Padding(NamedTuple):
    """Whether to copy the first and the second array, and to write a result with longer rows."""

    first: bool
    second: bool
    result: bool


NONE = Padding(False, False, False)


def choose_padding(
    first: Layout, second: Layout, itemsize: int, alignments: tuple[int, int], rates: Rates
) -> Padding:
    """Return what to copy so that a product takes the least time; alignments are of addresses."""
    *lead, m, n = product_shape(first, second)
    unit = ALIGNMENT // itemsize
    padding = Padding(
        alignments[0] < ALIGNMENT or not _is_aligned(first, unit),
        alignments[1] < ALIGNMENT or not _is_aligned(second, unit),
        n % unit > 0,
    )
    if n == 1 or m == 1 or not any(padding):
        return NONE
    sizes = [math.prod(first.shape), math.prod(second.shape), math.prod((*lead, m, n))]
    depth = first.shape[-2 if first.transpose else -1]
    work, moved = 2 * sizes[2] * depth, sum(sizes) * itemsize / BYTES_PER_SECOND
    copies = [
        COPY_SECONDS + 2 * size * itemsize / BYTES_PER_SECOND
        for size, is_padded in zip(sizes, padding)
        if is_padded
    ]
    gain = max(work / rates.other, moved) - max(work / rates.aligned, moved)
    return padding if gain > sum(copies) else NONE


def padded_length(length: int, itemsize: int) -> int:
    """Return the elements from one padded row to the next."""
    unit = ALIGNMENT // itemsize
    return -(-length // unit) * unit


def padded_layout(layout: Layout, itemsize: int) -> Layout:
    """Return the layout of a copy with padded rows, or columns if these are contiguous."""
    *lead, rows, columns = layout.shape
    if is_by_columns(layout):
        length = padded_length(rows, itemsize)
        steps, size = (1, length), columns * length
    else:
        length = padded_length(columns, itemsize)
        steps, size = (length, 1), rows * length
    strides: list[int] = []
    for axis in reversed(lead):
        strides.append(size)
        size *= axis
    return Layout(layout.shape, (*reversed(strides), *steps), layout.transpose)


def is_by_columns(layout: Layout) -> bool:
    """Return whether neighbours in a column of an array are neighbours in memory."""
    return layout.strides[-1] != 1 and layout.strides[-2] == 1


def _is_aligned(layout: Layout, unit: int) -> bool:
    matrix = matrix_of(layout)
    if matrix is None:
        return False
    leads = [stride for length, stride in zip(layout.shape, layout.strides[:-2]) if length > 1]
    return matrix.leading % unit == 0 and not any(stride % unit for stride in leads)
