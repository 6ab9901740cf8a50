"""When to copy matrices to larger ones whose rows are multiples of 16 bytes, before a product.

Tensor cores read and write 16 bytes at a time. If rows do not have whole multiples of that,
libraries use kernels that are several times slower. Zeros along the depth do not change a product,
and zeros beyond its columns are dropped afterwards.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from tapegrad_cupy.library_calls.product_steps import Layout, matrix_of, product_shape

ALIGNMENT = 16
"""The bytes that tensor cores access at a time."""

# Measured on an H200 in half precision.
COPY_SECONDS = 4e-6
BYTES_PER_SECOND = 2.5e12
"""The cost of a copy, and the bytes that copies and products read and write per second."""

ALIGNED, UNALIGNED = 400e12, 60e12
"""Operations per second of the kernels for aligned and for other matrices."""


class Padding(NamedTuple):
    """Whether to copy the first and the second matrix, and their new depth and columns."""

    first: bool
    second: bool
    depth: int
    columns: int


def choose_padding(
    first: Layout, second: Layout, itemsize: int, alignments: tuple[int, int]
) -> Padding | None:
    """Return what to copy, None if nothing is faster; alignments are those of the addresses."""
    *lead, m, n = product_shape(first, second)
    left, right = matrix_of(first), matrix_of(second)
    if left is None or right is None or m == 1 or n == 1:
        return None
    unit, depth = ALIGNMENT // itemsize, left.columns
    is_odd_deep = depth % unit > 0 and (left.by_rows or not right.by_rows)
    padding = Padding(
        is_odd_deep or alignments[0] < ALIGNMENT or not _is_aligned(first, unit),
        is_odd_deep or alignments[1] < ALIGNMENT or not _is_aligned(second, unit) or n % unit > 0,
        -(-depth // unit) * unit if is_odd_deep else depth,
        -(-n // unit) * unit,
    )
    if not padding.first and not padding.second:
        return None
    sizes = [math.prod(first.shape), math.prod(second.shape), math.prod((*lead, m, n))]
    copied = [padding.first, padding.second, n % unit > 0]
    copies = sum(
        COPY_SECONDS + 2 * size * itemsize / BYTES_PER_SECOND
        for size, is_copied in zip(sizes, copied)
        if is_copied
    )
    work, moved = 2 * sizes[2] * depth, sum(sizes) * itemsize / BYTES_PER_SECOND
    gain = max(work / UNALIGNED, moved) - max(work / ALIGNED, moved)
    return padding if gain > copies else None


def _is_aligned(layout: Layout, unit: int) -> bool:
    matrix = matrix_of(layout)
    assert matrix is not None
    leads = [stride for length, stride in zip(layout.shape, layout.strides[:-2]) if length > 1]
    return matrix.leading % unit == 0 and not any(stride % unit for stride in leads)
