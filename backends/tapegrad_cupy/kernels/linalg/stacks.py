"""Stacks of matrices as the kernels see them: an address, and steps in elements."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import cupy

from tapegrad_cupy.kernels.copying.copies import contiguous_copy

Array = Any
Shape = tuple[int, ...]


class Stack(NamedTuple):
    """Matrices with equal steps between them, all in elements; a step of 0 repeats one matrix."""

    array: Array
    address: int
    step: int
    row: int
    column: int

    def turned(self) -> Stack:
        """Return the transposed matrices."""
        return self._replace(row=self.column, column=self.row)

    def reversed_rows(self, rows: int) -> Stack:
        """Return the matrices with their rows in reverse order."""
        return self._moved((rows - 1) * self.row)._replace(row=-self.row)

    def reversed_columns(self, columns: int) -> Stack:
        """Return the matrices with their columns in reverse order."""
        return self._moved((columns - 1) * self.column)._replace(column=-self.column)

    def _moved(self, elements: int) -> Stack:
        return self._replace(address=self.address + elements * self.array.dtype.itemsize)


def stack_of(x: Array, lead: Shape) -> Stack:
    """Return `x`, broadcast to these leading sizes, as a stack; a copy where steps differ."""
    shape = (*lead, *x.shape[-2:])
    if x.shape != shape:
        x = cupy.broadcast_to(x, shape)
    steps = _collapsed(lead, x.strides[:-2])
    item = x.dtype.itemsize
    if steps is None or any(step % item for step in (steps, *x.strides[-2:])):
        x = contiguous_copy(x)
        steps = x.shape[-1] * x.shape[-2] * item
    row, column = (step // item for step in x.strides[-2:])
    return Stack(x, x.data.ptr, steps // item, row, column)


def lead_of(*arrays: Array) -> Shape:
    """Return the common leading sizes of stacks of matrices."""
    leads = [array.shape[:-2] for array in arrays]
    if all([lead == leads[0] for lead in leads]):
        return leads[0]  # type: ignore[no-any-return]
    return tuple(cupy.broadcast_shapes(*leads))


def count_of(lead: Shape) -> int:
    """Return the number of matrices of a stack."""
    return math.prod(lead)


def _collapsed(sizes: Shape, strides: Shape) -> int | None:
    """Return the stride in bytes of one axis in place of all, or None if there is none."""
    found: int | None = None
    extent = 1
    for size, stride in zip(reversed(sizes), reversed(strides), strict=True):
        if size == 1:
            continue
        if found is None:
            found = stride
        elif stride != found * extent:
            return None
        extent *= size
    return 0 if found is None else found
