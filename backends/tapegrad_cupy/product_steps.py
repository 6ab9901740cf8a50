"""How a matrix product of strided arrays becomes calls of a column-major, strided-batch product.

Only shapes and strides are looked at here; no array is, and no library is needed.
"""

from __future__ import annotations

import itertools
import math
from typing import NamedTuple

MOST_STEPS = 4
"""A stack that needs more calls than this is copied into one that needs a single call ..."""

LARGE_STEP = 2**32
"""... unless each call has at least this many operations, which take longer than the call."""

MOST_MATRICES = 65535
"""Matrices per call: the length of a CUDA grid along its last axis."""

Shape = tuple[int, ...]


class Layout(NamedTuple):
    """The matrices of an array: its shape, strides in elements, and whether to transpose them."""

    shape: Shape
    strides: Shape
    transpose: bool


class Gemm(NamedTuple):
    """D = op(A) op(B) for a batch of column-major matrices; strides count elements."""

    rows: int
    columns: int
    depth: int
    transpose_a: bool
    transpose_b: bool
    lda: int
    ldb: int
    batch: int = 1
    stride_a: int = 0
    stride_b: int = 0
    stride_d: int = 0
    alignment: int = 256  # of all addresses, in bytes; `ldd` is `rows`


class Step(NamedTuple):
    """One call and where its matrices begin, in bytes from the beginning of each array."""

    gemm: Gemm
    first: int
    second: int
    result: int


class Route(NamedTuple):
    """All calls of one product, and the copies to make before them.

    A copy is None (use the array itself), () (make it contiguous), or the leading axes to
    broadcast it to first. A column-major library takes the second array as its A, and the first
    one only where `first_is_a`.
    """

    copies: tuple[Shape | None, Shape | None]
    first_is_a: bool
    steps: tuple[Step, ...]


class _Axis(NamedTuple):
    """A leading axis: its length and the strides of left operand, right operand and result."""

    length: int
    left: int
    right: int
    result: int


class _Matrix(NamedTuple):
    """One matrix of an operand as BLAS sees it: rows or columns follow each other by `leading`."""

    rows: int
    columns: int
    by_rows: bool
    leading: int

    def transposed(self) -> _Matrix:
        return _Matrix(self.columns, self.rows, not self.by_rows, self.leading)


def product_shape(first: Layout, second: Layout) -> Shape:
    """Return the shape of a product of stacks, or raise ValueError if there is none."""
    m, k = _sides(first)
    depth, n = _sides(second)
    problem = f"the shapes {first.shape} and {second.shape} do not fit"
    if k != depth:
        raise ValueError(f"{problem}: {k} columns meet {depth} rows")
    lead = []
    pairs = itertools.zip_longest(first.shape[-3::-1], second.shape[-3::-1], fillvalue=1)
    for one, other in pairs:
        if one != other and 1 not in (one, other):
            raise ValueError(f"{problem}: the leading axes {one} and {other} do not broadcast")
        lead.append(other if one == 1 else one)
    return (*lead[::-1], m, n)


def find_route(first: Layout, second: Layout, itemsize: int, alignment: int = 256) -> Route:
    """Return the calls for a product with at least one element and a depth of at least one."""
    *lead, m, n = product_shape(first, second)
    layouts, copies = [first, second], [None, None]
    for i, layout in enumerate(layouts):
        if _matrix(layout) is None or any(stride < 0 for stride in layout.strides[:-2]):
            layouts[i], copies[i] = _packed(layout, layout.shape[:-2]), ()  # type: ignore[call-overload]
    # A single column is a single row of the transposed product: vectors then come last, as B.
    turned = n == 1 < m
    gemm, axes = _joined(layouts, lead, turned)
    if _too_many(gemm, axes):
        for i, layout in enumerate(layouts):
            if len(_merged([_Axis(a, s, 0, 0) for a, s in _lead_of(layout, lead)], left_only=True)) > 1:
                layouts[i], copies[i] = _packed(layout, tuple(lead)), tuple(lead)  # type: ignore[call-overload]
        gemm, axes = _joined(layouts, lead, turned)
    return Route((copies[0], copies[1]), turned, _steps(gemm, axes, turned, itemsize, alignment))
