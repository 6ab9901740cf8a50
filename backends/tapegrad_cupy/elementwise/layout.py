"""How the operands of an elementwise kernel lie in memory, in as few dimensions as possible."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

Shape = tuple[int, ...]


class Layout(NamedTuple):
    """Sizes of the dimensions, and per operand its steps in elements along them.

    All operands broadcast to these sizes; the innermost dimension comes last.
    """

    sizes: Shape
    steps: tuple[Shape, ...]

    @property
    def inner(self) -> tuple[int, ...]:
        """The step of each operand along the innermost dimension."""
        return tuple(steps[-1] for steps in self.steps)


def find_layout(
    shape: Shape, shapes: Sequence[Shape], strides: Sequence[Shape], itemsizes: Sequence[int]
) -> Layout | None:
    """Return the layout of operands that broadcast to `shape`, strides in bytes.

    None if an operand's elements do not lie at whole multiples of their size.
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
    return merged(shape, steps)


def dense_order(shape: Shape, strides: Shape, itemsize: int) -> bool:
    """Whether the elements fill their memory without gaps, in any order of the axes."""
    expected = itemsize
    for stride, size in sorted((abs(stride), size) for size, stride in zip(shape, strides)):
        if size != 1:
            if stride != expected:
                return False
            expected *= size
    return all(stride > 0 for size, stride in zip(shape, strides) if size != 1)


def merged(shape: Shape, steps: Sequence[Sequence[int]]) -> Layout:
    """Join neighbouring dimensions that every operand walks through in one go."""
    sizes: list[int] = []
    kept: list[list[int]] = [[] for _ in steps]
    for axis, size in enumerate(shape):
        if size == 1:
            continue
        follows = bool(sizes) and all(
            own[-1] == step[axis] * size for own, step in zip(kept, steps)
        )
        if follows:
            sizes[-1] *= size
            for own, step in zip(kept, steps):
                own[-1] = step[axis]
        else:
            sizes.append(size)
            for own, step in zip(kept, steps):
                own.append(step[axis])
    if not sizes:  # a single element
        return Layout((1,), tuple((0,) for _ in steps))
    return Layout(tuple(sizes), tuple(tuple(own) for own in kept))


def full_width(itemsize: int) -> int:
    """Return how many elements of a size a thread takes where nothing stands against it.

    Elements of 8 bytes come one by one: two at a time are hardly faster, and the functions of
    double precision then run out of registers.
    """
    return 16 // itemsize if itemsize < 8 else 1


def vector_length(layout: Layout, itemsizes: Sequence[int], aligned: bool) -> int:
    """Return how many elements a thread takes at once, so that accesses have 16 bytes."""
    width = full_width(max(itemsizes))
    if not aligned or width == 1:
        return 1
    if len(layout.sizes) == 1 and all(step in (0, 1) for step in layout.inner):
        return width  # what is left over is done one by one
    if layout.sizes[-1] % width:
        return 1
    for steps in layout.steps:
        if steps[-1] == 1 and any(step % width for step in steps[:-1]):
            return 1
    return width
