"""The iteration space of a loop with collapsed dimensions, and the steps of its arrays."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import NamedTuple

from tapegrad.core.trace.loop import Loop, LoopInput
from tapegrad_cupy.launch.strided_layout import collapse_dimensions, full_vector_length

Shape = tuple[int, ...]


class Geometry(NamedTuple):
    """The sizes of the axes, innermost last, which of them are reduced, and steps in elements.

    `reads` has the steps of each input, `writes` those of elementwise results, and `combined` those
    of reductions, which are 0 along the reduced axes. A thread processes `width` neighbours.
    """

    sizes: Shape
    is_combined: tuple[bool, ...]
    reads: tuple[Shape, ...]
    writes: Shape
    combined: Shape
    width: int

    @property
    def by_columns(self) -> bool:
        """Whether neighbouring elements belong to different results of a reduction."""
        return any(self.is_combined) and not self.is_combined[-1]

    def count(self, combined: bool) -> int:
        """Return the number of elements along the reduced axes, or along the others."""
        return prod(n for n, flag in zip(self.sizes, self.is_combined) if flag == combined)


def geometry(loop: Loop, strides: Sequence[Shape], aligned: bool) -> Geometry | None:
    """Return the geometry of a loop, given the strides of all inputs in bytes.

    Return None if a stride is not a multiple of the item size.
    """
    steps = []
    for read, own in zip(loop.inputs, strides):
        if any(stride % read.dtype.itemsize for stride in own):
            return None
        steps.append(_steps(read, own))
    whole = _steps_in_order(loop.shape, ())
    combined = _steps_in_order(loop.shape, loop.axes)
    rows = [*steps, whole, combined] if loop.axes else [*steps, whole]
    layout = collapse_dimensions(loop.shape, rows)
    flags = tuple(step == 0 for step in layout.steps[-1]) if loop.axes else ()
    count = len(loop.inputs)
    flags = flags or (False,) * len(layout.sizes)
    width = _width(loop, layout.sizes, layout.steps[: count + 1], aligned)
    last = layout.steps[-1] if loop.axes else (0,) * len(layout.sizes)
    return Geometry(layout.sizes, flags, layout.steps[:count], layout.steps[count], last, width)


def _steps(read: LoopInput, strides: Shape) -> list[int]:
    """Return the steps of an array along the axes of the iteration space."""
    own = iter([s // read.dtype.itemsize for s, n in zip(strides, read.shape) if n != 1])
    return [next(own) if size != 1 else 0 for size in read.seen]


def _steps_in_order(shape: Shape, without: Sequence[int]) -> list[int]:
    """Return the steps of a contiguous array that lacks some axes of the iteration space."""
    steps, step = [0] * len(shape), 1
    for axis in range(len(shape) - 1, -1, -1):
        if axis not in without:
            steps[axis] = step
            step *= shape[axis]
    return steps


def _width(loop: Loop, sizes: Shape, steps: Sequence[Shape], aligned: bool) -> int:
    """Return how many neighbours a thread processes at once."""
    # Broadcast arrays are read from the cache, so their item sizes do not limit the width.
    dtypes = [read.dtype for read in loop.inputs if read.seen == loop.shape]
    dtypes += [output.dtype for output in loop.outputs if output.combine is None]
    width = full_vector_length(max((dtype.itemsize for dtype in dtypes), default=8))
    while width > 1:
        along = all(own[-1] != 1 or not any(s % width for s in own[:-1]) for own in steps)
        if aligned and along and sizes[-1] % width == 0:
            return width
        width //= 2
    return 1
