"""Express a product of strided arrays as calls of a column-major batched GEMM.

The functions need shapes and strides only, neither arrays nor a library.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import NamedTuple

from tapegrad.core.primitive.shape_words import unfit_product
from tapegrad_cupy.launch.strided_layout import collapse_dimensions, row_major_strides

MOST_STEPS = 128
"""The most calls for one product. A stack that needs more is copied, so that one is enough."""

STEP_SECONDS, COPY_SECONDS, COPIED_BYTES = 3e-6, 4e-6, 1.5e12
"""The cost of another call, and the cost of a copy and the bytes that it copies per second."""

LARGE_STEP = 2**32
"""Calls with at least this many operations occupy a device, so that others cost nothing."""

MOST_MATRICES = 65535
"""The most matrices per call: a CUDA grid is no longer than this along its last axis."""

Shape = tuple[int, ...]


class Layout(NamedTuple):
    """The shape and strides (in elements) of an array, and whether to transpose its matrices."""

    shape: Shape
    strides: Shape
    transpose: bool = False


class Gemm(NamedTuple):
    """D = op(A) op(B) for a batch of column-major matrices; the columns of D are contiguous."""

    rows: int
    columns: int
    depth: int
    transpose_a: bool
    transpose_b: bool
    lda: int
    ldb: int
    batch: int = 1
    stride_a: int = 0  # from matrix to matrix, in elements
    stride_b: int = 0
    stride_d: int = 0
    alignment: int = 256  # of all three addresses, in bytes
    ldc: int = 0  # from column to column of what is added, by default that of D


class Step(NamedTuple):
    """One call, and the offsets of its matrices in bytes from the start of each array."""

    gemm: Gemm
    first: int
    second: int
    result: int


class Route(NamedTuple):
    """The calls of one product, and the copies to make before them.

    A copy is None (no copy), () (a contiguous copy), or the leading axes to broadcast to before
    the contiguous copy. In each call A is the second array, unless `first_is_a`.
    """

    copies: tuple[Shape | None, Shape | None]
    first_is_a: bool
    steps: tuple[Step, ...]


def product_shape(first: Layout, second: Layout, by_vector: bool = False) -> Shape:
    """Return the shape of a product of stacks; raise ValueError if the shapes do not match.

    With `by_vector` the second operand is a vector, and its layout that of a column.
    """
    m, k = _sides(first)
    depth, n = _sides(second)
    if k != depth:
        raise unfit_product(first.shape, second.shape[:-1] if by_vector else second.shape)
    lead = []
    pairs = itertools.zip_longest(first.shape[-3::-1], second.shape[-3::-1], fillvalue=1)
    for one, other in pairs:
        if one != other and 1 not in (one, other):
            raise ValueError(f"the shapes {first.shape} and {second.shape} do not broadcast")
        lead.append(other if one == 1 else one)
    return (*lead[::-1], m, n)


def find_route(first: Layout, second: Layout, itemsize: int, alignment: int = 256) -> Route:
    """Return the calls for a product that is not empty and has a depth of at least one.

    `alignment` is the alignment of both addresses, a power of two up to 256.
    """
    *lead, m, n = product_shape(first, second)
    layouts = [first, second]
    copies: list[Shape | None] = [None, None]
    for i, layout in enumerate(layouts):
        if matrix_of(layout) is None or any(step < 0 for step in _lead_strides(layout, lead)):
            layouts[i], copies[i] = _packed(layout, layout.shape[:-2]), ()
    # A single column is computed as a single row of the transposed product, so that in all
    # products with a vector B and D have one column.
    transposed = n == 1 < m
    gemm, axes = _gemm_and_axes(layouts[0], layouts[1], lead, transposed)
    scattered = [len(merged_axes(lead, _lead_strides(layout, lead))) > 1 for layout in layouts]
    copied = [math.prod((*lead, *layouts[i].shape[-2:])) for i in (0, 1) if scattered[i]]
    if _too_many(gemm, axes, [itemsize * size for size in copied]):
        for i, layout in enumerate(layouts):
            if scattered[i]:
                layouts[i], copies[i] = _packed(layout, tuple(lead)), tuple(lead)
        gemm, axes = _gemm_and_axes(layouts[0], layouts[1], lead, transposed)
    steps = _steps(gemm, axes, transposed, itemsize, alignment)
    return Route((copies[0], copies[1]), transposed, steps)


# One matrix


class Matrix(NamedTuple):
    """A matrix as BLAS sees it: contiguous rows (or columns), `leading` elements apart."""

    rows: int
    columns: int
    by_rows: bool
    leading: int

    def transposed(self) -> Matrix:
        return Matrix(self.columns, self.rows, not self.by_rows, self.leading)


def _sides(layout: Layout) -> tuple[int, int]:
    rows, columns = layout.shape[-2:]
    return (columns, rows) if layout.transpose else (rows, columns)


def matrix_of(layout: Layout) -> Matrix | None:
    """Return the matrices of a layout, or None if BLAS cannot read them.

    The stride of an axis of length 1 is ignored.
    """
    rows, columns = layout.shape[-2:]
    row_stride, column_stride = layout.strides[-2:]
    found = None
    if column_stride == 1 or columns == 1:
        leading = row_stride if rows > 1 else columns
        if leading >= columns:
            found = Matrix(rows, columns, True, leading)
    if found is None and (row_stride == 1 or rows == 1):
        leading = column_stride if columns > 1 else rows
        if leading >= rows:
            found = Matrix(rows, columns, False, leading)
    return found.transposed() if found and layout.transpose else found


# Leading axes


def _packed(layout: Layout, lead: Shape) -> Layout:
    """Return the layout of a contiguous copy, broadcast to these leading axes."""
    shape = (*lead, *layout.shape[-2:])
    return Layout(shape, row_major_strides(shape, 1), layout.transpose)


def _lead_strides(layout: Layout, lead: Sequence[int]) -> Shape:
    """Return one stride per leading axis of the product, 0 for broadcast axes."""
    own = [
        0 if length == 1 else stride
        for length, stride in zip(layout.shape[:-2], layout.strides[:-2])
    ]
    return (*[0] * (len(lead) - len(own)), *own)


def merged_axes(lengths: Sequence[int], *strides: Sequence[int]) -> list[tuple[int, ...]]:
    """Return (length, *strides) of each axis after merging axes that share one stride."""
    sizes, steps = collapse_dimensions(lengths, strides)
    return [axis for axis in zip(sizes, *steps, strict=True) if axis[0] != 1]


def _gemm_and_axes(
    first: Layout, second: Layout, lead: Sequence[int], transposed: bool
) -> tuple[Gemm, list[tuple[int, ...]]]:
    """Return the product of one pair of matrices, and the axes to repeat it over.

    An axis is its length and the strides of the left operand, right operand and result.
    """
    left, right = matrix_of(first), matrix_of(second)
    assert left is not None
    assert right is not None
    strides = [_lead_strides(first, lead), _lead_strides(second, lead)]
    if transposed:
        left, right = right.transposed(), left.transposed()
        strides.reverse()
    m, k, n = left.rows, left.columns, right.columns
    axes = merged_axes(lead, *strides, row_major_strides(lead, m * n))
    leading = left.leading
    if axes and left.by_rows:
        length, step, other, _ = axes[-1]
        if other == 0 and (step == m * leading or (m == 1 and step >= k)):
            # Many matrices times one matrix are a single product of all their rows.
            leading = step if m == 1 else leading
            m *= length
            axes.pop()
    # Row-major D = L R is column-major D' = R' L', and contiguous rows of L are columns of L'.
    gemm = Gemm(n, m, k, not right.by_rows, not left.by_rows, right.leading, leading)
    return gemm, axes


# Calls


def _too_many(gemm: Gemm, axes: Sequence[tuple[int, ...]], copied: Sequence[int]) -> bool:
    """Return whether copies of so many bytes are faster than one call per index of some axes."""
    longest = max((axis[0] for axis in axes), default=1)
    calls = math.prod(axis[0] for axis in axes) // longest
    work = 2 * longest * gemm.rows * gemm.columns * gemm.depth
    if not copied or (work >= LARGE_STEP and calls <= MOST_STEPS):
        return False
    cost = sum(COPY_SECONDS + size / COPIED_BYTES for size in copied)
    return calls > MOST_STEPS or (calls - 1) * STEP_SECONDS > cost


def _steps(
    gemm: Gemm, axes: list[tuple[int, ...]], transposed: bool, itemsize: int, alignment: int
) -> tuple[Step, ...]:
    """Return one call per index of the axes other than the longest, which becomes the batch."""
    batch, *others = sorted(axes, key=lambda axis: -axis[0]) or [(1, 0, 0, 0)]
    begins = [range(0, batch[0], MOST_MATRICES), *[range(axis[0]) for axis in others]]
    offsets = []
    for position in itertools.product(*begins):
        moves = [
            [index * stride * itemsize for stride in axis[1:]]
            for index, axis in zip(position, [batch, *others])
        ]
        offsets.append((position[0], *[sum(parts) for parts in zip(*moves)]))
    alignment = math.gcd(alignment, *[offset for entry in offsets for offset in entry[1:]])
    steps = []
    for begin, left, right, result in offsets:
        count = min(MOST_MATRICES, batch[0] - begin)
        one = gemm._replace(alignment=alignment)
        if count > 1:
            one = one._replace(batch=count, stride_b=batch[1], stride_a=batch[2], stride_d=batch[3])
        first, second = (right, left) if transposed else (left, right)
        steps.append(Step(one, first, second, result))
    return tuple(steps)
