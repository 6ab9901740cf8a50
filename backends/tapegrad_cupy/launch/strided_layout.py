"""Layouts of strided arrays with as few dimensions as possible, and vector lengths for them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

Shape = tuple[int, ...]


class Layout(NamedTuple):
    """The sizes of the dimensions, innermost last, and the steps in elements of each array.

    All arrays broadcast to these sizes.
    """

    sizes: Shape
    steps: tuple[Shape, ...]

    @property
    def inner(self) -> tuple[int, ...]:
        """The step of each array along the innermost dimension."""
        return tuple(steps[-1] for steps in self.steps)


def find_layout(
    shape: Shape, shapes: Sequence[Shape], strides: Sequence[Shape], itemsizes: Sequence[int]
) -> Layout | None:
    """Return the layout of arrays that broadcast to `shape`; strides are in bytes.

    Return None if a stride is not a multiple of the item size.
    """
    rank = len(shape)
    steps: list[list[int]] = []
    for own_shape, own_strides, itemsize in zip(shapes, strides, itemsizes):
        if any(stride % itemsize for stride in own_strides):
            return None
        own = [0] * (rank - len(own_shape))
        own += [
            0 if size == 1 else stride // itemsize for size, stride in zip(own_shape, own_strides)
        ]
        steps.append(own)
    return collapse_dimensions(shape, steps)


def collapse_dimensions(shape: Sequence[int], steps: Sequence[Sequence[int]]) -> Layout:
    """Merge neighbouring dimensions that every array traverses with one step.

    Dimensions of size 1 are dropped; a single element has one dimension of size 1 and step 0.
    """
    sizes: list[int] = []
    kept: list[list[int]] = [[] for _ in steps]
    for axis, size in enumerate(shape):
        if size == 1:
            continue
        merges = bool(sizes) and all(own[-1] == step[axis] * size for own, step in zip(kept, steps))
        if merges:
            sizes[-1] *= size
            for own, step in zip(kept, steps):
                own[-1] = step[axis]
        else:
            sizes.append(size)
            for own, step in zip(kept, steps):
                own.append(step[axis])
    if not sizes:
        return Layout((1,), tuple((0,) for _ in steps))
    return Layout(tuple(sizes), tuple(tuple(own) for own in kept))


def row_major_strides(shape: Sequence[int], step: int) -> Shape:
    """Return the strides of a contiguous array whose last axis has the stride `step`."""
    strides = []
    for size in reversed(shape):
        strides.append(step)
        step *= size
    return tuple(reversed(strides))


def is_dense(shape: Shape, strides: Shape, itemsize: int) -> bool:
    """Return whether the elements fill their memory without gaps, in any order of the axes."""
    expected = itemsize
    for stride, size in sorted((abs(stride), size) for size, stride in zip(shape, strides)):
        if size != 1:
            if stride != expected:
                return False
            expected *= size
    return all(stride > 0 for size, stride in zip(shape, strides) if size != 1)


def full_vector_length(itemsize: int) -> int:
    """Return how many elements of this size a thread processes at once if the layout allows it.

    Elements of 8 bytes are processed one by one: two at a time are hardly faster, and functions in
    double precision would run out of registers.
    """
    return 16 // itemsize if itemsize < 8 else 1


def vector_length(layout: Layout, itemsizes: Sequence[int], aligned: bool) -> int:
    """Return how many elements a thread processes at once, for accesses of up to 16 bytes."""
    length = full_vector_length(max(itemsizes))
    if not aligned or length == 1:
        return 1
    if len(layout.sizes) == 1 and all(step in (0, 1) for step in layout.inner):
        return length  # the kernel processes the remainder one by one
    if layout.sizes[-1] % length:
        return 1
    for steps in layout.steps:
        if steps[-1] == 1 and any(step % length for step in steps[:-1]):
            return 1
    return length
